/* SPDX-License-Identifier: Apache-2.0
 *
 * Multi-head latent attention without positions, in the absorbed form: what is
 * kept per token is one latent and one key part shared by all heads.  (DeepSeek
 * V2 technical report, section 2.1; Kimi K3 drops the rotation.)
 *
 * kv_b holds, head by head, the rows that make keys and then the rows that make
 * values.  It streams: a head's key rows fold its query into latent space as
 * they arrive; when the last of them has, the head attends; its value rows then
 * turn the weighted latents into its output.  So no head, nor the matrix, is
 * ever needed as a whole. */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/cli.h"
#include "runtime/family.h"
#include "runtime/math.h"

/* eps of the two latent norms, a constant of the published code. */
#define LATENT_EPS 1e-6F

struct mla {
    struct rt_engine *e;
    const struct rt_config *c;
    const float *latent; /* [context][latent_width] */
    const struct rt_tensor *kv_b;
    uint64_t position; /* of the chunk's first token */
    uint32_t tokens;
    size_t latent_width; /* kv latent + shared key part */
    size_t head_rows;
    float scale;

    struct rt_slice slice; /* rows of kv_b that are here now */
    uint32_t slice_row;
    uint32_t first_head; /* heads of the phase that runs */
};

static float *
query_of(const struct mla *a, size_t head, size_t t)
{
    const struct rt_work *w = &a->e->work;

    return w->latent_q + (head * a->tokens + t) * w->latent_stride;
}

/* The rows of this slice that lie in [begin, end) of a head; false if none. */
static bool
rows_here(const struct mla *a, size_t head, size_t begin, size_t end,
          size_t *first, size_t *last)
{
    size_t base = head * a->head_rows;
    size_t slice_end = a->slice_row + a->slice.row_count;

    *first = base + begin > a->slice_row ? base + begin : a->slice_row;
    *last = base + end < slice_end ? base + end : slice_end;
    return *first < *last;
}

/* Key rows: latent_q += q_n[i] x row i. */
static void
absorb(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct mla *a = user;
    const struct rt_work *w = &a->e->work;
    size_t width = a->c->kv_latent_width;
    size_t q_width = a->c->nope_width + a->c->rope_width;
    float *row = w->kda_scratch + thread * w->kda_scratch_stride;

    for (size_t item = begin; item < end; item++) {
        size_t head = a->first_head + item;
        size_t first;
        size_t last;

        if (!rows_here(a, head, 0, a->c->nope_width, &first, &last))
            continue;
        for (size_t r = first; r < last; r++) {
            size_t i = r - head * a->head_rows;

            lode_decode_plain(a->kv_b->encoding,
                              a->slice.rows +
                                  (r - a->slice_row) * a->kv_b->row_bytes,
                              width, row);
            for (uint32_t t = 0; t < a->tokens; t++) {
                float *q = query_of(a, head, t);

                if (i == 0)
                    memset(q, 0, width * sizeof(float));
                a->e->kernels->axpy(
                    w->wide_a[t * w->wide + head * q_width + i], row, q, width);
            }
        }
    }
}

/* softmax(scores) times latents for one head and token; the sum is left,
 * prepared for the value rows, where the query was. */
static void
attend(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct mla *a = user;
    const struct rt_work *w = &a->e->work;
    const struct rt_kernels *k = a->e->kernels;
    size_t width = a->c->kv_latent_width;
    size_t rope = a->c->rope_width;
    size_t q_width = a->c->nope_width + rope;
    float *p = w->scores + thread * a->e->state.context_tokens;
    float *sum = w->kda_scratch + thread * w->kda_scratch_stride;

    for (size_t item = begin; item < end; item++) {
        size_t head = a->first_head + item / a->tokens;
        size_t t = item % a->tokens;
        size_t count = (size_t)a->position + t + 1;
        const float *q_r =
            w->wide_a + t * w->wide + head * q_width + a->c->nope_width;
        float *q = query_of(a, head, t);
        float best = -INFINITY;
        float total = 0;

        for (size_t s = 0; s < count; s++) {
            const float *kv = a->latent + s * a->latent_width;

            p[s] = (k->dot(q, kv, width) + k->dot(q_r, kv + width, rope)) *
                   a->scale;
            if (p[s] > best)
                best = p[s];
        }
        for (size_t s = 0; s < count; s++)
            p[s] -= best;
        rt_exp_n(p, p, count);
        memset(sum, 0, width * sizeof(float));
        for (size_t s = 0; s < count; s++) {
            total += p[s];
            k->axpy(p[s], a->latent + s * a->latent_width, sum, width);
        }
        for (size_t i = 0; i < width; i++)
            sum[i] /= total;
        k->prepare(a->kv_b->encoding, sum, width, q);
    }
}

/* Value rows: wide_b[t][head][i] = row i . weighted latents. */
static void
make_values(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct mla *a = user;
    const struct rt_work *w = &a->e->work;

    (void)thread;
    for (size_t item = begin; item < end; item++) {
        size_t head = a->first_head + item;
        struct rt_matmul m;
        size_t first;
        size_t last;

        if (!rows_here(a, head, a->c->nope_width, a->head_rows, &first, &last))
            continue;
        memset(&m, 0, sizeof(m));
        m.w = a->slice.rows + (first - a->slice_row) * a->kv_b->row_bytes;
        m.w_stride = a->kv_b->row_bytes;
        m.rows = last - first;
        m.cols = a->c->kv_latent_width;
        m.x = query_of(a, head, 0);
        m.x_stride = w->latent_stride;
        m.tokens = a->tokens;
        m.y = w->wide_b + head * a->c->value_width + first -
              head * a->head_rows - a->c->nope_width;
        m.y_stride = w->wide;
        m.encoding = a->kv_b->encoding;
        a->e->kernels->matmul(&m);
    }
}

/* One slice of kv_b: absorb, attend for the heads whose keys are complete,
 * make values. */
static void
take_slice(struct mla *a)
{
    uint32_t head_rows = (uint32_t)a->head_rows;
    uint32_t first = a->slice_row / head_rows;
    uint32_t end = a->slice_row + a->slice.row_count; /* at most rows */
    uint32_t last = (end - 1) / head_rows;
    uint32_t ready_first = first;
    uint32_t ready_last = last;

    a->first_head = first;
    rt_team_run(a->e->team, last - first + 1, 1, absorb, a);
    /* The last key row of a head decides when it attends. */
    if (a->slice_row > first * head_rows + a->c->nope_width - 1)
        ready_first++;
    if (end > last * head_rows + a->c->nope_width - 1)
        ready_last++;
    if (ready_last > ready_first) {
        a->first_head = ready_first;
        rt_team_run(a->e->team,
                    (size_t)(ready_last - ready_first) * a->tokens, 1, attend,
                    a);
    }
    a->first_head = first;
    rt_team_run(a->e->team, last - first + 1, 1, make_values, a);
}

static bool
stream_heads(struct mla *a, struct lode_error *err)
{
    uint32_t row = 0;

    while (row < a->kv_b->rows) {
        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "interrupted");
        if (!rt_trunk_slice(a->e->trunk, a->kv_b, row, &a->slice, err))
            return false;
        a->slice_row = row;
        take_slice(a);
        row += a->slice.row_count;
    }
    return true;
}

/* Queries into wide_a: [T][heads][nope + rope]. */
static bool
make_queries(struct rt_engine *e, const struct rt_tensor *r,
             struct rt_input *in, struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    struct rt_work *w = &e->work;
    struct rt_norm norm = {.x = w->small,
                           .x_stride = w->small_stride,
                           .w = w->q_norm,
                           .width = c->q_latent_width,
                           .eps = LATENT_EPS,
                           .out = w->small,
                           .out_stride = w->small_stride};
    struct rt_input low;

    if (c->q_latent_width == 0)
        return rt_ops_stream(e, &r[LODE_ROLE_Q], in, w->wide_a, w->wide, err);
    if (!rt_trunk_vector(e->trunk, &r[LODE_ROLE_Q_A_NORM], c->q_latent_width,
                         w->q_norm, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_Q_A], in, w->small, w->small_stride,
                       err))
        return false;
    rt_ops_norm(e, &norm, in->tokens);
    low = rt_ops_input(w->small, w->small_stride, c->q_latent_width,
                       in->tokens, w->prep, w->wide);
    return rt_ops_stream(e, &r[LODE_ROLE_Q_B], &low, w->wide_a, w->wide, err);
}

/* The chunk's latents, normalised, and shared key parts, as they are, into the
 * session's cache. */
static bool
extend_cache(struct rt_engine *e, struct mla *a, const struct rt_tensor *r,
             float *cache, struct rt_input *in, struct lode_error *err)
{
    const struct rt_config *c = a->c;
    struct rt_work *w = &e->work;

    if (!rt_trunk_vector(e->trunk, &r[LODE_ROLE_KV_A_NORM], c->kv_latent_width,
                         w->kv_norm, err) ||
        !rt_ops_stream(e, &r[LODE_ROLE_KV_A], in, w->small, w->small_stride,
                       err))
        return false;
    for (uint32_t t = 0; t < a->tokens; t++) {
        const float *from = w->small + t * w->small_stride;
        float *to = cache + (a->position + t) * a->latent_width;

        rt_ops_norm_row(e->kernels, from, w->kv_norm, c->kv_latent_width,
                        LATENT_EPS, to);
        memcpy(to + c->kv_latent_width, from + c->kv_latent_width,
               c->rope_width * sizeof(float));
    }
    return true;
}

bool
rt_mla_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
             struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r = e->model->stages[layer].view->by_role;
    struct rt_work *w = &e->work;
    size_t out_width = (size_t)c->mla_heads * c->value_width;
    struct rt_input out;
    struct mla a;

    memset(&a, 0, sizeof(a));
    a.e = e;
    a.c = c;
    a.latent = e->state.layers[layer].latent;
    a.kv_b = &r[LODE_ROLE_KV_B];
    a.position = e->state.position;
    a.tokens = in->tokens;
    a.latent_width = c->kv_latent_width + c->rope_width;
    a.head_rows = c->nope_width + c->value_width;
    a.scale = 1.0F / sqrtf((float)(c->nope_width + c->rope_width));
    if (!make_queries(e, r, in, err) ||
        !extend_cache(e, &a, r, e->state.layers[layer].latent, in, err) ||
        !stream_heads(&a, err))
        return false;
    if (c->mla_gate) {
        if (!rt_ops_stream(e, &r[LODE_ROLE_G], in, w->wide_c, w->wide, err))
            return false;
        for (uint32_t t = 0; t < in->tokens; t++) {
            float *gate = w->wide_c + t * w->wide;

            rt_sigmoid_n(gate, gate, out_width);
            for (size_t i = 0; i < out_width; i++)
                w->wide_b[t * w->wide + i] *= gate[i];
        }
    }
    out = rt_ops_input(w->wide_b, w->wide, out_width, in->tokens, w->prep,
                       w->wide);
    return rt_ops_stream(e, &r[LODE_ROLE_O], &out, w->sum, c->hidden_width,
                         err);
}
