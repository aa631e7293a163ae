/* SPDX-License-Identifier: Apache-2.0
 *
 * The writer: same input, same file (spec 11.1), nothing under the final name
 * after a failure (spec 11.2), the rules on what is declared (spec 2.4, 2.5,
 * 5.2, 6.2, 9.1). */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/lode_write.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

static bool
same_files(const char *a, const char *b)
{
    size_t a_bytes;
    size_t b_bytes;
    uint8_t *x = tiny_slurp(a, &a_bytes);
    uint8_t *y = tiny_slurp(b, &b_bytes);
    bool same = a_bytes == b_bytes && memcmp(x, y, a_bytes) == 0;

    free(x);
    free(y);
    return same;
}

static bool
exists(const char *name)
{
    struct stat st;

    return lstat(tiny_path(name), &st) == 0;
}

/* ---- same input, same file ---- */

static void
test_same(void)
{
    struct tiny_options opt = {.split = true, .label = "x"};
    uint8_t root[LODE_DIGEST_BYTES];
    uint8_t other[LODE_DIGEST_BYTES];
    struct lode_error err;

    must(tiny_write(tiny_path("a.lode"), &opt, root, &err), &err);
    must(tiny_write(tiny_path("b.lode"), &opt, other, &err), &err);
    ok(same_files(tiny_path("a.lode"), tiny_path("b.lode")),
       "same calls, same bytes");
    opt.reverse = true;
    must(tiny_write(tiny_path("b.lode"), &opt, other, &err), &err);
    ok(!same_files(tiny_path("a.lode"), tiny_path("b.lode")),
       "another order of blocks, another file");
    ok(memcmp(root, other, sizeof(root)) == 0, "of the same content root");
    opt.align_log2 = 16;
    opt.label = NULL;
    must(tiny_write(tiny_path("b.lode"), &opt, other, &err), &err);
    ok(memcmp(root, other, sizeof(root)) == 0,
       "alignment and label are not in the root either");
    opt.split = false;
    must(tiny_write(tiny_path("b.lode"), &opt, other, &err), &err);
    ok(memcmp(root, other, sizeof(root)) != 0, "but each group is");
    ok(!exists("a.lode.wip") && !exists("b.lode.wip"), "no OUT.wip is left");
}

static void
test_sizes(void)
{
    struct tiny_options opt = {.split = true};
    struct lode_writer *w;
    struct lode_error err;
    uint64_t index_bytes;
    uint64_t file_bytes;
    size_t bytes;

    must(tiny_declare(tiny_path("s.lode"), &opt, &w, &err), &err);
    must(lode_writer_sizes(w, &index_bytes, &file_bytes, &err), &err);
    lode_writer_free(w);
    must(tiny_write(tiny_path("s.lode"), &opt, NULL, &err), &err);
    free(tiny_slurp(tiny_path("s.lode"), &bytes));
    is_u64(file_bytes, bytes, "the file's size was known before");
    is_u64(index_bytes, 196608, "and the size of the index");
}

/* ---- blocks ---- */

static void
test_blocks(void)
{
    struct tiny_options opt = {0};
    struct lode_writer *w;
    struct lode_error err;
    void *image;

    must(lode_alloc_aligned(8192, "image", &image, &err), &err);
    must(tiny_declare(tiny_path("w.lode"), &opt, &w, &err), &err);
    ok(exists("w.lode.wip"), "OUT.wip is there after begin");
    ok(!exists("w.lode"), "OUT is not");
    is_u64(lode_writer_block_index(w, 3, 1, 0), 4,
           "expert 1 of layer 2, declared first");
    is_u64(lode_writer_block_index(w, 4, 1, 0), 1, "expert 1 of layer 1");
    is_u64(lode_writer_block_raw_bytes(w, 4), TINY_EXPERT_BYTES, "its size");
    tiny_image(4, image, TINY_EXPERT_BYTES);
    fails_with(
        tiny_append(w, 4, image, TINY_EXPERT_BYTES - 1, &err),
        &err, LODE_E_USAGE, "block 4 of 519 bytes, 520 were declared",
        "a block of another size");
    ((uint8_t *)image)[150] = 1;
    fails_with(tiny_append(w, 4, image, TINY_EXPERT_BYTES, &err),
               &err, LODE_E_CORRUPT,
               "byte 150 of the image lies between tensors and is 0x01",
               "a gap that is not zero");
    ok(strstr(err.text, "object 1") != NULL &&
           strstr(err.text, "experts") != NULL &&
           strstr(err.text, "layer 2") != NULL,
       "names group and object: %s", err.text);
    ((uint8_t *)image)[150] = 0;
    must(tiny_append(w, 4, image, TINY_EXPERT_BYTES, &err), &err);
    fails_with(tiny_append(w, 4, image, TINY_EXPERT_BYTES, &err),
               &err, LODE_E_USAGE, "block 4 was written before", "twice");
    fails_with(lode_writer_finish(w, NULL, &err), &err, LODE_E_USAGE,
               "1 of 16 blocks were written", "blocks are missing");
    ok(!exists("w.lode"), "no OUT after that");
    lode_writer_free(w);
    ok(!exists("w.lode") && !exists("w.lode.wip"), "nothing is left");
    lode_free_aligned(image, 8192);
}

/* ---- places ---- */

static bool
new_writer(const char *path, struct lode_error *err)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_writer *w = NULL;
    bool good = lode_writer_new(path, &opt, &w, err);

    lode_writer_free(w);
    return good;
}

static void
test_places(void)
{
    struct lode_error err;
    char path[600];

    ok(mkdir(tiny_path("dir"), 0777) == 0, "make a folder");
    fails_with(new_writer(tiny_path("dir"), &err), &err, LODE_E_USAGE,
               "dir is a directory", "OUT is a directory");
    fails_with(new_writer(tiny_path("none/x.lode"), &err), &err, LODE_E_USAGE,
               "there is no directory", "no such folder");
    fails_with(new_writer(tiny_path("new/"), &err), &err, LODE_E_USAGE,
               "is no file name", "a name that ends with a slash");
    fails_with(new_writer("", &err), &err, LODE_E_USAGE, "is no file name",
               "an empty name");
    ok(mkfifo(tiny_path("fifo"), 0666) == 0, "make a fifo");
    fails_with(new_writer(tiny_path("fifo"), &err), &err, LODE_E_USAGE,
               "is not a regular file", "OUT is a fifo");
    if (geteuid() == 0) {
        printf("ok %d - unwritable folder # SKIP root may write anywhere\n",
               ++tap_count);
    } else {
        ok(chmod(tiny_path("dir"), 0555) == 0, "take the right to write");
        snprintf(path, sizeof(path), "%s/x.lode", tiny_path("dir"));
        fails_with(new_writer(path, &err), &err, LODE_E_USAGE,
                   "cannot be written to", "unwritable folder");
        ok(chmod(tiny_path("dir"), 0777) == 0, "and give it back");
    }
    ok(new_writer(tiny_path("fine.lode"), &err) && !exists("fine.lode.wip"),
       "a good place; nothing is touched yet");
}

static bool
begin(const char *name, struct lode_error *err)
{
    struct tiny_options opt = {0};
    struct lode_writer *w = NULL;
    bool good = tiny_declare(tiny_path(name), &opt, &w, err);

    lode_writer_free(w);
    return good;
}

/* What an earlier run, or somebody else, left under OUT.wip. */
static void
test_wip(void)
{
    struct tiny_options opt = {0};
    struct lode_error err;
    size_t bytes;
    int fd;

    tiny_spill(tiny_path("a.lode.wip"), (const uint8_t *)"left over", 9);
    must(tiny_write(tiny_path("a.lode"), &opt, NULL, &err), &err);
    must(tiny_write(tiny_path("b.lode"), &opt, NULL, &err), &err);
    ok(same_files(tiny_path("a.lode"), tiny_path("b.lode")),
       "an OUT.wip that was left is written over");
    fd = open(tiny_path("a.lode.wip"), O_RDWR | O_CREAT, 0666);
    ok(fd >= 0 && flock(fd, LOCK_EX) == 0, "another writer holds OUT.wip");
    fails_with(begin("a.lode", &err), &err, LODE_E_IO,
               "a.lode.wip is being written by another process",
               "two writers of one OUT");
    ok(exists("a.lode.wip"), "the other's OUT.wip stays");
    close(fd);
    ok(unlink(tiny_path("a.lode.wip")) == 0 &&
           symlink("b.lode", tiny_path("a.lode.wip")) == 0,
       "OUT.wip is a symbolic link");
    fails_with(begin("a.lode", &err), &err, LODE_E_IO,
               "a.lode.wip: ", "it is not followed");
    free(tiny_slurp(tiny_path("b.lode"), &bytes));
    ok(bytes > 131072, "its target is not emptied");
    ok(unlink(tiny_path("a.lode.wip")) == 0 &&
           mkdir(tiny_path("a.lode.wip"), 0777) == 0,
       "OUT.wip is a folder");
    fails_with(begin("a.lode", &err), &err, LODE_E_IO,
               "a.lode.wip: ", "a folder in the way");
    ok(rmdir(tiny_path("a.lode.wip")) == 0, "which is left alone");
    ok(mkfifo(tiny_path("a.lode.wip"), 0666) == 0, "OUT.wip is a fifo");
    fails_with(begin("a.lode", &err), &err, LODE_E_IO, "a.lode.wip",
               "a fifo in the way does not hang");
    ok(exists("a.lode.wip"), "and is left alone");
}

/* An OUT that exists is replaced as a whole or not at all. */
static void
test_replace(void)
{
    const char *path = tiny_path("r.lode");
    struct tiny_options opt = {0};
    struct lode_writer *w;
    struct lode_error err;
    size_t bytes;

    tiny_spill(path, (const uint8_t *)"old", 3);
    must(tiny_declare(path, &opt, &w, &err), &err);
    fails_with(lode_writer_finish(w, NULL, &err), &err, LODE_E_USAGE, "0 of 16",
               "fails");
    lode_writer_free(w);
    free(tiny_slurp(tiny_path("r.lode"), &bytes));
    is_u64(bytes, 3, "the old file is still there");
    must(tiny_write(tiny_path("r.lode"), &opt, NULL, &err), &err);
    free(tiny_slurp(tiny_path("r.lode"), &bytes));
    ok(bytes > 131072, "now it is replaced");
}

/* Hours of work are refused at once when they cannot fit. */
static void
test_room(void)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct rlimit old;
    struct rlimit small;
    struct lode_writer *w;
    struct lode_error err;
    uint32_t schema_index;
    uint32_t handle;

    ok(getrlimit(RLIMIT_FSIZE, &old) == 0, "file size limit");
    small = old;
    small.rlim_cur = 200000;
    ok(setrlimit(RLIMIT_FSIZE, &small) == 0, "make it small");
    fails_with(begin("room.lode", &err), &err, LODE_E_IO,
               "needs 270336 bytes, the file size limit of this process is "
               "200000",
               "no room for the file");
    ok(setrlimit(RLIMIT_FSIZE, &old) == 0, "restore it");
    must(lode_writer_new(tiny_path("room.lode"), &opt, &w, &err), &err);
    must(lode_writer_schema(w, NULL, 0, UINT64_C(1) << 30, &schema_index, &err),
         &err);
    must(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_EXPERT,
                    .layer = 0,
                    .name = "experts",
                    .object_count = 16000000,
                    .schema_index = schema_index,
                    .object_raw_bytes = UINT64_C(1) << 30},
                &handle, &err),
         &err);
    fails_with(tiny_begin(w, &err), &err, LODE_E_LIMIT,
               "the limit is 536870912", "an index above the limit");
    lode_writer_free(w);
    must(lode_writer_new(tiny_path("room.lode"), &opt, &w, &err), &err);
    must(lode_writer_schema(w, NULL, 0, UINT64_C(1) << 30, &schema_index, &err),
         &err);
    must(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_EXPERT,
                    .layer = 0,
                    .name = "experts",
                    .object_count = 4000000,
                    .schema_index = schema_index,
                    .object_raw_bytes = UINT64_C(1) << 30},
                &handle, &err),
         &err);
    fails_with(tiny_begin(w, &err), &err, LODE_E_IO,
               "not enough space on the drive: ", "4 PB do not fit");
    lode_writer_free(w);
    ok(!exists("room.lode") && !exists("room.lode.wip"), "nothing is left");
}

/* ---- declarations ---- */

static void
test_options(void)
{
    struct lode_writer_options opt = {.align_log2 = 11};
    struct lode_writer *w;
    struct lode_error err;
    char label[200];

    fails_with(lode_writer_new(tiny_path("o"), &opt, &w, &err), &err,
               LODE_E_LIMIT, "alignment 2^11", "alignment too small");
    opt.align_log2 = 17;
    fails_with(lode_writer_new(tiny_path("o"), &opt, &w, &err), &err,
               LODE_E_LIMIT, "alignment 2^17", "alignment too large");
    opt.align_log2 = 12;
    memset(label, 'x', sizeof(label));
    label[128] = '\0';
    opt.label = label;
    fails_with(lode_writer_new(tiny_path("o"), &opt, &w, &err), &err,
               LODE_E_LIMIT, "label of 128 bytes, the limit is 127",
               "label too long");
    opt.label = "a\nb";
    fails_with(lode_writer_new(tiny_path("o"), &opt, &w, &err), &err,
               LODE_E_CORRUPT, "label has a control character at 1",
               "label of two lines");
}

/* One group beside a file "dir/a" on a fresh writer. */
static bool
declare(uint32_t kind, int32_t layer, const char *name, uint32_t objects,
        uint32_t block_raw_bytes, struct lode_error *err)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_writer *w = NULL;
    uint32_t block_count;
    uint32_t schema_index;
    uint32_t handle;
    bool good;

    good = lode_writer_new(tiny_path("d.lode"), &opt, &w, err) &&
           lode_writer_schema(w, NULL, 0, 3 << 20, &schema_index, err) &&
           lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_META,
                    .layer = -1,
                    .name = "dir/a",
                    .object_count = 1,
                    .schema_index = schema_index,
                    .object_raw_bytes = 3 << 20},
                &handle, err) &&
           lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = kind,
                    .layer = layer,
                    .name = name,
                    .object_count = objects,
                    .schema_index = schema_index,
                    .object_raw_bytes = 3 << 20,
                    .block_raw_bytes = block_raw_bytes},
                &handle, err) &&
           lode_writer_number(w, &block_count, err);
    lode_writer_free(w);
    return good;
}

static void
test_groups(void)
{
    static const struct {
        const char *what;
        uint32_t kind;
        int32_t layer;
        const char *name;
        uint32_t objects;
        uint32_t block_raw_bytes;
        enum lode_code code;
        const char *message;
    } cases[] = {
        {"kind 0", 0, -1, "x", 1, 0, LODE_E_CORRUPT, "kind 0"},
        {"kind 8", 8, -1, "x", 1, 0, LODE_E_UNSUPPORTED, "kind 8"},
        {"experts of no layer", 1, -1, "x", 1, 0, LODE_E_CORRUPT,
         "experts without a layer"},
        {"layer 65536", 1, 65536, "x", 1, 0, LODE_E_LIMIT, "layer 65536"},
        {"no objects", 1, 0, "x", 0, 0, LODE_E_CORRUPT, "0 objects"},
        {"two files of one name", 6, -1, "b", 2, 0, LODE_E_CORRUPT,
         "2 objects, expected 1"},
        {"expert in two blocks", 1, 0, "x", 1, 2 << 20, LODE_E_CORRUPT,
         "expert of 2 blocks"},
        {"odd blocks", 2, 0, "x", 1, 1500000, LODE_E_CORRUPT,
         "split into blocks of 1500000"},
        {"small blocks", 2, 0, "x", 1, 524288, LODE_E_CORRUPT,
         "split into blocks of 524288"},
        {"too many blocks an object", 2, 0, "x", 1, 1, LODE_E_LIMIT,
         "3145728 blocks an object"},
        {"too many blocks", 1, 0, "x", 1 << 24, 0, LODE_E_LIMIT,
         "more than 16777216 blocks"},
        {"name with a newline", 2, 0, "x\ny", 1, 0, LODE_E_CORRUPT,
         "control character at 1"},
        {"the same twice", 6, -1, "dir/a", 1, 0, LODE_E_CORRUPT,
         "is declared twice"},
        {"same but for case", 6, -1, "DIR/A", 1, 0, LODE_E_CORRUPT,
         "files DIR/A and dir/a collide"},
        {"file and folder", 6, -1, "dir", 1, 0, LODE_E_CORRUPT,
         "files dir and dir/a collide"},
        {"folder and file", 6, -1, "Dir/a/b", 1, 0, LODE_E_CORRUPT,
         "files dir/a and Dir/a/b collide"},
        {"empty path", 6, -1, "", 1, 0, LODE_E_CORRUPT, "path is empty"},
        {"absolute path", 7, -1, "/a", 1, 0, LODE_E_CORRUPT, "is absolute"},
        {"backslash", 6, -1, "a\\b", 1, 0, LODE_E_CORRUPT, "has a backslash"},
        {"..", 6, -1, "..", 1, 0, LODE_E_CORRUPT, "\"..\" part"},
        {"../a", 6, -1, "../a", 1, 0, LODE_E_CORRUPT, "\"..\" part"},
        {"a/../b", 6, -1, "a/../b", 1, 0, LODE_E_CORRUPT, "\"..\" part"},
        {"a/.", 6, -1, "a/.", 1, 0, LODE_E_CORRUPT, "\"..\" part"},
        {"a//b", 6, -1, "a//b", 1, 0, LODE_E_CORRUPT, "an empty, "},
        {"a/", 6, -1, "a/", 1, 0, LODE_E_CORRUPT, "an empty, "},
    };
    struct lode_error err;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fails_with(declare(cases[i].kind, cases[i].layer, cases[i].name,
                           cases[i].objects, cases[i].block_raw_bytes, &err),
                   &err, cases[i].code, cases[i].message, cases[i].what);
    must(declare(6, -1, "..a/b..", 1, 0, &err), &err);
    must(declare(6, -1, "dir/a.b", 1, 0, &err), &err);
    must(declare(6, -1, "dira", 1, 0, &err), &err);
    must(declare(7, -1, "dir/a", 1, 0, &err), &err);
    must(declare(2, -1, "\xc3\xa9", 1, 1 << 20, &err), &err);
    ok(true, "names that look like those and are good");
}

/* The counts that a file may have. */
static void
test_counts(void)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_writer *w;
    struct lode_error err;
    uint32_t schema_index;
    uint32_t handle;
    char name[16];

    must(lode_writer_new(tiny_path("c.lode"), &opt, &w, &err), &err);
    must(lode_writer_schema(w, NULL, 0, (UINT64_C(1) << 30) + 1, &schema_index,
                            &err),
         &err);
    fails_with(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_TRUNK,
                    .layer = 0,
                    .name = "t",
                    .object_count = 1,
                    .schema_index = schema_index,
                    .object_raw_bytes = (UINT64_C(1) << 30) + 1},
                &handle, &err),
               &err, LODE_E_LIMIT,
               "\"t\": block of 1073741825 bytes, the limit is 1073741824",
               "a block above 1 GiB");
    must(lode_writer_schema(w, NULL, 0, 1, &schema_index, &err), &err);
    for (uint32_t i = 0; i < LODE_GROUPS_MAX; i++) {
        snprintf(name, sizeof(name), "%u", i);
        must(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_META,
                    .layer = -1,
                    .name = name,
                    .object_count = 1,
                    .schema_index = schema_index,
                    .object_raw_bytes = 1},
                &handle, &err),
             &err);
    }
    fails_with(lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_META,
                    .layer = -1,
                    .name = "x",
                    .object_count = 1,
                    .schema_index = schema_index,
                    .object_raw_bytes = 1},
                &handle, &err),
               &err, LODE_E_LIMIT, "more than 65535 groups",
               "a group too many");
    lode_writer_free(w);
}

static void
test_schemas(void)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_tensor t = {.name = "t",
                            .encoding = "f32",
                            .dtype = "F32",
                            .raw_bytes = 8,
                            .dim = {2},
                            .dim_count = 1};
    struct lode_tensor u[2];
    struct lode_writer *w;
    struct lode_error err;
    uint32_t first;
    uint32_t second;
    char *longest = calloc(1, 4098);

    must(lode_writer_new(tiny_path("s.lode"), &opt, &w, &err), &err);
    must(lode_writer_schema(w, &t, 1, 8, &first, &err), &err);
    must(lode_writer_schema(w, &t, 1, 8, &second, &err), &err);
    is_u64(first, second, "equal schemas get one index");
    must(lode_writer_schema(w, &t, 1, 64, &second, &err), &err);
    ok(first != second, "one of another size does not");
    fails_with(lode_writer_schema(w, &t, 1, 7, &first, &err), &err,
               LODE_E_CORRUPT, "lie outside the object of 7", "too small");
    u[0] = u[1] = t;
    fails_with(lode_writer_schema(w, u, 2, 64, &first, &err), &err,
               LODE_E_CORRUPT, "offset 0 is below 8", "overlap");
    t.dim[0] = 3;
    fails_with(lode_writer_schema(w, &t, 1, 64, &first, &err), &err,
               LODE_E_CORRUPT, "dtype F32 give 96 bits", "another shape");
    t.dim[0] = 2;
    memset(longest, 'n', 4097);
    t.name = longest;
    fails_with(lode_writer_schema(w, &t, 1, 8, &first, &err), &err,
               LODE_E_LIMIT, "of 4097 bytes, the limit is 4096",
               "a name of 4097 bytes");
    longest[4096] = '\0';
    must(lode_writer_schema(w, &t, 1, 8, &first, &err), &err);
    ok(true, "a name of 4096");
    lode_writer_free(w);
    lode_writer_free(NULL);
    free(longest);
}

int
main(void)
{
    test_same();
    test_sizes();
    test_blocks();
    test_places();
    test_wip();
    test_replace();
    test_room();
    test_options();
    test_groups();
    test_counts();
    test_schemas();
    tiny_cleanup();
    return done_testing();
}
