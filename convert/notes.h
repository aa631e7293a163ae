/* SPDX-License-Identifier: Apache-2.0
 *
 * What the user should know about a checkpoint although it is no error: files
 * that are not carried, draft layers, a head that is stored although tied.
 * Whoever finds a fact writes a line; the command prints them all. */

#ifndef LODE_CONVERT_NOTES_H
#define LODE_CONVERT_NOTES_H

#include <stdint.h>

#include "base/mem.h"

/* Zero-initialise; free with cv_notes_fini(). */
struct cv_notes {
    struct lode_buf text; /* NUL-terminated lines, one behind the other */
    uint32_t line_count;
};

LODE_MUST_CHECK
bool cv_notes_add(struct cv_notes *n, struct lode_error *err, const char *fmt,
                  ...) LODE_PRINTF(3, 4);

/* The line after line, or the first for NULL; NULL behind the last. */
const char *cv_notes_next(const struct cv_notes *n, const char *line);
void cv_notes_fini(struct cv_notes *n);

/* Names for a message: at most a few, then the rest as a number. */
struct cv_list {
    char text[300];
    uint32_t count;
};

void cv_list_add(struct cv_list *l, const char *name);

/* "a, b and 5 more"; borrowed from l. */
const char *cv_list_text(struct cv_list *l);

#endif
