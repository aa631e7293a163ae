/* SPDX-License-Identifier: Apache-2.0
 *
 * Going on with unfinished work (spec 11.3): after every number of blocks, with
 * a torn journal, with data that did not reach the drive, with another plan. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/lode_write.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum { BLOCKS = 19, ROOM_BYTES = 1 << 20, ENTRY_BYTES = 192 };

static void *image;
static const uint8_t plan[LODE_DIGEST_BYTES] = {7};
static const uint8_t other_plan[LODE_DIGEST_BYTES] = {8};

static bool
exists(const char *name)
{
    struct stat st;

    return lstat(tiny_path(name), &st) == 0;
}

static bool
same_files(const char *a, const char *b)
{
    size_t a_bytes;
    size_t b_bytes;
    uint8_t *x = tiny_slurp(tiny_path(a), &a_bytes);
    uint8_t *y = tiny_slurp(tiny_path(b), &b_bytes);
    bool same = a_bytes == b_bytes && memcmp(x, y, a_bytes) == 0;

    free(x);
    free(y);
    return same;
}

/* A writer of j.lode that has begun; set: with a volume. */
static bool
begin(const uint8_t *p, bool set, bool restart, struct lode_writer **out,
      struct lode_error *err)
{
    struct lode_writer_options wo = {
        .align_log2 = 12, .plan = p, .restart = restart};
    struct lode_writer *w = NULL;
    uint32_t count;
    uint32_t v = 0;
    bool good = tiny_new(tiny_path(set ? "js.lode" : "j.lode"), &wo, true, &w,
                         err) &&
                lode_writer_number(w, &count, err) &&
                (!set || lode_writer_volume(w, "js-1.lode", &v, err));

    for (uint32_t i = 0; good && set && i < BLOCKS; i += 2)
        lode_writer_place(w, i, v);
    if (good && lode_writer_begin(w, 0, err)) {
        *out = w;
        return true;
    }
    lode_writer_free(w);
    return false;
}

/* Write all blocks that are not yet done, but no more than max. */
static uint32_t
write_some(struct lode_writer *w, uint32_t max)
{
    struct lode_error err;
    uint32_t n = 0;

    for (uint32_t i = 0; i < BLOCKS && n < max; i++)
        if (!lode_writer_done(w, i)) {
            must(tiny_append_own(w, i, image, &err), &err);
            n++;
        }
    return n;
}

/* After any number of blocks. */
static void
test_every_stop(bool set)
{
    const char *name = set ? "js.lode" : "j.lode";

    for (uint32_t stop = 0; stop <= BLOCKS; stop++) {
        struct lode_writer *w;
        struct lode_error err;
        uint64_t bytes;

        must(begin(plan, set, false, &w, &err), &err);
        (void)write_some(w, stop);
        lode_writer_free(w);
        ok(exists(set ? "js.lode.wip" : "j.lode.wip") == (stop != 0),
           "after %" PRIu32 " blocks: unfinished work is kept if there is any",
           stop);
        must(begin(plan, set, false, &w, &err), &err);
        is_u64(lode_writer_written(w, &bytes), stop, "it is taken over");
        is_u64(write_some(w, BLOCKS), BLOCKS - stop, "the rest is written");
        must(lode_writer_finish(w, NULL, &err), &err);
        lode_writer_free(w);
        ok(same_files(name, set ? "set.lode" : "a.lode") &&
               (!set || same_files("js-1.lode", "set-1.lode")),
           "the file is that of one run");
        ok(!exists("j.lode.wip") && !exists("j.lode.wip.journal") &&
               !exists("js.lode.wip.journal") && !exists("js-1.lode.wip"),
           "nothing else is left");
        (void)unlink(tiny_path("js-1.lode"));
        (void)unlink(tiny_path(name));
    }
}

/* ---- what a power cut may leave ---- */

static void
stop_after(uint32_t count, bool synced)
{
    struct lode_writer *w;
    struct lode_error err;

    must(begin(plan, false, true, &w, &err), &err);
    (void)write_some(w, count);
    if (synced)
        must(lode_writer_sync(w, &err), &err);
    lode_writer_free(w);
}

static void
finish_from(uint32_t expected, const char *what)
{
    struct lode_writer *w;
    struct lode_error err;
    uint64_t bytes;

    must(begin(plan, false, false, &w, &err), &err);
    is_u64(lode_writer_written(w, &bytes), expected, "%s", what);
    (void)write_some(w, BLOCKS);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
    ok(same_files("j.lode", "a.lode"), "the file is that of one run");
}

static void
flip(const char *name, off_t at)
{
    int fd = open(tiny_path(name), O_RDWR);
    uint8_t byte = 0;

    ok(fd >= 0 && pread(fd, &byte, 1, at) == 1, "read a byte of %s", name);
    byte ^= 0x40;
    ok(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0, "change it");
}

static void
test_damage(void)
{
    stop_after(10, false);
    ok(truncate(tiny_path("j.lode.wip.journal"), 7 * ENTRY_BYTES + 100) == 0,
       "tear the journal");
    finish_from(6, "up to the torn entry");
    for (off_t at = 0; at < ENTRY_BYTES; at += 13) {
        stop_after(10, false);
        flip("j.lode.wip.journal", 5 * ENTRY_BYTES + at);
        finish_from(4, "up to a damaged entry");
    }
    stop_after(10, false);
    flip("j.lode.wip", 196608 + 3 * 4096 + 17);
    finish_from(3, "up to the first block that is not there");
    stop_after(10, false);
    ok(truncate(tiny_path("j.lode.wip"), 196608 + 5 * 4096 + 1) == 0, "cut it");
    finish_from(5, "up to the end of the data");
    stop_after(10, true);
    finish_from(10, "what was synced is not read again");
    stop_after(10, false);
    ok(unlink(tiny_path("j.lode.wip")) == 0, "lose the data");
    finish_from(0, "nothing is taken over");
    stop_after(10, false);
    ok(unlink(tiny_path("j.lode.wip.journal")) == 0, "lose the journal");
    finish_from(0, "nothing is taken over then either");
}

/* ---- plans ---- */

static void
test_plan(void)
{
    struct lode_writer *w;
    struct lode_error err;
    uint64_t bytes;
    bool finished;

    stop_after(10, true);
    fails_with(begin(other_plan, false, false, &w, &err), &err, LODE_E_USAGE,
               "unfinished work of another source or with other options",
               "another plan is refused");
    ok(exists("j.lode.wip") && exists("j.lode.wip.journal"),
       "and the work is kept");
    must(lode_writer_was_finished(tiny_path("j.lode"), plan, &finished, &err),
         &err);
    ok(!finished, "unfinished is not finished");
    must(begin(other_plan, false, true, &w, &err), &err);
    is_u64(lode_writer_written(w, &bytes), 0, "restart begins anew");
    lode_writer_free(w);
    ok(!exists("j.lode.wip") && !exists("j.lode.wip.journal"),
       "of which nothing is kept without a block");
}

/* A crash between the rename and the end of the journal. */
static void
test_finished(void)
{
    struct lode_error err;
    bool finished;

    stop_after(BLOCKS, true);
    ok(link(tiny_path("j.lode.wip.journal"), tiny_path("kept")) == 0,
       "a second name for the journal");
    finish_from(BLOCKS, "all blocks");
    ok(rename(tiny_path("kept"), tiny_path("j.lode.wip.journal")) == 0,
       "the journal is still there");
    must(lode_writer_was_finished(tiny_path("j.lode"), other_plan, &finished,
                                  &err),
         &err);
    ok(!finished && exists("j.lode.wip.journal"), "not by another plan");
    must(lode_writer_was_finished(tiny_path("j.lode"), plan, &finished, &err),
         &err);
    ok(finished, "finished by this plan");
    ok(!exists("j.lode.wip.journal"), "and tidied up");
    must(lode_writer_was_finished(tiny_path("j.lode"), plan, &finished, &err),
         &err);
    ok(!finished, "which happens once");
    stop_after(BLOCKS, true);
    ok(unlink(tiny_path("j.lode.wip")) == 0, "unfinished work is lost");
    must(lode_writer_was_finished(tiny_path("j.lode"), plan, &finished, &err),
         &err);
    ok(!finished, "an earlier OUT is not taken for its end");
    finish_from(0, "nothing is taken over");
}

/* A crash between the renames of volume and head. */
static void
test_between_renames(void)
{
    struct lode_writer *w;
    struct lode_error err;
    uint64_t bytes;

    must(begin(plan, true, false, &w, &err), &err);
    (void)write_some(w, BLOCKS);
    lode_writer_free(w);
    ok(rename(tiny_path("js-1.lode.wip"), tiny_path("js-1.lode")) == 0,
       "the volume has its name");
    must(begin(plan, true, false, &w, &err), &err);
    is_u64(lode_writer_written(w, &bytes), BLOCKS, "all is taken over");
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
    ok(same_files("js.lode", "set.lode") &&
           same_files("js-1.lode", "set-1.lode"),
       "the set is that of one run");
}

static void
test_notes(void)
{
    uint8_t data[LODE_DIGEST_BYTES] = {1};
    struct lode_writer *w;
    struct lode_error err;

    must(begin(plan, false, true, &w, &err), &err);
    ok(lode_writer_noted(w, 5) == NULL, "no note yet");
    (void)write_some(w, 1);
    must(lode_writer_note(w, 5, data, &err), &err);
    data[0] = 2;
    must(lode_writer_note(w, 5, data, &err), &err);
    data[0] = 3;
    must(lode_writer_note(w, 6, data, &err), &err);
    lode_writer_free(w);
    must(begin(plan, false, false, &w, &err), &err);
    ok(lode_writer_noted(w, 5) != NULL && lode_writer_noted(w, 5)[0] == 2,
       "the last of two notes is back");
    ok(lode_writer_noted(w, 6) != NULL && lode_writer_noted(w, 6)[0] == 3,
       "and another");
    lode_writer_free(w);
    must(begin(plan, false, true, &w, &err), &err);
    ok(lode_writer_noted(w, 5) == NULL, "restart forgets them");
    lode_writer_free(w);
}

int
main(void)
{
    struct tiny_options opt = {.split = true};
    struct lode_writer *w;
    struct lode_error err;

    must(lode_alloc_aligned(ROOM_BYTES, "image", &image, &err), &err);
    must(tiny_write(tiny_path("a.lode"), &opt, NULL, &err), &err);
    test_every_stop(false);
    must(begin(plan, true, false, &w, &err), &err);
    (void)write_some(w, BLOCKS);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
    ok(rename(tiny_path("js.lode"), tiny_path("set.lode")) == 0 &&
           rename(tiny_path("js-1.lode"), tiny_path("set-1.lode")) == 0,
       "a set to compare with");
    test_every_stop(true);
    test_damage();
    test_plan();
    test_finished();
    test_between_renames();
    test_notes();
    lode_free_aligned(image, ROOM_BYTES);
    tiny_cleanup();
    return done_testing();
}
