/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/strings.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/hash.h"
#include "format/limits.h"
#include "format/rules.h"

bool
lode_strings_init(struct lode_strings *s, struct lode_error *err)
{
    memset(s, 0, sizeof(*s));
    return lode_buf_append(&s->bytes, "", 1, err);
}

void
lode_strings_fini(struct lode_strings *s)
{
    lode_buf_fini(&s->bytes);
    free(s->slots);
    memset(s, 0, sizeof(*s));
}

const char *
lode_strings_at(const struct lode_strings *s, uint32_t ref)
{
    return (const char *)s->bytes.data + ref;
}

/* The slot that holds text, or the free one where it belongs. */
static uint32_t *
find_slot(const struct lode_strings *s, const char *text, size_t bytes)
{
    uint32_t mask = s->slot_count - 1;
    uint32_t i = (uint32_t)lode_hash(text, bytes) & mask;

    while (s->slots[i] != 0 &&
           strcmp(lode_strings_at(s, s->slots[i]), text) != 0)
        i = (i + 1) & mask;
    return &s->slots[i];
}

/* Keep at least half of the slots free. */
static bool
grow(struct lode_strings *s, struct lode_error *err)
{
    struct lode_strings bigger = *s;
    void *p = NULL;

    if (s->slot_count / 2 > s->text_count)
        return true;
    bigger.slot_count = s->slot_count != 0 ? s->slot_count * 2 : 64;
    if (!lode_alloc_array(bigger.slot_count, sizeof(*s->slots), "text table",
                          &p, err))
        return false;
    bigger.slots = p;
    for (uint32_t i = 0; i < s->slot_count; i++) {
        const char *text = lode_strings_at(s, s->slots[i]);

        if (s->slots[i] != 0)
            *find_slot(&bigger, text, strlen(text)) = s->slots[i];
    }
    free(s->slots);
    *s = bigger;
    return true;
}

bool
lode_strings_add(struct lode_strings *s, const char *text, uint32_t *ref,
                 struct lode_error *err)
{
    size_t bytes = strlen(text);
    uint32_t *slot;

    if (bytes == 0) {
        *ref = 0;
        return true;
    }
    if (!lode_rules_text(text, bytes, "text", err) || !grow(s, err))
        return false;
    slot = find_slot(s, text, bytes);
    if (*slot == 0) {
        if (s->bytes.used_bytes + bytes + 1 > LODE_STRINGS_BYTES_MAX)
            return lode_fail(err, LODE_E_LIMIT,
                             "names of more than %" PRIu64 " bytes",
                             LODE_STRINGS_BYTES_MAX);
        *ref = (uint32_t)s->bytes.used_bytes;
        if (!lode_buf_append(&s->bytes, text, bytes + 1, err))
            return false;
        *slot = *ref;
        s->text_count++;
    }
    *ref = *slot;
    return true;
}
