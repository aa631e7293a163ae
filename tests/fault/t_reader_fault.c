/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th call fails while a container is read or verified, for every n; and
 * a file that lies about its sizes never makes the reader allocate more than
 * the file's own size justifies (spec 2.2). */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/lode_write.h"
#include "tests/fault/wrap.h"
#include "tests/format/patch.h"
#include "tests/tap.h"

enum { RUNS_MAX = 5000 };

static uint8_t image[1 << 16];

static bool
read_all(const char *path, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    bool good = lode_reader_open(path, &r, err);
    uint32_t count = good ? lode_reader_summary(r)->block_count : 0;
    size_t bytes;
    char *text = NULL;

    for (uint32_t i = 0; good && i < count; i++)
        good = lode_reader_load(r, i, image, sizeof(image), err);
    good = good && lode_reader_load_file(r, LODE_KIND_META, "config.json", 1000,
                                         &text, &bytes, err);
    free(text);
    lode_reader_close(r);
    return good;
}

static bool
verify_all(const char *path, struct lode_error *err)
{
    struct lode_verify_options opt = {.level = LODE_VERIFY_STRICT};
    uint64_t faults = 0;
    bool good = lode_verify(path, &opt, &faults, err);

    /* a check that was not made is a fault, too */
    if (!good && faults == 0) {
        printf("# not verified without a fault: %s\n", err->text);
        err->text[0] = '\0';
    }
    return good;
}

static void
test_fault(const char *what, bool (*run)(const char *, struct lode_error *),
           const char *path, enum wrap_call call, int sys_errno,
           enum lode_code code)
{
    uint32_t wrong = 0;
    uint64_t n = 0;
    bool done = false;

    while (!done && n++ < RUNS_MAX && wrong < 5) {
        struct lode_error err = {0};

        wrap_reset();
        wrap_fail(call, n, sys_errno);
        done = run(path, &err);
        if (done ? wrap_failed()
                 : err.code != code || strstr(err.text, ".lode") == NULL) {
            wrong++;
            printf("# call %" PRIu64 ": %s, code %d, \"%s\"\n", n,
                   done ? "succeeded" : "failed", (int)err.code, err.text);
        }
    }
    wrap_reset();
    ok(done && wrong == 0 && n > 1, "%s, %" PRIu64 " failures", what, n - 1);
}

static void
test_faults(const char *path)
{
    struct lode_error err;

    test_fault("open and load: allocation", read_all, path, WRAP_ALLOC, ENOMEM,
               LODE_E_NOMEM);
    test_fault("open and load: open", read_all, path, WRAP_OPEN, EACCES,
               LODE_E_IO);
    test_fault("open and load: read", read_all, path, WRAP_PREAD, EIO,
               LODE_E_IO);
    test_fault("verify: allocation", verify_all, path, WRAP_ALLOC, ENOMEM,
               LODE_E_NOMEM);
    test_fault("verify: mmap", verify_all, path, WRAP_MMAP, ENOMEM,
               LODE_E_NOMEM);
    test_fault("verify: open", verify_all, path, WRAP_OPEN, EACCES, LODE_E_IO);
    test_fault("verify: read", verify_all, path, WRAP_PREAD, EIO, LODE_E_IO);
    wrap_short(1000);
    must(read_all(path, &err), &err);
    must(verify_all(path, &err), &err);
    ok(wrap_count(WRAP_PREAD) > 500, "short reads are continued");
    for (uint64_t n = 1; n < 8; n++) {
        wrap_reset();
        wrap_fail(WRAP_PREAD, n, EINTR);
        must(read_all(path, &err), &err);
        ok(wrap_failed(), "read %" PRIu64 " is interrupted", n);
    }
}

static void
test_two_reads(const char *path)
{
    struct lode_reader *r;
    struct lode_error err;

    wrap_reset();
    must(lode_reader_open(path, &r, &err), &err);
    is_u64(wrap_count(WRAP_PREAD), 2, "a container is opened by two reads");
    lode_reader_close(r);
}

/* Each u32 and u64 field of superblock, directory, groups, schemas and blocks,
 * set to large values; the sums are right. */
static uint64_t
largest_of(const struct patch *p, const char *path)
{
    struct lode_verify_options opt = {.level = LODE_VERIFY_STRICT};
    struct lode_reader *r = NULL;
    struct lode_error err;
    uint64_t largest;
    uint64_t faults;

    patch_spill(p, path);
    wrap_reset();
    if (lode_reader_open(path, &r, &err))
        lode_reader_close(r);
    largest = wrap_largest_bytes();
    wrap_reset();
    (void)!lode_verify(path, &opt, &faults, &err); /* its memory matters */
    /* verify's own buffer of 4 MiB apart */
    if (wrap_largest_bytes() > 4 << 20)
        largest = wrap_largest_bytes();
    return largest;
}

static void
test_allocation(void)
{
    static const uint64_t values[] = {
        0x7fffffff, 0xffffffff, 0x10000000,        0xffff,           0x100000,
        0xffffff,   UINT64_MAX, UINT64_C(1) << 40, UINT64_C(1) << 62};
    static const struct {
        uint32_t type;
        uint32_t first;
        uint32_t end;
    } ranges[] = {{0, 80, 160}, {0, 512, 992}, {2, 0, 48},
                  {3, 0, 32},   {4, 0, 96},    {6, 0, 48}};
    struct tiny_options opt = {0};
    const char *path = tiny_path("big.lode");
    struct patch base;
    uint64_t largest = 0;
    uint32_t tried = 0;

    patch_make(&base, &opt);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        for (uint32_t at = ranges[i].first; at < ranges[i].end; at += 4)
            for (size_t v = 0; v < sizeof(values) / sizeof(values[0]); v++) {
                struct patch p;
                uint64_t bytes;

                patch_copy(&base, &p);
                patch_store(patch_record(&p, ranges[i].type, 0) + at,
                            values[v] >> 32 != 0 ? 8 : 4, values[v]);
                patch_seal(&p);
                bytes = largest_of(&p, path);
                largest = bytes > largest ? bytes : largest;
                tried++;
                patch_free(&p);
            }
    ok(largest <= base.bytes,
       "%u files that lie: at most %" PRIu64 " bytes at once, the file has %zu",
       tried, largest, base.bytes);
    patch_free(&base);
    wrap_reset();
}

int
main(void)
{
    const char *path = tiny_path("read.lode");
    struct tiny_options opt = {0};
    struct lode_error err;

    must(tiny_write(path, &opt, NULL, &err), &err);
    test_faults(path);
    test_two_reads(path);
    test_allocation();
    tiny_cleanup();
    return done_testing();
}
