/* SPDX-License-Identifier: Apache-2.0
 *
 * Logits -> token.  The same logits, settings, seed and step give the same
 * token everywhere: all arithmetic is runtime/math.h and the generator counts
 * (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */

#ifndef LODE_RUNTIME_SAMPLER_H
#define LODE_RUNTIME_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rt_sampler_options {
    double temperature;        /* 0: greedy; default 0 */
    uint64_t top_k;            /* 0: off */
    double top_p;              /* 1: off; (0, 1] */
    double min_p;              /* 0: off; [0, 1): relative to the best */
    double repetition_penalty; /* 1: off; > 0; divides positive and multiplies
                                  negative logits of tokens already there */
    uint64_t seed;
};

struct rt_sampler;

/* Checks the options (LODE_E_USAGE names the bad one) and allocates all that
 * sampling needs. */
LODE_MUST_CHECK
bool rt_sampler_new(const struct rt_sampler_options *opt, uint32_t vocab_rows,
                    struct rt_sampler **out, struct lode_error *err);
void rt_sampler_free(struct rt_sampler *s); /* NULL is allowed */

/* A token that is part of the prompt or was generated: for the penalty. */
void rt_sampler_saw(struct rt_sampler *s, uint32_t id);

/* An id that stands for nothing, as rows of an embedding that is longer than
 * its vocabulary: never chosen. */
void rt_sampler_forbid(struct rt_sampler *s, uint32_t id);

/* Choose from logits[vocab_rows], which it may change.  Ties go to the lower
 * id.  LODE_E_CORRUPT when a logit is NaN, or none that may be chosen is
 * finite.  Allocates nothing.  Order of the steps: penalty, temperature, top-k,
 * top-p, min-p. */
LODE_MUST_CHECK
bool rt_sampler_pick(struct rt_sampler *s, float *logits, uint32_t *id,
                     struct lode_error *err);

/* The index of the largest value, the lower one on ties; n >= 1. */
size_t rt_argmax(const float *x, size_t n);

/* The k largest, best first, lower index first on ties, into ids (k <= n).
 * O(n log k), allocates nothing. */
void rt_top_k(const float *x, size_t n, size_t k, uint32_t *ids);

/* log of the softmax of logits at id, in float64 over a fixed order. */
double rt_log_probability(const float *logits, size_t n, uint32_t id);

#endif
