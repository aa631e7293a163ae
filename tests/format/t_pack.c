/* SPDX-License-Identifier: Apache-2.0
 *
 * Packed blocks (spec 7.3): what was packed comes back, whatever the filter,
 * effort and size, in any order and from several threads; and what does not pay
 * is left alone. */
#include "config.h"

#include <pthread.h>

#include <zstd.h>

#include "base/le.h"
#include "format/limits.h"
#include "format/pack.h"
#include "tests/tap.h"

enum { MIB = 1 << 20, THREADS = 4 };

static struct lode_packer *packer;
static struct lode_unpacker *unpacker;
static uint64_t state = 7;

static uint32_t
next(uint32_t below)
{
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static uint8_t *
room(size_t bytes)
{
    uint8_t *p = malloc(bytes != 0 ? bytes : 1);

    if (p == NULL)
        exit(99);
    return p;
}

/* Each byte packs to some bits, in whatever plane it lands. */
static void
fill(uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)(next(4) * 0x11 + (next(9) == 0 ? next(256) : 0));
}

/* Values with a filter, then a scale for each 16 bytes of them. */
struct sample {
    uint8_t *image;
    uint32_t bytes;
    struct lode_run runs[2];
};

static void
sample_make(struct sample *s, uint8_t filter, uint32_t bytes)
{
    uint32_t scales = bytes / 16 + 1;

    *s =
        (struct sample){.bytes = bytes + scales, .image = room(bytes + scales)};
    fill(s->image, bytes);
    for (uint32_t i = 0; i < scales; i++)
        s->image[bytes + i] = (uint8_t)(118 + next(3));
    s->runs[0] = (struct lode_run){
        .bytes = bytes,
        .filter = filter,
        .effort = LODE_EFFORT_FAST,
        .scale_offset = filter == LODE_FILTER_SCALECLASS ? bytes : 0};
    s->runs[1] = (struct lode_run){.offset = bytes,
                                   .bytes = scales,
                                   .effort = LODE_EFFORT_LEVEL,
                                   .level = 9};
}

/* Exactly as large as it may be, so that ASan sees a byte too many. */
static uint8_t *
pack(struct lode_packer *p, const struct sample *s, uint32_t *stored,
     uint8_t *filters)
{
    uint8_t *out = room(s->bytes);
    struct lode_error err;

    must(lode_pack(p, s->image, s->bytes, s->runs, 2, LODE_GAIN_AUTO, out,
                   stored, filters, &err),
         &err);
    if (*stored != 0 && (out = realloc(out, *stored)) == NULL)
        exit(99);
    return out;
}

/* Frame by frame, the last first; places must be gapless. */
static bool
unpack_backwards(const struct sample *s, const struct lode_frames *f)
{
    uint8_t *image = room(s->bytes);
    uint32_t end = s->bytes;
    struct lode_error err;
    bool good = true;

    for (uint32_t phase = 0; phase < 2; phase++)
        for (uint32_t i = f->count; i-- > 0;) {
            struct lode_frame_place place;

            lode_frames_place(f, i, &place);
            if (phase == 0) {
                good = good && place.offset + place.bytes == end;
                end = place.offset;
            }
            if (place.phase == phase)
                must(lode_unpack_frame(unpacker, f, i, image, &err), &err);
        }
    good = good && end == 0 && memcmp(image, s->image, s->bytes) == 0;
    free(image);
    return good;
}

static bool
round_trip(const struct sample *s)
{
    uint8_t *image = room(s->bytes);
    uint32_t stored;
    uint8_t filters;
    uint8_t *out = pack(packer, s, &stored, &filters);
    struct lode_frames f;
    struct lode_error err;
    bool good;

    if (stored == 0) {
        free(out);
        free(image);
        return false;
    }
    must(lode_unpack(unpacker, out, stored, filters, image, s->bytes, &err),
         &err);
    good = stored < s->bytes && memcmp(image, s->image, s->bytes) == 0;
    must(lode_frames_open(out, stored, s->bytes, filters, &f, &err), &err);
    good = good && unpack_backwards(s, &f);
    if (s->runs[0].filter != LODE_FILTER_NONE)
        good = good && filters == 1U << s->runs[0].filter;
    else
        good = good && filters == 0;
    good =
        good && f.second_phase == (s->runs[0].filter == LODE_FILTER_SCALECLASS);
    free(out);
    free(image);
    return good;
}

static void
test_sizes(void)
{
    static const uint32_t sizes[] = {2000,    2001,     4098,     4099,
                                     MIB - 1, MIB,      MIB + 1,  MIB + 2,
                                     MIB + 4, MIB + 16, MIB + 17, 3 * MIB + 5};

    for (uint8_t filter = 0; filter < LODE_FILTER_COUNT; filter++) {
        uint32_t good = 0;

        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
            struct sample s;

            sample_make(&s, filter, sizes[i]);
            good += round_trip(&s);
            free(s.image);
        }
        is_u64(good, sizeof(sizes) / sizeof(*sizes), "filter %u: all sizes",
               filter);
    }
}

static void
test_efforts(void)
{
    static const int8_t levels[] = {0, 1, 3, 9, 19}; /* 0: FAST */

    for (uint8_t filter = 0; filter < LODE_FILTER_COUNT; filter++)
        for (uint8_t all = 0; all < 2; all++) {
            uint32_t good = 0;

            for (size_t i = 0; i < sizeof(levels); i++) {
                struct sample s;

                sample_make(&s, filter, 100003);
                s.runs[0].all_planes = all;
                s.runs[0].level = levels[i];
                if (levels[i] != 0)
                    s.runs[0].effort = LODE_EFFORT_LEVEL;
                good += round_trip(&s);
                free(s.image);
            }
            is_u64(good, sizeof(levels), "filter %u: all efforts%s", filter,
                   all ? ", all planes" : "");
        }
}

/* The table by hand: 2 MiB + 1 byte of bf16 are two frames and a rest. */
static void
test_table(void)
{
    struct sample s;
    struct lode_frames f;
    struct lode_frame_place place;
    struct lode_error err;
    uint32_t stored;
    uint8_t filters;
    uint8_t *out;

    sample_make(&s, LODE_FILTER_ROT16SPLIT, 2 * MIB + 1);
    out = pack(packer, &s, &stored, &filters);
    must(lode_frames_open(out, stored, s.bytes, filters, &f, &err), &err);
    is_u64(f.count, 4, "two frames, a rest, the scales");
    is_u64(out[8 + 20] | out[8 + 24 + 20], LODE_FILTER_ROT16SPLIT,
           "both have the filter");
    is_u64(out[8 + 48 + 20], LODE_FILTER_NONE, "the rest has none");
    lode_frames_place(&f, 1, &place);
    is_u64(place.offset, MIB, "the second begins behind the first");
    is_u64(place.bytes, MIB, "and is as long");
    lode_frames_place(&f, 2, &place);
    is_u64(place.bytes, 1, "the rest is one byte");
    lode_frames_place(&f, 3, &place);
    is_u64(place.offset, 2 * MIB + 1, "a frame crosses no run");
    free(out);
    free(s.image);
}

/* Equal bytes from a packer that has done other things and from a new one. */
static void
test_deterministic(void)
{
    struct lode_packer *fresh = NULL;
    struct lode_error err;
    bool same = true;

    for (uint8_t filter = 0; filter < LODE_FILTER_COUNT; filter++) {
        uint32_t stored[2];
        uint8_t filters[2];
        uint8_t *out[2];
        struct sample s;

        sample_make(&s, filter, MIB + 300);
        must(lode_packer_new(&fresh, &err), &err);
        out[0] = pack(packer, &s, &stored[0], &filters[0]);
        out[1] = pack(fresh, &s, &stored[1], &filters[1]);
        same = same && stored[0] != 0 && stored[0] == stored[1] &&
               filters[0] == filters[1] &&
               memcmp(out[0], out[1], stored[0]) == 0;
        lode_packer_free(fresh);
        free(out[0]);
        free(out[1]);
        free(s.image);
    }
    ok(same, "equal images give equal bytes");
}

struct share {
    const struct lode_frames *f;
    uint8_t *image;
    uint32_t first, phase;
    bool good;
};

static void *
unpack_share(void *arg)
{
    struct share *share = arg;
    struct lode_unpacker *u = NULL;
    struct lode_error err;

    share->good = lode_unpacker_new(&u, &err);
    for (uint32_t i = share->first; i < share->f->count; i += THREADS) {
        struct lode_frame_place place;

        lode_frames_place(share->f, i, &place);
        if (share->good && place.phase == share->phase)
            share->good = lode_unpack_frame(u, share->f, i, share->image, &err);
    }
    lode_unpacker_free(u);
    return NULL;
}

static void
test_threads(uint8_t filter)
{
    struct share shares[THREADS];
    pthread_t threads[THREADS];
    struct lode_frames f;
    struct lode_error err;
    struct sample s;
    uint32_t stored;
    uint8_t filters;
    uint8_t *out, *image;
    bool good = true;

    sample_make(&s, filter, 5 * MIB + 48);
    image = room(s.bytes);
    out = pack(packer, &s, &stored, &filters);
    must(lode_frames_open(out, stored, s.bytes, filters, &f, &err), &err);
    for (uint32_t phase = 0; phase < 2; phase++) {
        for (uint32_t i = 0; i < THREADS; i++) {
            shares[i] = (struct share){&f, image, i, phase, false};
            if (pthread_create(&threads[i], NULL, unpack_share, &shares[i]))
                exit(99);
        }
        for (uint32_t i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL); /* it is our own */
            good = good && shares[i].good;
        }
    }
    ok(good && memcmp(image, s.image, s.bytes) == 0,
       "filter %u: frames decoded by several threads", filter);
    free(out);
    free(image);
    free(s.image);
}

/* Packed with this gain?  zeros thousandths of a MiB are 0, others random. */
static uint32_t
pack_gain(uint32_t zeros, uint32_t min_gain)
{
    struct lode_run run = {.bytes = MIB, .effort = LODE_EFFORT_FAST};
    uint8_t *image = room(MIB);
    uint8_t *out = room(MIB);
    uint32_t stored = 1;
    uint8_t filters = 1;
    struct lode_error err;

    for (uint32_t i = 0; i < MIB; i++)
        image[i] = i / 1000 * 1000 < zeros * 1048 ? 0 : (uint8_t)next(256);
    must(lode_pack(packer, image, MIB, &run, 1, min_gain, out, &stored,
                   &filters, &err),
         &err);
    free(image);
    free(out);
    return stored;
}

static void
test_gain(void)
{
    uint8_t byte = 0, out = 0x5a, filters = 9;
    struct lode_run run = {.bytes = 1, .effort = LODE_EFFORT_FAST};
    uint32_t stored = 9;
    struct lode_error err;

    is_u64(pack_gain(0, LODE_GAIN_ANY), 0, "random bytes are left alone");
    is_u64(pack_gain(20, LODE_GAIN_AUTO), 0, "2 %% are not enough for 3");
    ok(pack_gain(20, LODE_GAIN_ANY) != 0, "but for any");
    ok(pack_gain(40, LODE_GAIN_AUTO) != 0, "4 %% are enough");
    must(lode_pack(packer, &byte, 1, &run, 1, LODE_GAIN_ANY, &out, &stored,
                   &filters, &err),
         &err);
    ok(stored == 0 && filters == 0 && out == 0x5a, "one byte is left alone");
}

/* A plane that saves too little is raw, also in a block that is packed. */
static void
test_plane_gain(void)
{
    struct sample s;
    uint32_t stored;
    uint8_t filters;
    uint8_t *out;

    sample_make(&s, LODE_FILTER_NONE, 2 * MIB);
    for (uint32_t i = 0; i < MIB; i++)
        s.image[i] = i < 20000 ? 0 : (uint8_t)next(256);
    out = pack(packer, &s, &stored, &filters);
    ok(stored != 0, "a block with one frame that saves 2 %%");
    is_u64(lode_load_u32(out + 8 + 4), MIB, "which is raw");
    ok(lode_load_u32(out + 8 + 24 + 4) < MIB, "the other frame is packed");
    free(out);
    free(s.image);
}

/* Frames that do not gain are raw, without filter, between those that do. */
static void
test_mixed(void)
{
    struct sample s;
    struct lode_error err;
    struct lode_frames f;
    uint32_t stored;
    uint8_t filters;
    uint8_t *out;

    sample_make(&s, LODE_FILTER_NIBSPLIT8, 2 * MIB);
    for (uint32_t i = 0; i < MIB; i++)
        s.image[MIB + i] = (uint8_t)next(256);
    out = pack(packer, &s, &stored, &filters);
    must(lode_frames_open(out, stored, s.bytes, filters, &f, &err), &err);
    is_u64(out[8 + 20], LODE_FILTER_NIBSPLIT8, "a frame that gains");
    is_u64(out[8 + 24 + 20], LODE_FILTER_NONE, "one that does not is raw");
    ok(unpack_backwards(&s, &f), "both come back");
    free(out);
    for (uint32_t i = 0; i < MIB; i++)
        s.image[i] = (uint8_t)next(256);
    out = pack(packer, &s, &stored, &filters);
    ok(stored > 2 * MIB && filters == 0, "without gain no filter is reported");
    free(out);
    s.runs[0].effort = LODE_EFFORT_RAW;
    memset(s.image, 0, MIB * 2);
    out = pack(packer, &s, &stored, &filters);
    ok(stored > 2 * MIB && filters == 0,
       "a run that is to be raw is not packed");
    free(out);
    free(s.image);
}

static const struct {
    const char *name, *text;
    uint32_t raw_bytes, min_gain;
    struct lode_run runs[2];
} wrong_runs[] = {
    {"no image", "an image of 0 bytes", 0, 30, {{0}}},
    {"too much to ask", "1001 thousandths", 64, 1001, {{0}}},
    {"a gap",
     "run 1: 32 bytes at 33",
     64,
     30,
     {{.bytes = 32}, {.offset = 33, .bytes = 32}}},
    {"an overlap",
     "run 1: 32 bytes at 31",
     64,
     30,
     {{.bytes = 32}, {.offset = 31, .bytes = 32}}},
    {"an empty run",
     "run 1: 0 bytes at 64",
     64,
     30,
     {{.bytes = 64}, {.offset = 64}}},
    {"too short",
     "runs end at 63",
     64,
     30,
     {{.bytes = 32}, {.offset = 32, .bytes = 31}}},
    {"too long",
     "runs end at 4294967327",
     64,
     30,
     {{.bytes = 32}, {.offset = 32, .bytes = 0xffffffff}}},
    {"a filter",
     "run 0: filter 6",
     64,
     30,
     {{.bytes = 32, .filter = 6}, {.offset = 32, .bytes = 32}}},
    {"an effort",
     "effort 3",
     64,
     30,
     {{.bytes = 32, .effort = 3}, {.offset = 32, .bytes = 32}}},
    {"level 0",
     "level 0",
     64,
     30,
     {{.bytes = 32, .effort = LODE_EFFORT_LEVEL}, {.offset = 32, .bytes = 32}}},
    {"level 20",
     "level 20",
     64,
     30,
     {{.bytes = 32, .effort = LODE_EFFORT_LEVEL, .level = 20},
      {.offset = 32, .bytes = 32}}},
    {"scales behind the end",
     "scales end behind the image",
     64,
     30,
     {{.bytes = 32, .filter = LODE_FILTER_SCALECLASS, .scale_offset = 63},
      {.offset = 32, .bytes = 32}}},
    {"scales in the run itself",
     "scales lie in run 0",
     64,
     30,
     {{.bytes = 32, .filter = LODE_FILTER_SCALECLASS, .scale_offset = 31},
      {.offset = 32, .bytes = 32}}},
};

static void
test_usage(void)
{
    uint8_t image[64] = {0}, out[64], filters = 0;
    uint32_t stored = 0;
    struct lode_error err;

    for (size_t i = 0; i < sizeof(wrong_runs) / sizeof(*wrong_runs); i++)
        fails_with(lode_pack(packer, image, wrong_runs[i].raw_bytes,
                             wrong_runs[i].runs, 2, wrong_runs[i].min_gain, out,
                             &stored, &filters, &err),
                   &err, LODE_E_USAGE, wrong_runs[i].text, wrong_runs[i].name);
}

/* As many frames as there may be, and one more. */
static void
test_most_frames(void)
{
    enum { BYTES = 100 };
    uint32_t count = LODE_FRAMES_MAX + 1;
    struct lode_run *runs = calloc(count, sizeof(*runs));
    uint8_t *image = calloc(count, BYTES);
    uint8_t *out = room((size_t)count * BYTES);
    uint8_t *again = room((size_t)count * BYTES);
    struct lode_error err;
    uint32_t stored;
    uint8_t filters;

    if (runs == NULL || image == NULL)
        exit(99);
    for (uint32_t i = 0; i < count; i++)
        runs[i] = (struct lode_run){
            .offset = i * BYTES, .bytes = BYTES, .effort = LODE_EFFORT_FAST};
    must(lode_pack(packer, image, count * BYTES, runs, count, LODE_GAIN_AUTO,
                   out, &stored, &filters, &err),
         &err);
    is_u64(stored, 0, "more frames than the limit: not packed");
    count--;
    must(lode_pack(packer, image, count * BYTES, runs, count, LODE_GAIN_AUTO,
                   out, &stored, &filters, &err),
         &err);
    ok(stored != 0, "as many as the limit: packed");
    must(
        lode_unpack(unpacker, out, stored, filters, again, count * BYTES, &err),
        &err);
    ok(memcmp(again, image, (size_t)count * BYTES) == 0, "and back");
    free(runs);
    free(image);
    free(out);
    free(again);
}

/* lode_packer_bytes() is what budgets count with: libzstd takes no more. */
static void
test_memory(void)
{
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_DCtx *d = ZSTD_createDCtx();
    uint8_t *data = room(MIB);
    uint8_t *out = room(2 * MIB);
    size_t most = 0, n;

    fill(data, MIB);
    for (int level = 1; level <= 19; level += 6) {
        n = ZSTD_compressCCtx(c, out, 2 * MIB, data, MIB, level);
        if (ZSTD_isError(n))
            exit(99);
        most = ZSTD_sizeof_CCtx(c) > most ? ZSTD_sizeof_CCtx(c) : most;
    }
    printf("# contexts: %zu and %zu bytes\n", most, ZSTD_sizeof_DCtx(d));
    ok(most + 2 * MIB <= lode_packer_bytes(), "a packer's bytes suffice");
    n = ZSTD_decompressDCtx(d, data, MIB, out, n);
    ok(!ZSTD_isError(n) && ZSTD_sizeof_DCtx(d) + MIB <= lode_unpacker_bytes(),
       "an unpacker's bytes suffice");
    ok(lode_unpacker_bytes() <= 5 * MIB / 2, "and are at most 2.5 MiB");
    (void)ZSTD_freeCCtx(c); /* always 0 */
    (void)ZSTD_freeDCtx(d);
    free(data);
    free(out);
}

int
main(void)
{
    struct lode_error err;

    must(lode_packer_new(&packer, &err), &err);
    must(lode_unpacker_new(&unpacker, &err), &err);
    test_sizes();
    test_efforts();
    test_table();
    test_deterministic();
    test_threads(LODE_FILTER_ROT16SPLIT);
    test_threads(LODE_FILTER_SCALECLASS);
    test_gain();
    test_plane_gain();
    test_mixed();
    test_usage();
    test_most_frames();
    test_memory();
    lode_packer_free(packer);
    lode_packer_free(NULL);
    lode_unpacker_free(unpacker);
    lode_unpacker_free(NULL);
    return done_testing();
}
