/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/work.h"

#include <string.h>

#include "base/mem.h"

enum { ALIGN_FLOATS = 32 }; /* buffers start at multiples of 128 bytes */

/* Hands out pieces of one allocation; with base NULL it only counts, so that
 * the budget and the allocation can never differ. */
struct carve {
    float *base;
    uint64_t used_floats;
};

static float *
take(struct carve *k, uint64_t floats)
{
    uint64_t at = k->used_floats;

    /* Sizes are products of bounded configuration values (model_config.c) and
     * the chunk: far below 2^64. */
    k->used_floats += (floats + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
    return k->base != NULL ? k->base + at : NULL;
}

static uint32_t *
take_ids(struct carve *k, uint64_t count)
{
    return (uint32_t *)(void *)take(k, count); /* same size and alignment */
}

static uint64_t
max2(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

uint32_t
rt_bank_entries(const struct rt_config *c)
{
    if (c->mix_period == 0)
        return 0;
    return (c->layer_count + c->mix_period - 1) / c->mix_period;
}

static void
carve_attention(const struct rt_config *c, const struct rt_work_shape *s,
                struct rt_work *w, struct carve *k)
{
    uint64_t t = s->chunk_tokens;
    uint64_t kda = (uint64_t)c->kda_heads * c->kda_width;
    uint64_t q = (uint64_t)c->mla_heads * (c->nope_width + c->rope_width);
    uint64_t v = (uint64_t)c->mla_heads * c->value_width;
    uint64_t wide = max2(max2(kda, max2(q, v)),
                         max2(c->dense_width, c->shared_width));
    uint64_t small = max2(c->kda_width + c->kda_heads,
                          max2(c->q_latent_width,
                               c->kv_latent_width + c->rope_width));

    wide = rt_padded(max2(wide, c->hidden_width));
    w->wide = wide;
    w->small_stride = rt_padded(small);
    w->wide_a = take(k, t * wide);
    w->wide_b = take(k, t * wide);
    w->wide_c = take(k, t * wide);
    w->wide_d = take(k, t * wide);
    w->wide_e = take(k, t * wide);
    w->prep = take(k, t * wide);
    w->small = take(k, 2 * t * w->small_stride);
    w->latent_stride = rt_padded(c->kv_latent_width);
    w->latent_q = take(k, t * c->mla_heads * w->latent_stride);
    w->scores = take(k, s->compute_threads * s->context_tokens);
    w->kda_scratch_stride = (size_t)(8 * (uint64_t)c->kda_width +
                                     c->kv_latent_width + ALIGN_FLOATS);
    w->kda_scratch = take(k, s->compute_threads * w->kda_scratch_stride);
}

static void
carve_experts(const struct rt_config *c, const struct rt_work_shape *s,
              struct rt_work *w, struct carve *k)
{
    uint64_t t = s->chunk_tokens;
    uint64_t users = t * c->chosen_count;
    uint64_t act_pad = rt_padded(c->expert_width);
    uint64_t latent_pad = rt_padded(c->latent_width);

    w->router = take(k, t * c->expert_count);
    w->choice = take(k, t * c->expert_count);
    w->chosen = take_ids(k, users);
    w->chosen_best = take_ids(k, users);
    w->chosen_weight = take(k, users);
    w->expert_first = take_ids(k, c->expert_count + 1);
    w->expert_user = take_ids(k, users);
    w->user_row = take_ids(k, users);
    w->distinct = take_ids(k, c->expert_count);
    w->latent = take(k, t * latent_pad);
    w->routed_in = take(k, users * latent_pad);
    w->routed_gate = take(k, users * act_pad);
    w->routed_up = take(k, users * act_pad);
    w->routed_act = take(k, users * act_pad);
    w->latent_pad = latent_pad;
    w->act_pad = act_pad;
    w->routed_out = take(k, users * latent_pad);
}

static void
carve_vectors(const struct rt_config *c, struct rt_work *w, struct carve *k)
{
    uint64_t kda = (uint64_t)c->kda_heads * c->kda_width;

    w->mix_vector = take(k, c->hidden_width);
    w->norm_vector = take(k, c->hidden_width);
    w->conv = take(k, 3 * kda * c->conv_taps);
    w->conv_raw = take(k, kda * c->conv_taps);
    w->decay_log = take(k, c->kda_heads);
    w->decay_bias = take(k, kda);
    w->o_norm = take(k, c->kda_width);
    w->q_norm = take(k, c->q_latent_width);
    w->kv_norm = take(k, c->kv_latent_width);
    w->router_bias = take(k, c->expert_count);
    w->latent_norm = take(k, c->latent_width);
}

static void
carve_all(const struct rt_config *c, const struct rt_work_shape *s,
          struct rt_work *w, struct carve *k)
{
    uint64_t t = s->chunk_tokens;
    uint64_t h = c->hidden_width;

    w->chunk_tokens = s->chunk_tokens;
    w->hidden_pad = rt_padded(h);
    w->x = take(k, t * h);
    w->bank = take(k, rt_bank_entries(c) * t * h);
    w->h = take(k, t * h);
    w->norm = take(k, t * h);
    w->in = take(k, t * w->hidden_pad);
    w->sum = take(k, t * h);
    carve_attention(c, s, w, k);
    carve_experts(c, s, w, k);
    carve_vectors(c, w, k);
    w->logits = take(k, (s->all_logits ? t : 1) * c->vocab_rows);
}

uint64_t
rt_work_bytes(const struct rt_config *c, const struct rt_work_shape *s)
{
    struct carve k = {NULL, 0};
    struct rt_work w;

    memset(&w, 0, sizeof(w));
    carve_all(c, s, &w, &k);
    return k.used_floats * sizeof(float);
}

bool
rt_work_new(const struct rt_config *c, const struct rt_work_shape *s,
            struct rt_work *out, struct lode_error *err)
{
    struct carve k = {NULL, 0};
    struct rt_work w;
    void *p;

    memset(&w, 0, sizeof(w));
    w.bytes = rt_work_bytes(c, s);
    if (!lode_alloc_aligned(w.bytes, "activations", &p, err))
        return false;
    w.memory = p;
    k.base = p;
    carve_all(c, s, &w, &k);
    *out = w;
    return true;
}

void
rt_work_free(struct rt_work *w)
{
    lode_free_aligned(w->memory, w->bytes);
    memset(w, 0, sizeof(*w));
}
