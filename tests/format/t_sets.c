/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of a head and volumes (spec 4.3, 4.4), and partial containers whose
 * root is known (spec 7.4). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/lode_write.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum { BLOCKS = 19, ROOM_BYTES = 1 << 20 };

static void *image;

static const char *const names[] = {"s-1.lode", "s-2.lode"};

/* Write a set: every third block in the head, the others in two volumes, from
 * the last block to the first. */
static bool
write_set(const char *path, uint8_t *root, struct lode_error *err)
{
    struct lode_writer_options wo = {.align_log2 = 12};
    struct lode_writer *w = NULL;
    uint32_t count = 0;
    uint32_t v[2];
    bool good;

    good = tiny_new(path, &wo, true, &w, err) &&
           lode_writer_number(w, &count, err) &&
           lode_writer_volume(w, names[0], &v[0], err) &&
           lode_writer_volume(w, names[1], &v[1], err);
    for (uint32_t i = 0; good && i < count; i++)
        if (i % 3 != 0)
            lode_writer_place(w, i, v[i % 3 - 1]);
    good = good && lode_writer_begin(w, 0, err);
    for (uint32_t i = count; good && i-- > 0;)
        good = tiny_append_own(w, i, image, err);
    good = good && lode_writer_finish(w, root, err);
    lode_writer_free(w);
    return good;
}

static void
count_fault(void *user, const struct lode_fault *f)
{
    ++*(int *)user;
    printf("# %s: %s\n", f->where, f->what);
}

static uint64_t
verify(const char *path, const char *const *folders)
{
    int reported = 0;
    struct lode_verify_options vo = {.fault = count_fault,
                                     .user = &reported,
                                     .folders = folders,
                                     .level = LODE_VERIFY_STRICT};
    struct lode_error err = {0};
    uint64_t faults = 99;

    if (!lode_verify(path, &vo, &faults, &err))
        printf("# %s\n", err.text);
    return faults;
}

/* Does every block read as it was written? */
static int
wrong_blocks(const struct lode_reader *r)
{
    uint8_t *want = malloc(ROOM_BYTES);
    int wrong = 0;

    for (uint32_t i = 0; want != NULL && i < BLOCKS; i++) {
        struct lode_block b;
        struct lode_error err;

        lode_reader_block(r, i, &b);
        tiny_image(i, want, b.raw_bytes);
        if (!lode_reader_here(r, &b))
            continue;
        wrong += !lode_reader_load(r, i, image, ROOM_BYTES, &err) ||
                 memcmp(image, want, b.raw_bytes) != 0;
    }
    free(want);
    return wrong;
}

static void
test_whole(const uint8_t *root)
{
    const struct lode_summary *s;
    struct lode_reader *r;
    struct lode_error err;
    uint32_t *order;
    uint32_t count;

    must(lode_reader_open(tiny_path("s.lode"), &r, &err), &err);
    s = lode_reader_summary(r);
    is_u64(s->volume_count, 3, "a head and two volumes");
    is_u64(s->present_count, BLOCKS, "which hold all blocks");
    ok(memcmp(s->content_root, root, LODE_DIGEST_BYTES) == 0,
       "the content root is that of one file");
    ok(lode_reader_whole(r, &err), "all volumes were found");
    is_u64((uint64_t)wrong_blocks(r), 0, "every block is read");
    must(lode_reader_order(r, &order, &count, &err), &err);
    is_u64(count, BLOCKS, "the order has all of them");
    is_u64(order[0], BLOCKS - 1, "and is the order of writing");
    is_u64(order[BLOCKS - 1], 0, "to the end");
    free(order);
    lode_reader_close(r);
    is_u64(verify(tiny_path("s.lode"), NULL), 0, "verify finds no fault");
}

static void
test_volume(void)
{
    struct lode_reader *r;
    struct lode_error err;
    struct lode_block b;
    char zeros[65];

    must(lode_reader_open(tiny_path(names[0]), &r, &err), &err);
    is_u64(lode_reader_summary(r)->volume_index, 1,
           "a volume knows its number");
    is_u64(lode_reader_summary(r)->present_count, 6, "and has its blocks");
    is_u64((uint64_t)wrong_blocks(r), 0, "which can be read alone");
    lode_reader_block(r, 0, &b);
    ok(!b.present, "block 0 is elsewhere");
    fails_with(lode_reader_load(r, 0, image, ROOM_BYTES, &err), &err, LODE_E_IO,
               "expert 0 of layer 1: not in this file", "and cannot be read");
    memset(zeros, '0', 64);
    zeros[64] = '\0';
    fails_with(lode_reader_expect_root(r, zeros, &err), &err, LODE_E_CORRUPT,
               "is not known (the file is a volume of a set)",
               "a volume has no content root");
    lode_reader_close(r);
    is_u64(verify(tiny_path(names[0]), NULL), 0, "verify finds no fault in it");
}

/* ---- where volumes are ---- */

static void
move(const char *from, const char *to)
{
    ok(rename(tiny_path(from), tiny_path(to)) == 0, "move %s to %s", from, to);
}

static void
test_missing(void)
{
    struct lode_reader *r;
    struct lode_error err;
    struct lode_block b;
    char dir[300];
    const char *folders[] = {"/nowhere", dir, NULL};

    (void)snprintf(dir, sizeof(dir), "%s", tiny_path("other"));
    ok(mkdir(dir, 0700) == 0, "another folder");
    move(names[1], "other/s-2.lode");
    must(lode_reader_open(tiny_path("s.lode"), &r, &err), &err);
    fails_with(lode_reader_whole(r, &err), &err, LODE_E_IO,
               "1 of 2 volumes are missing: s-2.lode", "it is named");
    lode_reader_block(r, 2, &b);
    ok(b.present && !lode_reader_here(r, &b), "a block in it is not here");
    fails_with(lode_reader_load(r, 2, image, ROOM_BYTES, &err), &err, LODE_E_IO,
               "expert 2 of layer 1: lies in volume s-2.lode, which is missing",
               "and cannot be read");
    is_u64((uint64_t)wrong_blocks(r), 0, "the others can");
    lode_reader_close(r);
    is_u64(verify(tiny_path("s.lode"), NULL), 1, "verify counts it");
    must(lode_reader_open_in(tiny_path("s.lode"), folders, &r, &err), &err);
    ok(lode_reader_whole(r, &err), "found in the folder that was given");
    is_u64((uint64_t)wrong_blocks(r), 0, "and every block is read");
    lode_reader_close(r);
    is_u64(verify(tiny_path("s.lode"), folders), 0, "verify finds it there");
    move("other/s-2.lode", names[1]);
}

static void
test_wrong_file(void)
{
    struct lode_reader *r;
    struct lode_error err;

    move(names[0], "x");
    move(names[1], names[0]);
    fails_with(lode_reader_open(tiny_path("s.lode"), &r, &err), &err,
               LODE_E_CORRUPT, "is another file than volume 1 of this set",
               "the wrong volume under the name");
    move(names[0], names[1]);
    ok(truncate(tiny_path("x"), 200000) == 0, "cut");
    move("x", names[0]);
    fails_with(lode_reader_open(tiny_path("s.lode"), &r, &err), &err,
               LODE_E_CORRUPT, "cut short", "a volume that was cut");
    ok(unlink(tiny_path(names[0])) == 0 && unlink(tiny_path(names[1])) == 0,
       "remove both");
    must(write_set(tiny_path("s.lode"), NULL, &err), &err);
    fails_with(write_set(tiny_path("s.lode"), NULL, &err), &err, LODE_E_USAGE,
               "s-1.lode exists: volumes are never replaced",
               "a set is not written over another");
    is_u64(verify(tiny_path("s.lode"), NULL), 0, "which is still whole");
}

static void
test_names(void)
{
    static const char *const bad[] = {"a/b", "..", ".", "", "/x", "s.lode"};
    struct lode_writer_options wo = {.align_log2 = 12};
    struct lode_writer *w = NULL;
    struct lode_error err;
    uint32_t v;

    must(tiny_new(tiny_path("s.lode"), &wo, true, &w, &err), &err);
    must(lode_writer_number(w, &v, &err), &err);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(!lode_writer_volume(w, bad[i], &v, &err), "\"%s\" is refused: %s",
           bad[i], err.text);
    lode_writer_free(w);
}

/* ---- partial, with a root ---- */

static bool
write_partial(const uint8_t *contents, bool all, uint8_t *root,
              struct lode_error *err)
{
    struct lode_writer_options wo = {.align_log2 = 12, .partial = true};
    struct lode_writer *w = NULL;
    bool good = tiny_new(tiny_path("p.lode"), &wo, true, &w, err) &&
                tiny_begin(w, err);

    for (uint32_t i = 0; good && i < BLOCKS; i++)
        if (i >= 6)
            good = tiny_append_own(w, i, image, err);
        else if (all || i != 4)
            lode_writer_absent(w, i, contents + (size_t)i * LODE_DIGEST_BYTES);
    good = good && lode_writer_finish(w, root, err);
    lode_writer_free(w);
    return good;
}

static void
test_partial(const uint8_t *root)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];
    uint8_t found[LODE_DIGEST_BYTES];
    struct lode_reader *r;
    struct lode_error err;
    uint8_t *contents;
    uint8_t *stored;

    must(lode_reader_open(tiny_path("a.lode"), &r, &err), &err);
    must(lode_reader_digests(r, &contents, &stored, &err), &err);
    ok(stored == NULL, "raw blocks have no stored digests");
    lode_reader_close(r);
    must(write_partial(contents, true, found, &err), &err);
    ok(memcmp(found, root, sizeof(found)) == 0,
       "a partial container whose digests are known has the same root");
    is_u64(verify(tiny_path("p.lode"), NULL), 0, "and no fault");
    must(write_partial(contents, false, found, &err), &err);
    ok(memcmp(found, zero, sizeof(found)) == 0,
       "without one digest it is not known");
    is_u64(verify(tiny_path("p.lode"), NULL), 0, "which is no fault");
    contents[0] ^= 1;
    must(write_partial(contents, true, found, &err), &err);
    ok(memcmp(found, root, sizeof(found)) != 0, "another digest, another root");
    free(contents);
    free(stored);
}

int
main(void)
{
    struct tiny_options opt = {.split = true};
    uint8_t root[LODE_DIGEST_BYTES];
    uint8_t other[LODE_DIGEST_BYTES];
    struct lode_error err;

    must(lode_alloc_aligned(ROOM_BYTES, "image", &image, &err), &err);
    must(tiny_write(tiny_path("a.lode"), &opt, root, &err), &err);
    must(write_set(tiny_path("s.lode"), other, &err), &err);
    test_whole(root);
    test_volume();
    test_missing();
    test_wrong_file();
    test_names();
    test_partial(root);
    lode_free_aligned(image, ROOM_BYTES);
    tiny_cleanup();
    return done_testing();
}
