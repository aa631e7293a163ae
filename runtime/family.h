/* SPDX-License-Identifier: Apache-2.0
 *
 * What a family implements, and the parts of the Kimi forward pass.  Each part
 * reads work.in (the half's normalised input) and writes what it adds to the
 * stream into work.sum; tensors are visited in the order of layer_order.c. */

#ifndef LODE_RUNTIME_FAMILY_H
#define LODE_RUNTIME_FAMILY_H

#include "runtime/ops.h"

/* One forward pass over tokens rows of work.x; logits by want. */
LODE_MUST_CHECK
bool rt_kimi_forward(struct rt_engine *e, uint32_t tokens, enum rt_want want,
                     struct lode_error *err);

/* Kimi Delta Attention. */
LODE_MUST_CHECK
bool rt_kda_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
                  struct lode_error *err);

/* Latent attention without positions, absorbed form. */
LODE_MUST_CHECK
bool rt_mla_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
                  struct lode_error *err);

/* Router, routed experts, shared expert. */
LODE_MUST_CHECK
bool rt_moe_layer(struct rt_engine *e, uint32_t layer, struct rt_input *in,
                  struct lode_error *err);

/* A gated MLP whose three matrices are the trunk tensors of gate_role and the
 * two roles after it; out: [T][hidden] rows out_stride floats apart. */
LODE_MUST_CHECK
bool rt_mlp(struct rt_engine *e, const struct rt_view *v, uint16_t gate_role,
            struct rt_input *in, float *out, size_t out_stride,
            struct lode_error *err);

#endif
