/* SPDX-License-Identifier: Apache-2.0
 *
 * What plan and run of a repack share. */

#ifndef LODE_CONVERT_REPACK_PLAN_H
#define LODE_CONVERT_REPACK_PLAN_H

#include "convert/flow.h"
#include "convert/repack.h"
#include "convert/trace.h"

/* With consume: how much is written between two syncs, after each of which the
 * old blocks go. */
#define CV_CONSUME_BYTES (UINT64_C(32) << 20)

/* A stretch of an old object that becomes part of a new one. */
struct cv_cut {
    uint64_t from; /* in the old object's image */
    uint64_t to;   /* in the new one's */
    uint64_t bytes;
};

/* A group of the new container. */
struct cv_new_group {
    const struct lode_group *old;
    struct lode_group group;     /* kind, layer and the sizes of the new one */
    struct lode_tensor *tensors; /* of the new schema */
    uint32_t tensor_count;
    uint32_t *kept;       /* old numbers of the experts that stay; NULL: all */
    struct lode_buf cuts; /* struct cv_cut; none: the image is the old one */
    char *text;           /* or the image is this */
    uint32_t handle;
};

enum cv_how {
    CV_COPY,   /* stored bytes as they are, unread */
    CV_RECODE, /* the same image, stored otherwise */
    CV_CHANGE, /* another image */
};

/* A block of the new container, in the order of writing. */
struct cv_item {
    uint32_t old_block; /* of CHANGE: the first of its old group */
    uint32_t group;     /* number among the new groups */
    uint32_t object;
    uint32_t seq;
    uint32_t raw_bytes;
    uint8_t how;
};

struct cv_repack {
    const struct lode_reader *in;
    struct cv_repack_options opt;
    struct cv_repack_figures figures;
    struct lode_writer *w;
    struct cv_trace *trace;
    struct cv_new_group *groups;
    uint32_t group_count;
    struct cv_item *items;
    uint32_t item_count;
    uint8_t *drop;     /* by old block number: experts that go; or NULL */
    uint8_t *contents; /* digests of the old container */
    uint8_t *stored;   /* NULL: those of contents */
    uint32_t largest_bytes;
    uint32_t jobs;
    bool packing; /* some block is or will be packed */
    uint8_t plan[LODE_DIGEST_BYTES];
};

/* The text of provenance.json for a container whose content was changed. */
LODE_MUST_CHECK
bool cv_repack_provenance(const struct cv_repack *x, char **out,
                          size_t *out_bytes, struct lode_error *err);

/* Decide which experts go, and describe the groups that change by it. */
LODE_MUST_CHECK
bool cv_repack_prune(struct cv_repack *x, struct lode_error *err);

#endif
