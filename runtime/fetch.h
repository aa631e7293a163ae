/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader threads: block -> memory, checked and decoded.  All waiting on drives
 * is here, and no policy.
 *
 * A request belongs to its owner until rt_fetch_submit(), to the fetcher until
 * rt_fetch_ready() or rt_fetch_wait() says it is done, and to its owner again
 * after that.  Requests are linked into queues as they are, so nothing is
 * allocated. */

#ifndef LODE_RUNTIME_FETCH_H
#define LODE_RUNTIME_FETCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "format/lode.h"

enum rt_io { RT_IO_AUTO, RT_IO_DIRECT, RT_IO_BUFFERED };

enum rt_priority {
    RT_DEMAND, /* something waits for it now */
    RT_AHEAD,  /* will be wanted; never in front of a demand */
};

struct rt_request {
    uint32_t block_index;
    void *dst; /* 4096-aligned, rt_fetch_room_bytes() long: the raw image */

    struct rt_request *next; /* the fetcher's */
    atomic_int state;        /* the fetcher's: idle, queued, done, failed */
    struct lode_error error; /* valid when failed */
};

struct rt_fetch_stats {
    uint64_t bytes_read; /* from drives: stored bytes, with padding */
    uint64_t reads;
    uint64_t stall_ns; /* time rt_fetch_wait() spent waiting */
};

struct rt_fetch_options {
    unsigned thread_count;
    enum rt_io io;
    uint64_t packed_bytes; /* the largest packed block, with padding; 0: no
                              block has a codec */
    char *note; /* out: "", or one line about the way of reading */
    size_t note_bytes;
};

struct rt_fetch;

/* Reader threads for this container, or the volumes of this set that were
 * found.  io AUTO and DIRECT try O_DIRECT on each file with a real read; where
 * it fails, AUTO falls back to buffered reads of that file and the note says
 * why, DIRECT fails with LODE_E_IO. */
LODE_MUST_CHECK
bool rt_fetch_new(const struct lode_reader *r,
                  const struct rt_fetch_options *opt, struct rt_fetch **out,
                  struct lode_error *err);
void rt_fetch_free(struct rt_fetch *f); /* NULL is allowed; waits for reads */

/* Bytes that a block takes in memory: its image, or, stored raw, its extent. */
uint64_t rt_fetch_room_bytes(const struct lode_reader *r,
                             const struct lode_block *b);

/* What rt_fetch_new() allocates for decoding, with these options. */
uint64_t rt_fetch_decode_bytes(unsigned thread_count, uint64_t packed_bytes);

/* Are all files read directly? */
bool rt_fetch_is_direct(const struct rt_fetch *f);

void rt_fetch_submit(struct rt_fetch *f, struct rt_request *q,
                     enum rt_priority priority);

/* Is it done or failed?  Does not block. */
bool rt_fetch_ready(const struct rt_request *q);

/* Wait until it is done.  False: the read failed or the block is damaged
 * (LODE_E_IO, LODE_E_CORRUPT, the block named). */
LODE_MUST_CHECK
bool rt_fetch_wait(struct rt_fetch *f, struct rt_request *q,
                   struct lode_error *err);

void rt_fetch_stats(struct rt_fetch *f, struct rt_fetch_stats *out);

#endif
