/* SPDX-License-Identifier: Apache-2.0
 *
 * Synthetic checkpoints in the published layout: which tensors a model has,
 * what stands in them, and the files around them.  mkckpt.c is the program. */

#ifndef LODE_TESTS_GEN_CKPT_H
#define LODE_TESTS_GEN_CKPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/mem.h"

enum ck_family { CK_KIMI_K3, CK_KIMI_LINEAR };

/* The sizes a model is made of.  Those from CK_P on follow from the others. */
enum ck_size {
    CK_ONE,
    CK_TAPS,
    CK_HIDDEN,
    CK_LAYERS,
    CK_VOCAB,
    CK_FIRST_DENSE,
    CK_INTER,
    CK_EXPERTS,
    CK_TOPK,
    CK_MOE_INTER,
    CK_SHARED,
    CK_LATENT,     /* 0: experts work at the full width */
    CK_BLOCK_SIZE, /* of attention residuals; 0: none */
    CK_HEADS,
    CK_NOPE,
    CK_ROPE,
    CK_VDIM,
    CK_KV_LORA,
    CK_Q_LORA, /* 0: no query latent */
    CK_KDA_HEADS,
    CK_KDA_DIM,
    CK_VT_HIDDEN,
    CK_VT_INTER,
    CK_VT_QKV,
    CK_VT_LAYERS,
    CK_VT_POS,
    CK_VT_PATCH,
    CK_GIVEN_COUNT,
    CK_P = CK_GIVEN_COUNT, /* KDA heads x head width */
    CK_ALOG,               /* A_log: one value a head, padded to the width */
    CK_EXPERT_IN,          /* latent width, or the full one */
    CK_SHARED_INTER,
    CK_PACKED_IN, /* two codes a byte */
    CK_PACKED_MID,
    CK_SCALES_IN, /* one scale for 32 */
    CK_SCALES_MID,
    CK_KV_A,
    CK_KV_B,
    CK_Q_OUT,
    CK_V_OUT,
    CK_MERGED, /* vision: 2 x 2 patches side by side */
    CK_VT_3QKV,
    CK_VT_RGB,
    CK_SIZE_COUNT,
};

struct ck_model {
    enum ck_family family;
    uint64_t size[CK_SIZE_COUNT];
    uint64_t seed;
    double scale; /* of the weights' spread; 1 keeps activations near 1 */
    bool vision;
};

enum ck_dtype { CK_F32, CK_BF16, CK_U8 }; /* in the order of a shard */

/* What stands in a tensor. */
enum ck_values {
    CK_WEIGHT, /* normal, 1 / sqrt(columns) */
    CK_EMBED,
    CK_HEAD,
    CK_NORM,
    CK_CONV,
    CK_DECAY,
    CK_DT,
    CK_BIAS,
    CK_CODES,
    CK_SCALE_BYTES,
};

struct ck_tensor {
    size_t name_offset; /* in the list's names */
    enum ck_dtype dtype;
    enum ck_values values;
    uint32_t dim_count;
    uint64_t dim[4];
    uint64_t bytes;
};

/* The tensors of one shard.  Zero-initialise. */
struct ck_list {
    struct lode_buf tensors; /* struct ck_tensor */
    struct lode_buf names;   /* NUL-terminated */
};

/* The tensors of a model come in units: layers, then "top" (embedding, head,
 * final norms), projector and tower. */
enum ck_unit { CK_UNIT_LAYER, CK_UNIT_TOP, CK_UNIT_PROJECTOR, CK_UNIT_TOWER };

/* Fill the sizes that follow, and check what must hold. */
LODE_MUST_CHECK
bool ck_model_finish(struct ck_model *m, struct lode_error *err);

bool ck_layer_is_full_attention(const struct ck_model *m, uint64_t layer);

/* Append the tensors of one unit; layer counts for CK_UNIT_LAYER only. */
LODE_MUST_CHECK
bool ck_list_add_unit(struct ck_list *list, const struct ck_model *m,
                      enum ck_unit unit, uint64_t layer,
                      struct lode_error *err);
size_t ck_list_count(const struct ck_list *list);
struct ck_tensor *ck_list_at(const struct ck_list *list, size_t i);
const char *ck_list_name(const struct ck_list *list, size_t i);
LODE_MUST_CHECK
bool ck_list_add_copy(struct ck_list *list, const struct ck_list *from,
                      size_t i, struct lode_error *err);
void ck_list_sort(struct ck_list *list); /* by dtype, then by name */
void ck_list_clear(struct ck_list *list);
void ck_list_fini(struct ck_list *list);

/* The values of one tensor, a piece at a time. */
enum { CK_TABLE_COUNT = 4096 };
struct ck_filler {
    uint64_t state[4];
    float normal[CK_TABLE_COUNT];
    uint32_t table[CK_TABLE_COUNT]; /* float or bf16 bits, or bytes */
    uint64_t table_key;
    uint32_t item_bytes;
    uint64_t items_left; /* after these only zeros */
};

void ck_filler_init(struct ck_filler *f);
void ck_filler_begin(struct ck_filler *f, const struct ck_model *m,
                     const char *name, const struct ck_tensor *t);
void ck_filler_fill(struct ck_filler *f, void *out, size_t bytes);

/* splitmix64 and FNV-1a, for seeds. */
uint64_t ck_next(uint64_t *state);
uint64_t ck_hash(const char *text);

/* config.json into dir; tokenizer_config.json; tiktoken.model and the
 * latter. */
LODE_MUST_CHECK
bool ck_write_config(const struct ck_model *m, const char *dir,
                     struct lode_error *err);
LODE_MUST_CHECK
bool ck_write_tokenizer_config(const struct ck_model *m, const char *dir,
                               struct lode_error *err);
LODE_MUST_CHECK
bool ck_write_tokenizer(const struct ck_model *m, const char *dir,
                        struct lode_error *err);

/* Shards and model.safetensors.index.json into dir.  shard_count 0: one a
 * layer, then one for each further unit.  fill: of a sparse checkpoint, which
 * tensors get values all the same, patterns of fnmatch(3) with commas between
 * them; each must match something.  NULL: none. */
struct ck_shards {
    const char *dir;
    uint64_t shard_count;
    bool sparse; /* holes instead of values */
    const char *fill;
    uint64_t tensor_count; /* out */
    uint64_t total_bytes;  /* out */
    uint64_t filled_bytes; /* out: of values, not of holes */
};
LODE_MUST_CHECK
bool ck_write_shards(const struct ck_model *m, struct ck_shards *s,
                     struct lode_error *err);

#endif
