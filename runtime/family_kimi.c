/* SPDX-License-Identifier: Apache-2.0
 *
 * The forward pass of Kimi Linear and Kimi K3.  They differ in switches of the
 * configuration: K3 replaces the residual stream by attention residuals ("mix"
 * below) and routes through a latent.
 *
 * A layer is read from the trunk in the order in which it is used here; the
 * same order is checked at opening by layer_order.c. */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/cli.h"
#include "runtime/family.h"
#include "runtime/math.h"
#include "runtime/sampler.h"

/* Attention residuals (Kimi K3 technical report): the input of a layer half is
 * a softmax mixture of the bank's entries and the stream, each scored by its
 * normalised dot product with one learnt vector. */
struct mix_job {
    const struct rt_engine *e;
    uint32_t entries; /* in the bank */
    float *out;       /* [T][hidden], not the stream */
};

static float *
bank_row(const struct rt_engine *e, uint32_t entry, size_t t)
{
    const struct rt_work *w = &e->work;

    return w->bank + ((size_t)entry * w->chunk_tokens + t) *
                         e->model->config.hidden_width;
}

static void
mix_row(const struct mix_job *j, size_t t)
{
    const struct rt_engine *e = j->e;
    const struct rt_config *c = &e->model->config;
    const struct rt_work *w = &e->work;
    size_t width = c->hidden_width;
    float *out = j->out + t * width;
    uint32_t n = j->entries + 1; /* at least the stream */
    float score[RT_LAYERS_MAX + 1] = {0};
    float best;
    float total = 0;

    for (uint32_t i = 0; i < n; i++) {
        const float *row =
            i < j->entries ? bank_row(e, i, t) : w->x + t * width;
        float mean = e->kernels->dot(row, row, width) / (float)width;

        score[i] = e->kernels->dot(row, w->mix_vector, width) /
                   sqrtf(mean + c->norm_eps);
    }
    best = score[rt_argmax(score, n)];
    for (uint32_t i = 0; i < n; i++)
        score[i] -= best;
    rt_exp_n(score, score, n);
    for (uint32_t i = 0; i < n; i++)
        total += score[i];
    memset(out, 0, width * sizeof(float));
    for (uint32_t i = 0; i < n; i++)
        e->kernels->axpy(score[i] / total,
                         i < j->entries ? bank_row(e, i, t) : w->x + t * width,
                         out, width);
}

static void
mix_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    (void)thread;
    for (size_t t = begin; t < end; t++)
        mix_row(user, t);
}

/* Where a layer stands in the attention residuals. */
struct place {
    uint32_t layer;
    uint32_t tokens;
    uint32_t entries; /* of the bank */
};

/* Mix bank and stream into out with the vector of these two roles. */
static bool
mix(struct rt_engine *e, const struct place *p, const struct rt_tensor *r,
    uint16_t norm_role, uint16_t projection_role, float *out,
    struct lode_error *err)
{
    struct rt_work *w = &e->work;
    struct mix_job j = {e, p->entries, out};
    size_t width = e->model->config.hidden_width;

    if (!rt_trunk_vector(e->trunk, &r[norm_role], width, w->norm_vector, err) ||
        !rt_trunk_vector(e->trunk, &r[projection_role], width, w->mix_vector,
                         err))
        return false;
    for (size_t i = 0; i < width; i++)
        w->mix_vector[i] *= w->norm_vector[i];
    rt_team_run(e->team, p->tokens, 1, mix_rows, &j);
    return true;
}

/* Normalise a half's input h into work.norm; *in then goes into matrices. */
static bool
begin_half(struct rt_engine *e, const struct rt_tensor *norm, const float *h,
           uint32_t tokens, struct rt_input *in, struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    struct rt_work *w = &e->work;
    size_t width = c->hidden_width;
    struct rt_norm job = {.x = h,
                          .x_stride = width,
                          .w = w->norm_vector,
                          .width = width,
                          .eps = c->norm_eps,
                          .out = w->norm,
                          .out_stride = width};

    if (!rt_trunk_vector(e->trunk, norm, width, w->norm_vector, err))
        return false;
    rt_ops_norm(e, &job, tokens);
    *in = rt_ops_input(w->norm, width, width, tokens, w->in, w->hidden_pad);
    return true;
}

static void
add_sum(struct rt_work *w, size_t floats)
{
    for (size_t i = 0; i < floats; i++)
        w->x[i] += w->sum[i];
}

static bool
attention_half(struct rt_engine *e, struct place *p, struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r = e->model->stages[p->layer].view->by_role;
    struct rt_work *w = &e->work;
    size_t floats = (size_t)p->tokens * c->hidden_width;
    bool fresh = c->mix_period != 0 && p->layer % c->mix_period == 0;
    const float *h = w->x;
    struct rt_input in;

    if (p->entries > 0) {
        if (!mix(e, p, r, LODE_ROLE_ATTN_MIX_NORM, LODE_ROLE_ATTN_MIX_PROJ,
                 w->h, err))
            return false;
        h = w->h;
    }
    if (!begin_half(e, &r[LODE_ROLE_ATTN_NORM], h, p->tokens, &in, err))
        return false;
    if (fresh) /* the raw stream, not the mixture */
        memcpy(bank_row(e, p->entries++, 0), w->x, floats * sizeof(float));
    if (!(c->is_kda[p->layer] != 0 ? rt_kda_layer(e, p->layer, &in, err)
                                   : rt_mla_layer(e, p->layer, &in, err)))
        return false;
    if (fresh)
        memcpy(w->x, w->sum, floats * sizeof(float));
    else
        add_sum(w, floats);
    return true;
}

static bool
mlp_half(struct rt_engine *e, const struct place *p, struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_view *v = e->model->stages[p->layer].view;
    struct rt_work *w = &e->work;
    const float *h = w->x;
    struct rt_input in;

    if (c->mix_period != 0) {
        if (!mix(e, p, v->by_role, LODE_ROLE_MLP_MIX_NORM,
                 LODE_ROLE_MLP_MIX_PROJ, w->h, err))
            return false;
        h = w->h;
    }
    if (!begin_half(e, &v->by_role[LODE_ROLE_MLP_NORM], h, p->tokens, &in,
                    err))
        return false;
    if (!(rt_config_is_moe(c, p->layer)
              ? rt_moe_layer(e, p->layer, &in, err)
              : rt_mlp(e, v, LODE_ROLE_DENSE_GATE, &in, w->sum,
                       c->hidden_width, err)))
        return false;
    add_sum(w, (size_t)p->tokens * c->hidden_width);
    return true;
}

static bool
output(struct rt_engine *e, const struct place *p, enum rt_want want,
       struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r =
        e->model->stages[c->layer_count].view->by_role;
    uint32_t head_stage = (uint32_t)e->model->head_stage;
    uint16_t head_role = head_stage == c->layer_count ? LODE_ROLE_HEAD
                                                      : LODE_ROLE_EMBEDDING;
    struct rt_work *w = &e->work;
    size_t width = c->hidden_width;
    uint32_t first = want == RT_WANT_ALL ? 0 : p->tokens - 1;
    const float *h = w->x;
    struct rt_input in;

    if (!rt_trunk_begin_stage(e->trunk, c->layer_count, err))
        return false;
    if (c->mix_period != 0) {
        if (!mix(e, p, r, LODE_ROLE_OUTPUT_MIX_NORM, LODE_ROLE_OUTPUT_MIX_PROJ,
                 w->h, err))
            return false;
        h = w->h;
    }
    if (!begin_half(e, &r[LODE_ROLE_FINAL_NORM], h + first * width,
                    p->tokens - first, &in, err))
        return false;
    if (head_stage != c->layer_count &&
        !rt_trunk_begin_stage(e->trunk, head_stage, err))
        return false;
    return rt_ops_stream(e, &e->model->stages[head_stage].view
                                 ->by_role[head_role],
                         &in, w->logits, c->vocab_rows, err);
}

bool
rt_kimi_forward(struct rt_engine *e, uint32_t tokens, enum rt_want want,
                struct lode_error *err)
{
    struct place p = {0, tokens, 0};

    for (; p.layer < e->model->config.layer_count; p.layer++)
        if (!rt_trunk_begin_stage(e->trunk, p.layer, err) ||
            !attention_half(e, &p, err) || !mlp_half(e, &p, err))
            return false;
    return want == RT_WANT_NONE || output(e, &p, want, err);
}
