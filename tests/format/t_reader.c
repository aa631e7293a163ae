/* SPDX-License-Identifier: Apache-2.0
 *
 * The reader's door: finding, naming and loading (spec 5.3, 6.2, 10.1, 10.3),
 * slots and strangers (spec 3.3), damage (spec 8.1, 10.2), truncation. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "format/lode_write.h"
#include "tests/format/patch.h"
#include "tests/tap.h"

static void
test_summary(const struct lode_reader *r, const uint8_t *root)
{
    const struct lode_summary *s = lode_reader_summary(r);

    is_u64(s->block_count, 19, "block_count");
    is_u64(s->present_count, 19, "present_count");
    is_u64(s->group_count, 13, "group_count");
    is_u64(s->schema_count, 10, "schema_count");
    is_u64(s->align_bytes, 4096, "align_bytes");
    is_u64(s->raw_bytes, s->stored_bytes, "stored as it is");
    is_str(s->label, "a label", "label");
    ok(strncmp(s->writer, "lode ", 5) == 0, "writer");
    ok(memcmp(s->content_root, root, LODE_DIGEST_BYTES) == 0, "content root");
}

static void
test_find(const struct lode_reader *r)
{
    int64_t i = lode_reader_find(r, LODE_KIND_EXPERT, 2, NULL);
    const struct lode_group *g;
    const struct lode_tensor *t;
    uint32_t count;

    is_u64((uint64_t)i, 1, "experts of layer 2");
    g = lode_reader_group(r, (uint32_t)i);
    is_u64(g->object_count, TINY_EXPERT_COUNT, "their number");
    is_u64(g->first_block_index, 3, "their first block");
    t = lode_reader_schema(r, g->schema_index, &count);
    is_u64(count, 6, "their tensors");
    is_str(t[2].name, "model.layers.{L}.experts.{E}.up.weight", "the third");
    ok(lode_reader_find(r, LODE_KIND_EXPERT, 3, NULL) == LODE_NO_INDEX,
       "no layer 3");
    ok(lode_reader_find(r, LODE_KIND_EXPERT, 0, NULL) == LODE_NO_INDEX,
       "no experts in layer 0");
    ok(lode_reader_find(r, LODE_KIND_EXPERT, 1, "other") == LODE_NO_INDEX,
       "no experts of another name");
    ok(lode_reader_find(r, LODE_KIND_META, -1, "config.json") >= 0,
       "config.json");
    ok(lode_reader_find(r, LODE_KIND_META, -1, "config") == LODE_NO_INDEX,
       "no prefix of it");
    ok(lode_reader_find(r, 0x9000, -1, NULL) == LODE_NO_INDEX,
       "nothing behind the last group");
    ok(lode_reader_find(r, LODE_KIND_TRUNK, -1, NULL) == 2,
       "layer -1 comes first");
}

static void
test_names(const struct lode_reader *r)
{
    static const struct {
        uint32_t block_index;
        const char *name;
    } names[] = {
        {0, "expert 0 of layer 1"},
        {5, "expert 2 of layer 2"},
        {6, "trunk final, block 1 of 3"},
        {8, "trunk final, block 3 of 3"},
        {9, "trunk of layer 0"},
        {10, "trunk of layer 1"},
        {11, "resident"},
        {12, "embedding"},
        {14, "vision, object 1, block 1 of 1"},
        {15, "file config.json"},
        {16, "file sub/notes.txt"},
        {17, "origin source-headers"},
        {18, "processing-log"},
    };
    char out[64];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        is_str(
            lode_reader_block_name(r, names[i].block_index, out, sizeof(out)),
            names[i].name, "name of block %u", names[i].block_index);
    is_str(lode_reader_block_name(r, 0, out, 9), "expert 0", "cut to fit");
}

static void
test_tensor_name(void)
{
    const struct lode_tensor t = {.name = "a.{L}.b.{E}.{L}{E}.{X"};
    struct lode_error err;
    char out[64];

    must(lode_tensor_name(&t, 12, 345, out, sizeof(out), &err), &err);
    is_str(out, "a.12.b.345.12345.{X", "layer and object in a name");
    must(lode_tensor_name(&t, 12, 345, out, 20, &err), &err);
    ok(true, "just fits");
    fails_with(lode_tensor_name(&t, 12, 345, out, 19, &err), &err, LODE_E_LIMIT,
               "is longer than 18 bytes", "one byte too many");
    fails_with(lode_tensor_name(&t, -1, 0, out, sizeof(out), &err), &err,
               LODE_E_CORRUPT, "names a layer, its group has none",
               "no layer to put in");
}

static void
test_load(const struct lode_reader *r)
{
    uint32_t count = lode_reader_summary(r)->block_count;
    uint8_t *got = malloc(1 << 20);
    uint8_t *want = malloc(1 << 20);
    struct lode_error err;
    uint32_t wrong = 0;
    size_t bytes;
    char *text;

    for (uint32_t i = 0; i < count; i++) {
        struct lode_block b;

        lode_reader_block(r, i, &b);
        must(lode_reader_load(r, i, got, 1 << 20, &err), &err);
        tiny_image(i, want, b.raw_bytes);
        wrong += memcmp(got, want, b.raw_bytes) != 0;
        wrong += b.offset % 4096 != 0 || !b.present ||
                 lode_reader_padded_bytes(r, &b) % 4096 != 0;
    }
    is_u64(wrong, 0, "each block has the content that was written");
    must(
        lode_reader_load_object(r, 2, 0, TINY_SPLIT_BYTES, &text, &bytes, &err),
        &err);
    is_u64(bytes, TINY_SPLIT_BYTES, "an object of three blocks");
    tiny_image(8, want, 1088);
    ok(memcmp(text + (2 << 20), want, 1088) == 0 && text[bytes] == '\0',
       "its last block, and a NUL");
    free(text);
    fails_with(lode_reader_load_object(r, 2, 0, TINY_SPLIT_BYTES - 1, &text,
                                       &bytes, &err),
               &err, LODE_E_LIMIT, "final has 2098240 bytes, the limit is",
               "an object above the caller's limit");
    must(lode_reader_load_file(r, LODE_KIND_META, "empty.txt", 0, &text, &bytes,
                               &err),
         &err);
    ok(bytes == 0 && text != NULL && text[0] == '\0', "an empty file");
    free(text);
    must(lode_reader_load_file(r, LODE_KIND_META, "no.txt", 0, &text, &bytes,
                               &err),
         &err);
    ok(text == NULL, "no such file");
    free(got);
    free(want);
}

static void
test_root(const struct lode_reader *r, const uint8_t *root)
{
    struct lode_error err;
    char hex[65];

    lode_hex(root, hex);
    must(lode_reader_expect_root(r, hex, &err), &err);
    for (int i = 0; hex[i] != '\0'; i++)
        if (hex[i] >= 'a')
            hex[i] = (char)(hex[i] - 'a' + 'A');
    must(lode_reader_expect_root(r, hex, &err), &err);
    ok(true, "the root, in either case");
    hex[63] = hex[63] == '0' ? '1' : '0';
    fails_with(lode_reader_expect_root(r, hex, &err), &err, LODE_E_CORRUPT,
               "content root is ", "another root");
    ok(strstr(err.text, hex) != NULL, "names the expected one");
    hex[63] = '\0';
    fails_with(lode_reader_expect_root(r, hex, &err), &err, LODE_E_USAGE,
               "64 hex digits", "63 digits");
    fails_with(lode_reader_expect_root(r, "", &err), &err, LODE_E_USAGE,
               "64 hex digits", "no digits");
}

static bool
open_patch(const struct patch *p, struct lode_error *err)
{
    const char *path = tiny_path("broken.lode");
    struct lode_reader *r = NULL;
    bool good;

    patch_spill(p, path);
    good = lode_reader_open(path, &r, err);
    lode_reader_close(r);
    return good;
}

/* ---- slots (spec 3.3) ---- */

static void
test_slots(const struct patch *base)
{
    struct lode_error err;
    struct patch p;

    patch_copy(base, &p);
    p.data[4090] ^= 1;
    ok(open_patch(&p, &err), "slot B serves when A is damaged");
    p.data[65536 + 100] ^= 1;
    fails_with(open_patch(&p, &err), &err, LODE_E_CORRUPT,
               "both superblocks are damaged or cut off", "both damaged");
    memcpy(p.data, base->data, 4096);
    ok(open_patch(&p, &err), "slot A serves when B is damaged");
    patch_free(&p);
}

static const struct {
    const char *name;
    const char *bytes;
    size_t byte_count;
    const char *message;
} strangers[] = {
    {"nothing", "", 0, "is empty, no container"},
    {"one byte", "x", 1, "is no container (it begins with 78 00 00 00)"},
    {"text", "hello world", 11, "is no container (it begins with 68 65 6c 6c)"},
    {"GGUF", "GGUF\3\0\0\0", 8, "is a GGUF file"},
    {"zip", "PK\3\4....", 8, "is a zip archive (a PyTorch checkpoint?)"},
    {"safetensors", "\x10\0\0\0\0\0\0\0{\"a\":1}", 15,
     "is a safetensors file, no container; lode convert makes one"},
    {"LFS pointer", "version https://git-lfs.github.com/spec/v1\n", 43,
     "is a Git LFS pointer"},
    {"CR LF changed", "\x8fLOD\n\x1a\n", 7, "by a transfer in text mode"},
    {"eighth bit lost", "\x0fLOD\r\n\x1a\n", 8, "by a transfer in text mode"},
    {"as Latin-1 to UTF-8", "\xc2\x8fLOD\r\n\x1a\n", 9,
     "by a transfer in text mode"},
    {"as broken UTF-8", "\xef\xbf\xbdLOD\r\n\x1a\n", 10,
     "by a transfer in text mode"},
    {"zeros", "\0\0\0\0\0\0\0\0\0\0\0\0", 12, "that was never finished"},
    {"magic alone", "\x8fLOD\r\n\x1a\n", 8, "are damaged or cut off"},
};

static void
test_strangers(void)
{
    struct lode_reader *r;
    struct lode_error err;
    const char *path;

    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        path = tiny_path("stranger");
        tiny_spill(path, (const uint8_t *)strangers[i].bytes,
                   strangers[i].byte_count);
        fails_with(lode_reader_open(path, &r, &err), &err, LODE_E_CORRUPT,
                   strangers[i].message, strangers[i].name);
    }
    path = tiny_path("missing.lode");
    fails_with(lode_reader_open(path, &r, &err), &err, LODE_E_IO,
               "missing.lode: No such file", "a file that is not there");
    path = tiny_path("folder");
    ok(mkdir(path, 0777) == 0, "make a folder");
    fails_with(lode_reader_open(path, &r, &err), &err, LODE_E_IO,
               "folder: not a regular file", "a folder");
    path = tiny_path("fifo");
    ok(mkfifo(path, 0666) == 0, "make a fifo");
    fails_with(lode_reader_open(path, &r, &err), &err, LODE_E_IO,
               "fifo: not a regular file", "a fifo does not hang");
}

/* ---- truncation ---- */

static void
cut(const struct patch *base, uint64_t at, const char *what)
{
    struct patch p = {.data = base->data, .bytes = (size_t)at};
    struct lode_error err;
    const char *want = "cut short";
    char name[128];

    if (at < 4096)
        want = at == 0  ? "is empty"
               : at < 8 ? "container"
                        : "damaged or cut off";
    snprintf(name, sizeof(name), "cut at %" PRIu64 ", %s", at, what);
    fails_with(open_patch(&p, &err), &err, LODE_E_CORRUPT, want, name);
}

static void
test_truncation(const struct patch *base)
{
    static const uint64_t fixed[] = {0, 8, 4096, 65536, 69632, 131072};

    for (size_t i = 0; i < 6; i++)
        for (int d = -1; d <= 1; d++)
            if (fixed[i] + (uint64_t)d < base->bytes)
                cut(base, fixed[i] + (uint64_t)d, "head");
    for (uint32_t i = 0; i < 6; i++) {
        struct lode_section s;

        lode_section_decode(base->data + 512 + 80 * i, &s);
        for (int d = -1; d <= 1; d++) {
            cut(base, s.offset + (uint64_t)d, "start of a section");
            cut(base, s.offset + s.bytes + (uint64_t)d, "end of a section");
        }
    }
    for (uint32_t i = 0; i < 16; i++)
        cut(base, lode_load_u64(patch_record(base, LODE_SECTION_BLOCKS, i)),
            "start of a block");
    cut(base, base->bytes - 1, "last byte");
    cut(base, base->bytes - 4096, "last page");
}

static void
test_appended(const struct patch *base)
{
    struct patch p = {.bytes = base->bytes + 1};
    struct lode_error err;

    p.data = calloc(1, p.bytes);
    memcpy(p.data, base->data, base->bytes);
    fails_with(open_patch(&p, &err), &err, LODE_E_CORRUPT,
               "something was appended", "one byte more");
    patch_free(&p);
}

/* ---- damage ---- */

static void
test_sections(const struct patch *base)
{
    static const char *const names[] = {"GROUPS", "SCHEMAS", "TENSORS",
                                        "STRINGS", "BLOCKS"};

    for (uint32_t i = 0; i < 5; i++) {
        struct lode_section s;
        struct lode_error err;
        struct patch p;
        char want[64];

        patch_copy(base, &p);
        lode_section_decode(base->data + 512 + 80 * i, &s);
        snprintf(want, sizeof(want), "section %u (%s): checksum ", i, names[i]);
        p.data[s.offset] ^= 0x10;
        fails_with(open_patch(&p, &err), &err, LODE_E_CORRUPT, want,
                   "first byte of a section");
        p.data[s.offset] ^= 0x10;
        p.data[s.offset + s.bytes - 1] ^= 1;
        fails_with(open_patch(&p, &err), &err, LODE_E_CORRUPT, want,
                   "last byte of a section");
        patch_free(&p);
    }
}

static void
test_blocks(const struct patch *base)
{
    const char *path = tiny_path("damaged.lode");
    uint64_t offset = lode_load_u64(patch_record(base, 6, 4));
    uint8_t image[TINY_EXPERT_BYTES];
    struct lode_reader *r;
    struct lode_error err;
    struct patch p;

    patch_copy(base, &p);
    p.data[offset + TINY_EXPERT_BYTES - 1] ^= 0x80;
    patch_spill(&p, path);
    must(lode_reader_open(path, &r, &err), &err);
    fails_with(lode_reader_load(r, 4, image, sizeof(image), &err), &err,
               LODE_E_CORRUPT,
               "damaged.lode: expert 1 of layer 2: damaged: checksum of 520",
               "the last bit of a block");
    must(lode_reader_load(r, 3, image, sizeof(image), &err), &err);
    must(lode_reader_check(r, 3, image, &err), &err);
    image[0] ^= 1;
    fails_with(lode_reader_check(r, 3, image, &err), &err, LODE_E_CORRUPT,
               "expert 0 of layer 2: damaged", "bytes read by the caller");
    /* a file that shrinks while it is open */
    ok(truncate(path, (off_t)offset + 100) == 0, "cut the open file");
    fails_with(lode_reader_load(r, 4, image, sizeof(image), &err), &err,
               LODE_E_CORRUPT, "expert 1 of layer 2: file ends at",
               "a file that shrank");
    lode_reader_close(r);
    patch_free(&p);
}

/* A sparse file whose index would be too long. */
static void
test_long_index(const struct patch *base)
{
    const char *path = tiny_path("sparse.lode");
    uint64_t data_offset = 131072 + (UINT64_C(512) << 20) + 65536;
    struct lode_reader *r;
    struct lode_error err;
    struct patch p;

    patch_copy(base, &p);
    lode_store_u64(p.data + 96, data_offset);
    lode_store_u64(p.data + 104, data_offset);
    patch_seal(&p);
    patch_spill(&p, path);
    ok(truncate(path, (off_t)data_offset) == 0, "a sparse file");
    fails_with(lode_reader_open(path, &r, &err), &err, LODE_E_LIMIT,
               "index of 536936448 bytes, the limit is 536870912",
               "an index above the limit");
    patch_free(&p);
}

/* Offsets need more than 32 bits: the last block at 5 GiB of a sparse file. */
static void
test_far_block(const struct patch *base)
{
    const char *path = tiny_path("far.lode");
    uint64_t far = UINT64_C(5) << 30;
    uint8_t *record = patch_record(base, LODE_SECTION_BLOCKS, 15);
    uint64_t near = lode_load_u64(record);
    struct lode_reader *r;
    struct lode_error err;
    uint8_t image[64];
    struct patch p;

    patch_copy(base, &p);
    lode_store_u64(patch_record(&p, LODE_SECTION_BLOCKS, 15), far);
    lode_store_u64(p.data + 96, far + 4096);
    patch_seal(&p);
    patch_spill(&p, path);
    if (truncate(path, (off_t)far + 4096) != 0) {
        printf("ok %d - far block # SKIP no sparse files here\n", ++tap_count);
    } else {
        FILE *f = fopen(path, "r+b");

        ok(f != NULL && fseeko(f, (off_t)far, SEEK_SET) == 0 &&
               fwrite(p.data + near, 1, 20, f) == 20 && fclose(f) == 0,
           "a sparse file of 5 GiB");
        must(lode_reader_open(path, &r, &err), &err);
        must(lode_reader_load(r, 15, image, sizeof(image), &err), &err);
        ok(memcmp(image, base->data + near, 20) == 0, "a block behind 4 GiB");
        lode_reader_close(r);
    }
    patch_free(&p);
}

int
main(void)
{
    struct tiny_options opt = {.split = true, .label = "a label"};
    const char *path = tiny_path("t.lode");
    uint8_t root[LODE_DIGEST_BYTES];
    struct lode_reader *r;
    struct lode_error err;
    struct patch base;

    must(tiny_write(path, &opt, root, &err), &err);
    must(lode_reader_open(path, &r, &err), &err);
    is_str(lode_reader_path(r), path, "path");
    ok(lode_reader_fd(r) >= 0, "fd");
    test_summary(r, root);
    test_find(r);
    test_names(r);
    test_load(r);
    test_root(r, root);
    lode_reader_close(r);
    lode_reader_close(NULL);
    test_tensor_name();
    opt.split = false;
    patch_make(&base, &opt);
    test_slots(&base);
    test_strangers();
    test_truncation(&base);
    test_appended(&base);
    test_sections(&base);
    test_blocks(&base);
    test_long_index(&base);
    test_far_block(&base);
    patch_free(&base);
    tiny_cleanup();
    return done_testing();
}
