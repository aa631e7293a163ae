/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of the runtime: run an open model within a memory budget, and push
 * tokens through it.
 *
 * The same container, tokens and sampling seed give the same bits, whatever
 * the budget, the threads, the I/O method, the instruction set and the way in
 * which tokens are cut into calls.
 *
 * Threads: an engine is used by one thread at a time. */

#ifndef LODE_RUNTIME_ENGINE_H
#define LODE_RUNTIME_ENGINE_H

#include "runtime/budget.h"
#include "runtime/fetch.h"
#include "runtime/model.h"

struct rt_engine;

struct rt_engine_options {
    uint64_t memory_bytes;   /* 0: by the machine */
    uint64_t context_tokens; /* tokens the session will hold at most */
    uint32_t chunk_tokens;   /* 0: by the budget */
    uint32_t max_chunk_tokens; /* 0: no limit */
    unsigned compute_threads;  /* 0: one a core */
    unsigned reader_threads;   /* 0: four */
    enum rt_io io;
    const char *isa; /* NULL: the best */
    bool all_logits; /* logits of every token, not only of the last */
    uint64_t caller_bytes; /* of the budget: what the caller will hold */
};

/* Plan the memory and start the threads; m is borrowed and must outlive the
 * engine.  Fails with LODE_E_USAGE, LODE_E_UNSUPPORTED (isa), LODE_E_IO (also
 * when blocks or volumes are missing), and LODE_E_NOMEM below the floor, both
 * numbers named. */
LODE_MUST_CHECK
bool rt_engine_open(const struct rt_model *m,
                    const struct rt_engine_options *opt,
                    struct rt_engine **out, struct lode_error *err);
/* Threads that compute for 0 ("one a core") or a wanted number. */
unsigned rt_engine_thread_count(unsigned wanted);
enum { RT_READER_THREADS = 4 }; /* when none are asked for */

void rt_engine_close(struct rt_engine *e); /* NULL is allowed */

/* Borrowed until rt_engine_close(). */
const struct rt_budget *rt_engine_budget(const struct rt_engine *e);
const char *rt_engine_isa(const struct rt_engine *e);
const char *rt_engine_io_note(const struct rt_engine *e); /* "" or one line */
bool rt_engine_is_direct(const struct rt_engine *e);
unsigned rt_engine_threads(const struct rt_engine *e);

enum rt_want { RT_WANT_NONE, RT_WANT_LAST, RT_WANT_ALL };

/* Push token_count tokens (1 to budget.chunk_tokens) after those before.
 * want: which logits to make (RT_WANT_ALL needs all_logits).  more: further
 * tokens will follow, so their blocks may be read ahead.  Fails with
 * LODE_E_IO or LODE_E_CORRUPT (the block named), LODE_E_LIMIT when the context
 * is full, LODE_E_CANCELLED after a signal; the session is then of no more
 * use. */
LODE_MUST_CHECK
bool rt_engine_push(struct rt_engine *e, const uint32_t *ids,
                    uint32_t token_count, enum rt_want want, bool more,
                    struct lode_error *err);

/* [tokens][vocabulary] of the last push, or its one row; valid until the next,
 * and the caller may change it. */
float *rt_engine_logits(struct rt_engine *e);

/* The experts of a layer that the last push chose, best first, k for each
 * token; NULL for a layer without experts.  Only when recording is on. */
void rt_engine_record_routes(struct rt_engine *e,
                             void (*sink)(void *user, uint32_t layer,
                                          const uint32_t *ids, uint32_t tokens,
                                          uint32_t k),
                             void *user);

/* Back to an empty session. */
void rt_engine_reset(struct rt_engine *e);
uint64_t rt_engine_position(const struct rt_engine *e);
uint64_t rt_engine_context(const struct rt_engine *e); /* tokens at most */

struct rt_engine_stats {
    uint64_t bytes_read;
    uint64_t reads;
    uint64_t stall_ns;
    uint64_t cache_hits;
    uint64_t cache_misses;
};
void rt_engine_stats(const struct rt_engine *e, struct rt_engine_stats *out);

#endif
