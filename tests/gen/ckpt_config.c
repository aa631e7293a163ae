/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

enum { SPECIAL_SLOTS = 256 };

static json_t *
number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static bool
set_ids(json_t *obj, const struct ck_model *m)
{
    uint64_t base = m->size[CK_VOCAB] - SPECIAL_SLOTS;

    return lode_json_set(obj, "bos_token_id", number(base)) &&
           lode_json_set(obj, "eos_token_id", number(base + 2)) &&
           lode_json_set(obj, "pad_token_id", number(base + 255));
}

static json_t *
strings(const char *only)
{
    json_t *array = json_array();

    if (array != NULL && !lode_json_push(array, json_string(only))) {
        json_decref(array);
        return NULL;
    }
    return array;
}

/* Layer numbers count from 1 here. */
static bool
set_layers(json_t *obj, const char *key, const struct ck_model *m, bool full)
{
    json_t *array = json_array();

    for (uint64_t l = 0; array != NULL && l < m->size[CK_LAYERS]; l++)
        if (ck_layer_is_full_attention(m, l) == full &&
            !lode_json_push(array, number(l + 1))) {
            json_decref(array);
            return false;
        }
    return lode_json_set(obj, key, array);
}

static json_t *
linear_attention(const struct ck_model *m)
{
    bool k3 = m->family == CK_KIMI_K3;
    json_t *obj = json_object();

    if (obj != NULL && set_layers(obj, "full_attn_layers", m, true) &&
        (!k3 || lode_json_set(obj, "gate_lower_bound", json_real(-5.0))) &&
        lode_json_set(obj, "head_dim", number(m->size[CK_KDA_DIM])) &&
        set_layers(obj, "kda_layers", m, false) &&
        lode_json_set(obj, "num_heads", number(m->size[CK_KDA_HEADS])) &&
        lode_json_set(obj, "short_conv_kernel_size",
                      number(m->size[CK_TAPS])) &&
        (!k3 || lode_json_set(obj, "use_full_rank_gate", json_true())))
        return obj;
    json_decref(obj);
    return NULL;
}

/* The keys that are plain sizes, in both families. */
static bool
set_sizes(json_t *obj, const struct ck_model *m)
{
    static const struct {
        const char *key;
        enum ck_size size;
    } table[] = {
        {"first_k_dense_replace", CK_FIRST_DENSE},
        {"hidden_size", CK_HIDDEN},
        {"intermediate_size", CK_INTER},
        {"kv_lora_rank", CK_KV_LORA},
        {"moe_intermediate_size", CK_MOE_INTER},
        {"num_attention_heads", CK_HEADS},
        {"num_experts", CK_EXPERTS},
        {"num_experts_per_token", CK_TOPK},
        {"num_hidden_layers", CK_LAYERS},
        {"num_key_value_heads", CK_HEADS},
        {"num_shared_experts", CK_SHARED},
        {"qk_nope_head_dim", CK_NOPE},
        {"qk_rope_head_dim", CK_ROPE},
        {"v_head_dim", CK_VDIM},
        {"vocab_size", CK_VOCAB},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (!lode_json_set(obj, table[i].key, number(m->size[table[i].size])))
            return false;
    return lode_json_set(obj, "q_lora_rank",
                         m->size[CK_Q_LORA] != 0 ? number(m->size[CK_Q_LORA])
                                                 : json_null());
}

static bool
set_common(json_t *obj, const struct ck_model *m)
{
    bool k3 = m->family == CK_KIMI_K3;

    return lode_json_set(obj, "architectures",
                         strings("KimiLinearForCausalLM")) &&
           set_ids(obj, m) && set_sizes(obj, m) &&
           lode_json_set(obj, "dtype", json_string("bfloat16")) &&
           lode_json_set(obj, "hidden_act",
                         json_string(k3 ? "situ" : "silu")) &&
           lode_json_set(obj, "initializer_range", json_real(0.02)) &&
           lode_json_set(obj, "linear_attn_config", linear_attention(m)) &&
           lode_json_set(obj, "mla_use_nope", json_true()) &&
           lode_json_set(obj, "model_type", json_string("kimi_linear")) &&
           lode_json_set(obj, "moe_layer_freq", number(1)) &&
           lode_json_set(obj, "moe_renormalize", json_true()) &&
           lode_json_set(obj, "moe_router_activation_func",
                         json_string("sigmoid")) &&
           lode_json_set(obj, "num_expert_group", number(1)) &&
           lode_json_set(obj, "num_nextn_predict_layers", number(0)) &&
           lode_json_set(obj, "rms_norm_eps", json_real(1e-5)) &&
           lode_json_set(obj, "routed_scaling_factor",
                         json_real(k3 ? 1.0 : 2.446)) &&
           lode_json_set(obj, "tie_word_embeddings", json_false()) &&
           lode_json_set(obj, "topk_group", number(1)) &&
           lode_json_set(obj, "use_cache", json_true()) &&
           lode_json_set(obj, "use_grouped_topk", json_true());
}

static json_t *
quantization(void)
{
    static const char text[] =
        "{\"config_groups\": {\"group_0\": {"
        "\"format\": \"mxfp4-pack-quantized\", \"input_activations\": null,"
        "\"output_activations\": null, \"targets\": [\"Linear\"],"
        "\"weights\": {\"actorder\": null, \"block_structure\": null,"
        "\"dynamic\": false, \"group_size\": 32, \"num_bits\": 4,"
        "\"observer\": \"minmax\", \"observer_kwargs\": {},"
        "\"scale_dtype\": \"torch.uint8\", \"strategy\": \"group\","
        "\"symmetric\": true, \"type\": \"float\", \"zp_dtype\": null}}},"
        "\"format\": \"mxfp4-pack-quantized\","
        "\"global_compression_ratio\": null, \"ignore\": ["
        "\"re:.*self_attn.*\", \"re:.*shared_experts.*\","
        "\"re:.*mlp\\\\.(gate|up|gate_up|down)_proj.*\","
        "\"re:.*lm_head.*\", \"re:.*vision_tower.*\","
        "\"re:.*mm_projector.*\"], \"kv_cache_scheme\": null,"
        "\"quant_method\": \"compressed-tensors\","
        "\"quantization_status\": \"compressed\"}";

    return json_loads(text, 0, NULL);
}

/* The keys of Kimi K3's text_config that Kimi-Linear lacks.  The last ones are
 * library defaults in the published file, which readers must ignore. */
static bool
set_k3(json_t *obj, const struct ck_model *m)
{
    const uint64_t *n = m->size;

    return lode_json_set(obj, "activation_situ_beta", json_real(4.0)) &&
           lode_json_set(obj, "activation_situ_linear_beta",
                         json_real(25.0)) &&
           (n[CK_BLOCK_SIZE] == 0 ||
            lode_json_set(obj, "attn_res_block_size",
                          number(n[CK_BLOCK_SIZE]))) &&
           (n[CK_LATENT] == 0 ||
            (lode_json_set(obj, "latent_moe_use_norm", json_true()) &&
             lode_json_set(obj, "routed_expert_hidden_size",
                           number(n[CK_LATENT])))) &&
           lode_json_set(obj, "max_position_embeddings", number(1048576)) &&
           lode_json_set(obj, "mla_use_output_gate", json_true()) &&
           lode_json_set(obj, "quantization_config", quantization()) &&
           lode_json_set(obj, "topk_method", json_string("noaux_tc")) &&
           lode_json_set(obj, "max_length", number(20)) &&
           lode_json_set(obj, "repetition_penalty", json_real(1.0)) &&
           lode_json_set(obj, "temperature", json_real(1.0)) &&
           lode_json_set(obj, "top_k", number(50)) &&
           lode_json_set(obj, "top_p", json_real(1.0));
}

static json_t *
vision_config(const struct ck_model *m)
{
    const uint64_t *n = m->size;

    return json_pack(
        "{s:s, s:I, s:I, s:i, s:[ii], s:s, s:I, s:s, s:I, s:I, s:I, s:I, s:I,"
        " s:I}",
        "activation_func", "gelu_pytorch_tanh", "init_pos_emb_height",
        (json_int_t)n[CK_VT_POS], "init_pos_emb_width",
        (json_int_t)n[CK_VT_POS], "init_pos_emb_time", 4, "merge_kernel_size",
        2, 2, "merge_type", "sd2_tpool", "mm_hidden_size",
        (json_int_t)n[CK_VT_HIDDEN], "mm_projector_type", "patchmergerv2",
        "patch_size", (json_int_t)n[CK_VT_PATCH], "qkv_hidden_size",
        (json_int_t)n[CK_VT_QKV], "text_hidden_size",
        (json_int_t)n[CK_HIDDEN], "vt_hidden_size",
        (json_int_t)n[CK_VT_HIDDEN], "vt_intermediate_size",
        (json_int_t)n[CK_VT_INTER], "vt_num_hidden_layers",
        (json_int_t)n[CK_VT_LAYERS]);
}

static json_t *
k3_config(const struct ck_model *m)
{
    json_t *obj = json_object();
    json_t *text = json_object();
    uint64_t base = m->size[CK_VOCAB] - SPECIAL_SLOTS;

    if (obj == NULL || text == NULL || !set_common(text, m) ||
        !set_k3(text, m)) {
        json_decref(text);
        json_decref(obj);
        return NULL;
    }
    if (lode_json_set(obj, "architectures",
                      strings("KimiK3ForConditionalGeneration")) &&
        set_ids(obj, m) &&
        lode_json_set(obj, "dtype", json_string("bfloat16")) &&
        lode_json_set(obj, "ignore_index", json_integer(-100)) &&
        lode_json_set(obj, "media_placeholder_token_id", number(base + 21)) &&
        lode_json_set(obj, "model_type", json_string("kimi_k3")) &&
        lode_json_set(obj, "text_config", json_incref(text)) &&
        lode_json_set(obj, "tie_word_embeddings", json_false()) &&
        lode_json_set(obj, "vision_config", vision_config(m))) {
        json_decref(text);
        return obj;
    }
    json_decref(text);
    json_decref(obj);
    return NULL;
}

static json_t *
linear_config(const struct ck_model *m)
{
    json_t *obj = json_object();

    if (obj != NULL && set_common(obj, m) &&
        lode_json_set(obj, "head_dim",
                      number(m->size[CK_HIDDEN] / m->size[CK_HEADS])) &&
        lode_json_set(obj, "model_max_length", number(1048576)) &&
        lode_json_set(obj, "rope_scaling", json_null()) &&
        lode_json_set(obj, "rope_theta", json_real(10000.0)))
        return obj;
    json_decref(obj);
    return NULL;
}

static bool
dump(json_t *root, const char *dir, const char *name, struct lode_error *err)
{
    char *path = NULL;
    bool good = false;

    if (root == NULL) {
        lode_fail(err, LODE_E_NOMEM, "%s: out of memory", name);
        goto out;
    }
    if (!lode_path_join(dir, name, &path, err))
        goto out;
    if (json_dump_file(root, path, JSON_INDENT(2) | JSON_SORT_KEYS) != 0) {
        lode_fail_errno(err, "%s", path);
        goto out;
    }
    good = true;
out:
    free(path);
    json_decref(root);
    return good;
}

bool
ck_write_config(const struct ck_model *m, const char *dir,
                struct lode_error *err)
{
    return dump(m->family == CK_KIMI_K3 ? k3_config(m) : linear_config(m), dir,
                "config.json", err);
}

struct slot {
    uint32_t index;
    const char *name;
};

static const struct slot k3_slots[] = {
    {0, "[BOS]"},
    {1, "[EOS]"},
    {2, "<|end_of_msg|>"},
    {3, "<|open|>"},
    {4, "<|close|>"},
    {5, "<|sep|>"},
    {6, "[start_header_id]"},
    {7, "[end_header_id]"},
    {9, "[EOT]"},
    {18, "<|media_begin|>"},
    {19, "<|media_content|>"},
    {20, "<|media_end|>"},
    {21, "<|media_pad|>"},
    {65, "<osagent_mode>"},
    {254, "[UNK]"},
    {255, "[PAD]"},
    {0, NULL},
};

static const struct slot linear_slots[] = {
    {0, "[BOS]"},
    {1, "[EOS]"},
    {2, "<|im_end|>"},
    {3, "<|im_user|>"},
    {4, "<|im_assistant|>"},
    {6, "<|start_header_id|>"},
    {7, "<|end_header_id|>"},
    {9, "[EOT]"},
    {10, "<|im_system|>"},
    {11, "<|tool_calls_section_begin|>"},
    {12, "<|tool_calls_section_end|>"},
    {13, "<|tool_call_begin|>"},
    {14, "<|tool_call_argument_begin|>"},
    {15, "<|tool_call_end|>"},
    {17, "<|im_middle|>"},
    {254, "[UNK]"},
    {255, "[PAD]"},
    {0, NULL},
};

static json_t *
added_tokens(const struct ck_model *m)
{
    const struct slot *s =
        m->family == CK_KIMI_K3 ? k3_slots : linear_slots;
    uint64_t base = m->size[CK_VOCAB] - SPECIAL_SLOTS;
    json_t *obj = json_object();

    for (; obj != NULL && s->name != NULL; s++) {
        char key[24];

        (void)snprintf(key, sizeof(key), "%" PRIu64,
                       base + s->index); /* fits: 20 digits at most */
        if (!lode_json_set(obj, key,
                           json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}",
                                     "content", s->name, "lstrip", 0,
                                     "normalized", 0, "rstrip", 0,
                                     "single_word", 0, "special", 1))) {
            json_decref(obj);
            return NULL;
        }
    }
    return obj;
}

/* The vocabulary is made by ckpt_vocab.c. */
bool
ck_write_tokenizer_config(const struct ck_model *m, const char *dir,
                          struct lode_error *err)
{
    json_t *obj = json_object();

    if (obj != NULL &&
        (!lode_json_set(obj, "added_tokens_decoder", added_tokens(m)) ||
         !lode_json_set(obj, "bos_token", json_string("[BOS]")) ||
         !lode_json_set(obj, "clean_up_tokenization_spaces", json_false()) ||
         !lode_json_set(obj, "eos_token", json_string("[EOS]")) ||
         !lode_json_set(obj, "pad_token", json_string("[PAD]")) ||
         !lode_json_set(obj, "tokenizer_class",
                        json_string("TikTokenTokenizer")) ||
         !lode_json_set(obj, "unk_token", json_string("[UNK]")))) {
        json_decref(obj);
        obj = NULL;
    }
    return dump(obj, dir, "tokenizer_config.json", err);
}
