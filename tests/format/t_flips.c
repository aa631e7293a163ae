/* SPDX-License-Identifier: Apache-2.0
 *
 * Chance: 1000 changed bytes and 200 lengths that are too short for each kind
 * of container, and a strict check finds each of them (spec 10.4). */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "format/lode_write.h"
#include "format/pack.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum { FLIPS = 1000, CUTS = 200, ROOM_BYTES = 1 << 20, FILES_MAX = 3 };

static uint64_t state = 20261201;

static uint64_t
chance(uint64_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

/* ---- the kinds ---- */

static bool
plain(const char *path, struct lode_error *err)
{
    return tiny_write(path, &(struct tiny_options){0}, NULL, err);
}

static bool
split(const char *path, struct lode_error *err)
{
    return tiny_write(path, &(struct tiny_options){.split = true}, NULL, err);
}

static bool
wide(const char *path, struct lode_error *err)
{
    return tiny_write(path,
                      &(struct tiny_options){.align_log2 = 16, .label = "wide"},
                      NULL, err);
}

static bool
partial(const char *path, struct lode_error *err)
{
    return tiny_write(path, &(struct tiny_options){.index_only = true}, NULL,
                      err);
}

static bool
set(const char *path, struct lode_error *err)
{
    return tiny_write_set(path, &(struct tiny_options){.reverse = true}, false,
                          NULL, err);
}

/* Most bits gone, so that it can be packed; gaps stay zero. */
static bool
add_packed(struct lode_writer *w, struct lode_packer *packer, uint32_t i,
           uint8_t *image, uint8_t *out, struct lode_error *err)
{
    enum { ROWS_BYTES = 5120 }; /* of the embedding, which must stay raw */
    uint32_t bytes = lode_writer_block_raw_bytes(w, i);
    const struct lode_run run = {
        .bytes = bytes, .effort = LODE_EFFORT_LEVEL, .level = 3};
    struct lode_parcel p = {.stored = image,
                            .image = image,
                            .stored_bytes = bytes,
                            .raw_bytes = bytes};
    uint32_t packed_bytes = 0;
    uint8_t filters = 0;

    tiny_image(i, image, bytes);
    for (uint32_t k = 0; k < bytes; k++)
        image[k] &= 0x11;
    if (bytes != ROWS_BYTES &&
        !lode_pack(packer, image, bytes, &run, 1, LODE_GAIN_ANY, out,
                   &packed_bytes, &filters, err))
        return false;
    if (packed_bytes != 0) {
        p.stored = out;
        p.stored_bytes = packed_bytes;
        p.codec = LODE_CODEC_ZSTD;
        p.filters = filters;
    }
    lode_seal(&p);
    return lode_writer_append(w, i, &p, err);
}

static bool
packed(const char *path, struct lode_error *err)
{
    struct lode_writer_options wo = {.align_log2 = 12, .packed = true};
    struct lode_packer *packer = NULL;
    struct lode_writer *w = NULL;
    uint32_t count = tiny_block_count(&(struct tiny_options){0});
    void *image = NULL;
    void *out = NULL;
    bool good = lode_alloc_aligned(ROOM_BYTES, "image", &image, err) &&
                lode_alloc_aligned(ROOM_BYTES, "packed", &out, err) &&
                lode_packer_new(&packer, err) &&
                tiny_new(path, &wo, false, &w, err) && tiny_begin(w, err);

    for (uint32_t i = 0; good && i < count; i++)
        good = add_packed(w, packer, i, image, out, err);
    good = good && lode_writer_finish(w, NULL, err);
    lode_writer_free(w);
    lode_packer_free(packer);
    lode_free_aligned(image, ROOM_BYTES);
    lode_free_aligned(out, ROOM_BYTES);
    return good;
}

static const struct {
    const char *name;
    bool (*write)(const char *path, struct lode_error *err);
    uint32_t file_count;
} kinds[] = {{"plain", plain, 1}, {"split", split, 1},
             {"wide", wide, 1},   {"partial", partial, 1},
             {"set", set, 3},     {"packed", packed, 1}};

/* ---- damage ---- */

static const char *files[FILES_MAX] = {"head.lode"};

static bool
has_fault(const char *path)
{
    const struct lode_verify_options opt = {.level = LODE_VERIFY_STRICT};
    struct lode_reader *r = NULL;
    struct lode_error err = {0};
    uint64_t count = 0;
    bool made = lode_verify(path, &opt, &count, &err);

    /* And whatever the reader makes of it, it comes back. */
    if (lode_reader_open(path, &r, &err))
        for (uint32_t i = 0; i < lode_reader_summary(r)->block_count; i += 5) {
            static uint8_t image[ROOM_BYTES];

            (void)!lode_reader_load(r, i, image, sizeof(image), &err);
        }
    lode_reader_close(r);
    return count > 0 || !made;
}

/* Anywhere, or where there is more than zeros. */
static uint64_t
some_place(uint64_t bytes)
{
    static const uint64_t starts[] = {0, 65536, 131072, 135168, 196608};
    uint64_t at = chance(bytes);

    if (chance(4) != 0)
        at = starts[chance(5)] + chance(4096);
    return at < bytes ? at : bytes - 1;
}

static void
flip_all(const char *kind, const char *head, uint32_t file_count)
{
    uint32_t missed = 0;

    for (uint32_t n = 0; n < FLIPS && missed < 5; n++) {
        const char *path = tiny_path(files[chance(file_count)]);
        FILE *f = fopen(path, "r+b");
        uint64_t at;
        uint8_t old;
        uint8_t new;

        if (f == NULL || fseek(f, 0, SEEK_END) != 0)
            exit(99);
        at = some_place((uint64_t)ftell(f));
        if (pread(fileno(f), &old, 1, (off_t)at) != 1)
            exit(99);
        new = old ^ (uint8_t)(1 + chance(255));
        if (pwrite(fileno(f), &new, 1, (off_t)at) != 1)
            exit(99);
        if (!has_fault(head)) {
            printf("# %s: byte %" PRIu64 " from %02x to %02x\n", path, at, old,
                   new);
            missed++;
        }
        if (pwrite(fileno(f), &old, 1, (off_t)at) != 1)
            exit(99);
        fclose(f);
    }
    is_u64(missed, 0, "%s: %d changed bytes are all found", kind, FLIPS);
}

static void
cut_all(const char *kind, const char *head, uint32_t file_count)
{
    uint32_t missed = 0;

    for (uint32_t n = 0; n < CUTS && missed < 5; n++) {
        const char *path = tiny_path(files[chance(file_count)]);
        size_t bytes;
        uint8_t *data = tiny_slurp(path, &bytes);
        uint64_t kept = n < 5 ? n : chance(bytes);

        tiny_spill(path, data, (size_t)kept);
        if (!has_fault(head)) {
            printf("# %s: cut to %" PRIu64 " of %zu bytes\n", path, kept,
                   bytes);
            missed++;
        }
        tiny_spill(path, data, bytes);
        free(data);
    }
    is_u64(missed, 0, "%s: %d lengths are all found", kind, CUTS);
}

int
main(void)
{
    char head[512];

    snprintf(head, sizeof(head), "%s", tiny_path(files[0]));
    files[1] = tiny_volume_names[0];
    files[2] = tiny_volume_names[1];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct lode_error err;

        must(kinds[i].write(head, &err), &err);
        ok(!has_fault(head), "%s: whole", kinds[i].name);
        flip_all(kinds[i].name, head, kinds[i].file_count);
        cut_all(kinds[i].name, head, kinds[i].file_count);
        ok(!has_fault(head), "%s: whole again", kinds[i].name);
    }
    tiny_cleanup();
    return done_testing();
}
