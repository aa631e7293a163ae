/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/layer_order.h"

#include <inttypes.h>

/* Walks a view in order of use. */
struct walk {
    const struct rt_view *v;
    uint64_t last_offset;
    uint16_t last_role;
    struct lode_error *err;
};

static bool
in_order(struct walk *w, uint16_t role, const struct rt_tensor *t)
{
    if (w->last_role != LODE_ROLE_NONE && t->offset <= w->last_offset)
        return lode_fail(w->err, LODE_E_UNSUPPORTED,
                         "\"%s\" lies before \"%s\", but is used after it",
                         lode_role_name(role), lode_role_name(w->last_role));
    w->last_offset = t->offset;
    w->last_role = role;
    return true;
}

bool
rt_layer_check_shape(const char *what, const struct rt_tensor *t, uint64_t rows,
                     uint64_t cols, struct lode_error *err)
{
    if (!t->present)
        return lode_fail(err, LODE_E_CORRUPT, "\"%s\" is not there", what);
    if (t->rows != rows || t->cols != cols)
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"%s\" is %u x %u, config.json says %" PRIu64
                         " x %" PRIu64,
                         what, t->rows, t->cols, rows, cols);
    if (t->encoding != LODE_ENC_F32 && t->encoding != LODE_ENC_F16 &&
        t->encoding != LODE_ENC_BF16 && t->encoding != LODE_ENC_MXFP4)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "\"%s\": the runtime cannot compute with its encoding",
                         what);
    return true;
}

static bool
matrix(struct walk *w, uint16_t role, uint64_t rows, uint64_t cols)
{
    const struct rt_tensor *t = &w->v->by_role[role];

    if (!rt_layer_check_shape(lode_role_name(role), t, rows, cols, w->err))
        return false;
    if (t->encoding == LODE_ENC_MXFP4) /* two planes cannot stream as one */
        return lode_fail(w->err, LODE_E_UNSUPPORTED,
                         "\"%s\": MXFP4 in the trunk", lode_role_name(role));
    return in_order(w, role, t);
}

/* A vector in any shape whose product is exactly count (checkpoints store
 * [1, H], [H] and [1, 1, H, 1]), or with at_least, count or more. */
static bool
vector(struct walk *w, uint16_t role, uint64_t count, bool at_least)
{
    const struct rt_tensor *t = &w->v->by_role[role];
    uint64_t found = (uint64_t)t->rows * t->cols;

    if (!t->present)
        return lode_fail(w->err, LODE_E_CORRUPT, "\"%s\" is not there",
                         lode_role_name(role));
    if (at_least ? found < count : found != count)
        return lode_fail(w->err, LODE_E_CORRUPT,
                         "\"%s\" has %" PRIu64 " values, config.json says "
                         "%" PRIu64,
                         lode_role_name(role), found, count);
    if (t->encoding != LODE_ENC_F32 && t->encoding != LODE_ENC_F16 &&
        t->encoding != LODE_ENC_BF16)
        return lode_fail(w->err, LODE_E_UNSUPPORTED,
                         "\"%s\": the runtime cannot compute with its encoding",
                         lode_role_name(role));
    return in_order(w, role, t);
}

static bool
check_kda(struct walk *w, const struct rt_config *c)
{
    uint64_t p = (uint64_t)c->kda_heads * c->kda_width;
    uint64_t h = c->hidden_width;
    uint64_t conv = p * c->conv_taps;

    if (!vector(w, LODE_ROLE_Q_CONV, conv, false) ||
        !vector(w, LODE_ROLE_K_CONV, conv, false) ||
        !vector(w, LODE_ROLE_V_CONV, conv, false) ||
        !vector(w, LODE_ROLE_DECAY_LOG, c->kda_heads, true) ||
        !vector(w, LODE_ROLE_DECAY_BIAS, p, false) ||
        !vector(w, LODE_ROLE_O_NORM, c->kda_width, false) ||
        !matrix(w, LODE_ROLE_Q, p, h) || !matrix(w, LODE_ROLE_K, p, h) ||
        !matrix(w, LODE_ROLE_V, p, h) ||
        !matrix(w, LODE_ROLE_DECAY_A, c->kda_width, h) ||
        !matrix(w, LODE_ROLE_DECAY_B, p, c->kda_width) ||
        !matrix(w, LODE_ROLE_BETA, c->kda_heads, h))
        return false;
    if (c->full_rank_gate ? !matrix(w, LODE_ROLE_G, p, h)
                          : !matrix(w, LODE_ROLE_G_A, c->kda_width, h) ||
                                !matrix(w, LODE_ROLE_G_B, p, c->kda_width))
        return false;
    return matrix(w, LODE_ROLE_O, h, p);
}

static bool
check_mla(struct walk *w, const struct rt_config *c)
{
    uint64_t n = c->mla_heads;
    uint64_t h = c->hidden_width;
    uint64_t q_rows = n * (c->nope_width + c->rope_width);

    if (c->q_latent_width != 0
            ? !vector(w, LODE_ROLE_Q_A_NORM, c->q_latent_width, false) ||
                  !matrix(w, LODE_ROLE_Q_A, c->q_latent_width, h) ||
                  !matrix(w, LODE_ROLE_Q_B, q_rows, c->q_latent_width)
            : !matrix(w, LODE_ROLE_Q, q_rows, h))
        return false;
    if (!vector(w, LODE_ROLE_KV_A_NORM, c->kv_latent_width, false) ||
        !matrix(w, LODE_ROLE_KV_A, c->kv_latent_width + c->rope_width, h) ||
        !matrix(w, LODE_ROLE_KV_B, n * (c->nope_width + c->value_width),
                c->kv_latent_width))
        return false;
    if (c->mla_gate && !matrix(w, LODE_ROLE_G, n * c->value_width, h))
        return false;
    return matrix(w, LODE_ROLE_O, h, n * c->value_width);
}

static bool
check_moe(struct walk *w, const struct rt_config *c, uint32_t expert_count)
{
    uint64_t h = c->hidden_width;

    if (!vector(w, LODE_ROLE_ROUTER_BIAS, expert_count, false))
        return false;
    if (c->latent_norm &&
        !vector(w, LODE_ROLE_LATENT_NORM, c->latent_width, false))
        return false;
    if (!matrix(w, LODE_ROLE_ROUTER, expert_count, h))
        return false;
    if (c->latent && !matrix(w, LODE_ROLE_LATENT_DOWN, c->latent_width, h))
        return false;
    if (c->shared_width != 0 &&
        (!matrix(w, LODE_ROLE_SHARED_GATE, c->shared_width, h) ||
         !matrix(w, LODE_ROLE_SHARED_UP, c->shared_width, h) ||
         !matrix(w, LODE_ROLE_SHARED_DOWN, h, c->shared_width)))
        return false;
    return !c->latent || matrix(w, LODE_ROLE_LATENT_UP, h, c->latent_width);
}

bool
rt_layer_check_trunk(const struct rt_config *c, uint32_t layer,
                     uint32_t expert_count, const struct rt_view *v,
                     struct lode_error *err)
{
    struct walk w = {v, 0, LODE_ROLE_NONE, err};
    uint64_t h = c->hidden_width;

    if (c->mix_period != 0 && (!vector(&w, LODE_ROLE_ATTN_MIX_NORM, h, false) ||
                               !vector(&w, LODE_ROLE_ATTN_MIX_PROJ, h, false)))
        return false;
    if (!vector(&w, LODE_ROLE_ATTN_NORM, h, false))
        return false;
    if (c->is_kda[layer] != 0 ? !check_kda(&w, c) : !check_mla(&w, c))
        return false;
    if (c->mix_period != 0 && (!vector(&w, LODE_ROLE_MLP_MIX_NORM, h, false) ||
                               !vector(&w, LODE_ROLE_MLP_MIX_PROJ, h, false)))
        return false;
    if (!vector(&w, LODE_ROLE_MLP_NORM, h, false))
        return false;
    if (rt_config_is_moe(c, layer))
        return check_moe(&w, c, expert_count);
    return matrix(&w, LODE_ROLE_DENSE_GATE, c->dense_width, h) &&
           matrix(&w, LODE_ROLE_DENSE_UP, c->dense_width, h) &&
           matrix(&w, LODE_ROLE_DENSE_DOWN, h, c->dense_width);
}

bool
rt_layer_check_expert(const struct rt_config *c, const struct rt_view *v,
                      struct lode_error *err)
{
    static const uint16_t roles[] = {LODE_ROLE_GATE, LODE_ROLE_UP,
                                     LODE_ROLE_DOWN};

    /* Experts are in memory whole, so their order does not matter. */
    for (size_t i = 0; i < 3; i++) {
        bool down = roles[i] == LODE_ROLE_DOWN;

        if (!rt_layer_check_shape(lode_role_name(roles[i]),
                                  &v->by_role[roles[i]],
                                  down ? c->latent_width : c->expert_width,
                                  down ? c->expert_width : c->latent_width,
                                  err))
            return false;
    }
    if (v->by_role[LODE_ROLE_GATE].encoding !=
        v->by_role[LODE_ROLE_UP].encoding)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "\"gate\" and \"up\" have different encodings");
    return true;
}

bool
rt_layer_check_output(const struct rt_config *c, const struct rt_view *output,
                      const struct rt_view *head, struct lode_error *err)
{
    struct walk w = {output, 0, LODE_ROLE_NONE, err};
    uint64_t h = c->hidden_width;
    uint16_t role = head == output ? LODE_ROLE_HEAD : LODE_ROLE_EMBEDDING;

    if (c->mix_period != 0 &&
        (!vector(&w, LODE_ROLE_OUTPUT_MIX_NORM, h, false) ||
         !vector(&w, LODE_ROLE_OUTPUT_MIX_PROJ, h, false)))
        return false;
    if (!vector(&w, LODE_ROLE_FINAL_NORM, h, false))
        return false;
    if (head == output)
        return matrix(&w, LODE_ROLE_HEAD, c->vocab_rows, h);
    return rt_layer_check_shape(lode_role_name(role), &head->by_role[role],
                                c->vocab_rows, h, err);
}
