/* SPDX-License-Identifier: Apache-2.0
 *
 * Read, seal and write the blocks of a plan, all at the same time, with a few
 * blocks in memory. */

#ifndef LODE_CONVERT_PIPELINE_H
#define LODE_CONVERT_PIPELINE_H

#include <stdint.h>

#include "base/cli.h"
#include "base/error.h"
#include "convert/plan.h"

enum { CV_JOBS_MAX = 64 };

/* Memory that cv_pipeline_run() takes for blocks. */
uint64_t cv_pipeline_bytes(const struct cv_plan *p);

/* Write every block of the plan, the origin files last, with jobs threads for
 * digests.  Blocks are written in the order of the plan, so that the file does
 * not depend on jobs.  w has begun and is not yet finished.  The checkpoint is
 * checked for changes at the end.  progress counts bytes of blocks.  Fails
 * with LODE_E_CANCELLED once lode_cancelled is set. */
LODE_MUST_CHECK
bool cv_pipeline_run(const struct cv_plan *p, struct lode_writer *w,
                     uint32_t jobs, struct lode_progress *progress,
                     struct lode_error *err);

/* Write the blocks of files beside the shards and no others, for a container
 * that is only an index. */
LODE_MUST_CHECK
bool cv_pipeline_run_files(const struct cv_plan *p, struct lode_writer *w,
                           struct lode_error *err);

#endif
