/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, shapes and config.json must tell one story.  Each row changes one
 * thing of a good checkpoint. */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "convert/vocabulary.h"
#include "tests/convert/build.h"
#include "tests/tap.h"

enum fixture { K3, LINEAR };

static const char *const fixtures[] = {"kimi-k3-tiny-a", "kimi-linear-tiny-a"};
static struct lode_error err;

static bool
build(struct cv_checkpoint *c, const json_t *config, bool keep_unknown)
{
    struct cv_model *m = NULL;
    struct cv_notes notes = {0};
    bool good = cv_model_build(config, c, keep_unknown, &m, &notes, &err);

    cv_model_free(good ? m : NULL);
    cv_notes_fini(&notes);
    return good;
}

/* Set or (value NULL) remove the member at path "a/b"; "@" stands for the
 * object with the text model's keys. */
static void
edit(json_t *config, const char *path, const char *value)
{
    json_t *at = config;
    const char *slash;
    char key[80];

    if (path[0] == '@') {
        at = json_object_get(config, "text_config");
        if (at == NULL)
            at = config;
        path++;
    }
    while ((slash = strchr(path, '/')) != NULL) {
        snprintf(key, sizeof(key), "%.*s", (int)(slash - path), path);
        at = json_object_get(at, key);
        path = slash + 1;
    }
    if (value == NULL)
        (void)json_object_del(at, path);
    else
        (void)json_object_set_new(at, path,
                                  json_loads(value, JSON_DECODE_ANY, NULL));
}

static const struct {
    const char *name;
    enum fixture fixture;
    const char *path;
    const char *value; /* NULL: removed */
    enum lode_code code;
    const char *part;
} configs[] = {
    {"no model_type", LINEAR, "model_type", NULL, LODE_E_CORRUPT,
     "\"model_type\": expected a string, found nothing"},
    {"unknown family", LINEAR, "model_type", "\"gpt2\"", LODE_E_UNSUPPORTED,
     "model_type \"gpt2\" is not known; this build knows kimi_k3, "
     "kimi_linear"},
    {"no layers", LINEAR, "num_hidden_layers", "0", LODE_E_CORRUPT,
     "\"num_hidden_layers\": expected 1 to"},
    {"too many layers", LINEAR, "num_hidden_layers", "5000", LODE_E_CORRUPT,
     "\"num_hidden_layers\": expected 1 to"},
    {"layers as text", LINEAR, "num_hidden_layers", "\"2\"", LODE_E_CORRUPT,
     "expected an integer, found a string"},
    {"a layer without kind", LINEAR, "num_hidden_layers", "14",
     LODE_E_CORRUPT, "does not list layer number 14"},
    {"a layer less", LINEAR, "num_hidden_layers", "12", LODE_E_CORRUPT,
     "expected layer numbers from 1 to 12"},
    {"a layer of both kinds", LINEAR, "linear_attn_config/full_attn_layers",
     "[1]", LODE_E_CORRUPT, "lists layer number 1 twice"},
    {"kinds are no list", LINEAR, "linear_attn_config/kda_layers", "3",
     LODE_E_CORRUPT, "\"kda_layers\": expected an array"},
    {"no linear_attn_config", K3, "@linear_attn_config", NULL, LODE_E_CORRUPT,
     "\"linear_attn_config\": expected an object, found nothing"},
    {"other width", LINEAR, "hidden_size", "64", LODE_E_CORRUPT,
     "by config.json it should be ["},
    {"width 0", LINEAR, "hidden_size", "0", LODE_E_CORRUPT,
     "\"hidden_size\": expected 1 to"},
    {"width 10^12", LINEAR, "hidden_size", "1000000000000", LODE_E_CORRUPT,
     "\"hidden_size\": expected 1 to 1048576"},
    {"other vocabulary", LINEAR, "vocab_size", "7", LODE_E_CORRUPT,
     "should be [7, "},
    {"an expert more", LINEAR, "num_experts", "17", LODE_E_CORRUPT,
     "should be [17"},
    {"a million experts", LINEAR, "num_experts", "60000", LODE_E_CORRUPT,
     "with 60000 experts; the checkpoint has only 823 tensors"},
    {"more chosen than there are", LINEAR, "num_experts_per_token", "17",
     LODE_E_CORRUPT, "\"num_experts_per_token\": expected 1 to 16"},
    {"no experts by config", LINEAR, "num_experts", NULL, LODE_E_CORRUPT,
     "does not fit config.json, by which layer"},
    {"dense layers are MoE", LINEAR, "first_k_dense_replace", "0",
     LODE_E_CORRUPT, "does not fit config.json, by which layer 0"},
    {"no packed experts announced", K3, "@quantization_config", NULL,
     LODE_E_CORRUPT, "does not fit config.json"},
    {"other packing", K3, "@quantization_config/format", "\"int4\"",
     LODE_E_UNSUPPORTED, "quantization format \"int4\""},
    {"no attention residuals by config", K3, "@attn_res_block_size", NULL,
     LODE_E_CORRUPT, "does not fit config.json"},
    {"latent width not told", K3, "@routed_expert_hidden_size", NULL,
     LODE_E_CORRUPT, "config.json"},
    {"latent width no multiple of 32", K3, "@routed_expert_hidden_size", "40",
     LODE_E_UNSUPPORTED, "MXFP4 with 40 columns, which is no multiple of 32"},
    {"C39 head width of its own", K3, "@v_head_dim", "11", LODE_E_CORRUPT,
     "by config.json it should be ["},
    {"text_config is no object", K3, "text_config", "1", LODE_E_CORRUPT,
     "\"text_config\": expected an object"},
    {"C44 tied and not tied", K3, "tie_word_embeddings", "true",
     LODE_E_CORRUPT, "\"tie_word_embeddings\" is true, but in"},
};

static void
test_configs(void)
{
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        json_t *config = NULL;
        struct cv_checkpoint *c =
            build_open_fixture(fixtures[configs[i].fixture], &config);

        if (i == sizeof(configs) / sizeof(configs[0]) - 1)
            edit(config, "@tie_word_embeddings", "false");
        edit(config, configs[i].path, configs[i].value);
        fails_with(build(c, config, false), &err, configs[i].code,
                   configs[i].part, configs[i].name);
        json_decref(config);
        cv_checkpoint_close(c);
    }
}

#define L1 "model.layers.1."
#define K1 "language_model.model.layers.1."

static const struct {
    const char *name;
    enum fixture fixture;
    const char *tensor;
    const char *rename; /* NULL: no */
    const char *dtype;  /* likewise */
    uint64_t first_dim; /* 0: no */
    enum lode_code code;
    const char *part;
} tensors[] = {
    {"an unknown name", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     "model.norm2", NULL, 0, LODE_E_UNSUPPORTED, "model.norm2"},
    {"an expert beyond", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     L1 "block_sparse_moe.experts.16.w2.weight", NULL, 0, LODE_E_CORRUPT,
     "is of expert 16, config.json has 16 experts"},
    {"leading zero", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     L1 "block_sparse_moe.experts.05.w2.weight", NULL, 0, LODE_E_UNSUPPORTED,
     "no rule of kimi_linear claims"},
    {"number too long", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     L1 "block_sparse_moe.experts.99999999999.w2.weight", NULL, 0,
     LODE_E_UNSUPPORTED, "no rule of kimi_linear claims"},
    {"C25 near miss", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     L1 "block_sparse_moe.experts.5.w2.bias", NULL, 0, LODE_E_UNSUPPORTED,
     "experts.5.w2.bias"},
    {"a placeholder as name", LINEAR, "model.norm.weight", "model.{L}.weight",
     NULL, 0, LODE_E_UNSUPPORTED, "names with {L} or {E}"},
    {"router as integers", LINEAR, L1 "block_sparse_moe.gate.weight", NULL,
     "I32", 0, LODE_E_UNSUPPORTED,
     "expected dtype BF16, F16 or F32, found I32"},
    {"packed as BF16", K3,
     K1 "block_sparse_moe.experts.0.w1.weight_packed", NULL, "BF16", 0,
     LODE_E_UNSUPPORTED, "expected dtype U8 (MXFP4), found BF16"},
    {"one expert of another dtype", LINEAR,
     L1 "block_sparse_moe.experts.5.w2.weight", NULL, "F16", 0,
     LODE_E_UNSUPPORTED,
     "layer 1, expert 5: the down is F16, that of expert 0 is BF16"},
    {"scale of other shape", K3,
     K1 "block_sparse_moe.experts.0.w1.weight_scale", NULL, NULL, 3,
     LODE_E_CORRUPT, "by config.json it should be ["},
    {"A_log of other length", LINEAR, "model.layers.0.self_attn.A_log", NULL,
     NULL, 2, LODE_E_CORRUPT, "A_log\" has shape ["},
    {"C44 no head", LINEAR, "lm_head.weight", "model.layers.40.x", NULL, 0,
     LODE_E_CORRUPT, "the head is missing (\"lm_head.weight\"); if the head"},
    {"no final norm", LINEAR, "model.norm.weight", "model.layers.40.x", NULL,
     0, LODE_E_CORRUPT, "missing (\"model.norm.weight\")"},
    {"C28 no part", LINEAR, L1 "block_sparse_moe.experts.5.w2.weight",
     "model.layers.40.x", NULL, 0, LODE_E_CORRUPT,
     "layer 1, expert 5: the down is missing (\"" L1
     "block_sparse_moe.experts.5.w2.weight\")"},
    {"C28 no scale", K3, K1 "block_sparse_moe.experts.5.w2.weight_scale",
     "language_model.model.layers.40.x", NULL, 0, LODE_E_CORRUPT,
     "layer 1, expert 5: the down scale is missing"},
};

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct cv_tensor *)a)->name,
                  ((const struct cv_tensor *)b)->name);
}

static struct cv_tensor *
find(struct cv_checkpoint *c, const char *name)
{
    for (uint32_t i = 0; i < c->tensor_count; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    printf("Bail out! no tensor %s\n", name);
    exit(99);
}

static void
test_tensors(void)
{
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        json_t *config = NULL;
        struct cv_checkpoint *c =
            build_open_fixture(fixtures[tensors[i].fixture], &config);
        struct cv_tensor *t = find(c, tensors[i].tensor);

        if (tensors[i].dtype != NULL)
            strcpy(t->dtype, tensors[i].dtype);
        if (tensors[i].first_dim != 0)
            t->dim[t->dim_count == 4 ? 2 : 0] = tensors[i].first_dim;
        if (tensors[i].rename != NULL)
            t->name = tensors[i].rename;
        qsort(c->tensors, c->tensor_count, sizeof(*t), by_name);
        fails_with(build(c, config, false), &err, tensors[i].code,
                   tensors[i].part, tensors[i].name);
        json_decref(config);
        cv_checkpoint_close(c);
    }
}

static void
test_good(void)
{
    static const uint32_t experts[] = {20, 16};
    static const uint32_t aux[] = {12, 0};

    for (enum fixture f = K3; f <= LINEAR; f++) {
        json_t *config = NULL;
        struct cv_checkpoint *c = build_open_fixture(fixtures[f], &config);
        struct cv_notes notes = {0};
        struct cv_model *m = NULL;
        uint32_t unclaimed = 0;

        must(cv_model_build(config, c, false, &m, &notes, &err), &err);
        is_str(m->family->name, f == K3 ? "kimi_k3" : "kimi_linear",
               "%s: family", fixtures[f]);
        is_u64(m->layer_count, 13, "%s: layers", fixtures[f]);
        is_u64(m->expert_count, experts[f], "%s: experts", fixtures[f]);
        is_u64(m->experts_per_token, 4, "%s: chosen", fixtures[f]);
        is_u64(m->aux_count, aux[f], "%s: carried", fixtures[f]);
        for (uint32_t i = 0; i < c->tensor_count; i++)
            unclaimed += !c->tensors[i].claimed;
        is_u64(unclaimed, 0, "%s: every tensor is claimed", fixtures[f]);
        cv_model_free(m);
        cv_notes_fini(&notes);
        json_decref(config);
        cv_checkpoint_close(c);
    }
}

/* C43 */
static void
test_vocabulary(void)
{
    const char *folder = build_folder();

    must(cv_vocabulary_check(folder, 10, &err), &err);
    ok(true, "no tokenizer, no complaint");
    build_text("tiktoken.model", "YQ== 0\nYg== 9\n");
    must(cv_vocabulary_check(folder, 10, &err), &err);
    ok(true, "gaps are fine");
    fails_with(cv_vocabulary_check(folder, 9, &err), &err, LODE_E_CORRUPT,
               "line 2: token 9 (Yg==) has no row in the embedding, which has "
               "9", "a rank out of range");
    build_text("tiktoken.model", "YQ== 0\nYg==\n");
    fails_with(cv_vocabulary_check(folder, 10, &err), &err, LODE_E_CORRUPT,
               "line 2: expected a token in base64", "a line without rank");
    build_text("tiktoken.model", "YQ== 99999999999999999999999\n");
    fails_with(cv_vocabulary_check(folder, 10, &err), &err, LODE_E_CORRUPT,
               "line 1: expected a token", "a rank of 23 digits");
    build_text("tiktoken.model", "YQ== 0");
    build_text("tokenizer_config.json",
               "{\"model_max_length\":1000000000000000019884624838656,"
               "\"added_tokens_decoder\":{\"9\":{\"content\":\"<x>\"}}}");
    must(cv_vocabulary_check(folder, 10, &err), &err);
    ok(true, "an integer of 31 digits beside is fine");
    fails_with(cv_vocabulary_check(folder, 9, &err), &err, LODE_E_CORRUPT,
               "token 9 (<x>) has no row", "an added token out of range");
    build_text("tokenizer_config.json",
               "{\"added_tokens_decoder\":{\"x\":{}}}");
    fails_with(cv_vocabulary_check(folder, 10, &err), &err, LODE_E_CORRUPT,
               "\"x\" is no token id", "an id that is no number");
    build_remove();
}

int
main(void)
{
    test_good();
    test_configs();
    test_tensors();
    test_vocabulary();
    return done_testing();
}
