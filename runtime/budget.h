/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory plan, made before any large allocation.  Every byte the runtime
 * will hold is a line of it; the plan's total never exceeds the budget.
 *
 * Order of spending above the floor: longer prefill chunks (an eighth of what
 * is left), a deeper ring, pinned trunk blocks, then expert slots.  At equal
 * memory a pinned trunk saves more reads than cached experts do. */

#ifndef LODE_RUNTIME_BUDGET_H
#define LODE_RUNTIME_BUDGET_H

#include "runtime/model.h"

struct rt_budget_options {
    uint64_t memory_bytes; /* 0: from the machine (rt_budget_default) */
    uint64_t context_tokens;
    uint32_t chunk_tokens; /* 0: by the budget */
    uint32_t max_chunk_tokens; /* no use for longer ones; 0: no limit */
    unsigned compute_threads;
    unsigned reader_threads;
    bool all_logits; /* logits of every token of a chunk, not of the last */
    uint64_t caller_bytes; /* what the caller will hold beside the engine */
};

struct rt_budget {
    uint64_t memory_bytes; /* the budget */
    uint64_t floor_bytes;  /* the least that this model and context need */

    uint64_t base_bytes;   /* program, libraries, index, tokenizer, stacks */
    uint64_t state_bytes;  /* recurrent state, convolution history, latents */
    uint64_t work_bytes;   /* activations of one chunk */
    uint64_t fixed_bytes;  /* row buffer, embedding block, sampler, caller,
                              and: */
    uint64_t decode_bytes; /* of reader threads, for packed blocks */
    uint64_t ring_bytes;
    uint64_t pinned_bytes; /* pinned trunk */
    uint64_t cache_bytes;  /* expert slots and their tables */
    uint64_t total_bytes;

    uint32_t chunk_tokens;
    uint32_t ring_count;
    uint32_t pinned_count; /* positions of the trunk */
    uint32_t slot_count;
    uint64_t streamed_bytes; /* trunk bytes read per pass, as stored */
    uint64_t expert_bytes_per_token; /* with no cache, as stored */
};

/* Plan, or fail with LODE_E_NOMEM and both numbers when the budget is below
 * the floor. */
LODE_MUST_CHECK
bool rt_budget_plan(const struct rt_model *m,
                    const struct rt_budget_options *opt, struct rt_budget *out,
                    struct lode_error *err);

/* What this machine and its cgroup leave free, less room for the operating
 * system. */
uint64_t rt_budget_default(void);

/* Bytes of per-session state for a context of this many tokens. */
uint64_t rt_state_bytes(const struct rt_config *c, uint64_t context_tokens);

/* Resident bytes of this process now, and at their peak (VmHWM). */
uint64_t rt_resident_bytes(void);
uint64_t rt_peak_resident_bytes(void);

#endif
