/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th call fails while a container or a set is written with a journal, for
 * every n: in a first run, in one that goes on, in one that begins anew.  OUT
 * stays what it was, and the next run makes what a run that nobody disturbed
 * makes, and leaves nothing else (spec 11.2, 11.3). */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/fault/wrap.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum {
    RUNS_MAX = 5000,
    ROOM_BYTES = 1 << 20,
    SYNC_AT = 6,  /* a sync before this block */
    STOP_AT = 10, /* where an earlier run ended */
    ENTRY_BYTES = 192,
    FILES = 3,
};

enum mode { SINGLE, SET, COPY, MODES };
enum start { FRESH, RESUME, RESTART, STARTS };

static const char *const mode_names[] = {"file", "set", "copied"};
static const char *const start_names[] = {"first", "going on", "anew"};

static const struct fault {
    const char *name;
    enum wrap_call call;
    int sys_errno;
    enum lode_code code;
    size_t most_bytes; /* of one read or write; 0: all */
    uint32_t step;     /* of n */
    uint32_t least;    /* calls that each of the runs certainly makes */
} faults[] = {
    {"allocation", WRAP_ALLOC, ENOMEM, LODE_E_NOMEM, 0, 5, 20},
    {"mmap", WRAP_MMAP, ENOMEM, LODE_E_NOMEM, 0, 1, 2},
    {"open", WRAP_OPEN, EMFILE, LODE_E_IO, 0, 1, 4},
    {"write, drive full", WRAP_PWRITE, ENOSPC, LODE_E_IO, 4096, 2, 20},
    {"write, torn", WRAP_PWRITE, EIO, LODE_E_IO, 100, 401, 800},
    {"write, device error", WRAP_PWRITE, EIO, LODE_E_IO, 0, 1, 15},
    {"read", WRAP_PREAD, EIO, LODE_E_IO, 0, 1, 2},
    {"sync", WRAP_SYNC, EIO, LODE_E_IO, 0, 1, 7},
    {"rename", WRAP_RENAME, EACCES, LODE_E_IO, 0, 1, 1},
    {"truncate", WRAP_FTRUNCATE, EIO, LODE_E_IO, 0, 1, 2},
};
static const struct fault copy_faults[] = {
    {"copy, device error", WRAP_COPY, EIO, LODE_E_IO, 0, 1, 2},
    {"copy, drive full", WRAP_COPY, ENOSPC, LODE_E_IO, 65536, 1, 2},
    {"copy, not here", WRAP_COPY, EXDEV, LODE_E_IO, 65536, 1, 2},
};

static const uint8_t plan[LODE_DIGEST_BYTES] = {9};
static const char *const names[FILES] = {"out.lode", "v-1.lode", "v-2.lode"};
static void *image;
static int source_fd;

struct bytes {
    uint8_t *data;
    size_t count;
};
static struct bytes old;                 /* an earlier container at OUT */
static struct bytes whole[MODES][FILES]; /* what is to be made */

/* ---- one run ---- */

static uint32_t
file_count(enum mode m)
{
    return m == SET ? FILES : 1;
}

static bool
begin(enum mode m, bool restart, struct lode_writer **w, uint32_t *block_count,
      struct lode_error *err)
{
    struct lode_writer_options wo = {
        .align_log2 = 12, .plan = plan, .restart = restart};
    uint32_t v;

    if (!tiny_new(tiny_path(names[0]), &wo, m == COPY, w, err) ||
        !lode_writer_number(*w, block_count, err))
        return false;
    for (uint32_t i = 1; i < file_count(m); i++) {
        if (!lode_writer_volume(*w, names[i], &v, err))
            return false;
        for (uint32_t b = i; b < *block_count; b += FILES)
            lode_writer_place(*w, b, v);
    }
    return lode_writer_begin(*w, 0, err);
}

static bool
write_block(struct lode_writer *w, enum mode m, uint32_t b,
            struct lode_error *err)
{
    struct lode_parcel p = {.image = image, .stored = image};

    if (m != COPY)
        return tiny_append_own(w, b, image, err);
    p.raw_bytes = p.stored_bytes = lode_writer_block_raw_bytes(w, b);
    tiny_image(b, image, p.raw_bytes);
    lode_seal(&p);
    return lode_writer_copy(w, b, &p, source_fd, (uint64_t)b * ROOM_BYTES,
                            err) ||
           (err->code == LODE_E_UNSUPPORTED &&
            lode_writer_append(w, b, &p, err));
}

/* As commands do it; at most stop blocks, and then without an end. */
static bool
run(enum mode m, bool restart, uint32_t stop, struct lode_error *err)
{
    struct lode_writer *w = NULL;
    uint32_t block_count = 0;
    bool finished = false;
    bool good;

    if (!restart &&
        !lode_writer_was_finished(tiny_path(names[0]), plan, &finished, err))
        return false;
    if (finished)
        return true;
    good = begin(m, restart, &w, &block_count, err);
    for (uint32_t b = 0; good && b < block_count && b < stop; b++) {
        good = b != SYNC_AT ||
               (lode_writer_note(w, 1, plan, err) && lode_writer_sync(w, err));
        if (good && !lode_writer_done(w, b))
            good = write_block(w, m, b, err);
    }
    good = good && (stop < block_count || lode_writer_finish(w, NULL, err));
    lode_writer_free(w);
    return good;
}

/* ---- what is there ---- */

static bool
exists(const char *name, const char *suffix)
{
    struct stat st;
    char full[64];

    (void)snprintf(full, sizeof(full), "%s%s", name, suffix);
    return lstat(tiny_path(full), &st) == 0;
}

static bool
is_file(const char *name, const struct bytes *want)
{
    struct bytes is = {0};
    bool same;

    if (!exists(name, ""))
        return false;
    is.data = tiny_slurp(tiny_path(name), &is.count);
    same =
        is.count == want->count && memcmp(is.data, want->data, is.count) == 0;
    free(is.data);
    return same;
}

static bool
is_whole(enum mode m)
{
    for (uint32_t i = 0; i < file_count(m); i++)
        if (!is_file(names[i], &whole[m][i]))
            return false;
    return true;
}

static bool
is_as_before(enum mode m)
{
    bool same = is_file(names[0], &old);

    for (uint32_t i = 1; i < file_count(m); i++)
        same = same && !exists(names[i], "");
    return same;
}

static bool
is_tidy(void)
{
    bool tidy = !exists(names[0], ".wip.journal");

    for (uint32_t i = 0; i < FILES; i++)
        tidy = tidy && !exists(names[i], ".wip");
    return tidy;
}

static void
clear(void)
{
    static const char *const suffixes[] = {"", ".wip", ".wip.journal"};
    char full[64];

    for (uint32_t i = 0; i < FILES; i++)
        for (uint32_t s = 0; s < 3; s++) {
            (void)snprintf(full, sizeof(full), "%s%s", names[i], suffixes[s]);
            (void)unlink(tiny_path(full));
        }
}

/* ---- one fault ---- */

static void
reset(void)
{
    wrap_reset();
    wrap_skip_sync();
}

static void
prepare(enum mode m, enum start start)
{
    struct lode_error err;

    clear();
    tiny_spill(tiny_path(names[0]), old.data, old.count);
    if (start != FRESH)
        must(run(m, false, STOP_AT, &err), &err);
}

/* Was it right how a run failed? */
static bool
failed_well(const struct fault *f, enum mode m, uint64_t n, uint64_t sync_count,
            const struct lode_error *err)
{
    bool complete = strstr(err->text, "is complete, but its folder") != NULL;
    bool good = err->text[0] != '\0' && err->code == f->code &&
                (complete ? is_whole(m) : is_as_before(m));

    if (f->code == LODE_E_IO)
        good = good && err->sys_errno == f->sys_errno;
    if (f->call == WRAP_SYNC) /* the failed one was the last */
        good = good && sync_count == n;
    if (!good)
        printf("# n %" PRIu64 ": code %d, errno %d, \"%s\", OUT as before %d, "
               "%" PRIu64 " syncs\n",
               n, (int)err->code, err->sys_errno, err->text, is_as_before(m),
               sync_count);
    return good;
}

/* Run with the n-th call failing, then without; true when all was right.  *met
 * false: there was no n-th call. */
static bool
disturb(const struct fault *f, enum mode m, enum start start, uint64_t n,
        bool *met)
{
    struct lode_error err = {0};
    uint64_t sync_count;
    bool good = true;
    bool done;

    prepare(m, start);
    reset();
    wrap_short(f->most_bytes);
    wrap_fail(f->call, n, f->sys_errno);
    done = run(m, start == RESTART, UINT32_MAX, &err);
    *met = wrap_failed();
    sync_count = wrap_count(WRAP_SYNC);
    reset();
    if (!done)
        good = failed_well(f, m, n, sync_count, &err);
    if (!done && !run(m, false, UINT32_MAX, &err)) {
        printf("# n %" PRIu64 ": the next run: %s\n", n, err.text);
        return false;
    }
    if (is_whole(m) && is_tidy())
        return good;
    printf("# n %" PRIu64 ": after %s: whole %d, tidy %d; it was \"%s\"\n", n,
           done ? "success" : "the next run", is_whole(m), is_tidy(), err.text);
    return false;
}

static void
test_fault(const struct fault *f, enum mode m, enum start start)
{
    uint64_t count = 0;
    uint32_t wrong = 0;
    bool met = true;

    for (uint64_t n = 1; met && n < RUNS_MAX && wrong < 5; n += f->step) {
        wrong += !disturb(f, m, start, n, &met);
        count = met ? n : count;
    }
    ok(!met && wrong == 0 && count + f->step > f->least,
       "%s, %s: %s fails, up to the call %" PRIu64 " by %" PRIu32,
       mode_names[m], start_names[start], f->name, count, f->step);
}

/* Without a journal nothing is kept at all. */
static void
test_plain_set(enum wrap_call call, uint64_t nth, int sys_errno)
{
    const struct tiny_options opt = {0};
    struct lode_error err;

    prepare(SET, FRESH);
    reset();
    wrap_fail(call, nth, sys_errno);
    ok(!tiny_write_set(tiny_path(names[0]), &opt, false, NULL, &err) &&
           wrap_failed() && err.sys_errno == sys_errno,
       "a set without a journal: call %" PRIu64 " fails", nth);
    reset();
    ok(is_as_before(SET) && is_tidy(), "nothing of it is left");
}

/* ---- after a failed sync ---- */

/* What was not on the drive at a failed sync may be in memory only, where a
 * later run would find it. */
static void
test_distrust(uint64_t nth, uint64_t entries)
{
    struct lode_writer *w = NULL;
    struct lode_error err;
    uint32_t block_count;
    struct stat st = {0};
    uint64_t syncs;

    prepare(SINGLE, FRESH);
    must(run(SINGLE, false, STOP_AT, &err), &err);
    must(begin(SINGLE, false, &w, &block_count, &err), &err);
    reset();
    wrap_fail(WRAP_SYNC, nth, EIO);
    ok(!lode_writer_sync(w, &err) && err.sys_errno == EIO,
       "sync %" PRIu64 " fails", nth);
    syncs = wrap_count(WRAP_SYNC);
    fails_with(lode_writer_sync(w, &err), &err, LODE_E_IO,
               "an earlier sync failed", "and is refused from then on");
    is_u64(wrap_count(WRAP_SYNC), syncs, "without a call");
    reset();
    lode_writer_free(w);
    ok(stat(tiny_path("out.lode.wip.journal"), &st) == 0, "a journal is left");
    is_u64(st.st_size, (1 + entries) * ENTRY_BYTES,
           "with what was synced before");
    must(run(SINGLE, false, UINT32_MAX, &err), &err);
    ok(is_whole(SINGLE) && is_tidy(), "the next run finishes it");
}

/* ---- what others do to the files ---- */

static void
test_lost(void)
{
    struct lode_error err;

    prepare(SINGLE, RESUME);
    ok(unlink(tiny_path("out.lode.wip")) == 0, "the data is lost");
    must(run(SINGLE, false, UINT32_MAX, &err), &err);
    ok(is_whole(SINGLE) && is_tidy(),
       "another container at OUT is not taken for it, nor are zeros");
    prepare(SET, RESUME);
    ok(unlink(tiny_path("v-2.lode.wip")) == 0, "a volume is lost");
    must(run(SET, false, UINT32_MAX, &err), &err);
    ok(is_whole(SET) && is_tidy(), "it is written anew");
}

/* ---- set up ---- */

static void
make_source(void)
{
    struct tiny_options opt = {.split = true};
    struct lode_writer *w;
    struct lode_error err;

    source_fd = open(tiny_path("source"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    must(tiny_declare(tiny_path("sizes.lode"), &opt, &w, &err), &err);
    for (uint32_t b = 0; b < tiny_block_count(&opt); b++) {
        uint32_t bytes = lode_writer_block_raw_bytes(w, b);

        tiny_image(b, image, bytes);
        if (pwrite(source_fd, image, bytes, (off_t)b * ROOM_BYTES) !=
            (ssize_t)bytes)
            exit(99);
    }
    lode_writer_free(w);
}

static void
make_expected(void)
{
    struct tiny_options other = {.label = "another"};
    struct tiny_options same[] = {{0}, {0}, {.split = true}};
    struct lode_error err;

    must(tiny_write(tiny_path("old.lode"), &other, NULL, &err), &err);
    old.data = tiny_slurp(tiny_path("old.lode"), &old.count);
    for (int m = 0; m < MODES; m++) {
        if (m == SET)
            must(tiny_write_set(tiny_path(names[0]), &same[m], false, NULL,
                                &err),
                 &err);
        else
            must(tiny_write(tiny_path(names[0]), &same[m], NULL, &err), &err);
        for (uint32_t i = 0; i < file_count((enum mode)m); i++)
            whole[m][i].data =
                tiny_slurp(tiny_path(names[i]), &whole[m][i].count);
        clear();
    }
}

int
main(void)
{
    struct lode_error err;

    reset();
    must(lode_alloc_aligned(ROOM_BYTES, "image", &image, &err), &err);
    make_source();
    make_expected();
    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
        for (int start = 0; start < STARTS; start++)
            for (int m = 0; m < COPY; m++)
                test_fault(&faults[f], (enum mode)m, (enum start)start);
    for (size_t f = 0; f < sizeof(copy_faults) / sizeof(copy_faults[0]); f++)
        for (int start = 0; start < STARTS; start++)
            test_fault(&copy_faults[f], COPY, (enum start)start);
    for (uint64_t nth = 1; nth <= 3; nth++) /* data, journal, folder */
        test_distrust(nth, SYNC_AT + 2);
    test_lost();
    for (uint64_t nth = 1; nth <= 3; nth++)
        test_plain_set(WRAP_RENAME, nth, EACCES);
    for (uint64_t nth = 1; nth <= 7; nth++) /* the last: the folder */
        test_plain_set(WRAP_SYNC, nth, EIO);
    (void)close(source_fd); /* nothing counts of it */
    free(old.data);
    for (int m = 0; m < MODES; m++)
        for (int i = 0; i < FILES; i++)
            free(whole[m][i].data);
    lode_free_aligned(image, ROOM_BYTES);
    tiny_cleanup();
    return done_testing();
}
