/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/format/tiny.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/pack.h"
#include "format/role.h"

/* An expert of 8 rows and 16 columns: nibbles and, for 32 columns, a scale a
 * row; 520 bytes with two gaps. */
static const struct lode_tensor expert[] = {
    {.name = "model.layers.{L}.experts.{E}.gate.weight",
     .encoding = "mxfp4.e2m1.lo",
     .dtype = "U8",
     .raw_offset = 0,
     .raw_bytes = 128,
     .dim = {8, 16},
     .dim_count = 2,
     .role = LODE_ROLE_GATE,
     .quant_group = 32},
    {.name = "model.layers.{L}.experts.{E}.gate.scale",
     .encoding = "e8m0.g32",
     .dtype = "U8",
     .raw_offset = 128,
     .raw_bytes = 8,
     .dim = {8, 1},
     .dim_count = 2,
     .role = LODE_ROLE_GATE_SCALE},
    {.name = "model.layers.{L}.experts.{E}.up.weight",
     .encoding = "mxfp4.e2m1.lo",
     .dtype = "U8",
     .raw_offset = 192,
     .raw_bytes = 128,
     .dim = {8, 16},
     .dim_count = 2,
     .role = LODE_ROLE_UP,
     .segment = 1,
     .quant_group = 32},
    {.name = "model.layers.{L}.experts.{E}.up.scale",
     .encoding = "e8m0.g32",
     .dtype = "U8",
     .raw_offset = 320,
     .raw_bytes = 8,
     .dim = {8, 1},
     .dim_count = 2,
     .role = LODE_ROLE_UP_SCALE,
     .segment = 1},
    {.name = "model.layers.{L}.experts.{E}.down.weight",
     .encoding = "mxfp4.e2m1.lo",
     .dtype = "U8",
     .raw_offset = 384,
     .raw_bytes = 128,
     .dim = {16, 8},
     .dim_count = 2,
     .role = LODE_ROLE_DOWN,
     .segment = 2,
     .quant_group = 32},
    {.name = "model.layers.{L}.experts.{E}.down.scale",
     .encoding = "e8m0.g32",
     .dtype = "U8",
     .raw_offset = 512,
     .raw_bytes = 8,
     .dim = {8, 1},
     .dim_count = 2,
     .role = LODE_ROLE_DOWN_SCALE,
     .segment = 2},
};

static const struct lode_tensor trunk[] = {
    {.name = "model.layers.{L}.norm.weight",
     .encoding = "bf16",
     .dtype = "BF16",
     .raw_offset = 0,
     .raw_bytes = 32,
     .dim = {16},
     .dim_count = 1,
     .role = LODE_ROLE_ATTN_NORM},
    {.name = "model.layers.{L}.q.weight",
     .encoding = "f32",
     .dtype = "F32",
     .raw_offset = 64,
     .raw_bytes = 1024,
     .dim = {16, 16},
     .dim_count = 2,
     .role = LODE_ROLE_Q},
};

static const struct lode_tensor split[] = {
    {.name = "model.big.weight",
     .encoding = "bf16",
     .dtype = "BF16",
     .raw_offset = 0,
     .raw_bytes = (2 << 20) + 64,
     .dim = {32, 32769},
     .dim_count = 2,
     .role = LODE_ROLE_Q},
    {.name = "model.layers.2.o.weight",
     .encoding = "f32",
     .dtype = "F32",
     .raw_offset = (2 << 20) + 64,
     .raw_bytes = 1024,
     .dim = {16, 16},
     .dim_count = 2,
     .role = LODE_ROLE_O},
};

static const struct lode_tensor embedding[] = {
    {.name = "model.embed.weight",
     .encoding = "f16",
     .dtype = "F16",
     .raw_offset = 0,
     .raw_bytes = 5120,
     .dim = {160, 16},
     .dim_count = 2,
     .role = LODE_ROLE_EMBEDDING},
};

static const struct lode_tensor head[] = {
    {.name = "model.norm.weight",
     .encoding = "f32",
     .dtype = "F32",
     .raw_offset = 0,
     .raw_bytes = 64,
     .dim = {16},
     .dim_count = 1,
     .role = LODE_ROLE_FINAL_NORM},
    {.name = "model.odd",
     .encoding = "made-up.g7",
     .dtype = "X9",
     .raw_offset = 64,
     .raw_bytes = 13,
     .dim = {3, 3},
     .dim_count = 2},
    {.name = "model.nothing",
     .encoding = "i64",
     .dtype = "I64",
     .raw_offset = 128,
     .raw_bytes = 0,
     .dim = {0, 4},
     .dim_count = 2},
};

static const struct {
    uint32_t kind;
    int32_t layer;
    const char *name;
    uint32_t object_count;
    const struct lode_tensor *tensors;
    uint32_t tensor_count;
    uint64_t object_raw_bytes;
    uint32_t block_raw_bytes;
} groups[] = {
    /* not in the order of the file */
    {LODE_KIND_META, -1, "sub/notes.txt", 1, NULL, 0, 5000, 0},
    {LODE_KIND_META, -1, "config.json", 1, NULL, 0, 61, 0},
    {LODE_KIND_META, -1, "empty.txt", 1, NULL, 0, 0, 0},
    {LODE_KIND_EXPERT, 2, "experts", TINY_EXPERT_COUNT, expert, 6,
     TINY_EXPERT_BYTES, 0},
    {LODE_KIND_EXPERT, 1, "experts", TINY_EXPERT_COUNT, expert, 6,
     TINY_EXPERT_BYTES, 0},
    {LODE_KIND_TRUNK, 0, "trunk", 1, trunk, 2, 1088, 1 << 20},
    {LODE_KIND_TRUNK, 1, "trunk", 1, trunk, 2, 1088, 1 << 20},
    {LODE_KIND_RESIDENT, -1, "resident", 1, head, 3, 128, 0},
    {LODE_KIND_ROWS, -1, "embedding", 1, embedding, 1, TINY_ROWS_BYTES, 0},
    {LODE_KIND_AUX, -1, "vision", 2, trunk, 2, 1088, 0},
    {LODE_KIND_ORIGIN, -1, "source-headers", 1, NULL, 0, 300, 0},
    {0x8000, -1, "processing-log", 1, NULL, 0, 20, 0},
    {LODE_KIND_TRUNK, -1, "final", 1, split, 2, TINY_SPLIT_BYTES, 1 << 20},
};

enum { GROUP_COUNT = sizeof(groups) / sizeof(groups[0]) };

bool
tiny_begin(struct lode_writer *w, struct lode_error *err)
{
    uint32_t count;

    return lode_writer_number(w, &count, err) && lode_writer_begin(w, 0, err);
}

bool
tiny_new(const char *path, const struct lode_writer_options *wo, bool cut,
         struct lode_writer **out, struct lode_error *err)
{
    struct lode_writer *w = NULL;

    if (!lode_writer_new(path, wo, &w, err))
        return false;
    for (int i = 0; i < GROUP_COUNT - !cut; i++) {
        struct lode_group_spec spec = {
            .name = groups[i].name,
            .object_raw_bytes = groups[i].object_raw_bytes,
            .kind = groups[i].kind,
            .layer = groups[i].layer,
            .object_count = groups[i].object_count,
            .block_raw_bytes = groups[i].block_raw_bytes};
        uint32_t handle;

        if (!lode_writer_schema(w, groups[i].tensors, groups[i].tensor_count,
                                groups[i].object_raw_bytes, &spec.schema_index,
                                err) ||
            !lode_writer_group(w, &spec, &handle, err)) {
            lode_writer_free(w);
            return false;
        }
    }
    *out = w;
    return true;
}

bool
tiny_declare(const char *path, const struct tiny_options *opt,
             struct lode_writer **out, struct lode_error *err)
{
    struct lode_writer_options wo = {
        .align_log2 = opt->align_log2 != 0 ? opt->align_log2 : 12,
        .label = opt->label,
        .partial = opt->index_only,
        .packed = opt->packed};
    struct lode_writer *w = NULL;

    if (!tiny_new(path, &wo, opt->split, &w, err))
        return false;
    if (!tiny_begin(w, err)) {
        lode_writer_free(w);
        return false;
    }
    *out = w;
    return true;
}

void
tiny_image(uint32_t block_index, void *image, uint32_t raw_bytes)
{
    uint32_t x = block_index * 2654435761U + 1;
    uint8_t *p = image;

    for (uint32_t i = 0; i < raw_bytes; i++) {
        x = x * 1664525 + 1013904223;
        p[i] = (uint8_t)(x >> 24);
    }
    /* Gaps between tensors are zero; only these sizes have any. */
    if (raw_bytes == TINY_EXPERT_BYTES) {
        memset(p + 136, 0, 56);
        memset(p + 328, 0, 56);
    } else if (raw_bytes == 1088) {
        memset(p + 32, 0, 32);
    } else if (raw_bytes == 128) {
        memset(p + 77, 0, 51);
    }
}

bool
tiny_append(struct lode_writer *w, uint32_t block_index, void *image,
            uint32_t raw_bytes, struct lode_error *err)
{
    struct lode_parcel p = {.stored = image,
                            .image = image,
                            .stored_bytes = raw_bytes,
                            .raw_bytes = raw_bytes};

    lode_seal(&p);
    return lode_writer_append(w, block_index, &p, err);
}

bool
tiny_append_own(struct lode_writer *w, uint32_t block_index, void *image,
                struct lode_error *err)
{
    uint32_t raw_bytes = lode_writer_block_raw_bytes(w, block_index);

    tiny_image(block_index, image, raw_bytes);
    return tiny_append(w, block_index, image, raw_bytes, err);
}

/* Pack an image and append it, or as it is when it gains nothing. */
static bool
append_packed(struct lode_writer *w, struct lode_packer *packer,
              uint32_t block_index, uint8_t *image, struct lode_error *err)
{
    struct lode_run run = {.effort = LODE_EFFORT_LEVEL, .level = 1};
    struct lode_parcel p = {.image = image, .codec = LODE_CODEC_ZSTD};
    void *stored = NULL;
    uint64_t room_bytes;
    bool good;

    p.raw_bytes = lode_writer_block_raw_bytes(w, block_index);
    tiny_image(block_index, image, p.raw_bytes);
    for (uint32_t i = 0; i < p.raw_bytes; i++)
        image[i] &= 15;
    run.bytes = p.raw_bytes;
    room_bytes = (p.raw_bytes + UINT64_C(65535)) / 65536 * 65536;
    if (!lode_alloc_aligned(room_bytes, "packed", &stored, err))
        return false;
    p.stored = stored;
    good = lode_pack(packer, image, p.raw_bytes, &run, 1, LODE_GAIN_ANY, stored,
                     &p.stored_bytes, &p.filters, err);
    if (good && p.stored_bytes == 0) {
        good = tiny_append(w, block_index, image, p.raw_bytes, err);
    } else if (good) {
        lode_seal(&p);
        good = lode_writer_append(w, block_index, &p, err);
    }
    lode_free_aligned(stored, room_bytes);
    return good;
}

uint32_t
tiny_block_count(const struct tiny_options *opt)
{
    return opt->split ? 19 : 16;
}

bool
tiny_write(const char *path, const struct tiny_options *opt, uint8_t *root,
           struct lode_error *err)
{
    enum { ROOM_BYTES = 1 << 20 };
    struct lode_packer *packer = NULL;
    struct lode_writer *w = NULL;
    uint32_t count;
    void *image = NULL;
    bool good;

    if (!tiny_declare(path, opt, &w, err))
        return false;
    count = tiny_block_count(opt);
    good = lode_alloc_aligned(ROOM_BYTES, "image", &image, err) &&
           (!opt->packed || lode_packer_new(&packer, err));
    for (uint32_t i = 0; good && i < count; i++) {
        uint32_t block_index = opt->reverse ? count - 1 - i : i;

        if (opt->packed &&
            lode_writer_block_raw_bytes(w, block_index) != TINY_ROWS_BYTES)
            good = append_packed(w, packer, block_index, image, err);
        else if (!opt->index_only ||
                 block_index >= count - TINY_FILE_BLOCK_COUNT)
            good = tiny_append_own(w, block_index, image, err);
    }
    good = good && lode_writer_finish(w, root, err);
    lode_free_aligned(image, ROOM_BYTES);
    lode_packer_free(packer);
    lode_writer_free(w);
    return good;
}

const char *const tiny_volume_names[2] = {"v-1.lode", "v-2.lode"};

bool
tiny_write_set(const char *path, const struct tiny_options *opt, bool partial,
               uint8_t *root, struct lode_error *err)
{
    enum { ROOM_BYTES = 1 << 20 };
    struct lode_writer_options wo = {.align_log2 = 12, .partial = partial};
    struct lode_writer *w = NULL;
    uint32_t count = 0;
    void *image = NULL;
    uint32_t v[2];
    bool good;

    for (int i = 0; i < 2; i++) /* the writer never replaces a volume */
        (void)unlink(tiny_path(tiny_volume_names[i]));
    good = tiny_new(path, &wo, opt->split, &w, err) &&
           lode_writer_number(w, &count, err) &&
           lode_writer_volume(w, tiny_volume_names[0], &v[0], err) &&
           lode_writer_volume(w, tiny_volume_names[1], &v[1], err) &&
           lode_alloc_aligned(ROOM_BYTES, "image", &image, err);
    for (uint32_t i = 0; good && i < count; i++)
        if (i % 3 != 0)
            lode_writer_place(w, i, v[i % 3 - 1]);
    good = good && lode_writer_begin(w, 0, err);
    for (uint32_t i = 0; good && i < count; i++)
        if (!partial || i != 4)
            good = tiny_append_own(
                w, opt->reverse ? count - 1 - i : i, image, err);
    good = good && lode_writer_finish(w, root, err);
    lode_free_aligned(image, ROOM_BYTES);
    lode_writer_free(w);
    return good;
}

uint8_t *
tiny_slurp(const char *path, size_t *bytes)
{
    struct lode_error err;
    char *data;

    if (!lode_file_slurp(path, UINT64_C(1) << 30, &data, bytes, &err)) {
        printf("Bail out! %s\n", err.text);
        exit(99);
    }
    return (uint8_t *)data;
}

void
tiny_spill(const char *path, const uint8_t *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0) {
        printf("Bail out! cannot write %s\n", path);
        exit(99);
    }
}

static char folder[256];

const char *
tiny_path(const char *name)
{
    static char paths[4][512];
    static int turn;
    const char *base = getenv("TMPDIR");

    if (folder[0] == '\0') {
        (void)snprintf(folder, sizeof(folder), "%.200s/lode-test.XXXXXX",
                       base != NULL ? base : "/tmp");
        if (mkdtemp(folder) == NULL) {
            printf("Bail out! cannot make %s\n", folder);
            exit(99);
        }
    }
    turn = (turn + 1) % 4;
    (void)snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
    return paths[turn];
}

void
tiny_cleanup(void)
{
    DIR *d = folder[0] != '\0' ? opendir(folder) : NULL;
    const struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[600];

        (void)snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
        if (e->d_name[0] != '.' && unlink(path) != 0)
            (void)rmdir(path); /* a test's own empty folder */
    }
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(folder); /* stays if something unexpected is in it */
}
