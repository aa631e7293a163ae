/* SPDX-License-Identifier: Apache-2.0
 *
 * The trunk, block by block.  A prefix of the trunk's blocks is pinned in
 * memory; the others stream through a ring, read ahead in the order of use.
 * Nothing here or above it may assume that a layer, or even one matrix, is in
 * memory as a whole.
 *
 * A pass visits the stages in order; within a stage, offsets only grow.  All
 * calls come from one thread. */

#ifndef LODE_RUNTIME_TRUNK_H
#define LODE_RUNTIME_TRUNK_H

#include "runtime/fetch.h"
#include "runtime/model.h"

struct rt_trunk;

enum { RT_RING_MAX = 16, RT_RING_MIN = 2 };

/* Pin the first pinned_count positions of the model; stream the rest through
 * ring_count slots (RT_RING_MIN to RT_RING_MAX; 0 when all are pinned).
 * Memory is reserved here and filled by the first pass. */
LODE_MUST_CHECK
bool rt_trunk_new(const struct rt_model *m, struct rt_fetch *f,
                  uint32_t pinned_count, uint32_t ring_count,
                  struct rt_trunk **out, struct lode_error *err);

/* Free only after the fetcher is gone: reads may be under way. */
void rt_trunk_free(struct rt_trunk *t); /* NULL is allowed */

/* Begin a pass.  with_output: it will visit the output stage(s); more: another
 * pass will follow, so its first blocks may be read ahead. */
LODE_MUST_CHECK
bool rt_trunk_begin_pass(struct rt_trunk *t, bool with_output, bool more,
                         struct lode_error *err);

/* Begin a stage of this pass; give up what is left of the one before. */
LODE_MUST_CHECK
bool rt_trunk_begin_stage(struct rt_trunk *t, uint32_t stage_index,
                          struct lode_error *err);

/* Decode the first count values of a tensor to float32. */
LODE_MUST_CHECK
bool rt_trunk_vector(struct rt_trunk *t, const struct rt_tensor *tensor,
                     uint64_t count, float *out, struct lode_error *err);

/* Whole rows that are in memory now. */
struct rt_slice {
    const uint8_t *rows; /* valid until the next call */
    uint32_t row_count;
};

/* The longest run of rows from row_index on that lies in one block, or the one
 * row assembled from the blocks it straddles; at least one row. */
LODE_MUST_CHECK
bool rt_trunk_slice(struct rt_trunk *t, const struct rt_tensor *tensor,
                    uint32_t row_index, struct rt_slice *out,
                    struct lode_error *err);

#endif
