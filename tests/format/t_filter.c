/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters (spec 7.2): tiny vectors worked out by hand, and every loop against a
 * twin that does one value at a time, bit by bit as the specification says. */
#include "config.h"

#include "base/le.h"
#include "format/filter.h"
#include "format/pack.h"
#include "tests/tap.h"

enum { ROOM = 4096 };

static void
vector(const char *name, uint8_t filter, const uint8_t *in, uint32_t bytes,
       const uint8_t *want)
{
    uint32_t n = lode_filter_plane0(filter, bytes);
    uint8_t planes[64] = {0};
    uint8_t again[64] = {0};

    lode_filter_split(filter, in, bytes, planes, planes + n);
    ok(memcmp(planes, want, bytes) == 0, "%s: planes by hand", name);
    lode_filter_merge(filter, want, want + n, bytes, again);
    ok(memcmp(again, in, bytes) == 0, "%s: and back", name);
}

static void
test_vectors(void)
{
    /* 1, -1 - 2^-7, -127: 0 01111111 0000000, 1 01111111 0000001,
     * 1 10000101 1111110 */
    static const uint8_t bf16[] = {0x80, 0x3f, 0x81, 0xbf, 0xfe, 0xc2};
    static const uint8_t bf16_planes[] = {0x7f, 0x7f, 0x85, 0x00, 0x03, 0xfd};
    static const uint8_t f16[] = {0x34, 0x12, 0xcd, 0xab};
    static const uint8_t f16_planes[] = {0x12, 0xab, 0x34, 0xcd};
    /* 1 and -pi, 0xc0490fdb: rotated 0x80921fb7 */
    static const uint8_t f32[] = {0, 0, 0x80, 0x3f, 0xdb, 0x0f, 0x49, 0xc0};
    static const uint8_t f32_planes[] = {0x7f, 0x80, 0, 0, 0, 0xb7, 0x1f, 0x92};
    /* 0 1111 110 and 1 0010 001: exponents f and 2, the others 6 and 9 */
    static const uint8_t f8[] = {0x7e, 0x91};
    static const uint8_t f8_planes[] = {0x2f, 0x96};

    vector("bf16", LODE_FILTER_ROT16SPLIT, bf16, sizeof(bf16), bf16_planes);
    vector("f16", LODE_FILTER_SPLIT16, f16, sizeof(f16), f16_planes);
    vector("f32", LODE_FILTER_ROT32SPLIT, f32, sizeof(f32), f32_planes);
    vector("f8.e4m3", LODE_FILTER_NIBSPLIT8, f8, sizeof(f8), f8_planes);
}

static void
test_scales(void)
{
    static const uint8_t scales[] = {5, 7, 7, 6};
    static const uint8_t tie[] = {9, 4, 4, 9, 200};
    uint8_t in[64], plane0[32], plane1[32], again[64];

    for (uint32_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)i;
    is_u64(lode_scales_mode(scales, 4), 7, "the most common scale");
    is_u64(lode_scales_mode(tie, 5), 4, "the smallest of several");
    is_u64(lode_scales_count(scales, 4, 7), 2, "two are at least 7");
    is_u64(lode_scales_count(scales, 4, 6), 3, "three are at least 6");
    is_u64(lode_scales_count(scales, 4, 0), 4, "all are at least 0");
    lode_scales_split(scales, 4, 7, in, plane0, plane1);
    ok(memcmp(plane0, in + 16, 32) == 0, "plane 0: groups 1 and 2");
    ok(memcmp(plane1, in, 16) == 0 && memcmp(plane1 + 16, in + 48, 16) == 0,
       "plane 1: groups 0 and 3");
    lode_scales_merge(scales, 4, 7, plane0, plane1, again);
    ok(memcmp(again, in, sizeof(in)) == 0, "and back");
}

/* The specification, one value at a time. */
static void
split_slowly(uint8_t filter, const uint8_t *in, uint32_t bytes, uint8_t *p0,
             uint8_t *p1)
{
    uint32_t unit = lode_filter_unit(filter);

    for (uint32_t i = 0; i < bytes / unit; i++) {
        const uint8_t *v = in + (size_t)i * unit;

        if (filter == LODE_FILTER_ROT16SPLIT) {
            uint32_t w = lode_load_u16(v) * 2U;

            p0[i] = (uint8_t)(w >> 8);
            p1[i] = (uint8_t)(w + (w >> 16));
        } else if (filter == LODE_FILTER_SPLIT16) {
            p0[i] = v[1];
            p1[i] = v[0];
        } else if (filter == LODE_FILTER_ROT32SPLIT) {
            uint64_t w = lode_load_u32(v) * UINT64_C(2);

            w |= w >> 32;
            p0[i] = (uint8_t)(w >> 24);
            for (uint32_t k = 0; k < 3; k++)
                p1[3 * (size_t)i + k] = (uint8_t)(w >> (8 * k));
        } else {
            uint32_t e[2], o[2];

            for (uint32_t k = 0; k < 2; k++) {
                e[k] = v[k] / 8 % 16;
                o[k] = v[k] / 128 * 8 + v[k] % 8;
            }
            p0[i] = (uint8_t)(e[0] + 16 * e[1]);
            p1[i] = (uint8_t)(o[0] + 16 * o[1]);
        }
    }
}

/* Every length up to some vectors and a rest, at odd addresses; bytes behind
 * the end stay as they were. */
static void
test_lengths(uint8_t filter)
{
    static uint8_t in[ROOM + 1], fast[ROOM + 2], slow[ROOM + 2], back[ROOM + 2];
    uint32_t unit = lode_filter_unit(filter);
    bool same = true, returns = true, within = true;
    uint64_t state = filter;

    for (uint32_t i = 0; i < sizeof(in); i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
        in[i] = (uint8_t)(state >> 56);
    }
    for (uint32_t bytes = unit; bytes <= 600 + unit; bytes += unit) {
        uint32_t n = lode_filter_plane0(filter, bytes);

        memset(fast, 0x5a, sizeof(fast));
        memset(slow, 0x5a, sizeof(slow));
        memset(back, 0x5a, sizeof(back));
        lode_filter_split(filter, in + 1, bytes, fast + 1, fast + 1 + n);
        split_slowly(filter, in + 1, bytes, slow + 1, slow + 1 + n);
        same = same && memcmp(fast, slow, sizeof(fast)) == 0;
        lode_filter_merge(filter, slow + 1, slow + 1 + n, bytes, back + 1);
        returns = returns && memcmp(back + 1, in + 1, bytes) == 0;
        within = within && back[0] == 0x5a && back[bytes + 1] == 0x5a;
    }
    ok(same, "filter %u: planes as its twin makes them", filter);
    ok(returns, "filter %u: the same bytes come back", filter);
    ok(within, "filter %u: and no others are written", filter);
}

/* All 65536 pairs of bytes. */
static void
test_all_words(uint8_t filter)
{
    static uint8_t in[2 << 16], planes[2 << 16], slow[2 << 16], back[2 << 16];
    uint32_t n = lode_filter_plane0(filter, sizeof(in));

    for (uint32_t i = 0; i < 1 << 16; i++)
        lode_store_u16(in + 2 * (size_t)i, (uint16_t)i);
    lode_filter_split(filter, in, sizeof(in), planes, planes + n);
    split_slowly(filter, in, sizeof(in), slow, slow + n);
    lode_filter_merge(filter, planes, planes + n, sizeof(in), back);
    ok(memcmp(planes, slow, sizeof(planes)) == 0 &&
           memcmp(back, in, sizeof(in)) == 0,
       "filter %u: all words", filter);
}

int
main(void)
{
    test_vectors();
    test_scales();
    for (uint8_t f = LODE_FILTER_ROT16SPLIT; f <= LODE_FILTER_NIBSPLIT8; f++) {
        test_lengths(f);
        test_all_words(f);
    }
    return done_testing();
}
