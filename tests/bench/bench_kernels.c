/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights per nanosecond of one thread, for every table that this machine can
 * run: from the second-level cache and from memory, one token and eight.
 * Beside it what memcpy() copied in the moments before, in bytes per nanosecond
 * (the written ones are not counted again), and the bytes of weights as a share
 * of that, which is what to compare between machines and days.
 *
 * usage: bench_kernels [MILLISECONDS per figure] */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/kernels.h"

enum {
    COLS = 2048,
    MEMORY_MIB = 192, /* much more than the last cache */
    CACHE_KIB = 192,  /* well within the second one */
    TOKENS = 8,
    ROUNDS = 5,       /* the best of these counts */
};

static void *
room(size_t bytes)
{
    void *p = NULL;

    if (posix_memalign(&p, 4096, bytes) != 0) {
        fprintf(stderr, "bench_kernels: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    memset(p, 0x11, bytes); /* resident, and finite as any encoding */
    return p;
}

static double
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
copy_speed(uint8_t *a, size_t bytes)
{
    double best_ns = 1e30;

    for (int i = 0; i < ROUNDS; i++) {
        double start_ns = now_ns(), took_ns;

        memcpy(a, a + bytes / 2, bytes / 2);
        took_ns = now_ns() - start_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    return (double)(bytes / 2) / best_ns;
}

/* Weights per ns. */
static double
speed(const struct rt_kernels *k, struct rt_matmul *m, double want_ns)
{
    double best = 0.0;

    k->matmul(m); /* fill the caches */
    for (int i = 0; i < ROUNDS; i++) {
        double start_ns = now_ns(), took_ns;
        size_t count = 0;

        do {
            k->matmul(m);
            count++;
            took_ns = now_ns() - start_ns;
        } while (took_ns < want_ns / ROUNDS);
        if ((double)(count * m->rows * m->cols) / took_ns > best)
            best = (double)(count * m->rows * m->cols) / took_ns;
    }
    return best;
}

static void
report(const struct rt_kernels *k, struct rt_matmul *m, const char *encoding,
       double bytes_per_weight, double want_ns, uint8_t *room_for_copies)
{
    struct {
        const char *name;
        size_t bytes;
    } places[] = {{"L2", (size_t)CACHE_KIB << 10},
                  {"memory", (size_t)MEMORY_MIB << 20}};

    /* The portable table takes minutes from memory, and gains nothing. */
    for (size_t p = 0; p < (strcmp(k->name, "scalar") == 0 ? 1 : 2); p++) {
        for (size_t tokens = 1; tokens <= TOKENS; tokens += TOKENS - 1) {
            double got, copy;

            m->rows = (size_t)((double)places[p].bytes /
                               (bytes_per_weight * COLS));
            m->tokens = tokens;
            m->y_stride = m->rows;
            copy = copy_speed(room_for_copies, (size_t)MEMORY_MIB << 20);
            got = speed(k, m, want_ns);
            printf("%-7s %-6s %-7s %zu  %8.2f weights/ns, copy %5.2f, %6.2f "
                   "of it\n",
                   k->name, encoding, places[p].name, tokens, got, copy,
                   got * bytes_per_weight / copy);
            fflush(stdout);
        }
    }
}

int
main(int argc, char **argv)
{
    double want_ns = (argc > 1 ? atof(argv[1]) : 300.0) * 1e6;
    size_t bytes = (size_t)MEMORY_MIB << 20;
    uint8_t *w = room(bytes);
    size_t most_rows = bytes / (COLS / 2);
    float *x = room(TOKENS * COLS * sizeof(*x));
    struct rt_matmul m = {.w = w, .cols = COLS, .x = x, .x_stride = COLS,
                          .y = room(TOKENS * most_rows * sizeof(float))};
    uint8_t *scale = room(most_rows * (COLS / 32));

    memset(scale, 120, most_rows * (COLS / 32));
    for (const struct rt_kernels *const *k = rt_kernels_all(); *k; k++) {
        m.encoding = LODE_ENC_BF16;
        m.w_stride = COLS * 2;
        m.scale = NULL;
        report(*k, &m, "bf16", 2.0, want_ns, w);
        m.encoding = LODE_ENC_MXFP4;
        m.w_stride = COLS / 2;
        m.scale = scale;
        m.scale_stride = COLS / 32;
        report(*k, &m, "mxfp4", 0.53125, want_ns, w);
    }
    free(scale);
    free(m.y);
    free(x);
    free(w);
    return 0;
}
