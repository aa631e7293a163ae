/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader threads: block -> memory, checked.  All waiting on the drive is here,
 * and no policy.
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
    uint32_t padded_bytes;
    void *dst; /* 4096-aligned, padded_bytes long */

    struct rt_request *next; /* the fetcher's */
    atomic_int state;        /* the fetcher's: idle, queued, done, failed */
    struct lode_error error; /* valid when failed */
};

struct rt_fetch_stats {
    uint64_t bytes_read;
    uint64_t reads;
    uint64_t stall_ns; /* time rt_fetch_wait() spent waiting */
};

struct rt_fetch;

/* thread_count reader threads for this container.  io AUTO and DIRECT try
 * O_DIRECT with a real read; where it fails, AUTO falls back to buffered reads
 * and *note (a static or caller-lifetime text of note_bytes) says why in one
 * line, DIRECT fails with LODE_E_IO.  note is "" otherwise. */
LODE_MUST_CHECK
bool rt_fetch_new(const struct lode_reader *r, unsigned thread_count,
                  enum rt_io io, char *note, size_t note_bytes,
                  struct rt_fetch **out, struct lode_error *err);
void rt_fetch_free(struct rt_fetch *f); /* NULL is allowed; waits for reads */

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
