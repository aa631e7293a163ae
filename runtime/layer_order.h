/* SPDX-License-Identifier: Apache-2.0
 *
 * What a Kimi layer consists of: which roles, in which shapes, and in which
 * order the forward pass uses them.  The trunk streams through memory once, so
 * the order of use must be the order in the file (docs/roles.md). */

#ifndef LODE_RUNTIME_LAYER_ORDER_H
#define LODE_RUNTIME_LAYER_ORDER_H

#include "runtime/model.h"

/* Each fails with LODE_E_CORRUPT where tensors and config.json disagree, and
 * with LODE_E_UNSUPPORTED for an order or an encoding the runtime cannot use.
 * The messages name role, expected and found. */
LODE_MUST_CHECK
bool rt_layer_check_trunk(const struct rt_config *c, uint32_t layer,
                          uint32_t expert_count, const struct rt_view *v,
                          struct lode_error *err);
LODE_MUST_CHECK
bool rt_layer_check_expert(const struct rt_config *c, const struct rt_view *v,
                           struct lode_error *err);
LODE_MUST_CHECK
bool rt_layer_check_output(const struct rt_config *c,
                           const struct rt_view *output,
                           const struct rt_view *head, struct lode_error *err);
LODE_MUST_CHECK
bool rt_layer_check_shape(const char *what, const struct rt_tensor *t,
                          uint64_t rows, uint64_t cols, struct lode_error *err);

#endif
