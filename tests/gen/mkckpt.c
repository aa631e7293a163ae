/* SPDX-License-Identifier: Apache-2.0
 *
 * mkckpt: write a synthetic checkpoint in the published layout, of any size,
 * with a few megabytes of memory.  Same options, same bytes. */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cli.h"

#define NOT_GIVEN UINT64_MAX

struct preset {
    const char *name;
    enum ck_family family;
    uint64_t size[CK_GIVEN_COUNT];
};

#define TINY_TOWER                                                            \
    [CK_VT_HIDDEN] = 32, [CK_VT_INTER] = 64, [CK_VT_QKV] = 48,                \
    [CK_VT_LAYERS] = 1, [CK_VT_POS] = 8, [CK_VT_PATCH] = 14

/* The first of a family is its default.  k3 and linear are the published
 * sizes; medium ones take a few gigabytes. */
static const struct preset presets[] = {
    {"tiny", CK_KIMI_K3,
     {[CK_HIDDEN] = 96, [CK_LAYERS] = 9, [CK_VOCAB] = 768,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 136, [CK_EXPERTS] = 20, [CK_TOPK] = 4,
      [CK_MOE_INTER] = 96, [CK_SHARED] = 2, [CK_LATENT] = 64,
      [CK_BLOCK_SIZE] = 4, [CK_HEADS] = 4, [CK_NOPE] = 12, [CK_ROPE] = 6,
      [CK_VDIM] = 10, [CK_KV_LORA] = 20, [CK_Q_LORA] = 24,
      [CK_KDA_HEADS] = 3, [CK_KDA_DIM] = 16, TINY_TOWER}},
    {"medium", CK_KIMI_K3,
     {[CK_HIDDEN] = 1024, [CK_LAYERS] = 13, [CK_VOCAB] = 8192,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 4096, [CK_EXPERTS] = 256,
      [CK_TOPK] = 8, [CK_MOE_INTER] = 1024, [CK_SHARED] = 2,
      [CK_LATENT] = 512, [CK_BLOCK_SIZE] = 4, [CK_HEADS] = 16,
      [CK_NOPE] = 64, [CK_ROPE] = 32, [CK_VDIM] = 64, [CK_KV_LORA] = 128,
      [CK_Q_LORA] = 256, [CK_KDA_HEADS] = 16, [CK_KDA_DIM] = 64,
      TINY_TOWER}},
    {"k3", CK_KIMI_K3,
     {[CK_HIDDEN] = 7168, [CK_LAYERS] = 93, [CK_VOCAB] = 163840,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 33792, [CK_EXPERTS] = 896,
      [CK_TOPK] = 16, [CK_MOE_INTER] = 3072, [CK_SHARED] = 2,
      [CK_LATENT] = 3584, [CK_BLOCK_SIZE] = 12, [CK_HEADS] = 96,
      [CK_NOPE] = 128, [CK_ROPE] = 64, [CK_VDIM] = 128, [CK_KV_LORA] = 512,
      [CK_Q_LORA] = 1536, [CK_KDA_HEADS] = 96, [CK_KDA_DIM] = 128,
      [CK_VT_HIDDEN] = 1024, [CK_VT_INTER] = 4096, [CK_VT_QKV] = 1536,
      [CK_VT_LAYERS] = 27, [CK_VT_POS] = 64, [CK_VT_PATCH] = 14}},
    {"tiny", CK_KIMI_LINEAR,
     {[CK_HIDDEN] = 72, [CK_LAYERS] = 9, [CK_VOCAB] = 768,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 100, [CK_EXPERTS] = 16, [CK_TOPK] = 4,
      [CK_MOE_INTER] = 44, [CK_SHARED] = 1, [CK_HEADS] = 3, [CK_NOPE] = 12,
      [CK_ROPE] = 6, [CK_VDIM] = 12, [CK_KV_LORA] = 20, [CK_KDA_HEADS] = 3,
      [CK_KDA_DIM] = 16}},
    {"medium", CK_KIMI_LINEAR,
     {[CK_HIDDEN] = 768, [CK_LAYERS] = 13, [CK_VOCAB] = 8192,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 3072, [CK_EXPERTS] = 64,
      [CK_TOPK] = 8, [CK_MOE_INTER] = 384, [CK_SHARED] = 1, [CK_HEADS] = 12,
      [CK_NOPE] = 64, [CK_ROPE] = 32, [CK_VDIM] = 64, [CK_KV_LORA] = 128,
      [CK_KDA_HEADS] = 12, [CK_KDA_DIM] = 64}},
    {"linear", CK_KIMI_LINEAR,
     {[CK_HIDDEN] = 2304, [CK_LAYERS] = 27, [CK_VOCAB] = 163840,
      [CK_FIRST_DENSE] = 1, [CK_INTER] = 9216, [CK_EXPERTS] = 256,
      [CK_TOPK] = 8, [CK_MOE_INTER] = 1024, [CK_SHARED] = 1, [CK_HEADS] = 32,
      [CK_NOPE] = 128, [CK_ROPE] = 64, [CK_VDIM] = 128, [CK_KV_LORA] = 512,
      [CK_KDA_HEADS] = 32, [CK_KDA_DIM] = 128}},
};

struct arguments {
    const char *family;
    const char *preset;
    const char *out;
    uint64_t size[CK_GIVEN_COUNT];
    uint64_t head_dim;
    uint64_t shard_count;
    bool per_layer;
    struct ck_model model; /* seed, scale, vision */
    bool sparse;
    const char *fill;
};

static bool
find_preset(struct arguments *a, struct lode_error *err)
{
    const char *name = a->preset != NULL ? a->preset : "tiny";
    bool any = a->family == NULL;
    enum ck_family family = CK_KIMI_K3;

    if (!any && strcmp(a->family, "kimi_linear") == 0)
        family = CK_KIMI_LINEAR;
    else if (!any && strcmp(a->family, "kimi_k3") != 0)
        return lode_fail(err, LODE_E_USAGE,
                         "--family %s: kimi_k3 or kimi_linear", a->family);
    for (size_t i = 0; i < sizeof(presets) / sizeof(presets[0]); i++) {
        const struct preset *p = &presets[i];

        if (strcmp(p->name, name) != 0 || (!any && p->family != family))
            continue;
        a->model.family = p->family;
        memcpy(a->model.size, p->size, sizeof(p->size));
        return true;
    }
    return lode_fail(err, LODE_E_USAGE,
                     "--preset %s: tiny, medium, k3 or linear, of the same"
                     " family",
                     name);
}

/* The sizes that were given replace the preset's. */
static void
apply_sizes(struct arguments *a)
{
    uint64_t *n = a->model.size;

    if (a->head_dim != NOT_GIVEN) {
        n[CK_NOPE] = a->head_dim;
        n[CK_VDIM] = a->head_dim;
        n[CK_ROPE] = a->head_dim / 2;
        n[CK_KDA_DIM] = a->head_dim;
    }
    if (a->size[CK_HEADS] != NOT_GIVEN)
        n[CK_KDA_HEADS] = a->size[CK_HEADS];
    for (size_t i = 0; i < CK_GIVEN_COUNT; i++)
        if (a->size[i] != NOT_GIVEN)
            n[i] = a->size[i];
}

static bool
parse(int argc, char **argv, struct arguments *a, bool *help_shown,
      struct lode_error *err)
{
    uint64_t *n = a->size;
    const struct lode_opt table[] = {
        {"out", 'o', LODE_OPT_TEXT, &a->out, "DIR", "the folder to write"},
        {"family", 0, LODE_OPT_TEXT, &a->family, "NAME",
         "kimi_k3 (default) or kimi_linear"},
        {"preset", 0, LODE_OPT_TEXT, &a->preset, "NAME",
         "sizes to begin with: tiny, medium, k3, linear"},
        {"hidden", 0, LODE_OPT_U64, &n[CK_HIDDEN], "N", "residual width"},
        {"layers", 0, LODE_OPT_U64, &n[CK_LAYERS], "N", "layers"},
        {"first-dense", 0, LODE_OPT_U64, &n[CK_FIRST_DENSE], "N",
         "layers without experts at the start"},
        {"experts", 0, LODE_OPT_U64, &n[CK_EXPERTS], "N", "experts a layer"},
        {"topk", 0, LODE_OPT_U64, &n[CK_TOPK], "N", "experts a token"},
        {"moe-inter", 0, LODE_OPT_U64, &n[CK_MOE_INTER], "N",
         "width inside an expert"},
        {"latent", 0, LODE_OPT_U64, &n[CK_LATENT], "N",
         "latent width of the experts (0: none)"},
        {"shared", 0, LODE_OPT_U64, &n[CK_SHARED], "N", "shared experts"},
        {"inter", 0, LODE_OPT_U64, &n[CK_INTER], "N", "width of dense MLPs"},
        {"heads", 0, LODE_OPT_U64, &n[CK_HEADS], "N", "attention heads"},
        {"head-dim", 0, LODE_OPT_U64, &a->head_dim, "N",
         "nope, vdim, kda-dim, and twice rope"},
        {"nope", 0, LODE_OPT_U64, &n[CK_NOPE], "N", "MLA key width"},
        {"rope", 0, LODE_OPT_U64, &n[CK_ROPE], "N", "MLA shared key width"},
        {"vdim", 0, LODE_OPT_U64, &n[CK_VDIM], "N", "MLA value width"},
        {"kv-lora", 0, LODE_OPT_U64, &n[CK_KV_LORA], "N", "MLA latent width"},
        {"q-lora", 0, LODE_OPT_U64, &n[CK_Q_LORA], "N",
         "MLA query latent width (0: none)"},
        {"kda-heads", 0, LODE_OPT_U64, &n[CK_KDA_HEADS], "N", "KDA heads"},
        {"kda-dim", 0, LODE_OPT_U64, &n[CK_KDA_DIM], "N", "KDA head width"},
        {"block-size", 0, LODE_OPT_U64, &n[CK_BLOCK_SIZE], "N",
         "layers a block of attention residuals (0: none)"},
        {"vocab", 0, LODE_OPT_U64, &n[CK_VOCAB], "N",
         "embedding rows, 256 of them special"},
        {"vision", 0, LODE_OPT_FLAG, &a->model.vision, NULL,
         "projector and vision tower too (kimi_k3)"},
        {"scale", 0, LODE_OPT_F64, &a->model.scale, "X",
         "factor on the weights' spread (1)"},
        {"seed", 0, LODE_OPT_U64, &a->model.seed, "N", "random seed (0)"},
        {"shards", 0, LODE_OPT_U64, &a->shard_count, "N",
         "shards, cut by bytes"},
        {"shard-per-layer", 0, LODE_OPT_FLAG, &a->per_layer, NULL,
         "a shard a layer (default for kimi_k3)"},
        {"sparse", 0, LODE_OPT_FLAG, &a->sparse, NULL,
         "true sizes, but holes instead of values: all are zero"},
        {"fill", 0, LODE_OPT_TEXT, &a->fill, "PATTERN",
         "with --sparse: values for tensors named so; * is any text, and a"
         " comma begins a further pattern"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "mkckpt --out DIR [OPTION]...",
        "Write a synthetic checkpoint."};
    int first = 0;

    if (!lode_cli_parse(argc, argv, &usage, &first, help_shown, err))
        return false;
    if (!*help_shown && (first < argc || a->out == NULL))
        return lode_fail(err, LODE_E_USAGE, "--out DIR is needed, and only"
                                            " options (see --help)");
    return true;
}

static bool
make(struct arguments *a, struct ck_shards *s, struct lode_error *err)
{
    if (!find_preset(a, err))
        return false;
    apply_sizes(a);
    if (a->model.family != CK_KIMI_K3 &&
        (a->model.vision || a->model.size[CK_LATENT] != 0 ||
         a->model.size[CK_BLOCK_SIZE] != 0))
        return lode_fail(err, LODE_E_USAGE, "--vision, --latent and"
                                            " --block-size are for kimi_k3");
    if (a->fill != NULL && !a->sparse)
        return lode_fail(err, LODE_E_USAGE,
                         "--fill is for --sparse; without it every tensor has"
                         " values");
    if (!ck_model_finish(&a->model, err))
        return false;
    if (mkdir(a->out, 0777) != 0 && errno != EEXIST)
        return lode_fail_errno(err, "%s", a->out);
    s->dir = a->out;
    s->sparse = a->sparse;
    s->fill = a->fill;
    s->shard_count = a->shard_count != NOT_GIVEN ? a->shard_count
                     : a->per_layer || a->model.family == CK_KIMI_K3 ? 0
                                                                     : 4;
    return ck_write_config(&a->model, a->out, err) &&
           ck_write_tokenizer(&a->model, a->out, err) &&
           ck_write_shards(&a->model, s, err);
}

int
main(int argc, char **argv)
{
    static const uint16_t one = 1;
    struct arguments a;
    struct ck_shards s;
    struct lode_error err;
    bool help_shown = false;

    memset(&a, 0, sizeof(a));
    memset(&s, 0, sizeof(s));
    memset(a.size, 0xff, sizeof(a.size)); /* NOT_GIVEN */
    a.head_dim = NOT_GIVEN;
    a.shard_count = NOT_GIVEN;
    a.model.scale = 1;
    if (*(const uint8_t *)&one != 1) {
        fprintf(stderr, "mkckpt: little-endian machines only\n");
        return 1;
    }
    if (!parse(argc, argv, &a, &help_shown, &err))
        return lode_cli_report("mkckpt", &err);
    if (help_shown)
        return 0;
    if (!make(&a, &s, &err))
        return lode_cli_report("mkckpt", &err);
    printf("%" PRIu64 " tensors, %" PRIu64 " bytes", s.tensor_count,
           s.total_bytes);
    if (a.sparse)
        printf(", %" PRIu64 " of them not holes", s.filled_bytes);
    printf("\n");
    return 0;
}
