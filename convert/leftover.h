/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversion that gave up its shards and was stopped when the container was
 * complete and the shards not yet removed. */

#ifndef LODE_CONVERT_LEFTOVER_H
#define LODE_CONVERT_LEFTOVER_H

#include "base/error.h"

/* If out is a complete container, no work on it is unfinished, and source has
 * none of the shards that it was made from but what --consume leaves of them,
 * remove that; *removed says whether it was so. */
LODE_MUST_CHECK
bool cv_leftover_remove(const char *source, const char *out, bool *removed,
                        struct lode_error *err);

/* Remove OUT.wip.journal: without OUT.wip it tells of nothing. */
void cv_leftover_remove_journal(const char *out);

#endif
