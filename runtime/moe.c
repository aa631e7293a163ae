/* SPDX-License-Identifier: Apache-2.0
 *
 * A mixture-of-experts layer: route, ask for all chosen experts at once, do
 * the work that needs no expert meanwhile, then compute experts as they come.
 *
 * Every pair of a token and an expert it chose is a "user" of that expert and
 * has a row of its own in the routed_ buffers, users of one expert being
 * neighbours.  The sum over a token's experts runs in expert order, so neither
 * the order of arrival nor the cache can show in the result. */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/cli.h"
#include "runtime/family.h"
#include "runtime/route.h"

/* Experts computed together: one job for gate, one for up. */
enum { BATCH_MAX = RT_JOBS_MAX / 2 };

struct party {
    struct rt_engine *e;
    const struct rt_bank *bank;
    uint32_t layer;
    uint32_t tokens;
    uint32_t count;  /* distinct experts */
    uint32_t asked;  /* experts below this place have a slot */
    uint32_t left;   /* not yet computed */
    const float *x;  /* [T] rows that routed experts read */
    size_t x_stride;
    atomic_bool unordered; /* a router's output was NaN */
};

static void
route_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    struct party *p = user;
    const struct rt_config *c = &p->e->model->config;
    struct rt_work *w = &p->e->work;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        size_t at = t * c->chosen_count;

        if (!rt_route(c, w->router + t * c->expert_count, w->router_bias,
                      w->choice + t * c->expert_count, w->chosen_best + at,
                      w->chosen + at, w->chosen_weight + at))
            atomic_store(&p->unordered, true);
    }
}

/* Number the users by expert: a counting sort that keeps token order. */
static void
sort_users(struct party *p)
{
    const struct rt_config *c = &p->e->model->config;
    struct rt_work *w = &p->e->work;
    uint32_t users = p->tokens * c->chosen_count;
    uint32_t row = 0;

    memset(w->expert_first, 0,
           ((size_t)c->expert_count + 1) * sizeof(*w->expert_first));
    for (uint32_t u = 0; u < users; u++)
        w->expert_first[w->chosen[u]]++;
    p->count = 0;
    for (uint32_t i = 0; i <= c->expert_count; i++) {
        uint32_t n = w->expert_first[i];

        if (i < c->expert_count && n != 0)
            w->distinct[p->count++] = i;
        w->expert_first[i] = row;
        row += n;
    }
    for (uint32_t u = 0; u < users; u++) {
        uint32_t at = w->expert_first[w->chosen[u]]++;

        w->expert_user[at] = u;
        w->user_row[u] = at;
    }
    /* Each start has moved on to the next expert's: move back. */
    for (uint32_t i = c->expert_count; i > 0; i--)
        w->expert_first[i] = w->expert_first[i - 1];
    w->expert_first[0] = 0;
    p->left = p->count;
}

/* Experts that this layer lacks cannot be chosen, and have no part in a sum of
 * scores. */
static void
leave_out(const struct party *p)
{
    const struct rt_config *c = &p->e->model->config;
    struct rt_work *w = &p->e->work;

    for (uint32_t i = p->bank->expert_count; i < c->expert_count; i++) {
        w->router_bias[i] = -INFINITY;
        for (size_t t = 0; t < p->tokens; t++)
            w->router[t * c->expert_count + i] = -INFINITY;
    }
}

static bool
route(struct party *p, struct rt_input *in, struct lode_error *err)
{
    struct rt_engine *e = p->e;
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r = e->model->stages[p->layer].view->by_role;
    struct rt_work *w = &e->work;

    if (!rt_trunk_vector(e->trunk, &r[LODE_ROLE_ROUTER_BIAS],
                         p->bank->expert_count, w->router_bias, err))
        return false;
    if (c->latent_norm &&
        !rt_trunk_vector(e->trunk, &r[LODE_ROLE_LATENT_NORM], c->latent_width,
                         w->latent_norm, err))
        return false;
    if (!rt_ops_stream(e, &r[LODE_ROLE_ROUTER], in, w->router, c->expert_count,
                       err))
        return false;
    leave_out(p);
    rt_team_run(e->team, p->tokens, 1, route_rows, p);
    if (atomic_load(&p->unordered))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: layer %u: the router's scores are not numbers",
                         lode_reader_path(e->model->reader), p->layer);
    if (e->route_sink != NULL)
        e->route_sink(e->route_user, p->layer, w->chosen_best, p->tokens,
                      c->chosen_count);
    sort_users(p);
    return true;
}

static uint8_t *
slot_memory(const struct rt_engine *e, int32_t slot)
{
    return e->slots + (uint64_t)slot * e->model->max_expert_room_bytes;
}

static uint32_t
cache_key(const struct party *p, uint32_t place)
{
    return p->layer * p->e->model->config.expert_count +
           p->e->work.distinct[place];
}

/* Give slots to further experts, as long as there are some, and read them. */
static void
ask(struct party *p)
{
    struct rt_engine *e = p->e;

    for (; p->asked < p->count; p->asked++) {
        struct rt_guest *g = &e->guests[p->asked];
        struct rt_request *q;

        if (g->slot != RT_CACHE_NONE)
            continue; /* was in the cache */
        g->slot = rt_cache_put(e->cache, cache_key(p, p->asked));
        if (g->slot == RT_CACHE_NONE)
            return;
        q = &e->slot_requests[g->slot];
        q->block_index =
            p->bank->first_block_index + e->work.distinct[p->asked];
        q->dst = slot_memory(e, g->slot);
        rt_fetch_submit(e->fetch, q, RT_DEMAND);
    }
}

/* Look all experts up before any gets a slot, so that none of them is given
 * up for another. */
static void
invite(struct party *p)
{
    for (uint32_t i = 0; i < p->count; i++) {
        struct rt_guest *g = &p->e->guests[i];

        g->slot = rt_cache_get(p->e->cache, cache_key(p, i));
        g->computed = false;
    }
    ask(p);
}

/* Experts that are in memory, at most BATCH_MAX, by place.  When none is, wait
 * for the one that was asked for first. */
static bool
ready(struct party *p, uint32_t *places, uint32_t *count,
      struct lode_error *err)
{
    struct rt_engine *e = p->e;
    struct rt_guest *oldest = NULL;

    *count = 0;
    for (uint32_t i = 0; i < p->count && *count < BATCH_MAX; i++) {
        struct rt_guest *g = &e->guests[i];

        if (g->computed || g->slot == RT_CACHE_NONE)
            continue;
        if (!rt_fetch_ready(&e->slot_requests[g->slot])) {
            if (oldest == NULL)
                oldest = g;
            continue;
        }
        /* Returns at once; says whether the read went well. */
        if (!rt_fetch_wait(e->fetch, &e->slot_requests[g->slot], err))
            return false;
        places[(*count)++] = i;
    }
    if (*count > 0)
        return true;
    assert(oldest != NULL); /* with no slot in use, ask() finds one */
    if (!rt_fetch_wait(e->fetch, &e->slot_requests[oldest->slot], err))
        return false;
    places[(*count)++] = (uint32_t)(oldest - e->guests);
    return true;
}

struct batch {
    const struct party *p;
    uint32_t first_row[BATCH_MAX];
    uint32_t row_count[BATCH_MAX];
    uint32_t places[BATCH_MAX];
    uint32_t count;
    uint32_t rows; /* of all experts */
};

/* The row of the routed_ buffers that is number i of the batch. */
static size_t
batch_row(const struct batch *b, size_t i)
{
    uint32_t j = 0;

    while (i >= b->row_count[j])
        i -= b->row_count[j++];
    return b->first_row[j] + i;
}

static void
prepare_inputs(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct batch *b = user;
    const struct rt_engine *e = b->p->e;
    const struct rt_work *w = &e->work;
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *gate = &b->p->bank->view->by_role[LODE_ROLE_GATE];

    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t row = batch_row(b, i);
        size_t token = w->expert_user[row] / c->chosen_count;

        e->kernels->prepare(gate->encoding, b->p->x + token * b->p->x_stride,
                            c->latent_width,
                            w->routed_in + row * w->latent_pad);
    }
}

static void
activate_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct batch *b = user;
    const struct rt_engine *e = b->p->e;
    const struct rt_work *w = &e->work;
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *down = &b->p->bank->view->by_role[LODE_ROLE_DOWN];

    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t at = batch_row(b, i) * w->act_pad;

        rt_ops_activate_row(c, w->routed_gate + at, w->routed_up + at,
                            c->expert_width);
        e->kernels->prepare(down->encoding, w->routed_gate + at,
                            c->expert_width, w->routed_act + at);
    }
}

/* One matrix of expert number i of the batch times its users' rows. */
static struct rt_matmul
expert_matmul(const struct batch *b, uint32_t i, uint16_t role, const float *x,
              size_t x_stride, float *y, size_t y_stride)
{
    const struct rt_engine *e = b->p->e;
    const struct rt_tensor *t = &b->p->bank->view->by_role[role];
    const uint8_t *image = slot_memory(e, e->guests[b->places[i]].slot);
    size_t row = b->first_row[i];
    struct rt_matmul m;

    m.w = image + t->offset;
    m.scale = t->encoding == LODE_ENC_MXFP4 ? image + t->scale_offset : NULL;
    m.w_stride = t->row_bytes;
    m.scale_stride = t->scale_row_bytes;
    m.rows = t->rows;
    m.cols = t->cols;
    m.x = x + row * x_stride;
    m.x_stride = x_stride;
    m.tokens = b->row_count[i];
    m.y = y + row * y_stride;
    m.y_stride = y_stride;
    m.encoding = t->encoding;
    return m;
}

static void
compute(struct party *p, struct batch *b)
{
    struct rt_engine *e = p->e;
    struct rt_work *w = &e->work;
    struct rt_matmul jobs[RT_JOBS_MAX];

    b->p = p;
    b->rows = 0;
    for (uint32_t i = 0; i < b->count; i++) {
        uint32_t expert = w->distinct[b->places[i]];

        b->first_row[i] = w->expert_first[expert];
        b->row_count[i] = w->expert_first[expert + 1] - b->first_row[i];
        b->rows += b->row_count[i];
    }
    rt_team_run(e->team, b->rows, 1, prepare_inputs, b);
    for (uint32_t i = 0; i < b->count; i++) {
        jobs[2 * i] = expert_matmul(b, i, LODE_ROLE_GATE, w->routed_in,
                                    w->latent_pad, w->routed_gate, w->act_pad);
        jobs[2 * i + 1] = expert_matmul(b, i, LODE_ROLE_UP, w->routed_in,
                                        w->latent_pad, w->routed_up,
                                        w->act_pad);
    }
    rt_ops_matmuls(e, jobs, 2 * b->count);
    rt_team_run(e->team, b->rows, 1, activate_rows, b);
    for (uint32_t i = 0; i < b->count; i++)
        jobs[i] = expert_matmul(b, i, LODE_ROLE_DOWN, w->routed_act,
                                w->act_pad, w->routed_out, w->latent_pad);
    rt_ops_matmuls(e, jobs, b->count);
    for (uint32_t i = 0; i < b->count; i++) {
        struct rt_guest *g = &e->guests[b->places[i]];

        g->computed = true;
        rt_cache_unpin(e->cache, g->slot);
    }
    p->left -= b->count;
}

static bool
compute_all(struct party *p, struct lode_error *err)
{
    while (p->left > 0) {
        struct batch b;

        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "interrupted");
        if (!ready(p, b.places, &b.count, err))
            return false;
        compute(p, &b);
        ask(p);
    }
    return true;
}

struct add_up {
    const struct party *p;
    float *out;
    size_t out_stride;
};

/* out[t] = sum of weight x expert output, in ascending expert order. */
static void
add_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct add_up *a = user;
    const struct rt_config *c = &a->p->e->model->config;
    const struct rt_work *w = &a->p->e->work;

    (void)thread;
    for (size_t t = begin; t < end; t++) {
        float *out = a->out + t * a->out_stride;

        memset(out, 0, c->latent_width * sizeof(float));
        for (size_t k = 0; k < c->chosen_count; k++) {
            size_t user_index = t * c->chosen_count + k;
            float weight = w->chosen_weight[user_index];
            const float *row =
                w->routed_out + w->user_row[user_index] * w->latent_pad;

            for (size_t i = 0; i < c->latent_width; i++)
                out[i] += weight * row[i];
        }
    }
}

/* The routed experts' sum, back in the stream's width, into work.sum. */
static bool
finish(struct party *p, struct lode_error *err)
{
    struct rt_engine *e = p->e;
    const struct rt_config *c = &e->model->config;
    const struct rt_tensor *r = e->model->stages[p->layer].view->by_role;
    struct rt_work *w = &e->work;
    struct add_up a = {p, w->sum, c->hidden_width};
    struct rt_norm norm = {.x = w->latent,
                           .x_stride = w->latent_pad,
                           .w = w->latent_norm,
                           .width = c->latent_width,
                           .eps = c->norm_eps,
                           .out = w->latent,
                           .out_stride = w->latent_pad};
    struct rt_input latent;

    if (c->latent) {
        a.out = w->latent; /* its input is of no more use */
        a.out_stride = w->latent_pad;
    }
    rt_team_run(e->team, p->tokens, 1, add_rows, &a);
    if (!c->latent)
        return true;
    if (c->latent_norm)
        rt_ops_norm(e, &norm, p->tokens);
    latent = rt_ops_input(w->latent, w->latent_pad, c->latent_width, p->tokens,
                          w->prep, w->wide);
    return rt_ops_stream(e, &r[LODE_ROLE_LATENT_UP], &latent, w->sum,
                         c->hidden_width, err);
}

bool
rt_mlp(struct rt_engine *e, const struct rt_view *v, uint16_t gate_role,
       struct rt_input *in, float *out, size_t out_stride,
       struct lode_error *err)
{
    const struct rt_tensor *gate = &v->by_role[gate_role];
    const struct rt_tensor *up = gate + 1; /* gate, up, down: format/role.h */
    struct rt_work *w = &e->work;
    struct rt_input middle;

    if (!rt_ops_stream(e, gate, in, w->wide_a, w->wide, err) ||
        !rt_ops_stream(e, up, in, w->wide_b, w->wide, err))
        return false;
    rt_ops_activate(e, w->wide_a, w->wide_b, w->wide, gate->rows, in->tokens);
    middle = rt_ops_input(w->wide_a, w->wide, gate->rows, in->tokens, w->prep,
                          w->wide);
    return rt_ops_stream(e, up + 1, &middle, out, out_stride, err);
}

bool
rt_moe_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
             struct lode_error *err)
{
    const struct rt_config *c = &e->model->config;
    const struct rt_view *v = e->model->stages[layer].view;
    struct rt_work *w = &e->work;
    struct party p;

    memset(&p, 0, sizeof(p));
    p.e = e;
    p.bank = &e->model->banks[layer];
    p.layer = layer;
    p.tokens = in->tokens;
    p.x = in->x;
    p.x_stride = in->x_stride;
    if (!route(&p, in, err))
        return false;
    invite(&p);
    if (c->latent) {
        if (!rt_ops_stream(e, &v->by_role[LODE_ROLE_LATENT_DOWN], in,
                           w->latent, w->latent_pad, err))
            return false;
        p.x = w->latent;
        p.x_stride = w->latent_pad;
    }
    if (c->shared_width != 0 &&
        !rt_mlp(e, v, LODE_ROLE_SHARED_GATE, in, w->wide_c, w->wide, err))
        return false;
    if (!compute_all(&p, err) || !finish(&p, err))
        return false;
    for (size_t t = 0; c->shared_width != 0 && t < p.tokens; t++)
        for (size_t i = 0; i < c->hidden_width; i++)
            w->sum[t * c->hidden_width + i] += w->wide_c[t * w->wide + i];
    return true;
}
