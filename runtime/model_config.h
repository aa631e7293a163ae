/* SPDX-License-Identifier: Apache-2.0
 *
 * Hyperparameters from a checkpoint's config.json, each one bounded.  A key
 * that the family cannot do without is an error when it is missing, never a
 * default: a reader that guesses gives fluent-looking wrong text. */

#ifndef LODE_RUNTIME_MODEL_CONFIG_H
#define LODE_RUNTIME_MODEL_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { RT_LAYERS_MAX = 1024, RT_STOP_IDS_MAX = 16, RT_GROUPS_MAX = 64 };

enum rt_model_type { RT_KIMI_K3, RT_KIMI_LINEAR };

struct rt_config {
    enum rt_model_type type;
    const char *family; /* "kimi_k3", "kimi_linear" */

    uint32_t hidden_width;
    uint32_t layer_count;
    uint32_t vocab_rows;
    float norm_eps;
    bool tied_head;

    uint32_t mix_period; /* attention residuals; 0: ordinary residuals */

    bool situ; /* activation SiTU-GLU, else SwiGLU */
    float situ_beta;
    float situ_linear_beta; /* 0: the up branch is not capped */

    uint32_t first_moe_layer;
    uint32_t moe_period;
    uint32_t dense_width;
    uint32_t expert_width;
    uint32_t expert_count;
    uint32_t chosen_count; /* experts per token */
    uint32_t shared_width; /* of the one shared MLP; 0: none */
    uint32_t latent_width; /* of routed experts; else hidden_width */
    bool latent;
    bool latent_norm;
    bool router_sigmoid; /* else softmax */
    bool renormalise;
    float routed_scale;
    uint32_t group_count;
    uint32_t group_chosen_count;

    uint32_t kda_heads;
    uint32_t kda_width;
    uint32_t conv_taps;
    bool decay_bounded;
    float decay_bound;
    bool full_rank_gate;

    uint32_t mla_heads;
    uint32_t q_latent_width; /* 0: plain q projection */
    uint32_t kv_latent_width;
    uint32_t nope_width;
    uint32_t rope_width;
    uint32_t value_width;
    bool mla_gate;

    uint32_t context_limit;
    uint32_t stop_ids[RT_STOP_IDS_MAX];
    uint32_t stop_count;
    uint8_t is_kda[RT_LAYERS_MAX];
};

/* Is this layer's MLP a mixture of experts? */
bool rt_config_is_moe(const struct rt_config *c, uint32_t layer);

/* Parse the text of config.json.  LODE_E_CORRUPT names the key;
 * LODE_E_UNSUPPORTED names an unknown family or switch. */
LODE_MUST_CHECK
bool rt_config_parse(const char *text, size_t bytes, struct rt_config *out,
                     struct lode_error *err);

/* Add the stop ids of generation_config.json (eos_token_id: one or a list). */
LODE_MUST_CHECK
bool rt_config_add_generation(struct rt_config *c, const char *text,
                              size_t bytes, struct lode_error *err);
LODE_MUST_CHECK
bool rt_config_add_stop(struct rt_config *c, uint32_t id,
                        struct lode_error *err);
bool rt_config_is_stop(const struct rt_config *c, uint32_t id);

#endif
