/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th call fails while a container is written, for every n: there is a
 * message, and no file that seems whole (spec 11.2).  Leaks are found by the
 * address sanitizer. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/fault/wrap.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum { RUNS_MAX = 5000 };

static const struct {
    const char *name;
    enum wrap_call call;
    int sys_errno;
    enum lode_code code;
    uint32_t least_count; /* calls that a write certainly makes */
} faults[] = {
    {"allocation", WRAP_ALLOC, ENOMEM, LODE_E_NOMEM, 20},
    {"mmap", WRAP_MMAP, ENOMEM, LODE_E_NOMEM, 2},
    {"open", WRAP_OPEN, EMFILE, LODE_E_IO, 3},
    {"write, drive full", WRAP_PWRITE, ENOSPC, LODE_E_IO, 18},
    {"write, device error", WRAP_PWRITE, EIO, LODE_E_IO, 18},
    {"write, quota", WRAP_PWRITE, EDQUOT, LODE_E_IO, 18},
    {"write, file too big", WRAP_PWRITE, EFBIG, LODE_E_IO, 18},
    {"read back", WRAP_PREAD, EIO, LODE_E_IO, 2},
    {"sync", WRAP_SYNC, EIO, LODE_E_IO, 3},
    {"rename", WRAP_RENAME, EACCES, LODE_E_IO, 1},
    {"truncate", WRAP_FTRUNCATE, EIO, LODE_E_IO, 1},
};

static const struct tiny_options options;
static size_t old_bytes;
static uint8_t *whole;
static size_t whole_bytes;

static bool
exists(const char *name)
{
    struct stat st;

    return lstat(tiny_path(name), &st) == 0;
}

static bool
is_file(const char *name, const uint8_t *want, size_t want_bytes)
{
    size_t bytes;
    uint8_t *data = tiny_slurp(tiny_path(name), &bytes);
    bool same = bytes == want_bytes && memcmp(data, want, bytes) == 0;

    free(data);
    return same;
}

/* One run; true when nothing was wrong with how it failed. */
static bool
failed_well(size_t f, const struct lode_error *err)
{
    bool good = err->text[0] != '\0' && err->code == faults[f].code &&
                !exists("out.lode.wip");
    bool old = is_file("out.lode", (const uint8_t *)"old", old_bytes);

    /* After the rename the sync of the folder is all that is left. */
    if (!old && strstr(err->text, "is complete, but its folder") != NULL)
        old = is_file("out.lode", whole, whole_bytes);
    if (faults[f].code == LODE_E_IO)
        good = good && err->sys_errno == faults[f].sys_errno;
    if (!good || !old)
        printf("# code %d, errno %d, \"%s\", OUT.wip %d, OUT as before %d\n",
               (int)err->code, err->sys_errno, err->text,
               exists("out.lode.wip"), old);
    return good && old;
}

static void
test_fault(size_t f)
{
    uint64_t count = 0;
    uint32_t wrong = 0;
    bool done = false;

    for (uint64_t n = 1; !done && n < RUNS_MAX && wrong < 5; n++) {
        struct lode_error err = {0};
        bool failed;

        old_bytes = 3;
        tiny_spill(tiny_path("out.lode"), (const uint8_t *)"old", 3);
        wrap_reset();
        wrap_fail(faults[f].call, n, faults[f].sys_errno);
        done = tiny_write(tiny_path("out.lode"), &options, NULL, &err);
        count = wrap_count(faults[f].call);
        failed = wrap_failed();
        wrap_reset();
        if (done)
            wrong += failed || !is_file("out.lode", whole, whole_bytes);
        else
            wrong += !failed_well(f, &err);
    }
    ok(done && wrong == 0 && count >= faults[f].least_count,
       "%s fails, each of %" PRIu64 " times", faults[f].name, count);
}

/* Failures that are none: the writer goes on. */
/* A write with a failure that is none; true when it happened and the container
 * is the same. */
static bool
survives(enum wrap_call call, uint64_t nth, int sys_errno)
{
    struct lode_error err;
    bool failed;

    wrap_reset();
    wrap_fail(call, nth, sys_errno);
    must(tiny_write(tiny_path("short.lode"), &options, NULL, &err), &err);
    failed = wrap_failed();
    wrap_reset();
    return failed && is_file("short.lode", whole, whole_bytes);
}

static void
test_survived(void)
{
    struct lode_error err;
    uint64_t count;

    wrap_reset();
    wrap_short(4096);
    must(tiny_write(tiny_path("short.lode"), &options, NULL, &err), &err);
    count = wrap_count(WRAP_PWRITE);
    wrap_reset();
    ok(is_file("short.lode", whole, whole_bytes) && count > 30,
       "short writes and reads are continued");
    for (uint64_t n = 1; n < 20; n += 3)
        ok(survives(WRAP_PWRITE, n, EINTR), "write %" PRIu64 " is interrupted",
           n);
    ok(survives(WRAP_OPEN, 2, EINVAL),
       "a file system without direct I/O: at open");
    ok(survives(WRAP_PWRITE, 1, EINVAL),
       "a file system without direct I/O: at the first write");
    ok(survives(WRAP_SYNC, 3, EINVAL), "a file system without sync of folders");
}

static void
test_messages(void)
{
    struct lode_error err;

    wrap_reset();
    wrap_fail(WRAP_PWRITE, 3, ENOSPC);
    fails_with(tiny_write(tiny_path("out.lode"), &options, NULL, &err), &err,
               LODE_E_IO, "out.lode.wip: no space left on the drive",
               "drive full: names the file");
    wrap_reset();
    wrap_fail(WRAP_SYNC, 1, EIO);
    fails_with(tiny_write(tiny_path("out.lode"), &options, NULL, &err), &err,
               LODE_E_IO, "sync of ", "sync: names what failed");
    wrap_reset();
    wrap_fail(WRAP_RENAME, 1, EXDEV);
    fails_with(tiny_write(tiny_path("out.lode"), &options, NULL, &err), &err,
               LODE_E_IO, "rename of ", "rename: names what failed");
    wrap_reset();
}

int
main(void)
{
    struct lode_error err;

    must(tiny_write(tiny_path("whole.lode"), &options, NULL, &err), &err);
    whole = tiny_slurp(tiny_path("whole.lode"), &whole_bytes);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        test_fault(i);
    test_survived();
    test_messages();
    free(whole);
    tiny_cleanup();
    return done_testing();
}
