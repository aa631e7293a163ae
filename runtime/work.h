/* SPDX-License-Identifier: Apache-2.0
 *
 * The buffers of a forward pass: activations of one chunk, and the small
 * vectors of one layer.  Their sizes are known from the configuration and the
 * chunk, so the budget counts them before they are there.
 *
 * All are rows per token of float32.  "prepared" rows are what matmul reads:
 * padded to whole lanes, in the kernels' own order. */

#ifndef LODE_RUNTIME_WORK_H
#define LODE_RUNTIME_WORK_H

#include "runtime/model_config.h"
#include "runtime/kernels.h"

struct rt_work {
    uint32_t chunk_tokens;
    uint64_t bytes;
    float *memory;

    /* Strides in floats. */
    size_t hidden_pad;
    size_t wide;     /* of wide[]: see work.c */
    size_t latent_pad; /* of latent, routed_in and routed_out */
    size_t act_pad;    /* of routed_gate, routed_up and routed_act */
    size_t latent_stride; /* of latent_q */

    float *x;      /* [T][hidden] the stream */
    float *bank;   /* [entries][T][hidden] attention residuals */
    float *h;      /* [T][hidden] */
    float *norm;   /* [T][hidden] a layer half's normalised input */
    float *in;     /* [T][hidden_pad] norm, prepared */
    float *sum;    /* [T][hidden] what a half adds to the stream */
    float *wide_a; /* [T][wide] projections and MLP activations ... */
    float *wide_b;
    float *wide_c;
    float *wide_d;
    float *wide_e;
    float *prep;   /* [T][wide] a second prepared input */
    float *small;  /* [T][small] low-rank outputs, beta */
    size_t small_stride;
    float *latent_q; /* [heads][T][latent_stride]: absorbed queries, then
                        prepared sums of latents */
    float *scores;   /* [threads][context]: attention weights */
    float *kda_scratch; /* [threads][...] */
    size_t kda_scratch_stride;

    float *router;      /* [T][experts] scores, then choice scores */
    float *choice;      /* [T][experts] */
    uint32_t *chosen;   /* [T][k], ascending expert number */
    float *chosen_weight; /* [T][k] */
    uint32_t *chosen_best; /* [T][k], best first: for reports */
    uint32_t *expert_first; /* [experts + 1]: users of each expert ... */
    uint32_t *expert_user;  /* [T x k]: (token, place), ordered by expert */
    uint32_t *user_row;     /* the inverse: row of (token, place) */
    uint32_t *distinct;     /* experts that this chunk uses */
    float *latent;      /* [T][latent] routed experts' input */
    float *routed_in;   /* [T x k][latent padded] prepared, by user */
    float *routed_gate; /* [T x k][expert width] by user */
    float *routed_up;   /* likewise */
    float *routed_act;  /* [T x k][expert width padded] prepared */
    float *routed_out;  /* [T x k][latent] by user */

    float *logits; /* [T or 1][vocabulary] */

    /* One layer's vectors. */
    float *mix_vector; /* [hidden] norm x projection, folded */
    float *norm_vector; /* [hidden] */
    float *conv;       /* [3][taps][kda channels] transposed */
    float *conv_raw;   /* [taps x channels] as stored */
    float *decay_log;  /* [heads] */
    float *decay_bias; /* [channels] */
    float *o_norm;     /* [head width] */
    float *q_norm;     /* [q latent] */
    float *kv_norm;    /* [kv latent] */
    float *router_bias; /* [experts] */
    float *latent_norm; /* [latent] */
};

struct rt_work_shape {
    uint32_t chunk_tokens;
    uint64_t context_tokens;
    unsigned compute_threads;
    bool all_logits;
};

/* Bytes that rt_work_new() will allocate. */
uint64_t rt_work_bytes(const struct rt_config *c,
                       const struct rt_work_shape *s);

LODE_MUST_CHECK
bool rt_work_new(const struct rt_config *c, const struct rt_work_shape *s,
                 struct rt_work *out, struct lode_error *err);
void rt_work_free(struct rt_work *w);

/* Entries of the residual bank. */
uint32_t rt_bank_entries(const struct rt_config *c);

#endif
