/* SPDX-License-Identifier: Apache-2.0
 *
 * The arithmetic of the runtime, one table per instruction set, chosen once at
 * start.  All tables give the same bits (docs/architecture.md, numeric
 * contract):
 *
 * - Weights decode exactly to float32; activations are float32.
 * - A dot product of length n is computed over rows padded with +0 to a
 *   multiple of 64: 64 lanes start at +0, element i is added to lane i mod 64
 *   by a fused multiply-add (weight, activation, lane) in increasing i; then
 *   lane l takes lane l + 32, then l + 16, 8, 4, 2, 1 for the lower halves.
 * - Everything else is elementwise, by the IEEE operations stated here. */

#ifndef LODE_RUNTIME_KERNELS_H
#define LODE_RUNTIME_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/encoding.h"

enum { RT_LANES = 64 };

/* n rounded up to whole lanes: the length of a prepared activation row. */
static inline size_t
rt_padded(size_t n)
{
    return (n + RT_LANES - 1) / RT_LANES * RT_LANES;
}

/* y[t * y_stride + r] = dot(row r, x row t) for rows r and tokens t. */
struct rt_matmul {
    const uint8_t *w;      /* first row; any alignment of 2 for bf16, 4 for
                              f32, 1 for mxfp4 */
    const uint8_t *scale;  /* mxfp4: first row's scales; else NULL */
    size_t w_stride;       /* bytes from row to row */
    size_t scale_stride;   /* likewise */
    size_t rows;
    size_t cols;           /* unpadded; mxfp4: a multiple of 32 */
    const float *x;        /* prepared rows (rt_kernels.prepare), 64-aligned */
    size_t x_stride;       /* floats from row to row, >= rt_padded(cols) */
    size_t tokens;
    float *y;
    size_t y_stride;       /* floats from token to token */
    enum lode_encoding encoding; /* F32, F16, BF16 or MXFP4 */
};

struct rt_kernels {
    const char *name; /* "scalar", "avx2", "avx512", "neon" */

    /* Copy x[n] into out[rt_padded(n)], zero padded, in the order that matmul
     * of this table and encoding reads. */
    void (*prepare)(enum lode_encoding e, const float *x, size_t n, float *out);

    /* Reads no byte outside the rows.  Bits do not depend on how rows and
     * tokens are cut into calls. */
    void (*matmul)(const struct rt_matmul *m);

    /* The contract's dot product of two float32 rows; no alignment, no
     * preparation, no padding needed. */
    float (*dot)(const float *a, const float *b, size_t n);

    /* y[i] = fma(a, x[i], y[i]). */
    void (*axpy)(float a, const float *x, float *y, size_t n);

    /* One step of the gated delta rule on S [key_width x value_width], row
     * major: for each d: S[d][j] *= decay[d]; u[j] = fma(k[d], S[d][j], u[j])
     * in increasing d from 0; e[j] = beta * (v[j] - u[j]); for each d:
     * S[d][j] = fma(k[d], e[j], S[d][j]); o[j] = fma(q[d], S[d][j], o[j]) in
     * increasing d from 0.  scratch: 2 x value_width floats.  (Kimi Linear
     * technical report, section 3: delta rule with per-channel decay.) */
    void (*kda_step)(float *s, size_t key_width, size_t value_width,
                     const float *decay, const float *k, const float *q,
                     const float *v, float beta, float *o, float *scratch);
};

/* The best table this machine can run, or the one called name ("scalar",
 * "avx2", "avx512", "neon").  LODE_E_USAGE for an unknown name,
 * LODE_E_UNSUPPORTED for one that this machine or build lacks.  The tables are
 * static and immutable. */
LODE_MUST_CHECK
bool rt_kernels_select(const char *name, const struct rt_kernels **out,
                       struct lode_error *err);

/* All tables this machine can run, best first; NULL-terminated.  For tests. */
const struct rt_kernels *const *rt_kernels_all(void);

#endif
