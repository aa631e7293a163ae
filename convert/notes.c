/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/notes.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SHOWN_MAX = 3 };

bool
cv_notes_add(struct cv_notes *n, struct lode_error *err, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap); /* a long line may be cut */
    va_end(ap);
    if (!lode_buf_append(&n->text, line, strlen(line) + 1, err))
        return false;
    n->line_count++;
    return true;
}

const char *
cv_notes_next(const struct cv_notes *n, const char *line)
{
    const char *start = (const char *)n->text.data;
    const char *next = line == NULL ? start : line + strlen(line) + 1;

    return start == NULL || next == start + n->text.used_bytes ? NULL : next;
}

void
cv_notes_fini(struct cv_notes *n)
{
    lode_buf_fini(&n->text);
    n->line_count = 0;
}

void
cv_list_add(struct cv_list *l, const char *name)
{
    size_t used = strlen(l->text);

    if (l->count++ < SHOWN_MAX)
        (void)snprintf(l->text + used, sizeof(l->text) - used - 32, "%s%.80s",
                       used != 0 ? ", " : "", name); /* bounded above */
}

const char *
cv_list_text(struct cv_list *l)
{
    size_t used = strlen(l->text);

    if (l->count > SHOWN_MAX) {
        (void)snprintf(l->text + used, sizeof(l->text) - used,
                       " and %" PRIu32 " more", l->count - SHOWN_MAX);
        l->count = SHOWN_MAX; /* asked twice, said once */
    }
    return l->text;
}
