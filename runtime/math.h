/* SPDX-License-Identifier: Apache-2.0
 *
 * Elementary functions as fixed sequences of IEEE-754 float32 operations
 * (add, subtract, multiply, divide, sqrt, integer operations on the bits), so
 * that every machine and compiler gives the same bits.  No libm, no fused
 * multiply-add, no approximate reciprocals.  Errors are measured against
 * float64 over all exponents in t_math; NaN gives NaN. */

#ifndef LODE_RUNTIME_MATH_H
#define LODE_RUNTIME_MATH_H

#include <stddef.h>

float rt_exp(float x);      /* 2 ulp; +inf above 88.73, 0 below -103.98 */
float rt_log1p(float x);    /* x > -1; at most 3 ulp */
float rt_tanh(float x);     /* at most 4 ulp */
float rt_sigmoid(float x);  /* 1 / (1 + exp(-x)); at most 4 ulp */
float rt_softplus(float x); /* log1p(exp(x)), x itself when large; 4 ulp */
float rt_log(float x);      /* x > 0; at most 3 ulp */

/* Vectors, elementwise; out may be x.  Same bits as the scalar functions. */
void rt_sigmoid_n(const float *x, float *out, size_t n);
void rt_silu_n(const float *x, float *out, size_t n); /* x * sigmoid(x) */
void rt_exp_n(const float *x, float *out, size_t n);
void rt_tanh_n(const float *x, float *out, size_t n);

#endif
