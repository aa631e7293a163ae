/* SPDX-License-Identifier: Apache-2.0
 *
 * Read, seal and write the blocks of a plan, all at the same time, with a few
 * blocks in memory. */

#ifndef LODE_CONVERT_PIPELINE_H
#define LODE_CONVERT_PIPELINE_H

#include <stdint.h>

#include "base/cli.h"
#include "base/error.h"
#include "convert/choice.h"
#include "convert/flow.h"
#include "convert/plan.h"

struct cv_pipeline_options {
    struct cv_choice choice;
    uint32_t align_bytes; /* of the container */
    uint32_t jobs;        /* threads that pack and seal */
    bool journal; /* the writer keeps one: digests of sources are noted */
    bool consume; /* give up each shard once all of it is durable */
};

/* Memory that cv_pipeline_run() takes for blocks. */
uint64_t cv_pipeline_bytes(const struct cv_plan *p,
                           const struct cv_pipeline_options *opt);

/* Free space that is wanted at the worst moment when shards are given up on the
 * way and blocks are stored raw: extents are multiples of align_bytes. */
LODE_MUST_CHECK
bool cv_pipeline_consume_peak(const struct cv_plan *p, uint64_t index_bytes,
                              uint64_t align_bytes, uint64_t *out,
                              struct lode_error *err);

/* Write every block of the plan, the origin files last.  Blocks are written in
 * the order of the plan, so that the file does not depend on jobs; those that
 * the writer has already are passed over.  w has begun and is not yet finished.
 * The checkpoint is checked for changes.  progress counts bytes of blocks.
 * Fails with LODE_E_CANCELLED once lode_cancelled is set. */
LODE_MUST_CHECK
bool cv_pipeline_run(struct cv_plan *p, struct lode_writer *w,
                     const struct cv_pipeline_options *opt,
                     struct lode_progress *progress, struct lode_error *err);

/* Write the blocks of files beside the shards and no others, for a container
 * that is only an index. */
LODE_MUST_CHECK
bool cv_pipeline_run_files(struct cv_plan *p, struct lode_writer *w,
                           struct lode_error *err);

/* After lode_writer_finish(), with consume: remove what is left of the shards.
 */
LODE_MUST_CHECK
bool cv_pipeline_remove_shards(const struct cv_checkpoint *c,
                               struct lode_error *err);

#endif
