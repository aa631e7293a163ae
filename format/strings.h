/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer's STRINGS section: each text once. */

#ifndef LODE_FORMAT_STRINGS_H
#define LODE_FORMAT_STRINGS_H

#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

struct lode_strings {
    struct lode_buf bytes; /* the section */
    uint32_t *slots;       /* open addressing; 0 is free */
    uint32_t slot_count;   /* a power of two, or 0 */
    uint32_t text_count;
};

/* Begins with the empty text at 0. */
LODE_MUST_CHECK
bool lode_strings_init(struct lode_strings *s, struct lode_error *err);
void lode_strings_fini(struct lode_strings *s);

/* The position of text in the section; added when it is new.  Fails when it
 * breaks a rule of spec 2.5. */
LODE_MUST_CHECK
bool lode_strings_add(struct lode_strings *s, const char *text, uint32_t *ref,
                      struct lode_error *err);

/* Borrowed until the next call that adds. */
const char *lode_strings_at(const struct lode_strings *s, uint32_t ref);

#endif
