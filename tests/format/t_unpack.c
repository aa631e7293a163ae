/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed blocks that break a rule (spec 7.2, 7.3): every one is refused as
 * damaged, and by the check that is meant to see it. */
#include "config.h"

#include <zstd.h>

#include "base/le.h"
#include "format/limits.h"
#include "format/pack.h"
#include "tests/tap.h"

enum {
    VALUES = 65536,  /* of bf16: frame 0 */
    NIBBLES = 32768, /* frame 1 */
    SCALES = 2048,   /* of those: frame 2 */
    RAW = VALUES + NIBBLES + SCALES,
    FILTERS = 1 << LODE_FILTER_ROT16SPLIT | 1 << LODE_FILTER_SCALECLASS,
    TABLE = LODE_PACK_HEADER_BYTES,
    RECORD = LODE_FRAME_RECORD_BYTES,
    ROOM = 200000,
};

static struct lode_packer *packer;
static struct lode_unpacker *unpacker;
static uint8_t image[RAW], block[RAW];
static uint32_t block_bytes;
static uint64_t state = 3;

static uint32_t
next(uint32_t below)
{
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void
make_block(void)
{
    static const struct lode_run runs[] = {
        {.bytes = VALUES,
         .filter = LODE_FILTER_ROT16SPLIT,
         .effort = LODE_EFFORT_FAST},
        {.offset = VALUES,
         .bytes = NIBBLES,
         .filter = LODE_FILTER_SCALECLASS,
         .scale_offset = VALUES + NIBBLES,
         .effort = LODE_EFFORT_FAST},
        {.offset = VALUES + NIBBLES,
         .bytes = SCALES,
         .effort = LODE_EFFORT_RAW},
    };
    struct lode_error err;
    uint8_t filters;

    for (uint32_t i = 0; i < VALUES + NIBBLES; i++)
        image[i] = (uint8_t)(next(4) * 0x11 + next(2));
    for (uint32_t i = 0; i < SCALES; i++)
        image[VALUES + NIBBLES + i] = (uint8_t)(118 + next(3));
    must(lode_packer_new(&packer, &err), &err);
    must(lode_unpacker_new(&unpacker, &err), &err);
    must(lode_pack(packer, image, RAW, runs, 3, LODE_GAIN_AUTO, block,
                   &block_bytes, &filters, &err),
         &err);
    is_u64(filters, FILTERS, "a block with three frames and two filters");
    is_u64(lode_load_u32(block), 3, "three frames");
}

/* From memory of exactly these sizes, so that ASan sees a byte beyond. */
static bool
unpack(const uint8_t *data, uint32_t bytes, uint8_t filters, uint32_t raw,
       struct lode_error *err)
{
    uint8_t *in = malloc(bytes != 0 ? bytes : 1);
    uint8_t *out = malloc(raw != 0 ? raw : 1);
    bool good;

    if (in == NULL || out == NULL)
        exit(99);
    memcpy(in, data, bytes);
    good = lode_unpack(unpacker, in, bytes, filters, out, raw, err);
    free(in);
    free(out);
    return good;
}

/* One change of one field. */
struct change {
    const char *name;
    uint32_t at;
    uint32_t field_bytes;
    uint32_t value;
    const char *text;
};

static void
test_changes(const struct change *c, size_t count)
{
    static uint8_t copy[RAW];

    for (size_t i = 0; i < count; i++) {
        struct lode_error err;

        memcpy(copy, block, block_bytes);
        for (uint32_t k = 0; k < c[i].field_bytes; k++)
            copy[c[i].at + k] = (uint8_t)(c[i].value >> (8 * k));
        fails_with(unpack(copy, block_bytes, FILTERS, RAW, &err), &err,
                   LODE_E_CORRUPT, c[i].text, c[i].name);
    }
}

static void
test_table(void)
{
    uint32_t f0 = TABLE, f1 = f0 + RECORD, f2 = f1 + RECORD;
    uint32_t stored = lode_load_u32(block + f0 + 4);
    const struct change changes[] = {
        {"no frames", 0, 4, 0, "0 frames, expected 1 to"},
        {"more frames than fit", 0, 4, block_bytes / RECORD + 1, "in "},
        {"more frames than allowed", 0, 4, LODE_FRAMES_MAX + 1, "16385 frames"},
        {"all frames", 0, 4, 0xffffffff, "4294967295 frames"},
        {"one frame less", 0, 4, 2, "raw bytes, the block"},
        {"bytes behind the count", 4, 4, 1, "behind the frame count"},
        {"bytes behind a record", f1 + 22, 2, 0x100, "frame 1: reserved"},
        {"an unknown filter", f0 + 20, 1, 6, "frame 0: filter 6"},
        {"no raw bytes", f2, 4, 0, "frame 2: 0 raw bytes"},
        {"too many raw bytes", f2, 4, LODE_FRAME_RAW_BYTES_MAX + 1,
         "frame 2: 1048577 raw bytes"},
        {"half a value", f0, 4, VALUES + 1, "expected a multiple of 2"},
        {"half a group", f1, 4, NIBBLES + 8, "expected a multiple of 16"},
        {"a value more", f0, 4, VALUES + 2, "bytes of plane 0, expected 32769"},
        {"a larger plane 0", f0 + 16, 4, VALUES / 2 + 1, "expected 32768"},
        {"a smaller plane 0", f2 + 16, 4, SCALES - 1, "expected 2048"},
        {"plane 0 beyond the frame", f1 + 16, 4, NIBBLES + 16,
         "32784 raw bytes of plane 0"},
        {"plane 0 with half a group", f1 + 16, 4, 24, "24 raw bytes of plane"},
        {"scales without need", f0 + 12, 4, 1, "scale offset 1"},
        {"a threshold without need", f2 + 21, 1, 1, "threshold 1"},
        {"plane 0 that is empty", f0 + 4, 4, 0, "0 stored bytes of plane 0"},
        {"plane 1 that is empty", f0 + 8, 4, 0, "0 stored bytes of plane 1"},
        {"plane 1 that may not be", f2 + 8, 4, 1, "1 stored bytes of plane 1"},
        {"stored more than raw", f0 + 4, 4, VALUES / 2 + 1,
         "stored bytes of plane 0, which has 32768"},
        {"all stored", f0 + 4, 4, 0xffffffff, "stored bytes of plane 0"},
        {"a byte too many", f0 + 4, 4, stored + 1, "frames end at stored byte"},
        {"a byte too few", f0 + 4, 4, stored - 1, "frames end at stored byte"},
        {"another sum", f2, 4, SCALES - 1, "expected 2047"},
        {"scales behind the image", f1 + 12, 4, VALUES + NIBBLES + 1,
         "frame 1: scales end at"},
        {"scales far behind it", f1 + 12, 4, 0xffffffff, "scales end at"},
        {"scales in the frame", f1 + 12, 4, VALUES + NIBBLES - 1,
         "frame 1: scales lie in frame 1"},
        {"scales into the frame", f1 + 12, 4, VALUES - SCALES + 1,
         "frame 1: scales lie in frame 1"},
        {"scales elsewhere", f1 + 12, 4, VALUES - SCALES, "the scales put"},
        {"another threshold", f1 + 21, 1, 255, "the scales put 0 there"},
        {"the other filter", f0 + 20, 1, LODE_FILTER_SPLIT16, "filters 0x24"},
    };

    test_changes(changes, sizeof(changes) / sizeof(*changes));
}

static void
test_sums(void)
{
    struct lode_error err;
    uint8_t copy[RAW];

    ok(unpack(block, block_bytes, FILTERS, RAW, &err), "the block is good");
    fails_with(unpack(block, block_bytes, FILTERS, RAW + 1, &err), &err,
               LODE_E_CORRUPT, "raw bytes, the block", "a larger image");
    fails_with(unpack(block, block_bytes, FILTERS, RAW - 1, &err), &err,
               LODE_E_CORRUPT, "raw bytes, the block", "a smaller image");
    fails_with(unpack(block, block_bytes - 1, FILTERS, RAW, &err), &err,
               LODE_E_CORRUPT, "frames end at stored", "a block cut off");
    memcpy(copy, block, block_bytes);
    copy[block_bytes] = 0;
    fails_with(unpack(copy, block_bytes + 1, FILTERS, RAW, &err), &err,
               LODE_E_CORRUPT, "frames end at stored", "a byte behind it");
    for (uint32_t bytes = 0; bytes < TABLE + RECORD; bytes += 31)
        fails_with(unpack(block, bytes, FILTERS, RAW, &err), &err,
                   LODE_E_CORRUPT, "too few for a table", "no whole table");
    fails_with(unpack(block, block_bytes, 0, RAW, &err), &err, LODE_E_CORRUPT,
               "filters 0x22, the block record 0x00", "filters not named");
    fails_with(unpack(block, block_bytes, 0xff, RAW, &err), &err,
               LODE_E_CORRUPT, "the block record 0xff", "filters not in use");
    /* the scales are the last bytes: one moves a group to the other plane */
    copy[block_bytes - 1] = copy[block_bytes - 1] == 118 ? 255 : 0;
    fails_with(unpack(copy, block_bytes, FILTERS, RAW, &err), &err,
               LODE_E_CORRUPT, "frame 1: plane 0 has", "scales that lie");
}

/* As many frames as there may be, of one byte each, and one more. */
static void
test_most_frames(void)
{
    for (uint32_t count = LODE_FRAMES_MAX; count <= LODE_FRAMES_MAX + 1;
         count++) {
        uint32_t bytes = TABLE + count * (RECORD + 1);
        uint8_t *many = calloc(bytes, 1);
        struct lode_error err;
        bool good;

        if (many == NULL)
            exit(99);
        lode_store_u32(many, count);
        for (uint32_t i = 0; i < count; i++) {
            lode_store_u32(many + TABLE + (size_t)i * RECORD, 1);
            lode_store_u32(many + TABLE + (size_t)i * RECORD + 4, 1);
            lode_store_u32(many + TABLE + (size_t)i * RECORD + 16, 1);
        }
        good = unpack(many, bytes, 0, count, &err);
        if (count == LODE_FRAMES_MAX)
            ok(good, "as many frames as the limit");
        else
            fails_with(good, &err, LODE_E_CORRUPT, "16385 frames, expected 1",
                       "one more");
        free(many);
    }
}

/* A block of one frame without filter, around what claims to be zstd. */
static bool
unpack_zstd(const uint8_t *data, uint32_t bytes, uint32_t raw,
            struct lode_error *err)
{
    static uint8_t one[ROOM + 64];

    memset(one, 0, TABLE + RECORD);
    lode_store_u32(one, 1);
    lode_store_u32(one + TABLE, raw);
    lode_store_u32(one + TABLE + 4, bytes);
    lode_store_u32(one + TABLE + 16, raw);
    memcpy(one + TABLE + RECORD, data, bytes);
    return unpack(one, TABLE + RECORD + bytes, 0, raw, err);
}

/* Values of RAW bytes at offset from of the image, with one parameter. */
static uint32_t
compress(uint8_t *out, uint32_t bytes, ZSTD_cParameter name, int value)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    size_t n = ZSTD_CCtx_setParameter(c, name, value);

    if (!ZSTD_isError(n))
        n = ZSTD_compress2(c, out, ROOM, image, bytes);
    if (ZSTD_isError(n))
        exit(99);
    (void)ZSTD_freeCCtx(c); /* always 0 */
    return (uint32_t)n;
}

static void
refused(const uint8_t *data, uint32_t bytes, const char *text, const char *name)
{
    struct lode_error err;

    fails_with(unpack_zstd(data, bytes, RAW, &err), &err, LODE_E_CORRUPT, text,
               name);
}

static void
test_zstd_content(void)
{
    static uint8_t z[ROOM];
    struct lode_error err;
    uint32_t n = compress(z, RAW, ZSTD_c_compressionLevel, 1);
    uint32_t more;

    ok(unpack_zstd(z, n, RAW, &err), "a zstd frame is good");
    refused(z, n - 1, "zstd frame: ", "cut off");
    refused(z, 7, "header cut off", "cut off in its header");
    refused(z, 5, "not a zstd frame", "cut off at its start");
    z[n] = 0;
    refused(z, n + 1, "expected", "a byte behind it");
    more = compress(z + n, 0, ZSTD_c_compressionLevel, 1);
    refused(z, n + more, "bytes, expected", "a second, empty frame");
    lode_store_u32(z + n, 0x184d2a50);
    lode_store_u32(z + n + 4, 0);
    refused(z, n + 8, "bytes, expected", "a skippable frame behind it");

    memmove(z + 8, z, n);
    lode_store_u32(z, 0x184d2a50);
    lode_store_u32(z + 4, 0);
    refused(z, n + 8, "not a zstd frame", "a skippable frame before it");
    n = compress(z, RAW - 1, ZSTD_c_compressionLevel, 1);
    refused(z, n, "content size 100351, expected 100352", "too little");
    lode_store_u32(z + 5, RAW);
    refused(z, n, "zstd frame", "too little, that claims to be enough");
    n = compress(z, RAW, ZSTD_c_compressionLevel, 1);
    lode_store_u32(z + 5, RAW - 16);
    fails_with(unpack_zstd(z, n, RAW - 16, &err), &err, LODE_E_CORRUPT,
               "zstd frame: ", "too much, that claims to be right");
    n = compress(z, RAW, ZSTD_c_compressionLevel, 1);
    z[0]--; /* the format of version 0.7 */
    refused(z, n, "not a zstd frame", "another magic number");
}

static void
test_zstd_flags(void)
{
    static uint8_t z[ROOM];
    struct lode_error err;
    uint32_t n;

    n = compress(z, RAW, ZSTD_c_contentSizeFlag, 0);
    refused(z, n, "without its content size", "no content size");
    n = compress(z, RAW, ZSTD_c_checksumFlag, 1);
    refused(z, n, "descriptor", "a checksum");
    n = compress(z, RAW, ZSTD_c_compressionLevel, 1);
    is_u64(z[4], 0xa0, "one segment, content size of 4 bytes");
    z[4] |= 1;
    refused(z, n, "descriptor", "a dictionary");
    z[4] = 0xa8;
    refused(z, n, "descriptor", "the reserved bit");
    /* a window byte instead of the one segment */
    memmove(z + 6, z + 5, n - 5);
    n++;
    z[4] = 0x80;
    z[5] = 10 << 3;
    ok(unpack_zstd(z, n, RAW, &err), "a window of 1 MiB is good");
    z[5] = 10 << 3 | 1;
    refused(z, n, "window of 1179648 bytes", "a larger window");
    z[5] = 0xff;
    refused(z, n, "expected at most 1048576", "the largest window");
}

/* Content sizes of 1, 2, 4 bytes are read as libzstd writes them. */
static void
test_zstd_sizes(void)
{
    static const uint32_t sizes[] = {40,    255,   256,   257,  65791,
                                     65792, 65536, 65537, 70000};
    static uint8_t z[ROOM];
    uint32_t good = 0;

    memset(image, 7, sizeof(image));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct lode_error err;
        uint32_t n = compress(z, sizes[i], ZSTD_c_compressionLevel, 3);

        good += unpack_zstd(z, n, sizes[i], &err);
    }
    is_u64(good, sizeof(sizes) / sizeof(*sizes), "content sizes of all widths");
}

/* Whatever changes, nothing is read or written beyond (ASan looks). */
static void
test_flips(void)
{
    static uint8_t copy[RAW];
    uint32_t refusals = 0;

    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t from = i % 2 == 0 ? block_bytes : TABLE + 3 * RECORD + 24;
        struct lode_error err = {0};

        memcpy(copy, block, block_bytes);
        for (uint32_t k = 0; k <= i % 4; k++)
            copy[next(from)] ^= (uint8_t)(1U << next(8));
        if (!unpack(copy, block_bytes, FILTERS, RAW, &err)) {
            refusals++;
            if (err.code != LODE_E_CORRUPT)
                ok(false, "flip %u: %s", i, err.text);
        }
    }
    ok(refusals > 1000, "%u of 2000 changed blocks are refused", refusals);
}

int
main(void)
{
    make_block();
    test_sums();
    test_table();
    test_most_frames();
    test_zstd_content();
    test_zstd_flags();
    test_flips();
    test_zstd_sizes();
    lode_packer_free(packer);
    lode_unpacker_free(unpacker);
    return done_testing();
}
