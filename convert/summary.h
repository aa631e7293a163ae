/* SPDX-License-Identifier: Apache-2.0
 *
 * What a container consists of, or will: the table that convert and info
 * print. */

#ifndef LODE_CONVERT_SUMMARY_H
#define LODE_CONVERT_SUMMARY_H

#include <jansson.h>
#include <stdint.h>

#include "format/lode.h"

enum { CV_SHARES_MAX = 12 };

/* Bytes in one encoding.  Names are borrowed from the tensors. */
struct cv_share {
    const char *encoding;
    uint64_t bytes;
};

struct cv_part {
    const char *name; /* "experts", "trunk", ... */
    uint64_t object_count;
    uint64_t block_count;
    uint64_t raw_bytes; /* of the objects, gaps included */
    uint64_t parameter_count;
    struct cv_share shares[CV_SHARES_MAX]; /* the last may be "other" */
    uint32_t share_count;
};

enum cv_part_index {
    CV_PART_EXPERTS,
    CV_PART_TRUNK,
    CV_PART_OUTPUT,
    CV_PART_EMBEDDING,
    CV_PART_CARRIED,
    CV_PART_FILES,
    CV_PART_COUNT,
};

struct cv_summary {
    struct cv_part parts[CV_PART_COUNT];
    uint64_t parameter_count;
};

void cv_summary_init(struct cv_summary *s);

/* Add a group (only kind, layer, object_count, object_raw_bytes and
 * blocks_per_object are looked at) and the tensors of its schema. */
void cv_summary_add(struct cv_summary *s, const struct lode_group *g,
                    const struct lode_tensor *tensors, uint32_t tensor_count);

/* The table, on stdout. */
void cv_summary_print(const struct cv_summary *s);

/* [{"name", "objects", "blocks", "bytes", "parameters", "encodings"}], or NULL
 * without memory. */
json_t *cv_summary_json(const struct cv_summary *s);

#endif
