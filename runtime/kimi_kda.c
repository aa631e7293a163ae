/* SPDX-License-Identifier: Apache-2.0
 *
 * Kimi Delta Attention: linear attention with one decay per key channel.  (Kimi
 * Linear technical report; the bounded decay is Kimi K3's.)
 *
 * After the projections every head is on its own, so a head is the item of
 * work: convolution, norms, decay, the recurrence over the tokens in order, the
 * output norm and the gate. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "runtime/family.h"
#include "runtime/math.h"

/* Added to the sum of squares of q and k, a constant of the published code. */
#define QK_EPS 1e-6F

struct heads {
    const struct rt_engine *e;
    const struct rt_config *c;
    struct rt_layer_state *state;
    uint32_t tokens;
    size_t channels;
};

/* Causal depthwise convolution, then SiLU, of one head's channels at token t.
 * raw: [T][wide]; history: [taps - 1][channels], oldest first; w:
 * [taps][channels]. */
static void
convolve(const struct heads *j, const float *raw, const float *history,
         const float *w, uint32_t t, size_t first, float *out)
{
    size_t width = j->c->kda_width;
    uint32_t taps = j->c->conv_taps;

    for (size_t i = 0; i < width; i++)
        out[i] = 0;
    for (uint32_t tap = 0; tap < taps; tap++) {
        uint32_t back = taps - 1 - tap; /* tokens before t */
        const float *u = back <= t
                             ? raw + (size_t)(t - back) * j->e->work.wide
                             : history + (size_t)(taps - 1 - (back - t)) *
                                             j->channels;
        const float *tap_w = w + (size_t)tap * j->channels;

        for (size_t i = 0; i < width; i++)
            out[i] += tap_w[first + i] * u[first + i];
    }
    rt_silu_n(out, out, width);
}

/* The last taps - 1 raw rows become the history. */
static void
keep_history(const struct heads *j, const float *raw, float *history,
             size_t first)
{
    uint32_t keep = j->c->conv_taps - 1;
    size_t bytes = j->c->kda_width * sizeof(float);

    for (uint32_t i = 0; i < keep; i++) {
        /* Row i of the new history is row tokens + i of (history, raw). */
        uint32_t row = j->tokens + i;
        const float *from =
            row < keep ? history + (size_t)row * j->channels
                       : raw + (size_t)(row - keep) * j->e->work.wide;

        memmove(history + (size_t)i * j->channels + first, from + first, bytes);
    }
}

static void
unit_length(const struct rt_kernels *k, float *x, size_t width, float scale)
{
    float r = 1.0F / sqrtf(k->dot(x, x, width) + QK_EPS);

    for (size_t i = 0; i < width; i++)
        x[i] = x[i] * r * scale;
}

/* exp(log decay) of one head's channels. */
static void
decay(const struct heads *j, uint32_t head, const float *z, const float *bias,
      float *out)
{
    size_t width = j->c->kda_width;
    float a = rt_exp(j->e->work.decay_log[head]);

    for (size_t i = 0; i < width; i++) {
        float v = z[i] + bias[i];

        out[i] = j->c->decay_bounded ? j->c->decay_bound * rt_sigmoid(a * v)
                                     : -(a * rt_softplus(v));
    }
    rt_exp_n(out, out, width);
}

static void
run_head(const struct heads *j, uint32_t head, float *scratch)
{
    const struct rt_work *w = &j->e->work;
    const struct rt_kernels *k = j->e->kernels;
    size_t width = j->c->kda_width;
    size_t first = head * width;
    size_t conv_size = j->channels * j->c->conv_taps;
    size_t history_size = j->channels * (j->c->conv_taps - 1);
    float *q = scratch;
    float *key = q + width;
    float *v = key + width;
    float *alpha = v + width;
    float *o = alpha + width;
    float *step = o + width;
    float *s = j->state->s + head * width * width;
    float *history = j->state->history;

    for (uint32_t t = 0; t < j->tokens; t++) {
        size_t at = (size_t)t * w->wide + first;
        float beta = rt_sigmoid(w->small[t * w->small_stride + head]);

        convolve(j, w->wide_a, history, w->conv, t, first, q);
        convolve(j, w->wide_b, history + history_size, w->conv + conv_size, t,
                 first, key);
        convolve(j, w->wide_c, history + 2 * history_size,
                 w->conv + 2 * conv_size, t, first, v);
        unit_length(k, q, width, 1.0F / sqrtf((float)width));
        unit_length(k, key, width, 1.0F);
        decay(j, head, w->wide_d + at, w->decay_bias + first, alpha);
        k->kda_step(s, width, width, alpha, key, q, v, beta, o, step);
        rt_ops_norm_row(k, o, w->o_norm, width, j->c->norm_eps, o);
        rt_sigmoid_n(w->wide_e + at, w->wide_e + at, width);
        for (size_t i = 0; i < width; i++)
            w->wide_e[at + i] *= o[i];
    }
    keep_history(j, w->wide_a, history, first);
    keep_history(j, w->wide_b, history + history_size, first);
    keep_history(j, w->wide_c, history + 2 * history_size, first);
}

static void
run_heads(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct heads *j = user;
    const struct rt_work *w = &j->e->work;

    for (size_t head = begin; head < end; head++)
        run_head(j, (uint32_t)head,
                 w->kda_scratch + thread * w->kda_scratch_stride);
}

/* [channels][1][taps] as stored -> [taps][channels]. */
static bool
load_conv(struct rt_engine *e, const struct rt_tensor *t, size_t channels,
          float *out, struct lode_error *err)
{
    uint32_t taps = e->model->config.conv_taps;
    const float *raw = e->work.conv_raw;

    if (!rt_trunk_vector(e->trunk, t, channels * taps, e->work.conv_raw, err))
        return false;
    for (uint32_t tap = 0; tap < taps; tap++)
        for (size_t i = 0; i < channels; i++)
            out[tap * channels + i] = raw[i * taps + tap];
    return true;
}

static bool
load_vectors(struct rt_engine *e, const struct rt_view *v, size_t channels,
             struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r = v->by_role;
    struct rt_work *w = &e->work;
    size_t conv_size = channels * c->conv_taps;

    return load_conv(e, &r[LODE_ROLE_Q_CONV], channels, w->conv, err) &&
           load_conv(e, &r[LODE_ROLE_K_CONV], channels, w->conv + conv_size,
                     err) &&
           load_conv(e, &r[LODE_ROLE_V_CONV], channels,
                     w->conv + 2 * conv_size, err) &&
           rt_trunk_vector(e->trunk, &r[LODE_ROLE_DECAY_LOG], c->kda_heads,
                           w->decay_log, err) &&
           rt_trunk_vector(e->trunk, &r[LODE_ROLE_DECAY_BIAS], channels,
                           w->decay_bias, err) &&
           rt_trunk_vector(e->trunk, &r[LODE_ROLE_O_NORM], c->kda_width,
                           w->o_norm, err);
}

/* A low-rank pair of projections through small rows. */
static bool
low_rank(struct rt_engine *e, const struct rt_tensor *a,
         const struct rt_tensor *b, struct rt_input *in, float *out,
         struct lode_error *err)
{
    struct rt_work *w = &e->work;
    float *middle = w->small + w->chunk_tokens * w->small_stride;
    struct rt_input low;

    if (!rt_ops_stream(e, a, in, middle, w->small_stride, err))
        return false;
    low = rt_ops_input(middle, w->small_stride, a->rows, in->tokens, w->prep,
                       w->wide);
    return rt_ops_stream(e, b, &low, out, w->wide, err);
}

bool
rt_kda_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
             struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_view *v = e->model->stages[layer].view;
    const struct rt_tensor *r = v->by_role;
    struct rt_work *w = &e->work;
    size_t channels = (size_t)c->kda_heads * c->kda_width;
    struct heads j = {e, c, &e->state.layers[layer], in->tokens, channels};
    struct rt_input out;

    if (!load_vectors(e, v, channels, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_Q], in, w->wide_a, w->wide, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_K], in, w->wide_b, w->wide, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_V], in, w->wide_c, w->wide, err) ||
        !low_rank(e, &r[LODE_ROLE_DECAY_A], &r[LODE_ROLE_DECAY_B], in,
                  w->wide_d, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_BETA], in, w->small, w->small_stride,
                       err))
        return false;
    if (c->full_rank_gate
            ? !rt_ops_stream(e, &r[LODE_ROLE_G], in, w->wide_e, w->wide, err)
            : !low_rank(e, &r[LODE_ROLE_G_A], &r[LODE_ROLE_G_B], in, w->wide_e,
                        err))
        return false;
    rt_team_run(e->team, c->kda_heads, 1, run_heads, &j);
    out = rt_ops_input(w->wide_e, w->wide, channels, in->tokens, w->prep,
                       w->wide);
    return rt_ops_stream(e, &r[LODE_ROLE_O], &out, w->sum, c->hidden_width,
                         err);
}
