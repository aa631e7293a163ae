/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes <-> structs (spec 2.2, 2.3, 3.1, 3.2, 4.3, 5.1, 6.1, 6.2, 7.1).  Each
 * byte of each record either survives decode and encode, or is reserved. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/le.h"
#include "format/layout.h"
#include "tests/tap.h"

static void
round_section(const uint8_t *in, uint8_t *out)
{
    struct lode_section s;

    lode_section_decode(in, &s);
    lode_section_encode(&s, out);
}

static void
round_group(const uint8_t *in, uint8_t *out)
{
    struct lode_group_record r;

    lode_group_decode(in, &r);
    lode_group_encode(&r, out);
}

static void
round_schema(const uint8_t *in, uint8_t *out)
{
    struct lode_schema s;

    lode_schema_decode(in, &s);
    lode_schema_encode(&s, out);
}

static void
round_tensor(const uint8_t *in, uint8_t *out)
{
    struct lode_tensor_record r;

    lode_tensor_decode(in, &r);
    lode_tensor_encode(&r, out);
}

static void
round_block(const uint8_t *in, uint8_t *out)
{
    struct lode_block_record r;

    lode_block_decode(in, &r);
    lode_block_encode(&r, out);
}

static void
round_volume(const uint8_t *in, uint8_t *out)
{
    struct lode_volume_record r;

    lode_volume_decode(in, &r);
    lode_volume_encode(&r, out);
}

/* All sections in use, so that each byte of the directory counts. */
static void
round_superblock(const uint8_t *in, uint8_t *out)
{
    static struct lode_superblock sb;

    lode_superblock_decode(in, &sb);
    sb.section_count = LODE_SECTIONS_MAX;
    lode_superblock_encode(&sb, out);
}

/* Ranges of bytes as the tables of the specification have them. */
struct range {
    uint32_t first;
    uint32_t end;
};

static bool
in_ranges(const struct range *r, uint32_t at)
{
    for (; r->end != 0; r++)
        if (at >= r->first && at < r->end)
            return true;
    return false;
}

static const struct record {
    const char *name;
    enum lode_record record;
    uint32_t bytes;
    void (*round)(const uint8_t *in, uint8_t *out);
    struct range zero[4];    /* must be zero */
    struct range other[104]; /* ignored, or made by the encoder */
} records[] = {
    {"section entry",
     LODE_RECORD_SECTION,
     80,
     round_section,
     {{72, 80}},
     {{0}}},
    {"group record",
     LODE_RECORD_GROUP,
     128,
     round_group,
     {{28, 32}, {44, 64}},
     {{0}}},
    {"schema record",
     LODE_RECORD_SCHEMA,
     32,
     round_schema,
     {{20, 24}, {28, 32}},
     {{0}}},
    {"tensor record", LODE_RECORD_TENSOR, 96, round_tensor, {{88, 96}}, {{0}}},
    {"block record",
     LODE_RECORD_BLOCK,
     64,
     round_block,
     {{28, 32}, {46, 47}, {48, 64}},
     {{0}}},
    {"volume record",
     LODE_RECORD_VOLUME,
     128,
     round_volume,
     {{28, 32}, {64, 128}},
     {{0}}},
    /* magic, section count (set above), checksum; the rest is ignored */
    {"superblock",
     LODE_RECORD_SUPERBLOCK,
     4096,
     round_superblock,
     {{40, 48}, {92, 96}},
     {{0, 8}, {88, 92}, {240, 512}, {3264, 4088}, {4088, 4096}}},
};

static bool
reserved_message(const struct record *t, const uint8_t *raw, uint32_t at)
{
    struct lode_error err;
    char want[64];

    snprintf(want, sizeof(want), "reserved byte %u is 165, expected 0", at);
    return !lode_reserved_check(t->record, raw, &err) &&
           err.code == LODE_E_CORRUPT && strcmp(err.text, want) == 0;
}

/* Unused bytes of directory entries are a section's, not the superblock's. */
static bool
in_directory_gap(const struct record *t, uint32_t at)
{
    return t->record == LODE_RECORD_SUPERBLOCK && at >= LODE_DIRECTORY_OFFSET &&
           at < LODE_DIRECTORY_OFFSET + 32 * 80 &&
           (at - LODE_DIRECTORY_OFFSET) % 80 >= 72;
}

static void
test_bytes(const struct record *t)
{
    static uint8_t in[4096];
    static uint8_t out[4096];
    struct lode_error err;
    uint32_t wrong = 0;

    for (uint32_t at = 0; at < t->bytes; at++) {
        bool good;

        memset(in, 0, t->bytes);
        memset(out, 0x5a, t->bytes);
        in[at] = 0xa5;
        t->round(in, out);
        if (in_ranges(t->zero, at))
            good = out[at] == 0 && reserved_message(t, in, at);
        else if (in_ranges(t->other, at) || in_directory_gap(t, at))
            good = lode_reserved_check(t->record, in, &err);
        else
            good = out[at] == 0xa5 && lode_reserved_check(t->record, in, &err);
        if (!good) {
            wrong++;
            printf("# byte %u of the %s\n", at, t->name);
        }
    }
    is_u64(wrong, 0, "each byte of the %s survives or is reserved", t->name);
}

/* Fields at the offsets of the specification's tables. */
static void
test_places(void)
{
    struct lode_group_record g = {
        .group = {.kind = 6, .layer = -1, .object_count = 0x01020304}};
    struct lode_block_record b = {
        .block = {.offset = 0x1122334455667788, .seq = 0xfffe,
                  .volume_index = 0x0807,
                  .codec = 1, .filters = 0x20},
        .flags = 3};
    struct lode_tensor_record t = {
        .tensor = {.role = 0x0201, .dim = {1, 2, 3, 4, 5, 6}}};
    uint8_t raw[128];

    lode_group_encode(&g, raw);
    is_u64(lode_load_u32(raw + 0), 6, "group: kind");
    is_u64(lode_load_u32(raw + 4), 0xffffffff, "group: layer -1");
    ok(raw[8] == 4 && raw[11] == 1, "group: objects, little-endian");
    lode_block_encode(&b, raw);
    is_u64(lode_load_u64(raw), 0x1122334455667788, "block: offset");
    is_u64(lode_load_u16(raw + 40), 0xfffe, "block: part");
    is_u64(lode_load_u16(raw + 42), 0x0807, "block: volume");
    ok(raw[44] == 1 && raw[45] == 0x20 && raw[47] == 3,
       "block: codec, filters and flags");
    lode_tensor_encode(&t, raw);
    is_u64(lode_load_u16(raw + 12), 0x0201, "tensor: role");
    is_u64(lode_load_u64(raw + 80), 6, "tensor: sixth dimension");
}

static void
test_superblock(void)
{
    static struct lode_superblock sb;
    static struct lode_superblock back;
    static uint8_t raw[LODE_SUPERBLOCK_BYTES];

    sb.major = 1;
    sb.file_bytes = 1 << 20;
    strcpy(sb.writer, "test");
    lode_superblock_encode(&sb, raw);
    ok(memcmp(raw, "\x8fLOD\r\n\x1a\n", 8) == 0, "superblock: magic");
    ok(lode_superblock_valid(raw), "what was encoded is valid");
    lode_superblock_decode(raw, &back);
    is_u64(back.file_bytes, 1 << 20, "superblock: file size");
    is_str(back.writer, "test", "superblock: writer");
    raw[4000] ^= 1;
    ok(!lode_superblock_valid(raw), "the checksum covers ignored bytes");
    raw[4000] ^= 1;
    raw[4095] ^= 0x80;
    ok(!lode_superblock_valid(raw), "the checksum itself counts");
    raw[4095] ^= 0x80;
    raw[0] = 0x0f;
    ok(!lode_superblock_valid(raw), "the magic number counts");
}

int
main(void)
{
    for (size_t i = 0; i < sizeof(records) / sizeof(records[0]); i++)
        test_bytes(&records[i]);
    test_places();
    test_superblock();
    return done_testing();
}
