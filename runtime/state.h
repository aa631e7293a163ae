/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session carries from token to token: per KDA layer the recurrent
 * matrix of each head and the last raw projections (convolution history), per
 * MLA layer one latent and one shared key part a token.  Nothing else: the
 * attention residuals start afresh with every token. */

#ifndef LODE_RUNTIME_STATE_H
#define LODE_RUNTIME_STATE_H

#include "runtime/model_config.h"

struct rt_layer_state {
    float *s;       /* KDA: [heads][key width][value width] */
    float *history; /* KDA: [q, k, v][taps - 1][channels], oldest first */
    float *latent;  /* MLA: [context][kv latent + rope width] */
};

struct rt_state {
    struct rt_layer_state *layers;
    float *memory;
    uint64_t bytes;
    uint64_t context_tokens;
    uint64_t position; /* tokens taken so far */
};

LODE_MUST_CHECK
bool rt_state_new(const struct rt_config *c, uint64_t context_tokens,
                  struct rt_state *out, struct lode_error *err);
void rt_state_free(struct rt_state *s);

/* Back to the empty state. */
void rt_state_reset(const struct rt_config *c, struct rt_state *s);

#endif
