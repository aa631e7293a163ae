/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/engine_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/embed.h"
#include "runtime/family.h"

enum {
    THREADS_MAX = 256,
    AGE_TOKENS = 64, /* use counts are halved after this many tokens */
};

static bool
open_cache(struct rt_engine *e, struct lode_error *err)
{
    const struct rt_model *m = e->model;
    const struct rt_config *c = &m->config;
    uint32_t slots = e->budget.slot_count;
    uint64_t lookups = (uint64_t)m->moe_layer_count * c->chosen_count;
    void *p = NULL;

    if (m->moe_layer_count == 0)
        return true;
    if (!rt_cache_new(c->layer_count * c->expert_count, slots,
                      lookups * AGE_TOKENS, &e->cache, err))
        return false;
    if (!lode_alloc_array(slots, sizeof(*e->slot_requests), "expert slots", &p,
                          err))
        return false;
    e->slot_requests = p;
    if (!lode_alloc_array(c->expert_count, sizeof(*e->guests), "experts", &p,
                          err))
        return false;
    e->guests = p;
    e->slots_bytes = (uint64_t)slots * m->max_expert_room_bytes;
    if (!lode_alloc_aligned(e->slots_bytes, "expert slots", &p, err))
        return false;
    e->slots = p;
    return true;
}

unsigned
rt_engine_thread_count(unsigned wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    if (wanted != 0)
        return wanted;
    if (cores < 1)
        return 1;
    return cores > THREADS_MAX ? THREADS_MAX : (unsigned)cores;
}

static bool
make_plan(struct rt_engine *e, const struct rt_engine_options *opt,
          struct lode_error *err)
{
    struct rt_budget_options b;

    memset(&b, 0, sizeof(b));
    b.memory_bytes = opt->memory_bytes;
    b.context_tokens = opt->context_tokens;
    b.chunk_tokens = opt->chunk_tokens;
    b.max_chunk_tokens = opt->max_chunk_tokens;
    b.compute_threads = rt_engine_thread_count(opt->compute_threads);
    b.reader_threads =
        opt->reader_threads != 0 ? opt->reader_threads : RT_READER_THREADS;
    b.all_logits = opt->all_logits;
    b.caller_bytes = opt->caller_bytes;
    if (b.compute_threads > THREADS_MAX || b.reader_threads > THREADS_MAX)
        return lode_fail(err, LODE_E_USAGE, "more than %d threads",
                         THREADS_MAX);
    if (opt->context_tokens == 0 ||
        opt->context_tokens > e->model->config.context_limit)
        return lode_fail(err, LODE_E_USAGE,
                         "a context of %" PRIu64 " tokens: this model takes 1 "
                         "to %u",
                         opt->context_tokens, e->model->config.context_limit);
    return rt_budget_plan(e->model, &b, &e->budget, err);
}

static bool
open_parts(struct rt_engine *e, const struct rt_engine_options *opt,
           struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    unsigned threads = rt_engine_thread_count(opt->compute_threads);
    struct rt_work_shape shape = {e->budget.chunk_tokens, opt->context_tokens,
                                  threads, opt->all_logits};
    struct rt_fetch_options fetch = {
        .thread_count = opt->reader_threads != 0 ? opt->reader_threads
                                                 : RT_READER_THREADS,
        .io = opt->io,
        .packed_bytes = e->model->packed_bytes,
        .note = e->io_note,
        .note_bytes = sizeof(e->io_note)};
    void *p = NULL;

    if (!rt_team_new(threads, &e->team, err) ||
        !rt_fetch_new(e->model->reader, &fetch, &e->fetch, err) ||
        !rt_trunk_new(e->model, e->fetch, e->budget.pinned_count,
                      e->budget.ring_count, &e->trunk, err) ||
        !open_cache(e, err) ||
        !lode_alloc_aligned(e->model->max_row_block_bytes, "embedding block",
                            &p, err))
        return false;
    e->row_block = p;
    e->row_block_seq = -1;
    return rt_work_new(c, &shape, &e->work, err) &&
           rt_state_new(c, opt->context_tokens, &e->state, err);
}

bool
rt_engine_open(const struct rt_model *m, const struct rt_engine_options *opt,
               struct rt_engine **out, struct lode_error *err)
{
    struct rt_engine *e;
    void *p = NULL;

    if (!lode_alloc_array(1, sizeof(*e), "engine", &p, err))
        return false;
    e = p;
    e->model = m;
    if (!rt_kernels_select(opt->isa, &e->kernels, err) ||
        !rt_model_whole(m, err))
        goto fail;
    if (!make_plan(e, opt, err) || !open_parts(e, opt, err)) {
        lode_fail_in(err, "%s", lode_reader_path(m->reader));
        goto fail;
    }
    *out = e;
    return true;
fail:
    rt_engine_close(e);
    return false;
}

void
rt_engine_close(struct rt_engine *e)
{
    if (e == NULL)
        return;
    /* First, since reads into the memory below may be under way. */
    rt_fetch_free(e->fetch);
    rt_trunk_free(e->trunk);
    rt_cache_free(e->cache);
    lode_free_aligned(e->slots, e->slots_bytes);
    free(e->slot_requests);
    free(e->guests);
    lode_free_aligned(e->row_block, e->model->max_row_block_bytes);
    rt_work_free(&e->work);
    rt_state_free(&e->state);
    rt_team_free(e->team);
    free(e);
}

const struct rt_budget *
rt_engine_budget(const struct rt_engine *e)
{
    return &e->budget;
}

const char *
rt_engine_isa(const struct rt_engine *e)
{
    return e->kernels->name;
}

const char *
rt_engine_io_note(const struct rt_engine *e)
{
    return e->io_note;
}

bool
rt_engine_is_direct(const struct rt_engine *e)
{
    return rt_fetch_is_direct(e->fetch);
}

unsigned
rt_engine_threads(const struct rt_engine *e)
{
    return rt_team_threads(e->team);
}

static bool
check_tokens(const struct rt_engine *e, const uint32_t *ids,
             uint32_t token_count, struct lode_error *err)
{
    const char *path = lode_reader_path(e->model->reader);

    if (e->failed)
        return lode_fail(err, LODE_E_USAGE,
                         "%s: the session ended with an error", path);
    if (token_count == 0 || token_count > e->budget.chunk_tokens)
        return lode_fail(err, LODE_E_USAGE,
                         "%s: %u tokens at once, 1 to %u can be taken", path,
                         token_count, e->budget.chunk_tokens);
    if (token_count > e->state.context_tokens - e->state.position)
        return lode_fail(err, LODE_E_LIMIT,
                         "%s: the context of %" PRIu64
                         " tokens is full; a longer one is had with --context",
                         path, e->state.context_tokens);
    for (uint32_t i = 0; i < token_count; i++)
        if (ids[i] >= e->model->config.vocab_rows)
            return lode_fail(err, LODE_E_USAGE,
                             "%s: token id %u: the vocabulary has %u", path,
                             ids[i], e->model->config.vocab_rows);
    return true;
}

bool
rt_engine_push(struct rt_engine *e, const uint32_t *ids, uint32_t token_count,
               enum rt_want want, bool more, struct lode_error *err)
{
    if (!check_tokens(e, ids, token_count, err))
        return false;
    e->failed = true; /* until all is well */
    if (!rt_trunk_begin_pass(e->trunk, want != RT_WANT_NONE, more, err) ||
        !rt_embed(e, ids, token_count, err) ||
        !rt_kimi_forward(e, token_count, want, err))
        return false;
    e->state.position += token_count;
    e->failed = false;
    return true;
}

float *
rt_engine_logits(struct rt_engine *e)
{
    return e->work.logits;
}

void
rt_engine_record_routes(struct rt_engine *e,
                        void (*sink)(void *user, uint32_t layer,
                                     const uint32_t *ids, uint32_t tokens,
                                     uint32_t k),
                        void *user)
{
    e->route_sink = sink;
    e->route_user = user;
}

void
rt_engine_reset(struct rt_engine *e)
{
    rt_state_reset(&e->model->config, &e->state);
}

uint64_t
rt_engine_position(const struct rt_engine *e)
{
    return e->state.position;
}

uint64_t
rt_engine_context(const struct rt_engine *e)
{
    return e->state.context_tokens;
}

void
rt_engine_stats(const struct rt_engine *e, struct rt_engine_stats *out)
{
    struct rt_fetch_stats f;
    struct rt_cache_stats c = {0, 0};

    rt_fetch_stats(e->fetch, &f);
    if (e->cache != NULL)
        rt_cache_stats(e->cache, &c);
    out->bytes_read = f.bytes_read;
    out->reads = f.reads;
    out->stall_ns = f.stall_ns;
    out->cache_hits = c.hits;
    out->cache_misses = c.misses;
}
