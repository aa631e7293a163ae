/* SPDX-License-Identifier: Apache-2.0
 *
 * config.json: what is read, and that anything contradictory or unknown is
 * refused by its name. */
#include "config.h"

#include "tests/tap.h"

#include "base/file.h"
#include "base/json.h"
#include "runtime/model_config.h"

static json_t *
load(const char *name)
{
    const char *srcdir = getenv("srcdir");
    struct lode_error err;
    char path[4096];
    size_t bytes;
    char *text = NULL;
    json_t *root = NULL;

    (void)snprintf(path, sizeof(path), "%s/tests/fixtures/%s/config.json",
                   srcdir != NULL ? srcdir : ".", name);
    must(lode_file_slurp(path, 1 << 20, &text, &bytes, &err), &err);
    must(lode_json_parse(text, bytes, &root, &err), &err);
    free(text);
    return root;
}

static bool
parse(const json_t *root, struct rt_config *c, struct lode_error *err)
{
    char *text = json_dumps(root, JSON_ENCODE_ANY);
    bool result = rt_config_parse(text, strlen(text), c, err);

    free(text);
    return result;
}

struct change {
    const char *section; /* object inside the text config; NULL: itself */
    const char *key;
    const char *value; /* JSON; NULL: removed */
    enum lode_code code;
    const char *message;
};

static const struct change changes[] = {
    {NULL, "hidden_size", NULL, LODE_E_CORRUPT, "hidden_size"},
    {NULL, "hidden_size", "0", LODE_E_CORRUPT, "hidden_size"},
    {NULL, "hidden_size", "-96", LODE_E_CORRUPT, "hidden_size"},
    {NULL, "hidden_size", "1048577", LODE_E_CORRUPT, "hidden_size"},
    {NULL, "hidden_size", "96.5", LODE_E_CORRUPT, "hidden_size"},
    {NULL, "hidden_size", "\"96\"", LODE_E_CORRUPT, "hidden_size"},
    {NULL, "num_hidden_layers", "0", LODE_E_CORRUPT, "num_hidden_layers"},
    {NULL, "num_hidden_layers", "1025", LODE_E_CORRUPT, "num_hidden_layers"},
    {NULL, "vocab_size", "0", LODE_E_CORRUPT, "vocab_size"},
    {NULL, "rms_norm_eps", "\"small\"", LODE_E_CORRUPT, "rms_norm_eps"},
    {NULL, "rms_norm_eps", "-1e-6", LODE_E_CORRUPT, "rms_norm_eps"},
    {NULL, "hidden_act", "\"gelu\"", LODE_E_UNSUPPORTED, "gelu"},
    {NULL, "mla_use_nope", "false", LODE_E_UNSUPPORTED, "mla_use_nope"},
    {NULL, "kv_lora_rank", NULL, LODE_E_CORRUPT, "kv_lora_rank"},
    {NULL, "num_experts", NULL, LODE_E_CORRUPT, "num_experts"},
    {NULL, "num_experts_per_token", "1000", LODE_E_CORRUPT,
     "num_experts_per_token"},
    {NULL, "moe_router_activation_func", "\"tanh\"", LODE_E_UNSUPPORTED,
     "tanh"},
    {NULL, "num_expert_group", "7", LODE_E_CORRUPT, "num_expert_group"},
    {NULL, "num_expert_group", "65", LODE_E_CORRUPT, "num_expert_group"},
    {NULL, "topk_group", "0", LODE_E_CORRUPT, "topk_group"},
    {NULL, "moe_layer_freq", "0", LODE_E_CORRUPT, "moe_layer_freq"},
    {NULL, "eos_token_id", "\"end\"", LODE_E_CORRUPT, "eos_token_id"},
    {NULL, "eos_token_id", "[1, -2]", LODE_E_CORRUPT, "item 1"},
    {NULL, "eos_token_id", "99999999", LODE_E_CORRUPT, "stop token 99999999"},
    {NULL, "linear_attn_config", "[]", LODE_E_CORRUPT, "linear_attn_config"},
    {"linear_attn_config", "num_heads", NULL, LODE_E_CORRUPT, "num_heads"},
    {"linear_attn_config", "short_conv_kernel_size", "17", LODE_E_CORRUPT,
     "short_conv_kernel_size"},
    {"linear_attn_config", "kda_layers", "[1, 1]", LODE_E_CORRUPT,
     "layer 1 is listed twice"},
    {"linear_attn_config", "kda_layers", "[0]", LODE_E_CORRUPT,
     "is no layer from 1"},
    {"linear_attn_config", "full_attn_layers", "[]", LODE_E_CORRUPT,
     "is in neither list"},
    {"linear_attn_config", "full_attn_layers", "4", LODE_E_CORRUPT,
     "full_attn_layers"},
};

static void
test_changes(const char *fixture, const char *body_key)
{
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        const struct change *c = &changes[i];
        json_t *root = load(fixture);
        json_t *body =
            body_key != NULL ? json_object_get(root, body_key) : root;
        struct rt_config config;
        struct lode_error err;
        char name[160];

        if (c->section != NULL)
            body = json_object_get(body, c->section);
        (void)snprintf(name, sizeof(name), "%s: %s = %s", fixture, c->key,
                       c->value != NULL ? c->value : "(missing)");
        if (c->value == NULL)
            json_object_del(body, c->key);
        else
            json_object_set_new(body, c->key,
                                json_loads(c->value, JSON_DECODE_ANY, NULL));
        fails_with(parse(root, &config, &err), &err, c->code, c->message,
                   name);
        json_decref(root);
    }
}

static void
test_values(void)
{
    json_t *root = load("kimi-k3-tiny-a");
    struct rt_config c;
    struct lode_error err;
    uint32_t kda = 0;

    must(parse(root, &c, &err), &err);
    is_str(c.family, "kimi_k3", "family");
    ok(c.situ && c.latent && c.router_sigmoid && c.mla_gate && c.decay_bounded,
       "Kimi K3's switches are on");
    ok(!c.tied_head, "the head is its own");
    for (uint32_t i = 0; i < c.layer_count; i++)
        kda += c.is_kda[i];
    ok(kda > 0 && kda < c.layer_count, "layers of both kinds");
    ok(!rt_config_is_moe(&c, 0) && rt_config_is_moe(&c, 1),
       "the first layer is dense, the second is not");
    is_u64(c.context_limit >= 47, 1, "the context is long enough");
    json_decref(root);

    root = load("kimi-linear-tiny-a");
    must(parse(root, &c, &err), &err);
    is_str(c.family, "kimi_linear", "family");
    ok(!c.situ && !c.latent && !c.mla_gate && !c.decay_bounded &&
           c.mix_period == 0,
       "Kimi Linear has none of Kimi K3's switches");
    json_decref(root);
}

/* Case C44: each place alone is enough, and both must not disagree. */
static void
test_tied(void)
{
    static const struct {
        const char *outer, *inner;
        int tied; /* -1: refused */
    } rows[] = {
        {NULL, NULL, 0},      {NULL, "true", 1},  {"true", NULL, 1},
        {"true", "null", 1},  {"true", "true", 1}, {"false", "false", 0},
        {"false", "true", -1}, {"true", "false", -1},
    };
    static const char key[] = "tie_word_embeddings";

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *root = load("kimi-k3-tiny-a");
        json_t *body = json_object_get(root, "text_config");
        struct rt_config c;
        struct lode_error err;
        bool good;

        (void)json_object_del(root, key); /* perhaps not there */
        (void)json_object_del(body, key); /* likewise */
        if (rows[i].outer != NULL)
            json_object_set_new(
                root, key, json_loads(rows[i].outer, JSON_DECODE_ANY, NULL));
        if (rows[i].inner != NULL)
            json_object_set_new(
                body, key, json_loads(rows[i].inner, JSON_DECODE_ANY, NULL));
        good = parse(root, &c, &err);
        if (rows[i].tied < 0)
            fails_with(good, &err, LODE_E_CORRUPT, "\"tie_word_embeddings\" is",
                       "C44: the places disagree");
        else
            ok(good && c.tied_head == (rows[i].tied != 0),
               "C44: tied, row %zu", i);
        json_decref(root);
    }
}

static void
test_bounds(void)
{
    static const struct {
        const char *value;
        uint32_t tokens;
    } rows[] = {{"4096", 4096},
                {"1073741825", 1U << 30},
                {"9223372036854775807", 1U << 30},
                {"1e30", 1U << 30}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *root = load("kimi-linear-tiny-a");
        struct rt_config c;
        struct lode_error err;

        json_object_set_new(root, "model_max_length",
                            json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        must(parse(root, &c, &err), &err);
        is_u64(c.context_limit, rows[i].tokens, "a context of %s",
               rows[i].value);
        json_decref(root);
    }
}

static void
test_whole(void)
{
    struct rt_config c;
    struct lode_error err;
    const char *deep = "{\"model_type\":\"kimi_linear\",\"a\":";
    char nest[512];
    size_t n = strlen(deep);

    fails_with(rt_config_parse("[]", 2, &c, &err), &err, LODE_E_CORRUPT,
               "expected an object", "a list");
    fails_with(rt_config_parse("", 0, &c, &err), &err, LODE_E_CORRUPT, "",
               "nothing");
    fails_with(rt_config_parse("{\"model_type\": \"gpt2\"}", 22, &c, &err),
               &err, LODE_E_UNSUPPORTED, "gpt2", "an unknown family");
    fails_with(rt_config_parse("{\"model_type\": 3}", 17, &c, &err), &err,
               LODE_E_CORRUPT, "model_type", "a family that is no text");
    fails_with(rt_config_parse("{\"model_type\": \"kimi_k3\"}", 25, &c, &err),
               &err, LODE_E_CORRUPT, "text_config", "no text_config");
    fails_with(rt_config_parse("{\"a\":1,\"a\":2}", 13, &c, &err), &err,
               LODE_E_CORRUPT, "a", "a key twice");
    memset(nest, '[', sizeof(nest));
    memcpy(nest, deep, n);
    fails_with(rt_config_parse(nest, sizeof(nest), &c, &err), &err,
               LODE_E_LIMIT, "", "nesting without end");
}

static void
test_stops(void)
{
    json_t *root = load("kimi-linear-tiny-a");
    struct rt_config c;
    struct lode_error err;
    const char *two = "{\"eos_token_id\": [7, 8, 7]}";
    uint32_t before;

    must(parse(root, &c, &err), &err);
    json_decref(root);
    before = c.stop_count;
    must(rt_config_add_generation(&c, two, strlen(two), &err), &err);
    ok(rt_config_is_stop(&c, 7) && rt_config_is_stop(&c, 8) &&
           !rt_config_is_stop(&c, 9),
       "stop tokens of generation_config.json");
    ok(c.stop_count <= before + 2, "each is there once");
    for (uint32_t id = 20; c.stop_count < RT_STOP_IDS_MAX; id++)
        must(rt_config_add_stop(&c, id, &err), &err);
    fails_with(rt_config_add_stop(&c, 99, &err), &err, LODE_E_LIMIT,
               "stop tokens", "one stop token too many");
    fails_with(rt_config_add_generation(&c, "7", 1, &err), &err,
               LODE_E_CORRUPT, "", "a generation_config.json that is none");
}

int
main(void)
{
    test_values();
    test_tied();
    test_bounds();
    test_whole();
    test_stops();
    test_changes("kimi-k3-tiny-a", "text_config");
    test_changes("kimi-linear-tiny-a", NULL);
    return done_testing();
}
