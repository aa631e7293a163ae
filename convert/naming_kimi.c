/* SPDX-License-Identifier: Apache-2.0
 *
 * Kimi K3 and Kimi Linear: one architecture with switches.  K3 nests the text
 * model's keys in text_config and prefixes its names. */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "convert/naming.h"

enum {
    KDA = CV_SWITCH_OWN,
    MLA = CV_SWITCH_OWN << 1,
    Q_LATENT = CV_SWITCH_OWN << 2,   /* MLA: q through a latent */
    Q_PLAIN = CV_SWITCH_OWN << 3,
    GATED = CV_SWITCH_OWN << 4,      /* output gate, one matrix */
    LOW_GATE = CV_SWITCH_OWN << 5,   /* output gate through a small rank */
    MIX = CV_SWITCH_OWN << 6,        /* attention residuals */
    LATENT = CV_SWITCH_OWN << 7,     /* routed experts at latent width */
    LATENT_NORM = CV_SWITCH_OWN << 8,
    SHARED = CV_SWITCH_OWN << 9,
    PACKED = CV_SWITCH_OWN << 10,    /* MXFP4 experts */
    UNPACKED = CV_SWITCH_OWN << 11,
    MOE = CV_SWITCH_MOE,
    DENSE = CV_SWITCH_DENSE,
};

#define T(name, role, form, needs, ...)                                       \
    {name, CV_IN_TRUNK, LODE_ROLE_##role, form, needs, {__VA_ARGS__}}
#define E(name, role, form, needs, ...)                                       \
    {"block_sparse_moe.experts.{E}." name, CV_IN_EXPERT, LODE_ROLE_##role,    \
     form, MOE | (needs), {__VA_ARGS__}}
#define H CV_DIM_HIDDEN
#define P CV_DIM_KDA

/* In the order in which a layer consumes its tensors: small vectors come
 * before the matrices of their half, so that they can be read early. */
static const struct cv_rule rules[] = {
    T("self_attention_res_norm.weight", ATTN_MIX_NORM, CV_PLAIN, MIX, H),
    T("self_attention_res_proj.weight", ATTN_MIX_PROJ, CV_PLAIN, MIX,
      CV_DIM_ONE, H),
    T("input_layernorm.weight", ATTN_NORM, CV_PLAIN, 0, H),

    T("self_attn.q_conv1d.weight", Q_CONV, CV_PLAIN, KDA, P, CV_DIM_ONE,
      CV_DIM_TAPS),
    T("self_attn.k_conv1d.weight", K_CONV, CV_PLAIN, KDA, P, CV_DIM_ONE,
      CV_DIM_TAPS),
    T("self_attn.v_conv1d.weight", V_CONV, CV_PLAIN, KDA, P, CV_DIM_ONE,
      CV_DIM_TAPS),
    T("self_attn.A_log", DECAY_LOG, CV_PER_HEAD, KDA, CV_DIM_KDA_HEADS),
    T("self_attn.dt_bias", DECAY_BIAS, CV_PLAIN, KDA, P),
    T("self_attn.o_norm.weight", O_NORM, CV_PLAIN, KDA, CV_DIM_KDA_HEAD),
    T("self_attn.q_proj.weight", Q, CV_PLAIN, KDA, P, H),
    T("self_attn.k_proj.weight", K, CV_PLAIN, KDA, P, H),
    T("self_attn.v_proj.weight", V, CV_PLAIN, KDA, P, H),
    T("self_attn.f_a_proj.weight", DECAY_A, CV_PLAIN, KDA, CV_DIM_KDA_HEAD, H),
    T("self_attn.f_b_proj.weight", DECAY_B, CV_PLAIN, KDA, P, CV_DIM_KDA_HEAD),
    T("self_attn.b_proj.weight", BETA, CV_PLAIN, KDA, CV_DIM_KDA_HEADS, H),
    T("self_attn.g_proj.weight", G, CV_PLAIN, KDA | GATED, P, H),
    T("self_attn.g_a_proj.weight", G_A, CV_PLAIN, KDA | LOW_GATE,
      CV_DIM_KDA_HEAD, H),
    T("self_attn.g_b_proj.weight", G_B, CV_PLAIN, KDA | LOW_GATE, P,
      CV_DIM_KDA_HEAD),
    T("self_attn.o_proj.weight", O, CV_PLAIN, KDA, H, P),

    T("self_attn.q_a_layernorm.weight", Q_A_NORM, CV_PLAIN, MLA | Q_LATENT,
      CV_DIM_Q_LATENT),
    T("self_attn.q_a_proj.weight", Q_A, CV_PLAIN, MLA | Q_LATENT,
      CV_DIM_Q_LATENT, H),
    T("self_attn.q_b_proj.weight", Q_B, CV_PLAIN, MLA | Q_LATENT, CV_DIM_Q,
      CV_DIM_Q_LATENT),
    T("self_attn.q_proj.weight", Q, CV_PLAIN, MLA | Q_PLAIN, CV_DIM_Q, H),
    T("self_attn.kv_a_layernorm.weight", KV_A_NORM, CV_PLAIN, MLA,
      CV_DIM_KV_LATENT),
    T("self_attn.kv_a_proj_with_mqa.weight", KV_A, CV_PLAIN, MLA, CV_DIM_KV_A,
      H),
    T("self_attn.kv_b_proj.weight", KV_B, CV_PLAIN, MLA, CV_DIM_KV_B,
      CV_DIM_KV_LATENT),
    T("self_attn.g_proj.weight", G, CV_PLAIN, MLA | GATED, CV_DIM_V, H),
    T("self_attn.o_proj.weight", O, CV_PLAIN, MLA, H, CV_DIM_V),

    T("mlp_res_norm.weight", MLP_MIX_NORM, CV_PLAIN, MIX, H),
    T("mlp_res_proj.weight", MLP_MIX_PROJ, CV_PLAIN, MIX, CV_DIM_ONE, H),
    T("post_attention_layernorm.weight", MLP_NORM, CV_PLAIN, 0, H),

    T("mlp.gate_proj.weight", DENSE_GATE, CV_PLAIN, DENSE, CV_DIM_DENSE, H),
    T("mlp.up_proj.weight", DENSE_UP, CV_PLAIN, DENSE, CV_DIM_DENSE, H),
    T("mlp.down_proj.weight", DENSE_DOWN, CV_PLAIN, DENSE, H, CV_DIM_DENSE),

    T("block_sparse_moe.gate.e_score_correction_bias", ROUTER_BIAS, CV_PLAIN,
      MOE, CV_DIM_EXPERTS),
    T("block_sparse_moe.routed_expert_norm.weight", LATENT_NORM, CV_PLAIN,
      MOE | LATENT | LATENT_NORM, CV_DIM_LATENT),
    T("block_sparse_moe.gate.weight", ROUTER, CV_PLAIN, MOE, CV_DIM_EXPERTS,
      H),
    T("block_sparse_moe.routed_expert_down_proj.weight", LATENT_DOWN, CV_PLAIN,
      MOE | LATENT, CV_DIM_LATENT, H),
    T("block_sparse_moe.shared_experts.gate_proj.weight", SHARED_GATE,
      CV_PLAIN, MOE | SHARED, CV_DIM_SHARED, H),
    T("block_sparse_moe.shared_experts.up_proj.weight", SHARED_UP, CV_PLAIN,
      MOE | SHARED, CV_DIM_SHARED, H),
    T("block_sparse_moe.shared_experts.down_proj.weight", SHARED_DOWN,
      CV_PLAIN, MOE | SHARED, H, CV_DIM_SHARED),
    T("block_sparse_moe.routed_expert_up_proj.weight", LATENT_UP, CV_PLAIN,
      MOE | LATENT, H, CV_DIM_LATENT),

    E("w1.weight", GATE, CV_PLAIN, UNPACKED, CV_DIM_EXPERT, CV_DIM_LATENT),
    E("w1.weight_packed", GATE, CV_PACKED, PACKED, CV_DIM_EXPERT,
      CV_DIM_LATENT),
    E("w1.weight_scale", GATE_SCALE, CV_SCALE, PACKED, CV_DIM_EXPERT,
      CV_DIM_LATENT),
    E("w3.weight", UP, CV_PLAIN, UNPACKED, CV_DIM_EXPERT, CV_DIM_LATENT),
    E("w3.weight_packed", UP, CV_PACKED, PACKED, CV_DIM_EXPERT, CV_DIM_LATENT),
    E("w3.weight_scale", UP_SCALE, CV_SCALE, PACKED, CV_DIM_EXPERT,
      CV_DIM_LATENT),
    E("w2.weight", DOWN, CV_PLAIN, UNPACKED, CV_DIM_LATENT, CV_DIM_EXPERT),
    E("w2.weight_packed", DOWN, CV_PACKED, PACKED, CV_DIM_LATENT,
      CV_DIM_EXPERT),
    E("w2.weight_scale", DOWN_SCALE, CV_SCALE, PACKED, CV_DIM_LATENT,
      CV_DIM_EXPERT),

    {"output_attn_res_norm.weight", CV_IN_OUTPUT, LODE_ROLE_OUTPUT_MIX_NORM,
     CV_PLAIN, MIX, {H}},
    {"output_attn_res_proj.weight", CV_IN_OUTPUT, LODE_ROLE_OUTPUT_MIX_PROJ,
     CV_PLAIN, MIX, {CV_DIM_ONE, H}},
    {"norm.weight", CV_IN_OUTPUT, LODE_ROLE_FINAL_NORM, CV_PLAIN, 0, {H}},
    {"lm_head.weight", CV_IN_OUTPUT, LODE_ROLE_HEAD, CV_PLAIN,
     CV_SWITCH_UNTIED, {CV_DIM_VOCABULARY, H}},
    {"embed_tokens.weight", CV_IN_EMBEDDING, LODE_ROLE_EMBEDDING, CV_PLAIN, 0,
     {CV_DIM_VOCABULARY, H}},
};

#undef T
#undef E
#undef H
#undef P

enum { WIDTH_MAX = 1 << 20, HEADS_MAX = 1 << 14, ROWS_MAX = 1 << 24 };

static bool
configure_moe(struct cv_model *m, const json_t *c, struct lode_error *err)
{
    uint64_t experts;
    uint64_t chosen;
    uint64_t shared = 0;
    uint64_t *d = m->dim;
    bool norm;

    if (!lode_json_optional_u64(c, "num_experts", 1, CV_EXPERTS_MAX, 0,
                                &experts, err))
        return false;
    if (experts == 0)
        return true;
    if (!lode_json_u64(c, "num_experts_per_token", 1, experts, &chosen, err) ||
        !lode_json_u64(c, "moe_intermediate_size", 1, WIDTH_MAX,
                       &d[CV_DIM_EXPERT], err) ||
        !lode_json_optional_u64(c, "routed_expert_hidden_size", 1, WIDTH_MAX,
                      d[CV_DIM_HIDDEN], &d[CV_DIM_LATENT], err) ||
        !lode_json_optional_bool(c, "latent_moe_use_norm", &norm, err))
        return false;
    if (!lode_json_absent(c, "num_shared_experts") &&
        !lode_json_u64(c, "num_shared_experts", 0, 64, &shared, err))
        return false;
    m->expert_count = (uint32_t)experts;
    m->experts_per_token = (uint32_t)chosen;
    d[CV_DIM_EXPERTS] = experts;
    d[CV_DIM_SHARED] = shared * d[CV_DIM_EXPERT];
    m->model_switches |= shared != 0 ? SHARED : 0;
    if (!lode_json_absent(c, "routed_expert_hidden_size"))
        m->model_switches |= LATENT | (norm ? LATENT_NORM : 0);
    m->model_switches |= m->packed ? PACKED : UNPACKED;
    return true;
}

static bool
configure_mla(struct cv_model *m, const json_t *c, struct lode_error *err)
{
    uint64_t heads;
    uint64_t nope;
    uint64_t rope;
    uint64_t value;
    uint64_t *d = m->dim;

    if (!lode_json_u64(c, "num_attention_heads", 1, HEADS_MAX, &heads, err) ||
        !lode_json_u64(c, "qk_nope_head_dim", 1, WIDTH_MAX, &nope, err) ||
        !lode_json_u64(c, "qk_rope_head_dim", 0, WIDTH_MAX, &rope, err) ||
        !lode_json_u64(c, "v_head_dim", 1, WIDTH_MAX, &value, err) ||
        !lode_json_u64(c, "kv_lora_rank", 1, WIDTH_MAX, &d[CV_DIM_KV_LATENT],
                       err) ||
        !lode_json_optional_u64(c, "q_lora_rank", 1, WIDTH_MAX, 0,
                                &d[CV_DIM_Q_LATENT], err))
        return false;
    /* Heads times widths stay below 2^35. */
    d[CV_DIM_Q] = heads * (nope + rope);
    d[CV_DIM_KV_A] = d[CV_DIM_KV_LATENT] + rope;
    d[CV_DIM_KV_B] = heads * (nope + value);
    d[CV_DIM_V] = heads * value;
    return true;
}

/* Layer lists count from one. */
static bool
mark_layers(struct cv_model *m, const json_t *lists, const char *key,
            uint32_t bit, struct lode_error *err)
{
    const json_t *list = json_object_get(lists, key);
    json_t *item;
    size_t i;

    if (!json_is_array(list))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"linear_attn_config\": \"%s\": expected an array, "
                         "found %s",
                         key, lode_json_type_name(list));
    json_array_foreach((json_t *)(uintptr_t)list, i, item) {
        json_int_t number = json_integer_value(item);

        if (!json_is_integer(item) || number < 1 ||
            number > (json_int_t)m->layer_count)
            return lode_fail(
                err, LODE_E_CORRUPT,
                "\"%s\": expected layer numbers from 1 to %" PRIu32, key,
                m->layer_count);
        if ((m->switches[number - 1] & (KDA | MLA)) != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"linear_attn_config\" lists layer number "
                             "%" JSON_INTEGER_FORMAT " twice",
                             number);
        m->switches[number - 1] |= bit;
    }
    return true;
}

static bool
configure_kda(struct cv_model *m, const json_t *c, uint32_t *gate,
              struct lode_error *err)
{
    const json_t *lists = json_object_get(c, "linear_attn_config");
    uint64_t *d = m->dim;
    bool full;

    if (!json_is_object(lists))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"linear_attn_config\": expected an object, found %s",
                         lode_json_type_name(lists));
    if (!lode_json_u64(lists, "num_heads", 1, HEADS_MAX, &d[CV_DIM_KDA_HEADS],
                       err) ||
        !lode_json_u64(lists, "head_dim", 1, WIDTH_MAX, &d[CV_DIM_KDA_HEAD],
                       err) ||
        !lode_json_u64(lists, "short_conv_kernel_size", 1, 64,
                       &d[CV_DIM_TAPS], err) ||
        !lode_json_optional_bool(lists, "use_full_rank_gate", &full, err) ||
        !mark_layers(m, lists, "kda_layers", KDA, err) ||
        !mark_layers(m, lists, "full_attn_layers", MLA, err))
        return false;
    d[CV_DIM_KDA] = d[CV_DIM_KDA_HEADS] * d[CV_DIM_KDA_HEAD];
    *gate = full ? GATED : LOW_GATE;
    return true;
}

static bool
configure_layers(struct cv_model *m, const json_t *c, uint32_t kda_gate,
                 struct lode_error *err)
{
    uint64_t first_moe = 0;
    uint64_t every;
    bool mla_gate;

    if ((!lode_json_absent(c, "first_k_dense_replace") &&
         !lode_json_u64(c, "first_k_dense_replace", 0, CV_LAYERS_MAX,
                        &first_moe, err)) ||
        !lode_json_optional_u64(c, "moe_layer_freq", 1, CV_LAYERS_MAX, 1,
                                &every, err) ||
        !lode_json_optional_bool(c, "mla_use_output_gate", &mla_gate, err))
        return false;
    for (uint32_t i = 0; i < m->layer_count; i++) {
        uint32_t *s = &m->switches[i];
        bool moe = m->expert_count != 0 && i >= first_moe && i % every == 0;

        if ((*s & (KDA | MLA)) == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"linear_attn_config\" does not list layer "
                             "number %" PRIu32,
                             i + 1);
        *s |= moe ? MOE : DENSE;
        *s |= m->model_switches;
        if ((*s & KDA) != 0)
            *s |= kda_gate;
        else
            *s |= (mla_gate ? GATED : 0) |
                  (m->dim[CV_DIM_Q_LATENT] != 0 ? Q_LATENT : Q_PLAIN);
    }
    return true;
}

static bool
configure(struct cv_model *m, const json_t *c, struct lode_error *err)
{
    uint64_t period;
    uint32_t gate = 0;
    uint64_t *d = m->dim;

    d[CV_DIM_ONE] = 1;
    if (!lode_json_u64(c, "hidden_size", 1, WIDTH_MAX, &d[CV_DIM_HIDDEN],
                       err) ||
        !lode_json_u64(c, "vocab_size", 1, ROWS_MAX, &d[CV_DIM_VOCABULARY],
                       err) ||
        !lode_json_optional_u64(c, "intermediate_size", 1, WIDTH_MAX, 0,
                                &d[CV_DIM_DENSE], err) ||
        !lode_json_optional_u64(c, "attn_res_block_size", 1, CV_LAYERS_MAX, 0,
                                &period, err))
        return false;
    m->model_switches |= period != 0 ? MIX : 0;
    return configure_moe(m, c, err) && configure_mla(m, c, err) &&
           configure_kda(m, c, &gate, err) &&
           configure_layers(m, c, gate, err);
}

/* transformers moved the inner prefix to the front; both are in use. */
static const struct cv_prefix k3_prefixes[] = {
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {"model.language_model.model.", "model.language_model."},
    {"model.", ""},
    {NULL, NULL},
};

static const struct cv_prefix linear_prefixes[] = {
    {"model.", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {NULL, NULL},
};

static const char *const k3_aux[] = {
    "vision_tower.", "mm_projector.", "model.vision_tower.",
    "model.mm_projector.", NULL,
};

static const char *const no_aux[] = {NULL};

const struct cv_family cv_family_kimi_k3 = {
    "kimi_k3", rules, sizeof(rules) / sizeof(rules[0]), k3_prefixes, k3_aux,
    configure,
};

const struct cv_family cv_family_kimi_linear = {
    "kimi_linear", rules, sizeof(rules) / sizeof(rules[0]), linear_prefixes,
    no_aux, configure,
};
