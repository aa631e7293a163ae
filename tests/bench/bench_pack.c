/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing and unpacking by one thread, for made weights whose statistics are
 * those of trained ones: ratio, GB/s of raw bytes, and beside each figure what
 * memcpy() copied of the same image in the moments before, which is what to
 * compare between machines and days.
 *
 * usage: bench_pack [ROUNDS]     the best round counts */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format/pack.h"

enum {
    IMAGE_BYTES = 32 << 20,
    COLS = 2048, /* weights of a row */
    GROUP = 32,  /* weights of an mxfp4 scale */
    ROUNDS = 7,
};

struct job {
    const char *name;
    const char *filter_name;
    struct lode_run runs[2];
    uint32_t run_count;
};

static uint64_t state;

static double
uniform(void)
{
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static float
gauss(void)
{
    return (float)(sqrt(-2.0 * log(uniform())) *
                   cos(6.283185307179586 * uniform()));
}

static uint32_t
float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static uint16_t
to_bf16(float x)
{
    uint32_t bits = float_bits(x);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* x to a format of so many exponent and fraction bits, nearest, ties up; for
 * values within its range. */
static uint32_t
to_small(float x, int exponent_bits, int fraction_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t sign = x < 0.0F;
    float a = fabsf(x);
    int e = a > 0.0F ? ilogbf(a) : -1000;
    uint32_t code;

    if (e < 1 - bias)
        e = 1 - bias; /* subnormal */
    code = (uint32_t)lrintf(ldexpf(a, fraction_bits - e));
    code += (uint32_t)(e + bias - 1) << fraction_bits;
    return sign << (exponent_bits + fraction_bits) | code;
}

/* A row's deviation: 0.02, with rows more and less lively. */
static float
row_scale(void)
{
    return 0.02F * expf(0.3F * gauss());
}

static void
fill_floats(uint8_t *image, int bytes_per_weight, bool half)
{
    uint32_t count = IMAGE_BYTES / (uint32_t)bytes_per_weight;
    float scale = 0.0F;

    for (uint32_t i = 0; i < count; i++) {
        float x;

        if (i % COLS == 0)
            scale = row_scale();
        x = scale * gauss();
        if (bytes_per_weight == 4) {
            memcpy(image + 4 * (size_t)i, &x, 4);
        } else {
            uint16_t w = half ? (uint16_t)to_small(x, 5, 10) : to_bf16(x);

            memcpy(image + 2 * (size_t)i, &w, 2);
        }
    }
}

/* e4m3 below scales of 128 x 128 that take the largest of them to 448. */
static void
fill_fp8(uint8_t *image)
{
    for (size_t i = 0; i < IMAGE_BYTES; i += 128 * 128) {
        static float block[128 * 128];
        float most = 0.0F;

        for (size_t k = 0; k < 128 * 128; k++) {
            block[k] = gauss();
            most = fmaxf(most, fabsf(block[k]));
        }
        for (size_t k = 0; k < 128 * 128; k++)
            image[i + k] = (uint8_t)to_small(block[k] * (448.0F / most), 4, 3);
    }
}

/* The nibbles of all weights, then their scales.  Returns bytes of nibbles. The
 * scale of a group is the smallest power of two below which nothing is cut off,
 * which gives nibbles and scales with the entropies of published weights; or,
 * with ocp, 2^(exponent of the largest - 2) as the OCP specification proposes,
 * which spreads nibbles almost evenly. */
static uint32_t
fill_mxfp4(uint8_t *image, bool ocp)
{
    uint32_t groups = IMAGE_BYTES / (GROUP / 2 + 1) / 64 * 64;
    uint32_t nibble_bytes = groups * (GROUP / 2);
    float row = 0.0F;

    for (uint32_t g = 0; g < groups; g++) {
        float w[GROUP], most = 0.0F;
        int scale;

        if (g % (COLS / GROUP) == 0)
            row = row_scale();
        for (uint32_t i = 0; i < GROUP; i++) {
            w[i] = row * gauss();
            most = fmaxf(most, fabsf(w[i]));
        }
        scale = ocp ? ilogbf(most) - 2 : (int)ceilf(log2f(most / 6.0F));
        for (uint32_t i = 0; i < GROUP; i++) {
            float x = fminf(fmaxf(ldexpf(w[i], -scale), -6.0F), 6.0F);

            w[i] = (float)to_small(x, 2, 1);
        }
        for (uint32_t i = 0; i < GROUP / 2; i++)
            image[g * (size_t)(GROUP / 2) + i] =
                (uint8_t)((uint32_t)w[2 * i] | (uint32_t)w[2 * i + 1] << 4);
        image[nibble_bytes + g] = (uint8_t)(127 + scale);
    }
    return nibble_bytes;
}

static void *
room(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes) != 0) {
        fprintf(stderr, "bench_pack: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 1, bytes);
    return p;
}

static double
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void
must(bool good, const struct lode_error *err)
{
    if (good)
        return;
    fprintf(stderr, "bench_pack: %s\n", err->text);
    exit(1);
}

static void
keep_best(double *best_ns, double start_ns)
{
    double took_ns = now_ns() - start_ns;

    if (took_ns < *best_ns)
        *best_ns = took_ns;
}

static void
measure(const struct job *j, const uint8_t *image, uint8_t *packed,
        uint8_t *again, int rounds)
{
    const struct lode_run *last = &j->runs[j->run_count - 1];
    uint32_t bytes = last->offset + last->bytes;
    double pack_ns = 1e30, unpack_ns = 1e30, copy_ns = 1e30;
    struct lode_packer *p = NULL;
    struct lode_unpacker *u = NULL;
    struct lode_error err = {0};
    uint32_t stored = 0;
    uint8_t filters;

    must(lode_packer_new(&p, &err) && lode_unpacker_new(&u, &err), &err);
    for (int i = 0; i < rounds; i++) {
        double start_ns = now_ns();

        memcpy(again, image, bytes);
        keep_best(&copy_ns, start_ns);
        start_ns = now_ns();
        must(lode_pack(p, image, bytes, j->runs, j->run_count, LODE_GAIN_AUTO,
                       packed, &stored, &filters, &err),
             &err);
        keep_best(&pack_ns, start_ns);
        if (stored == 0)
            break;
        memset(again, 0, bytes);
        start_ns = now_ns();
        must(lode_unpack(u, packed, stored, filters, again, bytes, &err), &err);
        keep_best(&unpack_ns, start_ns);
    }
    if (stored == 0) {
        printf("%-6s %-11s not worth packing; tried at %.2f GB/s\n", j->name,
               j->filter_name, bytes / pack_ns);
    } else {
        printf("%-6s %-11s %6.3f %9.2f %9.2f %9.2f %9.2f\n", j->name,
               j->filter_name, (double)stored / bytes, bytes / pack_ns,
               bytes / unpack_ns, bytes / copy_ns, copy_ns / unpack_ns);
        if (memcmp(image, again, bytes) != 0) {
            fprintf(stderr, "bench_pack: %s: other bytes came back\n", j->name);
            exit(1);
        }
    }
    fflush(stdout);
    lode_packer_free(p);
    lode_unpacker_free(u);
}

static struct job
whole(const char *name, const char *filter_name, enum lode_filter filter)
{
    return (struct job){
        .name = name,
        .filter_name = filter_name,
        .runs = {{.bytes = IMAGE_BYTES,
                  .filter = (uint8_t)filter,
                  .effort = LODE_EFFORT_FAST}},
        .run_count = 1,
    };
}

static struct job
record(const char *name, enum lode_filter filter, uint32_t nibble_bytes)
{
    bool none = filter == LODE_FILTER_NONE;
    struct job j = whole(name, none ? "none" : "scaleclass", filter);

    j.runs[0].bytes = nibble_bytes;
    j.runs[0].scale_offset = none ? 0 : nibble_bytes;
    j.runs[1] = (struct lode_run){.offset = nibble_bytes,
                                  .bytes = nibble_bytes / (GROUP / 2),
                                  .effort = LODE_EFFORT_LEVEL,
                                  .level = 9};
    j.run_count = 2;
    return j;
}

int
main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    uint8_t *image = room(IMAGE_BYTES);
    uint8_t *packed = room(IMAGE_BYTES);
    uint8_t *again = room(IMAGE_BYTES);
    uint32_t nibble_bytes;
    struct job j;

    if (rounds < 1) {
        fprintf(stderr, "usage: bench_pack [ROUNDS]\n");
        return 2;
    }
    printf(
        "format filter       ratio pack GB/s  decode    memcpy  decode/memcpy"
        "\n");
    fill_floats(image, 2, false);
    j = whole("bf16", "rot16split", LODE_FILTER_ROT16SPLIT);
    measure(&j, image, packed, again, rounds);
    fill_floats(image, 2, true);
    j = whole("f16", "split16", LODE_FILTER_SPLIT16);
    measure(&j, image, packed, again, rounds);
    fill_floats(image, 4, false);
    j = whole("f32", "rot32split", LODE_FILTER_ROT32SPLIT);
    measure(&j, image, packed, again, rounds);
    fill_fp8(image);
    j = whole("fp8", "nibsplit8", LODE_FILTER_NIBSPLIT8);
    measure(&j, image, packed, again, rounds);
    j = whole("fp8", "none", LODE_FILTER_NONE);
    measure(&j, image, packed, again, rounds);
    for (int ocp = 0; ocp < 2; ocp++) {
        const char *name = ocp ? "mxfp4o" : "mxfp4";

        nibble_bytes = fill_mxfp4(image, ocp);
        j = record(name, LODE_FILTER_SCALECLASS, nibble_bytes);
        measure(&j, image, packed, again, rounds);
        j = record(name, LODE_FILTER_NONE, nibble_bytes);
        measure(&j, image, packed, again, rounds);
    }
    free(again);
    free(packed);
    free(image);
    return 0;
}
