/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's reading of config.json and generation_config.json: no crash,
 * and whatever is accepted keeps the bounds that later arithmetic relies on. */
#include "config.h"

#include <assert.h>
#include <string.h>

#include "runtime/budget.h"
#include "runtime/model_config.h"
#include "runtime/work.h"
#include "tests/fuzz/fuzz.h"

#define LISTS                                                                 \
    "\"linear_attn_config\":{\"kda_layers\":[1,2],\"full_attn_layers\":[3]," \
    "\"num_heads\":2,\"head_dim\":16,\"short_conv_kernel_size\":4"
#define TEXT                                                                  \
    "\"hidden_size\":96,\"num_hidden_layers\":3,\"vocab_size\":256,"          \
    "\"rms_norm_eps\":1e-5,\"intermediate_size\":128,\"num_experts\":8,"      \
    "\"moe_intermediate_size\":32,\"num_experts_per_token\":2,"              \
    "\"num_shared_experts\":1,\"first_k_dense_replace\":1,"                  \
    "\"moe_renormalize\":true,\"num_attention_heads\":2,"                    \
    "\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":4,"     \
    "\"v_head_dim\":8,\"mla_use_nope\":true,\"eos_token_id\":[3,4]"

static const char *const seeds[] = {
    "{\"model_type\":\"kimi_linear\"," TEXT "," LISTS "}}",
    "{\"model_type\":\"kimi_k3\",\"text_config\":{" TEXT ","
    "\"hidden_act\":\"situ\",\"attn_res_block_size\":2,\"q_lora_rank\":8,"
    "\"routed_expert_hidden_size\":32,\"latent_moe_use_norm\":true,"
    "\"num_expert_group\":4,\"topk_group\":2,\"max_position_embeddings\":64,"
    LISTS ",\"gate_lower_bound\":-5.0,\"use_full_rank_gate\":true}}}",
    "{\"eos_token_id\":7}",
};

const uint32_t fuzz_mutant_count = 2000;

void
fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes))
{
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        emit((const uint8_t *)seeds[i], strlen(seeds[i]));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rt_config c;
    struct lode_error err;
    struct rt_work_shape shape = {512, 1U << 30, 256, true};

    if (!rt_config_parse((const char *)data, bytes, &c, &err)) {
        assert(err.code != LODE_E_NONE && err.text[0] != '\0');
        return 0;
    }
    assert(c.layer_count >= 1 && c.layer_count <= RT_LAYERS_MAX);
    assert(c.expert_count == 0 ||
           (c.chosen_count >= 1 && c.chosen_count <= c.expert_count));
    assert(c.stop_count <= RT_STOP_IDS_MAX);
    assert(c.norm_eps >= 0);
    /* Sizes stay far from where 64 bits end. */
    assert(rt_state_bytes(&c, 1U << 30) < UINT64_C(1) << 63);
    assert(rt_work_bytes(&c, &shape) < UINT64_C(1) << 63);
    for (uint32_t i = 0; i < c.layer_count; i++)
        assert(c.is_kda[i] <= 1);
    if (!rt_config_add_generation(&c, (const char *)data, bytes, &err))
        assert(err.text[0] != '\0');
    assert(c.stop_count <= RT_STOP_IDS_MAX);
    return 0;
}
