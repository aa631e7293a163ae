/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops in plain C over 16-bit words, which compilers turn into a few vector
 * instructions for 16 or more bytes at once. */
#include "config.h"

#include <string.h>

#include "format/filter.h"
#include "format/pack.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "words are loaded as they lie in the file");

/* gcc vectorises loops of unknown length from this level on; clang does at
 * any. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

static inline uint16_t
word_load(const uint8_t *p)
{
    uint16_t w;

    memcpy(&w, p, sizeof(w));
    return w;
}

static inline void
word_store(uint8_t *p, uint16_t w)
{
    memcpy(p, &w, sizeof(w));
}

static inline uint32_t
quad_load(const uint8_t *p)
{
    uint32_t w;

    memcpy(&w, p, sizeof(w));
    return w;
}

static inline void
quad_store(uint8_t *p, uint32_t w)
{
    memcpy(p, &w, sizeof(w));
}

uint32_t
lode_filter_unit(uint8_t filter)
{
    switch (filter) {
    case LODE_FILTER_ROT16SPLIT:
    case LODE_FILTER_SPLIT16:
    case LODE_FILTER_NIBSPLIT8:
        return 2;
    case LODE_FILTER_ROT32SPLIT:
        return 4;
    case LODE_FILTER_SCALECLASS:
        return LODE_GROUP_BYTES;
    default:
        return 1;
    }
}

uint32_t
lode_filter_plane0(uint8_t filter, uint32_t bytes)
{
    if (filter == LODE_FILTER_NONE)
        return bytes;
    return bytes / lode_filter_unit(filter);
}

static void
split_rot16(const uint8_t *restrict in, uint32_t words, uint8_t *restrict high,
            uint8_t *restrict low)
{
    for (uint32_t i = 0; i < words; i++) {
        uint16_t w = word_load(in + 2 * (size_t)i);

        high[i] = (uint8_t)(w >> 7);
        low[i] = (uint8_t)(w << 1 | w >> 15);
    }
}

static void
merge_rot16(const uint8_t *restrict high, const uint8_t *restrict low,
            uint32_t words, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < words; i++) {
        uint16_t w = (uint16_t)(low[i] | high[i] << 8);

        word_store(out + 2 * (size_t)i, (uint16_t)(w >> 1 | w << 15));
    }
}

static void
split_16(const uint8_t *restrict in, uint32_t words, uint8_t *restrict high,
         uint8_t *restrict low)
{
    for (uint32_t i = 0; i < words; i++) {
        uint16_t w = word_load(in + 2 * (size_t)i);

        high[i] = (uint8_t)(w >> 8);
        low[i] = (uint8_t)w;
    }
}

static void
merge_16(const uint8_t *restrict high, const uint8_t *restrict low,
         uint32_t words, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < words; i++)
        word_store(out + 2 * (size_t)i, (uint16_t)(low[i] | high[i] << 8));
}

static void
split_rot32(const uint8_t *restrict in, uint32_t count, uint8_t *restrict top,
            uint8_t *restrict rest)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t w = quad_load(in + 4 * (size_t)i);

        top[i] = (uint8_t)(w >> 23);
        w = w << 1 | w >> 31;
        word_store(rest + 3 * (size_t)i, (uint16_t)w);
        rest[3 * (size_t)i + 2] = (uint8_t)(w >> 16);
    }
}

static void
merge_rot32(const uint8_t *restrict top, const uint8_t *restrict rest,
            uint32_t count, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *r = rest + 3 * (size_t)i;
        uint32_t w =
            (uint32_t)top[i] << 24 | (uint32_t)r[2] << 16 | word_load(r);

        quad_store(out + 4 * (size_t)i, w >> 1 | w << 31);
    }
}

/* Two values a, b of s eeee mmm, a in the low byte: b's and a's exponents in
 * one byte, their signs and fractions in the other. */
static void
split_nibbles(const uint8_t *restrict in, uint32_t words,
              uint8_t *restrict exponents, uint8_t *restrict others)
{
    for (uint32_t i = 0; i < words; i++) {
        uint16_t w = word_load(in + 2 * (size_t)i);

        exponents[i] = (uint8_t)((w >> 3 & 0x0f) | (w >> 7 & 0xf0));
        others[i] = (uint8_t)((w & 0x07) | (w >> 4 & 0x08) | (w >> 4 & 0x70) |
                              (w >> 8 & 0x80));
    }
}

static void
merge_nibbles(const uint8_t *restrict exponents, const uint8_t *restrict others,
              uint32_t words, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < words; i++) {
        uint16_t e = exponents[i];
        uint16_t o = others[i];
        uint16_t w = (uint16_t)((e & 0x0f) << 3 | (e & 0xf0) << 7);

        w |= (uint16_t)((o & 0x07) | (o & 0x08) << 4 | (o & 0x70) << 4 |
                        (o & 0x80) << 8);
        word_store(out + 2 * (size_t)i, w);
    }
}

void
lode_filter_split(uint8_t filter, const uint8_t *in, uint32_t bytes,
                  uint8_t *plane0, uint8_t *plane1)
{
    switch (filter) {
    case LODE_FILTER_ROT16SPLIT:
        split_rot16(in, bytes / 2, plane0, plane1);
        break;
    case LODE_FILTER_SPLIT16:
        split_16(in, bytes / 2, plane0, plane1);
        break;
    case LODE_FILTER_ROT32SPLIT:
        split_rot32(in, bytes / 4, plane0, plane1);
        break;
    case LODE_FILTER_NIBSPLIT8:
        split_nibbles(in, bytes / 2, plane0, plane1);
        break;
    default:
        break;
    }
}

void
lode_filter_merge(uint8_t filter, const uint8_t *plane0, const uint8_t *plane1,
                  uint32_t bytes, uint8_t *out)
{
    switch (filter) {
    case LODE_FILTER_ROT16SPLIT:
        merge_rot16(plane0, plane1, bytes / 2, out);
        break;
    case LODE_FILTER_SPLIT16:
        merge_16(plane0, plane1, bytes / 2, out);
        break;
    case LODE_FILTER_ROT32SPLIT:
        merge_rot32(plane0, plane1, bytes / 4, out);
        break;
    case LODE_FILTER_NIBSPLIT8:
        merge_nibbles(plane0, plane1, bytes / 2, out);
        break;
    default:
        break;
    }
}

void
lode_scales_split(const uint8_t *scales, uint32_t groups, uint8_t threshold,
                  const uint8_t *in, uint8_t *plane0, uint8_t *plane1)
{
    for (uint32_t g = 0; g < groups; g++) {
        uint8_t **p = scales[g] >= threshold ? &plane0 : &plane1;

        memcpy(*p, in + LODE_GROUP_BYTES * (size_t)g, LODE_GROUP_BYTES);
        *p += LODE_GROUP_BYTES;
    }
}

/* The class is hard to predict, so that no branch may depend on it. */
void
lode_scales_merge(const uint8_t *scales, uint32_t groups, uint8_t threshold,
                  const uint8_t *plane0, const uint8_t *plane1, uint8_t *out)
{
    for (uint32_t g = 0; g < groups; g++) {
        uintptr_t high = -(uintptr_t)(scales[g] >= threshold);
        const uint8_t *from = (const uint8_t *)(((uintptr_t)plane0 & high) |
                                                ((uintptr_t)plane1 & ~high));

        memcpy(out + LODE_GROUP_BYTES * (size_t)g, from, LODE_GROUP_BYTES);
        plane0 += LODE_GROUP_BYTES & high;
        plane1 += LODE_GROUP_BYTES & ~high;
    }
}

uint32_t
lode_scales_count(const uint8_t *scales, uint32_t groups, uint8_t threshold)
{
    uint32_t count = 0;

    for (uint32_t g = 0; g < groups; g++)
        count += scales[g] >= threshold;
    return count;
}

uint8_t
lode_scales_mode(const uint8_t *scales, uint32_t groups)
{
    uint32_t counts[256] = {0};
    uint8_t mode = 0;

    for (uint32_t g = 0; g < groups; g++)
        counts[scales[g]]++;
    for (uint32_t s = 1; s < 256; s++)
        if (counts[s] > counts[mode])
            mode = (uint8_t)s;
    return mode;
}
