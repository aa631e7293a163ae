/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer's STRINGS section (spec 4.2) and its limit (spec 2.4). */
#include "config.h"

#include <stdlib.h>

#include "format/limits.h"
#include "format/strings.h"
#include "tests/tap.h"

static void
test_once(void)
{
    struct lode_strings s;
    struct lode_error err;
    uint32_t first[300];
    uint32_t wrong = 0;
    uint32_t ref;
    char text[16];

    must(lode_strings_init(&s, &err), &err);
    must(lode_strings_add(&s, "", &ref, &err), &err);
    is_u64(ref, 0, "the empty text is at 0");
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(text, sizeof(text), "text %u", i);
        must(lode_strings_add(&s, text, &first[i], &err), &err);
    }
    for (uint32_t i = 0; i < 300; i++) {
        snprintf(text, sizeof(text), "text %u", i);
        must(lode_strings_add(&s, text, &ref, &err), &err);
        wrong += ref != first[i] || strcmp(lode_strings_at(&s, ref), text) != 0;
    }
    is_u64(wrong, 0, "each text is there once, and found");
    ok(s.bytes.data[0] == 0 && s.bytes.data[s.bytes.used_bytes - 1] == 0,
       "NUL in front and at the end");
    fails_with(lode_strings_add(&s, "a\tb", &ref, &err), &err, LODE_E_CORRUPT,
               "text has a control character at 1", "a control character");
    lode_strings_fini(&s);
}

static void
test_limit(void)
{
    char *text = calloc(1, LODE_NAME_BYTES_MAX + 1);
    uint64_t used_bytes = 1;
    struct lode_strings s;
    struct lode_error err;
    uint32_t ref;

    must(lode_strings_init(&s, &err), &err);
    memset(text, 'x', LODE_NAME_BYTES_MAX);
    for (uint32_t i = 0;
         used_bytes + LODE_NAME_BYTES_MAX + 1 <= LODE_STRINGS_BYTES_MAX; i++) {
        char number[16];

        snprintf(number, sizeof(number), "%08u", i);
        memcpy(text, number, 8);
        must(lode_strings_add(&s, text, &ref, &err), &err);
        used_bytes += LODE_NAME_BYTES_MAX + 1;
    }
    is_u64(s.bytes.used_bytes, used_bytes, "texts up to the limit");
    must(lode_strings_add(&s, text, &ref, &err), &err);
    text[0] = 'y';
    fails_with(lode_strings_add(&s, text, &ref, &err), &err, LODE_E_LIMIT,
               "names of more than 67108864 bytes", "one text too many");
    lode_strings_fini(&s);
    free(text);
}

int
main(void)
{
    test_once();
    test_limit();
    return done_testing();
}
