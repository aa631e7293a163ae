/* SPDX-License-Identifier: Apache-2.0
 *
 * Which experts a token goes to, and with which weights.  Pure arithmetic. */

#ifndef LODE_RUNTIME_ROUTE_H
#define LODE_RUNTIME_ROUTE_H

#include "runtime/model_config.h"

/* scores[experts]: the router's output, replaced by the experts' scores.
 * bias[experts]: added for the choice only, never for the weights.
 * choice[experts]: scratch.  best[k]: chosen experts, best first, ties to the
 * lower number; chosen[k]: the same in ascending order; weight[k]: theirs.
 * False when the scores are not numbers. */
bool rt_route(const struct rt_config *c, float *scores, const float *bias,
              float *choice, uint32_t *best, uint32_t *chosen, float *weight);

#endif
