/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>

#include "base/error.h"
#include "base/mem.h"
#include "tests/tap.h"

static void
test_texts(void)
{
    struct lode_error err = {0};
    char big[2 * LODE_ERROR_TEXT_BYTES];

    ok(!lode_fail(&err, LODE_E_LIMIT, "%d of %s", 7, "nine"), "always false");
    is_str(err.text, "7 of nine", "text");
    is_u64(err.code, LODE_E_LIMIT, "code");
    ok(!lode_fail_in(&err, "group %d", 3), "always false");
    ok(!lode_fail_in(&err, "m.lode"), "always false");
    is_str(err.text, "m.lode: group 3: 7 of nine", "contexts in front");
    is_u64(err.code, LODE_E_LIMIT, "the code stays");
    errno = ENOENT;
    ok(!lode_fail_errno(&err, "open %s", "x"), "always false");
    is_str(err.text, "open x: No such file or directory", "errno's text");
    ok(err.code == LODE_E_IO && err.sys_errno == ENOENT, "and number");
    memset(big, 'x', sizeof(big));
    big[sizeof(big) - 1] = '\0';
    lode_fail(&err, LODE_E_IO, "%s", big);
    is_u64(strlen(err.text), LODE_ERROR_TEXT_BYTES - 1, "long texts are cut");
    is_u64((uint64_t)err.sys_errno, 0, "the old errno is gone");
    lode_fail_in(&err, "%s", big);
    is_u64(strlen(err.text), LODE_ERROR_TEXT_BYTES - 1, "so are contexts");
}

static void
test_status(void)
{
    is_u64(lode_exit_status(LODE_E_NONE), 0, "status: none");
    is_u64(lode_exit_status(LODE_E_USAGE), 2, "status: usage");
    is_u64(lode_exit_status(LODE_E_CORRUPT), 3, "status: corrupt");
    is_u64(lode_exit_status(LODE_E_UNSUPPORTED), 4, "status: unsupported");
    is_u64(lode_exit_status(LODE_E_IO), 1, "status: io");
    is_u64(lode_exit_status(LODE_E_NOMEM), 1, "status: nomem");
    is_u64(lode_exit_status(LODE_E_LIMIT), 1, "status: limit");
    is_u64(lode_exit_status(LODE_E_CANCELLED), 1, "status: cancelled");
}

static void
test_memory(void)
{
    struct lode_buf b = {0};
    struct lode_error err;
    char *text;
    void *p;

    fails_with(lode_alloc_array(UINT64_C(1) << 32, UINT64_C(1) << 32, "maps",
                                &p, &err),
               &err, LODE_E_NOMEM, "maps: 4294967296 items of 4294967296",
               "a product that overflows");
    fails_with(lode_alloc_array(UINT64_MAX / 2 + 1, 1, "maps", &p, &err), &err,
               LODE_E_NOMEM, "maps: 9223372036854775808 items of 1",
               "more than there can be");
    fails_with(lode_alloc_aligned(UINT64_MAX, "buffer", &p, &err), &err,
               LODE_E_NOMEM, "buffer: ", "aligned, more than there can be");
    must(lode_alloc_array(0, 8, "nothing", &p, &err), &err);
    ok(p != NULL, "no items: not NULL");
    free(p);
    must(lode_alloc_aligned(5000, "buffer", &p, &err), &err);
    ok((uintptr_t)p % 4096 == 0 && ((uint8_t *)p)[4999] == 0,
       "aligned and zero");
    lode_free_aligned(p, 5000);
    lode_free_aligned(NULL, 0);
    must(lode_strndup("abcdef", 3, &text, &err), &err);
    is_str(text, "abc", "a part of a text");
    free(text);
    for (int i = 0; i < 1000; i++)
        must(lode_buf_append(&b, "abc", 3, &err), &err);
    ok(b.used_bytes == 3000 && memcmp(b.data + 2997, "abc", 3) == 0,
       "a buffer that grows");
    fails_with(lode_buf_append(&b, "", SIZE_MAX, &err), &err, LODE_E_NOMEM,
               "buffer of", "but not past the end");
    lode_buf_fini(&b);
    ok(b.data == NULL && b.used_bytes == 0, "and is empty again");
}

int
main(void)
{
    test_texts();
    test_status();
    test_memory();
    return done_testing();
}
