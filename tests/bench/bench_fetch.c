/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_fetch FILE: how fast trunk blocks arrive in memory, checked and
 * decoded, one at a time (the frames of a packed block are then decoded by all
 * readers) and many at a time.  The file should be in the page cache. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cli.h"
#include "base/mem.h"
#include "runtime/fetch.h"
#include "runtime/model.h"

enum { MANY = 8, ROUNDS = 3 };

static bool
measure(const struct rt_model *m, struct rt_fetch *f, uint32_t at_once,
        double *seconds, struct lode_error *err)
{
    static struct rt_request requests[MANY];
    uint64_t start;
    void *p[MANY] = {NULL};
    bool good = true;

    for (uint32_t i = 0; i < at_once; i++)
        if (!lode_alloc_aligned(m->max_trunk_room_bytes, "block", &p[i], err))
            return false;
    start = lode_now_ns();
    for (uint32_t i = 0; good && i < m->position_count; i += at_once) {
        uint32_t n = m->position_count - i;

        n = n < at_once ? n : at_once;
        for (uint32_t j = 0; j < n; j++) {
            requests[j].block_index = m->positions[i + j].block_index;
            requests[j].dst = p[j];
            rt_fetch_submit(f, &requests[j], RT_DEMAND);
        }
        for (uint32_t j = 0; j < n; j++)
            good = rt_fetch_wait(f, &requests[j], err) && good;
    }
    *seconds = (double)(lode_now_ns() - start) / 1e9;
    for (uint32_t i = 0; i < at_once; i++)
        lode_free_aligned(p[i], m->max_trunk_room_bytes);
    return good;
}

static bool
bench(const struct rt_model *m, unsigned threads, struct lode_error *err)
{
    char note[256];
    struct rt_fetch_options opt = {.thread_count = threads,
                                   .io = RT_IO_BUFFERED,
                                   .packed_bytes = m->packed_bytes,
                                   .note = note,
                                   .note_bytes = sizeof(note)};
    double best[2] = {1e9, 1e9};
    struct rt_fetch *f;
    bool good = true;

    if (!rt_fetch_new(m->reader, &opt, &f, err))
        return false;
    for (int i = 0; good && i < 2 * ROUNDS; i++) {
        double seconds;

        good = measure(m, f, i % 2 == 0 ? 1 : MANY, &seconds, err);
        if (good && seconds < best[i % 2])
            best[i % 2] = seconds;
    }
    rt_fetch_free(f);
    if (good)
        printf("%u threads: one at a time %.2f GB/s, %d at a time %.2f GB/s\n",
               threads, (double)m->trunk_room_bytes / 1e9 / best[0], MANY,
               (double)m->trunk_room_bytes / 1e9 / best[1]);
    return good;
}

int
main(int argc, char **argv)
{
    struct rt_model *m = NULL;
    struct lode_error err;
    bool good;

    if (argc != 2) {
        fputs("usage: bench_fetch FILE\n", stderr);
        return 2;
    }
    good = rt_model_open(argv[1], NULL, &m, &err);
    for (unsigned n = 1; good && n <= 4; n *= 2)
        good = bench(m, n, &err);
    rt_model_close(m);
    if (!good)
        fprintf(stderr, "%s\n", err.text);
    return good ? 0 : 1;
}
