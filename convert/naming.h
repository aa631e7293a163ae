/* SPDX-License-Identifier: Apache-2.0
 *
 * From tensor names to a model: which tensor has which role in which layer and
 * expert.
 *
 * A family is a table of rules in the order in which a layer consumes its
 * tensors, and a function that reads config.json into the numbers and switches
 * the rules refer to.  Everything else (matching, shapes, completeness) is the
 * same for all families and lives in naming.c.  Nothing is guessed: config.json
 * and the tensors must tell the same story, or the checkpoint is refused. */

#ifndef LODE_CONVERT_NAMING_H
#define LODE_CONVERT_NAMING_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/checkpoint.h"
#include "convert/notes.h"
#include "format/role.h"

enum {
    CV_LAYERS_MAX = 4096,
    CV_EXPERTS_MAX = 1 << 16,
    CV_RULES_MAX = 64,
    CV_NO_TENSOR = -1,
};

/* Where a rule's tensor belongs. */
enum cv_scope {
    CV_IN_TRUNK,     /* of a layer; the name goes on behind "layers.{L}." */
    CV_IN_EXPERT,    /* likewise, with {E} */
    CV_IN_OUTPUT,    /* behind the last layer */
    CV_IN_EMBEDDING,
};

/* Numbers from config.json that shapes are compared with. */
enum cv_dim {
    CV_DIM_END, /* no further dimension */
    CV_DIM_ONE,
    CV_DIM_HIDDEN,
    CV_DIM_VOCABULARY,
    CV_DIM_DENSE,       /* width of a dense MLP */
    CV_DIM_SHARED,      /* width of the shared expert */
    CV_DIM_EXPERTS,
    CV_DIM_EXPERT,      /* width of one routed expert */
    CV_DIM_LATENT,      /* what a routed expert reads and writes */
    CV_DIM_KDA_HEADS,
    CV_DIM_KDA_HEAD,    /* width of a KDA head */
    CV_DIM_KDA,         /* heads x width */
    CV_DIM_TAPS,
    CV_DIM_Q,           /* MLA: heads x (nope + rope) */
    CV_DIM_Q_LATENT,
    CV_DIM_KV_LATENT,
    CV_DIM_KV_A,        /* latent + rope */
    CV_DIM_KV_B,        /* heads x (nope + value) */
    CV_DIM_V,           /* heads x value */
    CV_DIM_COUNT,
};

/* How a rule's tensor is stored. */
enum cv_form {
    CV_PLAIN,      /* floating point, shape as in the rule */
    CV_PER_HEAD,   /* KDA_HEADS values, or padded to KDA_HEAD, any rank */
    CV_PACKED,     /* MXFP4 nibbles: half as many bytes as columns */
    CV_SCALE,      /* its scales: one byte for 32 columns */
};

struct cv_rule {
    const char *name;
    enum cv_scope scope;
    uint16_t role; /* an enum lode_role */
    enum cv_form form;
    uint32_t needs; /* switches of a layer (or of the model) that must all be
                     * on for the tensor to exist; then it must exist */
    enum cv_dim dim[3];
};

/* The prefixes a family's names come with: before "layers.{L}." and before
 * "lm_head.". */
struct cv_prefix {
    const char *body;
    const char *head;
};

/* Switches that every family has; a family's own start at CV_SWITCH_OWN. */
enum {
    CV_SWITCH_MOE = 1U << 0,
    CV_SWITCH_DENSE = 1U << 1,
    CV_SWITCH_UNTIED = 1U << 2, /* the head is a tensor of its own */
    CV_SWITCH_OWN = 1U << 3,
};

struct cv_model;

struct cv_family {
    const char *name; /* model_type */
    const struct cv_rule *rules;
    uint32_t rule_count;
    const struct cv_prefix *prefixes; /* body NULL ends the list */
    const char *const *aux_prefixes;  /* NULL ends; not needed for text */
    /* Fill dims and switches of m from the object with the text's keys. */
    bool (*configure)(struct cv_model *m, const json_t *config,
                      struct lode_error *err);
};

/* Slots of an expert, in image order. */
enum {
    CV_GATE,
    CV_GATE_SCALE,
    CV_UP,
    CV_UP_SCALE,
    CV_DOWN,
    CV_DOWN_SCALE,
    CV_EXPERT_SLOTS,
};

struct cv_model {
    const struct cv_family *family;
    struct cv_prefix prefix;
    uint64_t dim[CV_DIM_COUNT];
    uint32_t layer_count;
    uint32_t expert_count; /* 0: no layer is MoE */
    uint32_t experts_per_token;
    bool packed;            /* config.json announces MXFP4 experts */
    bool tied;              /* config.json says the head is the embedding */
    uint32_t model_switches;
    uint32_t *switches;     /* of each layer */
    int32_t *trunk;         /* [layer][rule]: tensor number */
    int32_t *experts;       /* [layer][expert][slot]: tensor number */
    int32_t single[CV_RULES_MAX]; /* output and embedding, by rule */
    uint32_t *aux;          /* tensors that are carried only */
    uint32_t aux_count;
    uint64_t parameter_count;
};

/* Which family config.json's text names, for the prefixes that --text-only
 * leaves out.  Fails with LODE_E_CORRUPT or, naming the families this build
 * knows, LODE_E_UNSUPPORTED. */
LODE_MUST_CHECK
bool cv_family_find(const json_t *config, const struct cv_family **out,
                    struct lode_error *err);

/* Name every tensor of c.  On success *out is the caller's, for
 * cv_model_free().  keep_unknown carries tensors that no rule claims. */
LODE_MUST_CHECK
bool cv_model_build(const json_t *config, struct cv_checkpoint *c,
                    bool keep_unknown, struct cv_model **out,
                    struct cv_notes *notes, struct lode_error *err);
void cv_model_free(struct cv_model *m); /* NULL is allowed */

/* The slot of an expert that a role stands for. */
uint32_t cv_expert_slot(uint16_t role);

/* The rule's name with its prefix, {L} and {E} left in. */
LODE_MUST_CHECK
bool cv_rule_name(const struct cv_model *m, const struct cv_rule *r, char *out,
                  size_t out_bytes, struct lode_error *err);

extern const struct cv_family cv_family_kimi_k3;
extern const struct cv_family cv_family_kimi_linear;

#endif
