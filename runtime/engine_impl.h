/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of an engine, for the files that make up the forward pass. */

#ifndef LODE_RUNTIME_ENGINE_IMPL_H
#define LODE_RUNTIME_ENGINE_IMPL_H

#include "runtime/cache.h"
#include "runtime/engine.h"
#include "runtime/kernels.h"
#include "runtime/state.h"
#include "runtime/team.h"
#include "runtime/trunk.h"
#include "runtime/work.h"

/* One expert of the layer at hand, on its way through moe.c. */
struct rt_guest {
    int32_t slot; /* RT_CACHE_NONE: not yet placed */
    bool computed;
};

struct rt_engine {
    const struct rt_model *model; /* borrowed */
    const struct rt_kernels *kernels;
    struct rt_team *team;
    struct rt_fetch *fetch;
    struct rt_trunk *trunk;
    struct rt_cache *cache; /* NULL for a model without experts */
    uint8_t *slots;
    uint64_t slots_bytes;
    struct rt_request *slot_requests; /* by slot */
    struct rt_guest *guests; /* by place in work.distinct */

    uint8_t *row_block;    /* the embedding block read last */
    int64_t row_block_seq; /* its place in the matrix, or -1 */
    struct rt_request row_request;

    struct rt_budget budget;
    struct rt_work work;
    struct rt_state state;
    char io_note[256];
    bool failed; /* a push went wrong: state and cache are undefined */

    void (*route_sink)(void *user, uint32_t layer, const uint32_t *ids,
                       uint32_t tokens, uint32_t k);
    void *route_user;
};

#endif
