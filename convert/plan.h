/* SPDX-License-Identifier: Apache-2.0
 *
 * What will be written, all of it known before the first byte is: groups,
 * their schemas, and the blocks in the order in which they are read and
 * written. */

#ifndef LODE_CONVERT_PLAN_H
#define LODE_CONVERT_PLAN_H

#include <stdint.h>

#include "base/error.h"
#include "convert/checkpoint.h"
#include "convert/naming.h"
#include "format/lode_write.h"

enum {
    CV_TRUNK_BLOCK_BYTES = 16 << 20,
    CV_ROWS_BLOCK_BYTES = 1 << 20,
    CV_IMAGE_ALIGN = 64,
    CV_PROJECTION_ALIGN = 4096,
};

/* A group as the writer wants it, and where its bytes come from. */
struct cv_group {
    const char *name;
    char *owned_name;            /* what name points to, if it is ours */
    struct lode_tensor *tensors; /* of the schema */
    uint32_t *sources;           /* tensor number: [object][tensor] */
    uint64_t object_raw_bytes;
    uint32_t kind;
    int32_t layer;
    uint32_t tensor_count;
    uint32_t object_count;
    uint32_t block_raw_bytes; /* 0: one block an object */
    uint32_t file;            /* of a META group: number of its source */
    uint32_t handle;          /* the writer's */
};

struct cv_block {
    uint64_t first_offset; /* its object's first source byte: the order */
    uint32_t first_source;
    uint32_t group;
    uint32_t object;
    uint32_t seq;
    uint32_t raw_bytes;
};

/* Bytes of a source that belong at image_offset of a block. */
struct cv_piece {
    uint64_t source_offset;
    uint32_t source;
    uint32_t image_offset;
    uint32_t bytes;
};

struct cv_plan {
    struct cv_checkpoint *c; /* borrowed, as is the model */
    const struct cv_model *m;
    struct cv_group *groups;       /* the last two are the origin files */
    struct cv_block *blocks;       /* all but those of the origin files */
    char *rule_names[CV_RULES_MAX];
    uint32_t group_count;
    uint32_t block_count;
    uint32_t largest_block_bytes; /* of all, those of the origin too */
    uint64_t raw_bytes; /* of these blocks */
    uint64_t parameter_count;
};

/* c and m must live as long as the plan. */
LODE_MUST_CHECK
bool cv_plan_build(struct cv_checkpoint *c, const struct cv_model *m,
                   struct cv_plan **out, struct lode_error *err);
void cv_plan_free(struct cv_plan *p); /* NULL is allowed */

/* Tell the writer about every schema and group, and number the blocks. */
LODE_MUST_CHECK
bool cv_plan_declare(struct cv_plan *p, struct lode_writer *w,
                     struct lode_error *err);

/* The pieces of a block in image order (struct cv_piece each), into out, which
 * is emptied first. */
LODE_MUST_CHECK
bool cv_plan_pieces(const struct cv_plan *p, const struct cv_block *b,
                    struct lode_buf *out, struct lode_error *err);

uint32_t cv_blocks_per_object(const struct cv_group *g);

/* Weights that a tensor stands for: scales have none, MXFP4 two a byte. */
uint64_t cv_tensor_parameters(const struct lode_tensor *t);

#endif
