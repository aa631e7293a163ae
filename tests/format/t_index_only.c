/* SPDX-License-Identifier: Apache-2.0
 *
 * Containers that leave blocks out (spec 7.4): written, read, verified. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "format/lode_write.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

static void
count_fault(void *user, const struct lode_fault *f)
{
    (void)user;
    printf("# fault: %s: %s\n", f->where, f->what);
}

static bool
is_zero(const uint8_t *digest)
{
    for (int i = 0; i < LODE_DIGEST_BYTES; i++)
        if (digest[i] != 0)
            return false;
    return true;
}

static void
test_blocks(const struct lode_reader *whole, const struct lode_reader *part)
{
    uint32_t count = lode_reader_summary(whole)->block_count;
    bool same = true;
    uint32_t present = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct lode_block a;
        struct lode_block b;

        lode_reader_block(whole, i, &a);
        lode_reader_block(part, i, &b);
        present += b.present;
        same = same && a.raw_bytes == b.raw_bytes &&
               a.group_index == b.group_index &&
               a.object_index == b.object_index && a.seq == b.seq &&
               lode_reader_padded_bytes(whole, &a) ==
                   lode_reader_padded_bytes(part, &b);
        if (b.present)
            same = same && a.hash == b.hash;
        else
            same = same && b.offset == 0 && b.hash == 0 && b.stored_bytes == 0;
    }
    ok(same, "records agree with those of the whole container");
    is_u64(present, TINY_FILE_BLOCK_COUNT, "only the files are here");
}

static void
test_reading(const struct lode_reader *part)
{
    struct lode_error err;
    uint8_t image[TINY_EXPERT_BYTES] = {0};
    size_t bytes;
    char *text;
    char hex[65];

    fails_with(lode_reader_load(part, 1, image, sizeof(image), &err), &err,
               LODE_E_IO, "expert 1 of layer 1: not in this file",
               "loading an absent block");
    ok(strstr(err.text, lode_reader_path(part)) == err.text,
       "the message begins with the path");
    fails_with(lode_reader_check(part, 2, image, &err), &err, LODE_E_IO,
               "expert 2 of layer 1: not in this file",
               "checking an absent block");
    must(lode_reader_load_file(part, LODE_KIND_META, "config.json", 1000, &text,
                               &bytes, &err),
         &err);
    is_u64(bytes, 61, "a block that is here is read");
    free(text);
    memset(hex, '0', 64);
    hex[64] = '\0';
    fails_with(lode_reader_expect_root(part, hex, &err), &err, LODE_E_CORRUPT,
               "content root is not known",
               "its root equals nothing, not even zeros");
}

static void
test_tiny(bool split)
{
    const char *whole_path = tiny_path("whole.lode");
    const char *part_path = tiny_path("part.lode");
    struct tiny_options opt = {.split = split};
    uint8_t root[LODE_DIGEST_BYTES];
    struct lode_reader *whole;
    struct lode_reader *part;
    const struct lode_summary *s;
    struct lode_error err;
    uint32_t absent = 99;
    uint64_t faults = 99;
    struct lode_verify_options vo = {.fault = count_fault,
                                     .absent_count = &absent};

    must(tiny_write(whole_path, &opt, NULL, &err), &err);
    opt.index_only = true;
    must(tiny_write(part_path, &opt, root, &err), &err);
    ok(is_zero(root), "the writer claims no content root");
    must(lode_reader_open(whole_path, &whole, &err), &err);
    must(lode_reader_open(part_path, &part, &err), &err);
    s = lode_reader_summary(part);
    is_u64(s->present_count, TINY_FILE_BLOCK_COUNT, "present_count");
    is_u64(s->block_count, lode_reader_summary(whole)->block_count,
           "block_count");
    is_u64(s->raw_bytes, lode_reader_summary(whole)->raw_bytes,
           "raw_bytes counts what is absent");
    ok(s->stored_bytes < s->raw_bytes, "stored_bytes does not");
    ok(is_zero(s->content_root), "content root is zeros");
    ok(is_zero(lode_reader_group(part, 0)->root), "so is an absent group's");
    ok(memcmp(lode_reader_group(part, s->group_count - 1)->root,
              lode_reader_group(whole, s->group_count - 1)->root,
              LODE_DIGEST_BYTES) == 0,
       "a group that is here has its root");
    test_blocks(whole, part);
    test_reading(part);
    must(lode_verify(part_path, &vo, &faults, &err), &err);
    is_u64(faults, 0, "verify finds no fault");
    is_u64(absent, s->block_count - TINY_FILE_BLOCK_COUNT,
           "verify counts what is absent");
    must(lode_verify(whole_path, &vo, &faults, &err), &err);
    is_u64(absent, 0, "nothing is absent from the whole container");
    lode_reader_close(whole);
    lode_reader_close(part);
}

/* No block at all, and a plan that no drive could hold. */
static void
test_huge(void)
{
    const char *path = tiny_path("huge.lode");
    struct lode_writer_options opt = {.align_log2 = 12, .partial = true};
    struct lode_writer *w;
    struct lode_error err;
    uint32_t schema_index;
    uint32_t handle;
    uint32_t absent;
    uint64_t faults;
    struct lode_verify_options vo = {.fault = count_fault,
                                     .absent_count = &absent};
    size_t bytes;

    must(lode_writer_new(path, &opt, &w, &err), &err);
    must(lode_writer_schema(w, NULL, 0, UINT64_C(1) << 30, &schema_index, &err),
         &err);
    must(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_EXPERT,
                    .layer = 0,
                    .name = "experts",
                    .object_count = 70000,
                    .schema_index = schema_index,
                    .object_raw_bytes = UINT64_C(1) << 30},
                &handle, &err),
         &err);
    must(tiny_begin(w, &err), &err);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
    free(tiny_slurp(path, &bytes));
    ok(bytes < 8 << 20, "70 TB of plan in %zu bytes", bytes);
    must(lode_verify(path, &vo, &faults, &err), &err);
    is_u64(faults, 0, "verify finds no fault");
    is_u64(absent, 70000, "and no block");
}

/* With every block there it is an ordinary container. */
static void
test_complete(void)
{
    struct lode_writer_options opt = {.align_log2 = 12, .partial = true};
    const char *path = tiny_path("empty.lode");
    struct lode_reader *r;
    struct lode_writer *w;
    struct lode_error err;

    must(lode_writer_new(path, &opt, &w, &err), &err);
    must(tiny_begin(w, &err), &err);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
    must(lode_reader_open(path, &r, &err), &err);
    ok(!is_zero(lode_reader_summary(r)->content_root),
       "nothing absent: the content root is known");
    lode_reader_close(r);
}

static void
test_needs_option(void)
{
    struct tiny_options opt = {0};
    struct lode_writer *w;
    struct lode_error err;

    must(tiny_declare(tiny_path("x.lode"), &opt, &w, &err), &err);
    fails_with(lode_writer_finish(w, NULL, &err), &err, LODE_E_USAGE, "0 of ",
               "without the option every block must be there");
    lode_writer_free(w);
}

int
main(void)
{
    test_tiny(false);
    test_tiny(true);
    test_huge();
    test_complete();
    test_needs_option();
    tiny_cleanup();
    return done_testing();
}
