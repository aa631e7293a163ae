/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/model_config.h"

#include <math.h>
#include <string.h>

#include "base/json.h"

enum { WIDTH_MAX = 1 << 20, COUNT_MAX = 1 << 16, VOCAB_MAX = 1 << 22 };
enum { CONTEXT_DEFAULT = 1 << 20, CONTEXT_MAX = 1 << 30 };

/* A whole number that must be there. */
static bool
need(const json_t *o, const char *key, uint64_t min, uint64_t max,
     uint32_t *out, struct lode_error *err)
{
    uint64_t value;

    if (!lode_json_u64(o, key, min, max, &value, err))
        return false;
    *out = (uint32_t)value;
    return true;
}

/* A whole number with a documented default when absent or null. */
static bool
maybe(const json_t *o, const char *key, uint64_t max, uint32_t fallback,
      uint32_t *out, struct lode_error *err)
{
    uint64_t value;

    if (!lode_json_optional_u64(o, key, 0, max, fallback, &value, err))
        return false;
    *out = (uint32_t)value;
    return true;
}

static bool
number(const json_t *o, const char *key, double fallback, float *out,
       struct lode_error *err)
{
    double value = fallback;

    if (!lode_json_absent(o, key) && !lode_json_f64(o, key, &value, err))
        return false;
    if (!isfinite((float)value))
        return lode_fail(err, LODE_E_CORRUPT, "\"%s\": not a finite number",
                         key);
    *out = (float)value;
    return true;
}

bool
rt_config_is_moe(const struct rt_config *c, uint32_t layer)
{
    return c->expert_count != 0 && layer >= c->first_moe_layer &&
           layer % c->moe_period == 0;
}

bool
rt_config_is_stop(const struct rt_config *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->stop_count; i++)
        if (c->stop_ids[i] == id)
            return true;
    return false;
}

bool
rt_config_add_stop(struct rt_config *c, uint32_t id, struct lode_error *err)
{
    if (rt_config_is_stop(c, id))
        return true;
    if (id >= c->vocab_rows)
        return lode_fail(err, LODE_E_CORRUPT,
                         "stop token %u, but the vocabulary has %u rows", id,
                         c->vocab_rows);
    if (c->stop_count == RT_STOP_IDS_MAX)
        return lode_fail(err, LODE_E_LIMIT, "more than %d stop tokens",
                         RT_STOP_IDS_MAX);
    c->stop_ids[c->stop_count++] = id;
    return true;
}

static bool
add_eos(struct rt_config *c, const json_t *o, struct lode_error *err)
{
    const json_t *eos = json_object_get(o, "eos_token_id");
    const json_t *item;
    size_t i;

    if (eos == NULL || json_is_null(eos))
        return true;
    if (json_is_integer(eos) && json_integer_value(eos) >= 0 &&
        json_integer_value(eos) <= UINT32_MAX)
        return rt_config_add_stop(c, (uint32_t)json_integer_value(eos), err);
    if (!json_is_array(eos))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"eos_token_id\": expected a token id or a list, "
                         "found %s",
                         lode_json_type_name(eos));
    json_array_foreach(eos, i, item) {
        if (!json_is_integer(item) || json_integer_value(item) < 0 ||
            json_integer_value(item) > UINT32_MAX)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"eos_token_id\": item %zu is no token id", i);
        if (!rt_config_add_stop(c, (uint32_t)json_integer_value(item), err))
            return false;
    }
    return true;
}

/* Layer numbers in the lists are 1-based; each layer is in exactly one. */
static bool
parse_layer_list(const json_t *linear, const char *key, uint8_t mark,
                 struct rt_config *c, uint8_t *seen, struct lode_error *err)
{
    const json_t *list = json_object_get(linear, key);
    const json_t *item;
    size_t i;

    if (!json_is_array(list))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"linear_attn_config.%s\": expected a list, found %s",
                         key, lode_json_type_name(list));
    json_array_foreach(list, i, item) {
        json_int_t n = json_integer_value(item);

        if (!json_is_integer(item) || n < 1 || n > (json_int_t)c->layer_count)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"linear_attn_config.%s\": item %zu is no layer "
                             "from 1 to %u",
                             key, i, c->layer_count);
        if (seen[n - 1] != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"linear_attn_config\": layer %d is listed twice",
                             (int)n);
        seen[n - 1] = 1;
        c->is_kda[n - 1] = mark;
    }
    return true;
}

static bool
parse_kda(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    const json_t *linear = json_object_get(o, "linear_attn_config");
    uint8_t seen[RT_LAYERS_MAX] = {0};

    if (!json_is_object(linear))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"linear_attn_config\": expected an object, found %s",
                         lode_json_type_name(linear));
    if (!parse_layer_list(linear, "kda_layers", 1, c, seen, err) ||
        !parse_layer_list(linear, "full_attn_layers", 0, c, seen, err) ||
        !need(linear, "num_heads", 1, COUNT_MAX, &c->kda_heads, err) ||
        !need(linear, "head_dim", 1, COUNT_MAX, &c->kda_width, err) ||
        !need(linear, "short_conv_kernel_size", 1, 16, &c->conv_taps, err) ||
        !lode_json_optional_bool(linear, "use_full_rank_gate",
                                 &c->full_rank_gate, err) ||
        !number(linear, "gate_lower_bound", 0, &c->decay_bound, err))
        return false;
    c->decay_bounded = !lode_json_absent(linear, "gate_lower_bound");
    for (uint32_t i = 0; i < c->layer_count; i++)
        if (seen[i] == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"linear_attn_config\": layer %u is in neither "
                             "list",
                             i + 1);
    return true;
}

static bool
parse_mla(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    bool nope;

    if (!lode_json_optional_bool(o, "mla_use_nope", &nope, err) ||
        !lode_json_optional_bool(o, "mla_use_output_gate", &c->mla_gate, err) ||
        !need(o, "num_attention_heads", 1, COUNT_MAX, &c->mla_heads, err) ||
        !maybe(o, "q_lora_rank", WIDTH_MAX, 0, &c->q_latent_width, err) ||
        !need(o, "kv_lora_rank", 1, WIDTH_MAX, &c->kv_latent_width, err) ||
        !need(o, "qk_nope_head_dim", 1, COUNT_MAX, &c->nope_width, err) ||
        !need(o, "qk_rope_head_dim", 0, COUNT_MAX, &c->rope_width, err) ||
        !need(o, "v_head_dim", 1, COUNT_MAX, &c->value_width, err))
        return false;
    if (!nope)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "\"mla_use_nope\" is not true: rotary positions are "
                         "not defined for this family");
    return true;
}

static bool
parse_router(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    const char *function = "sigmoid";

    if (!lode_json_absent(o, "moe_router_activation_func") &&
        !lode_json_string(o, "moe_router_activation_func", &function, err))
        return false;
    c->router_sigmoid = strcmp(function, "sigmoid") == 0;
    if (!c->router_sigmoid && strcmp(function, "softmax") != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "\"moe_router_activation_func\": \"%.40s\" is not "
                         "known (sigmoid, softmax)",
                         function);
    if (!lode_json_optional_bool(o, "moe_renormalize", &c->renormalise, err) ||
        !number(o, "routed_scaling_factor", 1.0, &c->routed_scale, err) ||
        !maybe(o, "num_expert_group", RT_GROUPS_MAX, 1, &c->group_count, err) ||
        !maybe(o, "topk_group", COUNT_MAX, 1, &c->group_chosen_count, err))
        return false;
    if (c->group_count == 0 || c->expert_count % c->group_count != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"num_expert_group\": %u does not divide %u experts",
                         c->group_count, c->expert_count);
    if (c->group_chosen_count == 0 ||
        (c->group_count > 1 && c->group_chosen_count < c->group_count &&
         c->expert_count / c->group_count * c->group_chosen_count <
             c->chosen_count))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"topk_group\": %u groups hold fewer than %u experts",
                         c->group_chosen_count, c->chosen_count);
    return true;
}

static bool
parse_moe(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    uint32_t shared;

    if (!need(o, "num_experts", 0, COUNT_MAX, &c->expert_count, err))
        return false;
    if (!maybe(o, "first_k_dense_replace", RT_LAYERS_MAX, 0,
               &c->first_moe_layer, err) ||
        !maybe(o, "moe_layer_freq", RT_LAYERS_MAX, 1, &c->moe_period, err) ||
        !need(o, "intermediate_size", 1, WIDTH_MAX, &c->dense_width, err))
        return false;
    if (c->moe_period == 0)
        return lode_fail(err, LODE_E_CORRUPT, "\"moe_layer_freq\": 0");
    if (c->expert_count == 0)
        return true;
    if (!need(o, "moe_intermediate_size", 1, WIDTH_MAX, &c->expert_width,
              err) ||
        !need(o, "num_experts_per_token", 1, c->expert_count, &c->chosen_count,
              err) ||
        !maybe(o, "num_shared_experts", 1024, 0, &shared, err) ||
        !maybe(o, "routed_expert_hidden_size", WIDTH_MAX, 0, &c->latent_width,
               err) ||
        !lode_json_optional_bool(o, "latent_moe_use_norm", &c->latent_norm,
                                 err))
        return false;
    c->shared_width = shared * c->expert_width; /* at most 2^30 */
    c->latent = c->latent_width != 0;
    if (!c->latent)
        c->latent_width = c->hidden_width;
    c->latent_norm = c->latent_norm && c->latent;
    return parse_router(o, c, err);
}

static bool
parse_activation(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    const char *act = "silu";

    if (!lode_json_absent(o, "hidden_act") &&
        !lode_json_string(o, "hidden_act", &act, err))
        return false;
    c->situ = strcmp(act, "situ") == 0;
    if (!c->situ && strcmp(act, "silu") != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "\"hidden_act\": \"%.40s\" is not known (silu, situ)",
                         act);
    if (!number(o, "activation_situ_beta", 1.0, &c->situ_beta, err) ||
        !number(o, "activation_situ_linear_beta", 0.0, &c->situ_linear_beta,
                err))
        return false;
    if (c->situ && !(c->situ_beta > 0))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"activation_situ_beta\": not above 0");
    return true;
}

static bool
parse_context(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    const char *key = !lode_json_absent(o, "max_position_embeddings")
                          ? "max_position_embeddings"
                          : "model_max_length";
    uint64_t tokens = CONTEXT_DEFAULT;

    if (!lode_json_absent(o, key) &&
        !lode_json_bound(o, key, 1, CONTEXT_MAX, &tokens, err))
        return false;
    c->context_limit = (uint32_t)tokens;
    return true;
}

static bool
parse_text(const json_t *o, struct rt_config *c, struct lode_error *err)
{
    if (!need(o, "hidden_size", 1, WIDTH_MAX, &c->hidden_width, err) ||
        !need(o, "num_hidden_layers", 1, RT_LAYERS_MAX, &c->layer_count, err) ||
        !need(o, "vocab_size", 1, VOCAB_MAX, &c->vocab_rows, err) ||
        !number(o, "rms_norm_eps", 1e-6, &c->norm_eps, err) ||
        !maybe(o, "attn_res_block_size", RT_LAYERS_MAX, 0, &c->mix_period,
               err) ||
        !parse_activation(o, c, err) || !parse_moe(o, c, err) ||
        !parse_kda(o, c, err) || !parse_mla(o, c, err) || !add_eos(c, o, err))
        return false;
    if (!(c->norm_eps >= 0))
        return lode_fail(err, LODE_E_CORRUPT, "\"rms_norm_eps\": below 0");
    return parse_context(o, c, err);
}

/* Nested configurations say it outside, inside, or in both places. */
static bool
parse_tied(const json_t *root, const json_t *body, struct rt_config *c,
           struct lode_error *err)
{
    static const char key[] = "tie_word_embeddings";
    bool outer;
    bool inner;

    if (!lode_json_optional_bool(root, key, &outer, err) ||
        !lode_json_optional_bool(body, key, &inner, err))
        return false;
    if (outer != inner && !lode_json_absent(root, key) &&
        !lode_json_absent(body, key))
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"%s\" is %s, but in \"text_config\" it is not",
                         key, outer ? "true" : "false");
    c->tied_head = outer || inner;
    return true;
}

bool
rt_config_parse(const char *text, size_t bytes, struct rt_config *out,
                struct lode_error *err)
{
    struct rt_config c;
    json_t *root = NULL;
    const json_t *body;
    const char *type;
    bool ok = false;

    memset(&c, 0, sizeof(c));
    if (!lode_json_parse(text, bytes, &root, err))
        return false;
    if (!json_is_object(root)) {
        lode_fail(err, LODE_E_CORRUPT, "expected an object, found %s",
                  lode_json_type_name(root));
        goto out;
    }
    if (!lode_json_string(root, "model_type", &type, err))
        goto out;
    if (strcmp(type, "kimi_k3") == 0) {
        c.type = RT_KIMI_K3;
        c.family = "kimi_k3";
        body = json_object_get(root, "text_config");
        if (!json_is_object(body)) {
            lode_fail(err, LODE_E_CORRUPT,
                      "\"text_config\": expected an object, found %s",
                      lode_json_type_name(body));
            goto out;
        }
    } else if (strcmp(type, "kimi_linear") == 0) {
        c.type = RT_KIMI_LINEAR;
        c.family = "kimi_linear";
        body = root;
    } else {
        lode_fail(err, LODE_E_UNSUPPORTED,
                  "the runtime does not know the family \"%.60s\" (it knows "
                  "kimi_k3, kimi_linear)",
                  type);
        goto out;
    }
    if (!parse_text(body, &c, err) || !parse_tied(root, body, &c, err) ||
        (body != root && !add_eos(&c, root, err)))
        goto out;
    *out = c;
    ok = true;
out:
    json_decref(root);
    return ok;
}

bool
rt_config_add_generation(struct rt_config *c, const char *text, size_t bytes,
                         struct lode_error *err)
{
    json_t *root = NULL;
    bool ok;

    if (!lode_json_parse(text, bytes, &root, err))
        return false;
    ok = json_is_object(root)
             ? add_eos(c, root, err)
             : lode_fail(err, LODE_E_CORRUPT, "expected an object, found %s",
                         lode_json_type_name(root));
    json_decref(root);
    return ok;
}
