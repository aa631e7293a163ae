/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations on rows of tokens that the forward pass is written in.  All run
 * on the engine's team; results do not depend on its size. */

#ifndef LODE_RUNTIME_OPS_H
#define LODE_RUNTIME_OPS_H

#include "runtime/engine_impl.h"

/* Rows that go into matrices: as they are, and prepared for the encoding of
 * the matrix that used them last. */
struct rt_input {
    const float *x;
    size_t x_stride;
    size_t width;
    float *prepared;
    size_t prepared_stride;
    uint32_t tokens;
    enum lode_encoding encoding; /* LODE_ENC_UNKNOWN: not yet prepared */
};

/* Make an input; nothing is computed yet. */
struct rt_input rt_ops_input(const float *x, size_t x_stride, size_t width,
                             uint32_t tokens, float *prepared,
                             size_t prepared_stride);

/* y[t][r] = row r of the trunk's tensor . x[t], slice by slice as the rows
 * arrive. */
LODE_MUST_CHECK
bool rt_ops_stream(struct rt_engine *e, const struct rt_tensor *t,
                   struct rt_input *in, float *y, size_t y_stride,
                   struct lode_error *err);

/* Several products at once, cut into row pieces over the team. */
enum { RT_JOBS_MAX = 64 };
void rt_ops_matmuls(struct rt_engine *e, const struct rt_matmul *jobs,
                    uint32_t job_count);

/* A norm of rows: out[t] = w * (x[t] / sqrt(mean(x[t]^2) + eps)); out may be
 * x. */
struct rt_norm {
    const float *x;
    size_t x_stride;
    const float *w;
    size_t width;
    float eps;
    float *out;
    size_t out_stride;
};

void rt_ops_norm(struct rt_engine *e, const struct rt_norm *norm,
                 uint32_t tokens);

/* The same for one row, on the calling thread. */
void rt_ops_norm_row(const struct rt_kernels *k, const float *x,
                     const float *w, size_t width, float eps, float *out);

/* gate[t] = activation(gate[t], up[t]): SwiGLU or SiTU-GLU by the
 * configuration. */
void rt_ops_activate(struct rt_engine *e, float *gate, const float *up,
                     size_t stride, size_t width, uint32_t tokens);
void rt_ops_activate_row(const struct rt_config *c, float *gate,
                         const float *up, size_t width);

#endif
