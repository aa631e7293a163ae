/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts were used, and used together: the JSON that `lode eval
 * --routes --json` prints, one or more of them.  From it follow the order of
 * experts on a drive and those that are missed least. */

#ifndef LODE_CONVERT_TRACE_H
#define LODE_CONVERT_TRACE_H

#include <stdint.h>

#include "base/error.h"
#include "format/lode.h"

enum { CV_TRACE_BYTES_MAX = 1 << 30 };

struct cv_trace;

/* Read the traces of paths (a list that NULL ends) for the experts of r.  A
 * layer or expert that r does not have is LODE_E_CORRUPT. */
LODE_MUST_CHECK
bool cv_trace_load(const char *const *paths, const struct lode_reader *r,
                   struct cv_trace **out, struct lode_error *err);
void cv_trace_free(struct cv_trace *t); /* NULL is allowed */

/* SHA-256 of what was read: part of a plan. */
void cv_trace_digest(const struct cv_trace *t,
                     uint8_t out[LODE_DIGEST_BYTES]);

/* Positions that chose an expert of the layer; 0 for a layer without a trace.
 */
uint64_t cv_trace_uses(const struct cv_trace *t, int32_t layer,
                       uint32_t expert);

/* All expert_count experts of a layer, those used together next to each other:
 * the most used comes first, and each next one is that which most often went
 * with the last eight.  Ties go to the lower number. */
LODE_MUST_CHECK
bool cv_trace_order(const struct cv_trace *t, int32_t layer,
                    uint32_t expert_count, uint32_t *order,
                    struct lode_error *err);

/* Expert numbers by use, the least used first; ties go to the higher number. */
LODE_MUST_CHECK
bool cv_trace_least_used(const struct cv_trace *t, int32_t layer,
                         uint32_t expert_count, uint32_t *order,
                         struct lode_error *err);

/* Read a list of experts to drop: lines "LAYER: EXPERT EXPERT ...", '#' begins
 * a comment.  drop has a byte for each expert of each group of r, by block
 * number; 1: drop it. */
LODE_MUST_CHECK
bool cv_trace_drop_list(const char *path, const struct lode_reader *r,
                        uint8_t *drop, struct lode_error *err);

#endif
