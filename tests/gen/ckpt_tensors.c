/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_LIMIT = 1 << 24 };

/* Where a tensor stands, and what must hold for it to exist. */
enum where {
    IN_TOP,
    IN_PROJECTOR,
    IN_TOWER,
    IN_TOWER_BLOCK,
    IN_LAYER,
    IN_KDA,
    IN_MLA,
    IN_DENSE,
    IN_MOE,
    IN_EXPERT,
};

enum {
    K3 = 1 << 0,     /* this family only */
    LINEAR = 1 << 1, /* likewise */
    MIX = 1 << 2,    /* with attention residuals */
    LATENT = 1 << 3,
    Q_LORA = 1 << 4,
    Q_PLAIN = 1 << 5,
    F32_IN_K3 = 1 << 6, /* dtype, not a condition */
    F32_ALWAYS = 1 << 7,
    BYTES = 1 << 8,
};

struct rule {
    enum where where;
    const char *name;
    uint8_t dim[4]; /* enum ck_size, CK_ONE unless the first; 0 ends */
    uint32_t flags;
    enum ck_values values;
};

/* CK_ONE is 0 and ends a list, so a dimension of 1 needs a name of its own. */
#define UNIT CK_SIZE_COUNT

static const struct rule rules[] = {
    {IN_TOP, "model.embed_tokens.weight", {CK_VOCAB, CK_HIDDEN}, 0, CK_EMBED},
    {IN_TOP, "lm_head.weight", {CK_VOCAB, CK_HIDDEN}, 0, CK_HEAD},
    {IN_TOP, "model.norm.weight", {CK_HIDDEN}, 0, CK_NORM},
    {IN_TOP, "model.output_attn_res_norm.weight", {CK_HIDDEN}, MIX, CK_NORM},
    {IN_TOP, "model.output_attn_res_proj.weight", {UNIT, CK_HIDDEN}, MIX,
     CK_WEIGHT},

    {IN_LAYER, "input_layernorm.weight", {CK_HIDDEN}, 0, CK_NORM},
    {IN_LAYER, "post_attention_layernorm.weight", {CK_HIDDEN}, 0, CK_NORM},
    {IN_LAYER, "self_attention_res_norm.weight", {CK_HIDDEN}, MIX, CK_NORM},
    {IN_LAYER, "self_attention_res_proj.weight", {UNIT, CK_HIDDEN}, MIX,
     CK_WEIGHT},
    {IN_LAYER, "mlp_res_norm.weight", {CK_HIDDEN}, MIX, CK_NORM},
    {IN_LAYER, "mlp_res_proj.weight", {UNIT, CK_HIDDEN}, MIX, CK_WEIGHT},

    {IN_KDA, "self_attn.q_proj.weight", {CK_P, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_KDA, "self_attn.k_proj.weight", {CK_P, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_KDA, "self_attn.v_proj.weight", {CK_P, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_KDA, "self_attn.g_proj.weight", {CK_P, CK_HIDDEN}, K3, CK_WEIGHT},
    {IN_KDA, "self_attn.g_a_proj.weight", {CK_KDA_DIM, CK_HIDDEN}, LINEAR,
     CK_WEIGHT},
    {IN_KDA, "self_attn.g_b_proj.weight", {CK_P, CK_KDA_DIM}, LINEAR,
     CK_WEIGHT},
    {IN_KDA, "self_attn.o_proj.weight", {CK_HIDDEN, CK_P}, 0, CK_WEIGHT},
    {IN_KDA, "self_attn.q_conv1d.weight", {CK_P, UNIT, CK_TAPS}, F32_IN_K3,
     CK_CONV},
    {IN_KDA, "self_attn.k_conv1d.weight", {CK_P, UNIT, CK_TAPS}, F32_IN_K3,
     CK_CONV},
    {IN_KDA, "self_attn.v_conv1d.weight", {CK_P, UNIT, CK_TAPS}, F32_IN_K3,
     CK_CONV},
    {IN_KDA, "self_attn.f_a_proj.weight", {CK_KDA_DIM, CK_HIDDEN}, 0,
     CK_WEIGHT},
    {IN_KDA, "self_attn.f_b_proj.weight", {CK_P, CK_KDA_DIM}, 0, CK_WEIGHT},
    {IN_KDA, "self_attn.b_proj.weight", {CK_KDA_HEADS, CK_HIDDEN}, 0,
     CK_WEIGHT},
    {IN_KDA, "self_attn.A_log", {CK_ALOG}, K3 | F32_ALWAYS, CK_DECAY},
    {IN_KDA, "self_attn.A_log", {UNIT, UNIT, CK_KDA_HEADS, UNIT},
     LINEAR | F32_ALWAYS, CK_DECAY},
    {IN_KDA, "self_attn.dt_bias", {CK_P}, F32_ALWAYS, CK_DT},
    {IN_KDA, "self_attn.o_norm.weight", {CK_KDA_DIM}, F32_IN_K3, CK_NORM},

    {IN_MLA, "self_attn.q_a_proj.weight", {CK_Q_LORA, CK_HIDDEN}, Q_LORA,
     CK_WEIGHT},
    {IN_MLA, "self_attn.q_a_layernorm.weight", {CK_Q_LORA}, Q_LORA, CK_NORM},
    {IN_MLA, "self_attn.q_b_proj.weight", {CK_Q_OUT, CK_Q_LORA}, Q_LORA,
     CK_WEIGHT},
    {IN_MLA, "self_attn.q_proj.weight", {CK_Q_OUT, CK_HIDDEN}, Q_PLAIN,
     CK_WEIGHT},
    {IN_MLA, "self_attn.kv_a_proj_with_mqa.weight", {CK_KV_A, CK_HIDDEN}, 0,
     CK_WEIGHT},
    {IN_MLA, "self_attn.kv_a_layernorm.weight", {CK_KV_LORA}, 0, CK_NORM},
    {IN_MLA, "self_attn.kv_b_proj.weight", {CK_KV_B, CK_KV_LORA}, 0,
     CK_WEIGHT},
    {IN_MLA, "self_attn.g_proj.weight", {CK_V_OUT, CK_HIDDEN}, K3, CK_WEIGHT},
    {IN_MLA, "self_attn.o_proj.weight", {CK_HIDDEN, CK_V_OUT}, 0, CK_WEIGHT},

    {IN_DENSE, "mlp.gate_proj.weight", {CK_INTER, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_DENSE, "mlp.up_proj.weight", {CK_INTER, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_DENSE, "mlp.down_proj.weight", {CK_HIDDEN, CK_INTER}, 0, CK_WEIGHT},

    {IN_MOE, "block_sparse_moe.gate.weight", {CK_EXPERTS, CK_HIDDEN}, 0,
     CK_WEIGHT},
    {IN_MOE, "block_sparse_moe.gate.e_score_correction_bias", {CK_EXPERTS},
     F32_IN_K3, CK_BIAS},
    {IN_MOE, "block_sparse_moe.routed_expert_down_proj.weight",
     {CK_LATENT, CK_HIDDEN}, LATENT, CK_WEIGHT},
    {IN_MOE, "block_sparse_moe.routed_expert_norm.weight", {CK_LATENT}, LATENT,
     CK_NORM},
    {IN_MOE, "block_sparse_moe.routed_expert_up_proj.weight",
     {CK_HIDDEN, CK_LATENT}, LATENT, CK_WEIGHT},
    {IN_MOE, "block_sparse_moe.shared_experts.gate_proj.weight",
     {CK_SHARED_INTER, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_MOE, "block_sparse_moe.shared_experts.up_proj.weight",
     {CK_SHARED_INTER, CK_HIDDEN}, 0, CK_WEIGHT},
    {IN_MOE, "block_sparse_moe.shared_experts.down_proj.weight",
     {CK_HIDDEN, CK_SHARED_INTER}, 0, CK_WEIGHT},

    {IN_EXPERT, "w1.weight", {CK_MOE_INTER, CK_EXPERT_IN}, LINEAR, CK_WEIGHT},
    {IN_EXPERT, "w2.weight", {CK_EXPERT_IN, CK_MOE_INTER}, LINEAR, CK_WEIGHT},
    {IN_EXPERT, "w3.weight", {CK_MOE_INTER, CK_EXPERT_IN}, LINEAR, CK_WEIGHT},
    {IN_EXPERT, "w1.weight_packed", {CK_MOE_INTER, CK_PACKED_IN}, K3 | BYTES,
     CK_CODES},
    {IN_EXPERT, "w1.weight_scale", {CK_MOE_INTER, CK_SCALES_IN}, K3 | BYTES,
     CK_SCALE_BYTES},
    {IN_EXPERT, "w2.weight_packed", {CK_EXPERT_IN, CK_PACKED_MID}, K3 | BYTES,
     CK_CODES},
    {IN_EXPERT, "w2.weight_scale", {CK_EXPERT_IN, CK_SCALES_MID}, K3 | BYTES,
     CK_SCALE_BYTES},
    {IN_EXPERT, "w3.weight_packed", {CK_MOE_INTER, CK_PACKED_IN}, K3 | BYTES,
     CK_CODES},
    {IN_EXPERT, "w3.weight_scale", {CK_MOE_INTER, CK_SCALES_IN}, K3 | BYTES,
     CK_SCALE_BYTES},

    {IN_PROJECTOR, "mm_projector.proj.0.weight", {CK_MERGED, CK_MERGED}, 0,
     CK_WEIGHT},
    {IN_PROJECTOR, "mm_projector.proj.2.weight", {CK_HIDDEN, CK_MERGED}, 0,
     CK_WEIGHT},
    {IN_PROJECTOR, "mm_projector.post_norm.weight", {CK_HIDDEN}, 0, CK_NORM},
    {IN_TOWER, "vision_tower.patch_embed.proj.weight",
     {CK_VT_HIDDEN, CK_VT_RGB, CK_VT_PATCH, CK_VT_PATCH}, 0, CK_WEIGHT},
    {IN_TOWER, "vision_tower.patch_embed.pos_emb.weight",
     {CK_VT_POS, CK_VT_POS, CK_VT_HIDDEN}, 0, CK_EMBED},
    {IN_TOWER, "vision_tower.encoder.final_layernorm.weight", {CK_VT_HIDDEN},
     0, CK_NORM},
    {IN_TOWER_BLOCK, "norm0.weight", {CK_VT_HIDDEN}, 0, CK_NORM},
    {IN_TOWER_BLOCK, "norm1.weight", {CK_VT_HIDDEN}, 0, CK_NORM},
    {IN_TOWER_BLOCK, "wqkv.weight", {CK_VT_3QKV, CK_VT_HIDDEN}, 0, CK_WEIGHT},
    {IN_TOWER_BLOCK, "wo.weight", {CK_VT_HIDDEN, CK_VT_QKV}, 0, CK_WEIGHT},
    {IN_TOWER_BLOCK, "mlp.fc0.weight", {CK_VT_INTER, CK_VT_HIDDEN}, 0,
     CK_WEIGHT},
    {IN_TOWER_BLOCK, "mlp.fc1.weight", {CK_VT_HIDDEN, CK_VT_INTER}, 0,
     CK_WEIGHT},
};

enum { RULE_COUNT = sizeof(rules) / sizeof(rules[0]) };

static bool
rule_holds(const struct rule *r, const struct ck_model *m)
{
    const uint64_t *n = m->size;
    bool k3 = m->family == CK_KIMI_K3;

    return (!(r->flags & K3) || k3) && (!(r->flags & LINEAR) || !k3) &&
           (!(r->flags & MIX) || n[CK_BLOCK_SIZE] != 0) &&
           (!(r->flags & LATENT) || n[CK_LATENT] != 0) &&
           (!(r->flags & Q_LORA) || n[CK_Q_LORA] != 0) &&
           (!(r->flags & Q_PLAIN) || n[CK_Q_LORA] == 0);
}

static enum ck_dtype
rule_dtype(const struct rule *r, const struct ck_model *m)
{
    if (r->flags & BYTES)
        return CK_U8;
    if ((r->flags & F32_ALWAYS) ||
        ((r->flags & F32_IN_K3) && m->family == CK_KIMI_K3))
        return CK_F32;
    return CK_BF16;
}

static bool
add(struct ck_list *list, const struct ck_model *m, const struct rule *r,
    const char *prefix, struct lode_error *err)
{
    struct ck_tensor t;
    uint64_t count = 1;

    memset(&t, 0, sizeof(t));
    t.name_offset = list->names.used_bytes;
    t.dtype = rule_dtype(r, m);
    t.values = r->values;
    for (size_t i = 0; i < 4 && r->dim[i] != 0; i++) {
        t.dim[i] = r->dim[i] == UNIT ? 1 : m->size[r->dim[i]];
        count *= t.dim[i];
        t.dim_count++;
    }
    t.bytes = count * (t.dtype == CK_F32 ? 4 : t.dtype == CK_BF16 ? 2 : 1);
    return lode_buf_append(&list->names, prefix, strlen(prefix), err) &&
           lode_buf_append(&list->names, r->name, strlen(r->name) + 1, err) &&
           lode_buf_append(&list->tensors, &t, sizeof(t), err);
}

static bool
add_all(struct ck_list *list, const struct ck_model *m, enum where where,
        const char *prefix, struct lode_error *err)
{
    for (size_t i = 0; i < RULE_COUNT; i++)
        if (rules[i].where == where && rule_holds(&rules[i], m) &&
            !add(list, m, &rules[i], prefix, err))
            return false;
    return true;
}

static const char *
text_prefix(const struct ck_model *m)
{
    return m->family == CK_KIMI_K3 ? "language_model." : "";
}

static bool
add_layer(struct ck_list *list, const struct ck_model *m, uint64_t layer,
          struct lode_error *err)
{
    bool full = ck_layer_is_full_attention(m, layer);
    bool dense = layer < m->size[CK_FIRST_DENSE];
    char prefix[128];

    (void)snprintf(prefix, sizeof(prefix), "%smodel.layers.%" PRIu64 ".",
                   text_prefix(m), layer); /* fits: 20 digits at most */
    if (!add_all(list, m, IN_LAYER, prefix, err) ||
        !add_all(list, m, full ? IN_MLA : IN_KDA, prefix, err) ||
        !add_all(list, m, dense ? IN_DENSE : IN_MOE, prefix, err))
        return false;
    for (uint64_t e = 0; !dense && e < m->size[CK_EXPERTS]; e++) {
        (void)snprintf(prefix, sizeof(prefix),
                       "%smodel.layers.%" PRIu64
                       ".block_sparse_moe.experts.%" PRIu64 ".",
                       text_prefix(m), layer, e); /* fits likewise */
        if (!add_all(list, m, IN_EXPERT, prefix, err))
            return false;
    }
    return true;
}

static bool
add_tower(struct ck_list *list, const struct ck_model *m,
          struct lode_error *err)
{
    if (!add_all(list, m, IN_TOWER, "", err))
        return false;
    for (uint64_t b = 0; b < m->size[CK_VT_LAYERS]; b++) {
        char prefix[80];

        (void)snprintf(prefix, sizeof(prefix),
                       "vision_tower.encoder.blocks.%" PRIu64 ".",
                       b); /* fits: 20 digits at most */
        if (!add_all(list, m, IN_TOWER_BLOCK, prefix, err))
            return false;
    }
    return true;
}

bool
ck_list_add_unit(struct ck_list *list, const struct ck_model *m,
                 enum ck_unit unit, uint64_t layer, struct lode_error *err)
{
    switch (unit) {
    case CK_UNIT_LAYER:
        return add_layer(list, m, layer, err);
    case CK_UNIT_TOP:
        return add_all(list, m, IN_TOP, text_prefix(m), err);
    case CK_UNIT_PROJECTOR:
        return add_all(list, m, IN_PROJECTOR, "", err);
    case CK_UNIT_TOWER:
        break;
    }
    return add_tower(list, m, err);
}

size_t
ck_list_count(const struct ck_list *list)
{
    return list->tensors.used_bytes / sizeof(struct ck_tensor);
}

struct ck_tensor *
ck_list_at(const struct ck_list *list, size_t i)
{
    return (struct ck_tensor *)(void *)list->tensors.data + i;
}

const char *
ck_list_name(const struct ck_list *list, size_t i)
{
    return (const char *)list->names.data + ck_list_at(list, i)->name_offset;
}

bool
ck_list_add_copy(struct ck_list *list, const struct ck_list *from, size_t i,
                 struct lode_error *err)
{
    struct ck_tensor t = *ck_list_at(from, i);
    const char *name = ck_list_name(from, i);

    t.name_offset = list->names.used_bytes;
    return lode_buf_append(&list->names, name, strlen(name) + 1, err) &&
           lode_buf_append(&list->tensors, &t, sizeof(t), err);
}

static int
compare(const void *a, const void *b, void *names)
{
    const struct ck_tensor *x = a;
    const struct ck_tensor *y = b;

    if (x->dtype != y->dtype)
        return x->dtype < y->dtype ? -1 : 1;
    return strcmp((const char *)names + x->name_offset,
                  (const char *)names + y->name_offset);
}

void
ck_list_sort(struct ck_list *list)
{
    qsort_r(list->tensors.data, ck_list_count(list), sizeof(struct ck_tensor),
            compare, list->names.data);
}

void
ck_list_clear(struct ck_list *list)
{
    list->tensors.used_bytes = 0;
    list->names.used_bytes = 0;
}

void
ck_list_fini(struct ck_list *list)
{
    lode_buf_fini(&list->tensors);
    lode_buf_fini(&list->names);
}

/* Three linear layers, then one of full attention; the last is always full,
 * and in Kimi K3 the last two are. */
bool
ck_layer_is_full_attention(const struct ck_model *m, uint64_t layer)
{
    uint64_t count = m->size[CK_LAYERS];

    if (m->family == CK_KIMI_K3 && count >= 4 && layer + 2 == count)
        return true;
    return layer % 4 == 3 || layer + 1 == count;
}

/* The option that sets a size; those of the vision tower have none. */
static const char *const option_names[CK_GIVEN_COUNT] = {
    [CK_HIDDEN] = "hidden",
    [CK_LAYERS] = "layers",
    [CK_VOCAB] = "vocab",
    [CK_FIRST_DENSE] = "first-dense",
    [CK_INTER] = "inter",
    [CK_EXPERTS] = "experts",
    [CK_TOPK] = "topk",
    [CK_MOE_INTER] = "moe-inter",
    [CK_SHARED] = "shared",
    [CK_LATENT] = "latent",
    [CK_BLOCK_SIZE] = "block-size",
    [CK_HEADS] = "heads",
    [CK_NOPE] = "nope",
    [CK_ROPE] = "rope",
    [CK_VDIM] = "vdim",
    [CK_KV_LORA] = "kv-lora",
    [CK_Q_LORA] = "q-lora",
    [CK_KDA_HEADS] = "kda-heads",
    [CK_KDA_DIM] = "kda-dim",
};

static bool
check_sizes(const uint64_t *n, struct lode_error *err)
{
    for (size_t i = CK_HIDDEN; i < CK_GIVEN_COUNT; i++) {
        bool may_be_zero = i == CK_FIRST_DENSE || i == CK_LATENT ||
                           i == CK_BLOCK_SIZE || i == CK_Q_LORA ||
                           i >= CK_VT_HIDDEN;

        if (n[i] <= SIZE_LIMIT && (n[i] != 0 || may_be_zero))
            continue;
        return lode_fail(err, LODE_E_USAGE,
                         "--%s %" PRIu64 " is out of range (%d to %d)",
                         option_names[i], n[i], may_be_zero ? 0 : 1,
                         SIZE_LIMIT);
    }
    return true;
}

bool
ck_model_finish(struct ck_model *m, struct lode_error *err)
{
    uint64_t *n = m->size;

    n[CK_ONE] = 1;
    n[CK_TAPS] = 4;
    if (!check_sizes(n, err))
        return false;
    n[CK_P] = n[CK_KDA_HEADS] * n[CK_KDA_DIM];
    n[CK_ALOG] = n[CK_KDA_HEADS] > n[CK_KDA_DIM] ? n[CK_KDA_HEADS]
                                                 : n[CK_KDA_DIM];
    n[CK_EXPERT_IN] = n[CK_LATENT] != 0 ? n[CK_LATENT] : n[CK_HIDDEN];
    n[CK_SHARED_INTER] = n[CK_SHARED] * n[CK_MOE_INTER];
    n[CK_PACKED_IN] = n[CK_EXPERT_IN] / 2;
    n[CK_PACKED_MID] = n[CK_MOE_INTER] / 2;
    n[CK_SCALES_IN] = n[CK_EXPERT_IN] / 32;
    n[CK_SCALES_MID] = n[CK_MOE_INTER] / 32;
    n[CK_KV_A] = n[CK_KV_LORA] + n[CK_ROPE];
    n[CK_KV_B] = n[CK_HEADS] * (n[CK_NOPE] + n[CK_VDIM]);
    n[CK_Q_OUT] = n[CK_HEADS] * (n[CK_NOPE] + n[CK_ROPE]);
    n[CK_V_OUT] = n[CK_HEADS] * n[CK_VDIM];
    n[CK_MERGED] = 4 * n[CK_VT_HIDDEN];
    n[CK_VT_3QKV] = 3 * n[CK_VT_QKV];
    n[CK_VT_RGB] = 3;
    if (m->family == CK_KIMI_K3 &&
        (n[CK_EXPERT_IN] % 32 != 0 || n[CK_MOE_INTER] % 32 != 0))
        return lode_fail(err, LODE_E_USAGE,
                         "MXFP4 experts of %" PRIu64 " x %" PRIu64
                         ": both must be multiples of 32",
                         n[CK_MOE_INTER], n[CK_EXPERT_IN]);
    if (n[CK_VOCAB] < 512)
        return lode_fail(err, LODE_E_USAGE,
                         "--vocab %" PRIu64 ": at least 512 are needed",
                         n[CK_VOCAB]);
    if (n[CK_TOPK] > n[CK_EXPERTS])
        return lode_fail(err, LODE_E_USAGE,
                         "--topk %" PRIu64 " of %" PRIu64 " experts",
                         n[CK_TOPK], n[CK_EXPERTS]);
    return true;
}
