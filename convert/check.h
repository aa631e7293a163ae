/* SPDX-License-Identifier: Apache-2.0
 *
 * lode_verify() by several threads; faults come in the same order. */

#ifndef LODE_CONVERT_CHECK_H
#define LODE_CONVERT_CHECK_H

#include "format/lode_write.h"

/* jobs from 1 to CV_JOBS_MAX.  opt->fault and opt->progress are called by the
 * caller's thread alone. */
LODE_MUST_CHECK
bool cv_check(const char *path, const struct lode_verify_options *opt,
              uint32_t jobs, uint64_t *fault_count, struct lode_error *err);

#endif
