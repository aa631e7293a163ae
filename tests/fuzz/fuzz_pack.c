/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed blocks.  The first byte of an input says what the rest is:
 *   even  filters of the block record, u32 raw bytes, the stored block: an
 *         arbitrary block is refused or decoded, and decodes to the same image
 *         whatever the order of its frames;
 *   odd   a filter, an effort (bit 7: all planes), a level, a gain, u16 where
 *         the second run begins, an image: what was packed comes back. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/pack.h"
#include "tests/fuzz/fuzz.h"

enum { RAW_MAX = 1 << 18, BLOCK_HEAD = 6, IMAGE_HEAD = 7, SEED_BYTES = 3000 };

const uint32_t fuzz_mutant_count = 400;

static struct lode_packer *packer;
static struct lode_unpacker *unpacker;

#define check(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static void
prepare(void)
{
    struct lode_error err;

    if (packer != NULL)
        return;
    check(lode_packer_new(&packer, &err) && lode_unpacker_new(&unpacker, &err));
}

static uint8_t *
room(size_t bytes)
{
    uint8_t *p = malloc(bytes != 0 ? bytes : 1);

    check(p != NULL);
    return p;
}

/* All frames, the last first. */
static bool
unpack_backwards(const struct lode_frames *f, uint8_t *image)
{
    struct lode_error err;

    for (uint32_t phase = 0; phase < 2; phase++)
        for (uint32_t i = f->count; i-- > 0;) {
            struct lode_frame_place place;

            lode_frames_place(f, i, &place);
            check(place.bytes <= f->raw_bytes &&
                  place.offset <= f->raw_bytes - place.bytes);
            check(place.phase == 0 || f->second_phase);
            if (place.phase == phase &&
                !lode_unpack_frame(unpacker, f, i, image, &err))
                return false;
        }
    return true;
}

static void
try_block(const uint8_t *block, uint32_t bytes, uint8_t filters, uint32_t raw)
{
    uint8_t *image = room(raw);
    uint8_t *again = room(raw);
    struct lode_error err = {0};
    struct lode_frames f;
    bool opened = lode_frames_open(block, bytes, raw, filters, &f, &err);
    bool good = lode_unpack(unpacker, block, bytes, filters, image, raw, &err);

    check(opened || !good);
    check(good || err.code == LODE_E_CORRUPT);
    if (opened)
        check(unpack_backwards(&f, again) == good);
    if (good)
        check(memcmp(image, again, raw) == 0);
    free(image);
    free(again);
}

static void
try_image(const uint8_t *head, const uint8_t *image, uint32_t bytes)
{
    uint32_t split = lode_load_u16(head + 4) % bytes;
    struct lode_run runs[2] = {
        {.bytes = split,
         .filter = head[0] % LODE_FILTER_COUNT,
         .effort = (head[1] & 0x7f) % 3,
         .level = (int8_t)(1 + head[2] % 19),
         .all_planes = head[1] >> 7,
         .scale_offset = split},
        {.offset = split, .bytes = bytes - split, .effort = LODE_EFFORT_FAST},
    };
    bool one = split == 0;
    uint8_t *out = room(bytes);
    uint8_t *again = room(bytes);
    struct lode_error err = {0};
    uint32_t stored = 0;
    uint8_t filters = 0;

    if (lode_pack(packer, image, bytes, runs + one, 2 - one, head[3], out,
                  &stored, &filters, &err)) {
        check(stored < bytes);
        if (stored != 0)
            check(lode_unpack(unpacker, out, stored, filters, again, bytes,
                              &err) &&
                  memcmp(image, again, bytes) == 0);
    } else {
        check(err.code == LODE_E_USAGE);
    }
    free(out);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    prepare();
    if (bytes <= IMAGE_HEAD || bytes > RAW_MAX)
        return 0;
    if (data[0] % 2 == 0)
        try_block(data + BLOCK_HEAD, (uint32_t)bytes - BLOCK_HEAD, data[1],
                  lode_load_u32(data + 2) % RAW_MAX);
    else
        try_image(data + 1, data + IMAGE_HEAD, (uint32_t)bytes - IMAGE_HEAD);
    return 0;
}

/* Some values, then a scale for each 16 bytes of them. */
static void
fill(uint8_t *image, uint32_t bytes)
{
    uint32_t x = 1;

    for (uint32_t i = 0; i < bytes; i++) {
        x = x * 1664525U + 1013904223U;
        image[i] = (uint8_t)((x >> 30) * 0x11);
        if (i >= bytes / 17 * 16)
            image[i] = (uint8_t)(118 + (x >> 31));
    }
}

void
fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes))
{
    static uint8_t seed[BLOCK_HEAD + IMAGE_HEAD + SEED_BYTES];
    static uint8_t image[SEED_BYTES];
    uint32_t split = SEED_BYTES / 17 * 16;
    struct lode_error err;

    prepare();
    fill(image, SEED_BYTES);
    for (uint8_t filter = 0; filter < LODE_FILTER_COUNT; filter++) {
        struct lode_run runs[2] = {
            {.bytes = split,
             .filter = filter,
             .effort = LODE_EFFORT_FAST,
             .all_planes = 1,
             .scale_offset = split},
            {.offset = split,
             .bytes = SEED_BYTES - split,
             .effort = LODE_EFFORT_LEVEL,
             .level = 9},
        };
        uint32_t stored;

        check(lode_pack(packer, image, SEED_BYTES, runs, 2, LODE_GAIN_ANY,
                        seed + BLOCK_HEAD, &stored, &seed[1], &err) &&
              stored != 0);
        seed[0] = 0;
        lode_store_u32(seed + 2, SEED_BYTES);
        emit(seed, BLOCK_HEAD + stored);
        for (uint8_t effort = 0; effort < 3; effort++) {
            const uint8_t head[4] = {1, filter, effort, 8};

            memcpy(seed, head, sizeof(head));
            seed[4] = LODE_GAIN_ANY;
            lode_store_u16(seed + 5, (uint16_t)split);
            memcpy(seed + IMAGE_HEAD, image, SEED_BYTES);
            emit(seed, IMAGE_HEAD + SEED_BYTES);
        }
    }
}
