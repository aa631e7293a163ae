/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest checkpoint that has all kinds of blocks: its tensors, all BF16,
 * sorted by name, and its config.json. */

#ifndef LODE_TESTS_CONVERT_SMALL_H
#define LODE_TESTS_CONVERT_SMALL_H

#include <stdint.h>

/* A KDA layer with a dense MLP, an MLA layer with two experts. */
static const struct {
    const char *name;
    uint64_t dim[3];
} small_tensors[] = {
    {"lm_head.weight", {16, 8}},
    {"model.embed_tokens.weight", {16, 8}},
    {"model.layers.0.input_layernorm.weight", {8}},
    {"model.layers.0.mlp.down_proj.weight", {8, 12}},
    {"model.layers.0.mlp.gate_proj.weight", {12, 8}},
    {"model.layers.0.mlp.up_proj.weight", {12, 8}},
    {"model.layers.0.post_attention_layernorm.weight", {8}},
    {"model.layers.0.self_attn.A_log", {2}},
    {"model.layers.0.self_attn.b_proj.weight", {2, 8}},
    {"model.layers.0.self_attn.dt_bias", {8}},
    {"model.layers.0.self_attn.f_a_proj.weight", {4, 8}},
    {"model.layers.0.self_attn.f_b_proj.weight", {8, 4}},
    {"model.layers.0.self_attn.g_a_proj.weight", {4, 8}},
    {"model.layers.0.self_attn.g_b_proj.weight", {8, 4}},
    {"model.layers.0.self_attn.k_conv1d.weight", {8, 1, 4}},
    {"model.layers.0.self_attn.k_proj.weight", {8, 8}},
    {"model.layers.0.self_attn.o_norm.weight", {4}},
    {"model.layers.0.self_attn.o_proj.weight", {8, 8}},
    {"model.layers.0.self_attn.q_conv1d.weight", {8, 1, 4}},
    {"model.layers.0.self_attn.q_proj.weight", {8, 8}},
    {"model.layers.0.self_attn.v_conv1d.weight", {8, 1, 4}},
    {"model.layers.0.self_attn.v_proj.weight", {8, 8}},
    {"model.layers.1.block_sparse_moe.experts.0.w1.weight", {4, 8}},
    {"model.layers.1.block_sparse_moe.experts.0.w2.weight", {8, 4}},
    {"model.layers.1.block_sparse_moe.experts.0.w3.weight", {4, 8}},
    {"model.layers.1.block_sparse_moe.experts.1.w1.weight", {4, 8}},
    {"model.layers.1.block_sparse_moe.experts.1.w2.weight", {8, 4}},
    {"model.layers.1.block_sparse_moe.experts.1.w3.weight", {4, 8}},
    {"model.layers.1.block_sparse_moe.gate.e_score_correction_bias", {2}},
    {"model.layers.1.block_sparse_moe.gate.weight", {2, 8}},
    {"model.layers.1.block_sparse_moe.shared_experts.down_proj.weight",
     {8, 4}},
    {"model.layers.1.block_sparse_moe.shared_experts.gate_proj.weight",
     {4, 8}},
    {"model.layers.1.block_sparse_moe.shared_experts.up_proj.weight", {4, 8}},
    {"model.layers.1.input_layernorm.weight", {8}},
    {"model.layers.1.post_attention_layernorm.weight", {8}},
    {"model.layers.1.self_attn.kv_a_layernorm.weight", {4}},
    {"model.layers.1.self_attn.kv_a_proj_with_mqa.weight", {6, 8}},
    {"model.layers.1.self_attn.kv_b_proj.weight", {16, 4}},
    {"model.layers.1.self_attn.o_proj.weight", {8, 8}},
    {"model.layers.1.self_attn.q_proj.weight", {12, 8}},
    {"model.norm.weight", {8}},
};

enum {
    SMALL_TENSOR_COUNT = sizeof(small_tensors) / sizeof(small_tensors[0]),
};

#define SMALL_CONFIG \
    "{\"model_type\":\"kimi_linear\",\"hidden_size\":8,\"vocab_size\":16," \
    "\"num_hidden_layers\":2,\"intermediate_size\":12,\"num_experts\":2," \
    "\"num_experts_per_token\":1,\"moe_intermediate_size\":4," \
    "\"num_shared_experts\":1,\"first_k_dense_replace\":1," \
    "\"num_attention_heads\":2,\"qk_nope_head_dim\":4,\"qk_rope_head_dim\":2," \
    "\"v_head_dim\":4,\"kv_lora_rank\":4,\"q_lora_rank\":null," \
    "\"tie_word_embeddings\":false," \
    "\"linear_attn_config\":{\"kda_layers\":[1]," \
    "\"full_attn_layers\":[2],\"num_heads\":2,\"head_dim\":4," \
    "\"short_conv_kernel_size\":4}}"

#endif
