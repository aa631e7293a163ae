/* SPDX-License-Identifier: Apache-2.0
 *
 * The numeric contract, literally, in portable C: the oracle for the tables
 * that are fast.  fmaf() is exact on every machine, in hardware or not. */
#include "config.h"

#include "runtime/kernels_impl.h"

#include <math.h>
#include <string.h>

static void
prepare(enum lode_encoding e, const float *x, size_t n, float *out)
{
    (void)e; /* every encoding is read in its natural order here */
    memcpy(out, x, n * sizeof(*x));
    for (size_t i = n; i < rt_padded(n); i++)
        out[i] = 0.0F;
}

/* Lane l takes lane l + 32, then l + 16, 8, 4, 2, 1. */
static float
sum_lanes(float *lane)
{
    for (size_t half = RT_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

/* Columns [first, first + count) of row r, padded with +0. */
static void
decode_block(const struct rt_matmul *m, size_t r, size_t first, size_t count,
             float *out)
{
    const uint8_t *w = m->w + r * m->w_stride;

    if (m->encoding == LODE_ENC_MXFP4) {
        lode_decode_mxfp4(w + first / 2,
                          m->scale + r * m->scale_stride + first / 32, count,
                          out);
    } else {
        size_t value_bytes = m->encoding == LODE_ENC_F32 ? 4 : 2;

        lode_decode_plain(m->encoding, w + first * value_bytes, count, out);
    }
    for (size_t l = count; l < RT_LANES; l++)
        out[l] = 0.0F;
}

static float
dot_row(const struct rt_matmul *m, size_t r, const float *x)
{
    float lane[RT_LANES] = {0};
    float w[RT_LANES];

    for (size_t i = 0; i < m->cols; i += RT_LANES) {
        size_t count = m->cols - i < RT_LANES ? m->cols - i : RT_LANES;

        decode_block(m, r, i, count, w);
        for (size_t l = 0; l < RT_LANES; l++)
            lane[l] = fmaf(w[l], x[i + l], lane[l]);
    }
    return sum_lanes(lane);
}

static void
matmul(const struct rt_matmul *m)
{
    for (size_t r = 0; r < m->rows; r++)
        for (size_t t = 0; t < m->tokens; t++)
            m->y[t * m->y_stride + r] = dot_row(m, r, m->x + t * m->x_stride);
}

static float
dot(const float *a, const float *b, size_t n)
{
    float lane[RT_LANES] = {0};

    for (size_t i = 0; i < rt_padded(n); i++) {
        float *l = &lane[i % RT_LANES];

        *l = i < n ? fmaf(a[i], b[i], *l) : fmaf(0.0F, 0.0F, *l);
    }
    return sum_lanes(lane);
}

static void
axpy(float a, const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

static void
kda_step(float *s, size_t key_width, size_t value_width, const float *decay,
         const float *k, const float *q, const float *v, float beta, float *o,
         float *scratch)
{
    float *u = scratch;
    float *e = scratch + value_width;

    for (size_t j = 0; j < value_width; j++)
        u[j] = o[j] = 0.0F;
    for (size_t d = 0; d < key_width; d++) {
        for (size_t j = 0; j < value_width; j++) {
            s[d * value_width + j] *= decay[d];
            u[j] = fmaf(k[d], s[d * value_width + j], u[j]);
        }
    }
    for (size_t j = 0; j < value_width; j++)
        e[j] = beta * (v[j] - u[j]);
    for (size_t d = 0; d < key_width; d++) {
        for (size_t j = 0; j < value_width; j++) {
            float *cell = &s[d * value_width + j];

            *cell = fmaf(k[d], e[j], *cell);
            o[j] = fmaf(q[d], *cell, o[j]);
        }
    }
}

const struct rt_kernels rt_kernels_ref = {
    .name = "scalar",
    .prepare = prepare,
    .matmul = matmul,
    .dot = dot,
    .axpy = axpy,
    .kda_step = kda_step,
};
