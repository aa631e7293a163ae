/* SPDX-License-Identifier: Apache-2.0
 *
 * A container seen as a model: which tensor of which object plays which role,
 * with every shape checked against config.json.  Nothing here reads a weight.
 *
 * Threads: immutable after rt_model_open(). */

#ifndef LODE_RUNTIME_MODEL_H
#define LODE_RUNTIME_MODEL_H

#include "format/encoding.h"
#include "format/lode.h"
#include "format/role.h"
#include "runtime/model_config.h"
#include "runtime/tokenizer.h"

enum { RT_ROLES = 96 };

/* One tensor of an object's image; rows x cols, row-major.  A vector has one
 * row.  present is false for roles the object lacks. */
struct rt_tensor {
    uint64_t offset;       /* in the object's image */
    uint64_t row_bytes;
    uint64_t scale_offset; /* MXFP4 only */
    uint64_t scale_row_bytes;
    uint32_t rows;
    uint32_t cols;
    enum lode_encoding encoding;
    bool present;
};

/* The tensors of a schema by role. */
struct rt_view {
    uint32_t schema_index;
    uint64_t object_raw_bytes;
    struct rt_tensor by_role[RT_ROLES];
};

/* One object that streams: a layer's trunk, the output matrices, or (tied
 * head) the embedding a second time. */
struct rt_stage {
    uint32_t group_index;
    uint32_t first_position; /* of its blocks in rt_model.positions */
    uint32_t block_count;
    uint32_t block_raw_bytes;
    const struct rt_view *view;
};

struct rt_position {
    uint32_t block_index;
    uint32_t room_bytes;   /* in memory: rt_fetch_room_bytes() */
    uint32_t stored_bytes; /* to read, with padding */
};

/* The experts of one layer; group_index is LODE_NO_INDEX where there are
 * none. */
struct rt_bank {
    int64_t group_index;
    uint32_t first_block_index;
    uint32_t expert_count; /* below config.expert_count where it was pruned */
    const struct rt_view *view;
};

struct rt_model {
    struct lode_reader *reader;
    struct rt_config config;
    struct rt_tokenizer *tokenizer; /* NULL: the container has none */

    struct rt_view **views;
    uint32_t view_count;

    struct rt_stage *stages; /* layer_count + 1: the last is the output */
    uint32_t stage_count;
    int64_t head_stage; /* a further stage for a tied head, or the output */
    struct rt_position *positions;
    uint32_t position_count;
    uint32_t max_trunk_room_bytes;
    uint64_t trunk_room_bytes;   /* of all positions */
    uint64_t trunk_stored_bytes; /* likewise */

    struct rt_bank *banks; /* layer_count */
    uint32_t max_expert_room_bytes;
    uint32_t moe_layer_count;
    uint32_t expert_count;           /* of all layers */
    uint64_t expert_bytes_per_token; /* to read, if all are used alike */

    uint32_t embedding_group_index;
    uint32_t max_row_block_bytes; /* in memory, of the embedding */
    const struct rt_view *embedding;

    uint64_t max_row_bytes; /* of any streamed matrix */
    uint64_t packed_bytes;  /* largest packed block, padded; 0: there is none */
    uint32_t needed_count;  /* blocks that a pass may read */
    uint32_t absent_count;  /* those of them that are in no file */
    uint32_t first_absent_block_index;
    uint64_t memory_bytes;  /* rough: what this struct holds on to */
};

/* Open the container, or the set whose volumes lie beside it or in folders (a
 * list that NULL ends, or NULL), and resolve every tensor.  Blocks may be
 * missing.  Fails as lode_reader_open_in() does, and with LODE_E_USAGE for a
 * volume of a set, LODE_E_UNSUPPORTED for a family, encoding or layout the
 * runtime does not know, LODE_E_CORRUPT where config.json and the tensors
 * disagree (both named).  Every message names the path. */
LODE_MUST_CHECK
bool rt_model_open(const char *path, const char *const *folders,
                   struct rt_model **out, struct lode_error *err);

/* Fails with LODE_E_IO, naming what is missing, unless every block that a pass
 * may read is there. */
LODE_MUST_CHECK
bool rt_model_whole(const struct rt_model *m, struct lode_error *err);
void rt_model_close(struct rt_model *m); /* NULL is allowed */

#endif
