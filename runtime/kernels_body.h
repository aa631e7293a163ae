/* SPDX-License-Identifier: Apache-2.0
 *
 * What the vector files share.  Each includes this once, behind its own
 *
 *   vec                    a vector of WIDTH floats; PARTS of them are 64 lanes
 *   vec_zero, _load, _store, _spread, _mul, _sub, _fma    the obvious;
 *                          _fma(a, b, c) is a * b + c, rounded once
 *   decode(e, w, scale, part)   part 0 .. PARTS - 1 of a block of 64 weights
 *   order(e, i)            which weight of its block decode() puts in place i
 *   sum(e, lane)           the contract's tree over PARTS vectors in that order
 *   STREAM_ROWS, TILE_ROWS, TILE_TOKENS   what fits the registers
 *
 * Everything is inlined with e constant, and the loops over parts, rows and
 * tokens are unrolled, so that registers are all that is left of the arrays.
 *
 * One token: STREAM_ROWS rows at a time, all 64 lanes at once, so that weights
 * are read once and in order.  More tokens: groups of GROUP_ROWS x GROUP_TOKENS
 * sums, whose lanes wait in memory while a chunk of columns is worked on; there
 * a row is decoded once, and tiles of TILE_ROWS x TILE_TOKENS sums are held in
 * registers, one part of the lanes after the other.  Lanes are independent
 * until the end and each takes its columns in order, so both give the same
 * bits. */

#ifndef LODE_RUNTIME_KERNELS_BODY_H
#define LODE_RUNTIME_KERNELS_BODY_H

#include <math.h>
#include <string.h>

#include "runtime/kernels_impl.h"

/* What stays in the first-level cache while a group of tokens is multiplied:
 * its prepared columns, the lanes of all sums, and a tile's decoded rows. */
enum {
    GROUP_ROWS = 2 * TILE_ROWS,
    GROUP_TOKENS = 8,
    CHUNK_BLOCKS = 8,
};
_Static_assert(GROUP_ROWS % TILE_ROWS == 0 &&
                   (int)STREAM_ROWS <= (int)GROUP_ROWS &&
                   GROUP_TOKENS % TILE_TOKENS == 0,
               "groups are whole tiles");

/* GROUP_ROWS rows, cut into blocks of 64 columns.  Where there are fewer, the
 * last is there several times.  Columns that do not fill a block are copied in
 * front of zeros, so that nothing outside the rows is read; a zero MXFP4 scale
 * byte times code 0 is 0. */
struct strip {
    const uint8_t *w[GROUP_ROWS];
    const uint8_t *scale[GROUP_ROWS];
    size_t row_count;   /* different ones */
    size_t block_count; /* whole ones */
    bool has_tail;
    uint8_t tail[GROUP_ROWS][RT_LANES * 4];
    uint8_t tail_scale[GROUP_ROWS][2];
};

INLINE size_t
block_bytes(enum lode_encoding e)
{
    return e == LODE_ENC_F32 ? 256 : e == LODE_ENC_MXFP4 ? 32 : 128;
}

static void
prepare(enum lode_encoding e, const float *x, size_t n, float *out)
{
    for (size_t b = 0; b < n; b += RT_LANES) {
        for (unsigned l = 0; l < RT_LANES; l++) {
            size_t i = b + order(e, l);

            out[b + l] = i < n ? x[i] : 0.0F;
        }
    }
}

static void
cut_strip(const struct rt_matmul *m, size_t first, size_t count,
          struct strip *s)
{
    size_t bytes = block_bytes(m->encoding);
    size_t tail_columns = m->cols % RT_LANES;

    s->row_count = count;
    s->block_count = m->cols / RT_LANES;
    s->has_tail = tail_columns != 0;
    if (s->has_tail) {
        memset(s->tail, 0, sizeof(s->tail));
        memset(s->tail_scale, 0, sizeof(s->tail_scale));
    }
    for (size_t i = 0; i < GROUP_ROWS; i++) {
        size_t r = first + (i < count ? i : count - 1);

        s->w[i] = m->w + r * m->w_stride;
        s->scale[i] = m->scale != NULL ? m->scale + r * m->scale_stride : NULL;
        if (!s->has_tail)
            continue;
        memcpy(s->tail[i], s->w[i] + s->block_count * bytes,
               tail_columns * bytes / RT_LANES);
        if (m->encoding == LODE_ENC_MXFP4)
            s->tail_scale[i][0] = s->scale[i][2 * s->block_count];
    }
}

/* Block b of row r, or the copied one behind the last. */
INLINE vec
decode_at(enum lode_encoding e, const struct strip *s, size_t r, size_t b,
          unsigned part)
{
    const uint8_t *scale = NULL;

    if (e == LODE_ENC_MXFP4)
        scale = s->scale[r] + 2 * b;
    return decode(e, s->w[r] + b * block_bytes(e), scale, part);
}

INLINE vec
decode_tail(enum lode_encoding e, const struct strip *s, size_t r,
            unsigned part)
{
    return decode(e, s->tail[r], s->tail_scale[r], part);
}

INLINE void
stream(enum lode_encoding e, const struct rt_matmul *m, const struct strip *s,
       const float *x, float *y)
{
    vec lane[STREAM_ROWS][PARTS];

    UNROLL for (unsigned r = 0; r < STREAM_ROWS; r++)
        UNROLL for (unsigned p = 0; p < PARTS; p++)
            lane[r][p] = vec_zero();
    for (size_t b = 0; b < s->block_count; b++, x += RT_LANES) {
        UNROLL for (unsigned r = 0; r < STREAM_ROWS; r++) {
            __builtin_prefetch(s->w[r] + STREAM_ROWS * m->w_stride +
                               b * block_bytes(e));
            UNROLL for (unsigned p = 0; p < PARTS; p++)
                lane[r][p] = vec_fma(decode_at(e, s, r, b, p),
                                     vec_load(x + p * WIDTH), lane[r][p]);
        }
    }
    if (s->has_tail) {
        UNROLL for (unsigned r = 0; r < STREAM_ROWS; r++)
            UNROLL for (unsigned p = 0; p < PARTS; p++)
                lane[r][p] = vec_fma(decode_tail(e, s, r, p),
                                     vec_load(x + p * WIDTH), lane[r][p]);
    }
    UNROLL for (unsigned r = 0; r < STREAM_ROWS; r++)
        if (r < s->row_count)
            y[r] = sum(e, lane[r]);
}

/* The lanes of a group's sums, and what is being added to them. */
struct group {
    float lane[GROUP_ROWS][GROUP_TOKENS][RT_LANES];
    float w[TILE_ROWS][CHUNK_BLOCKS * RT_LANES]; /* decoded */
    const float *x[GROUP_TOKENS]; /* behind the last, that one again */
};

/* Blocks b .. b + count - 1 of a tile of rows; the one behind the whole blocks
 * is the tail. */
INLINE void
decode_chunk(enum lode_encoding e, const struct strip *s, size_t row, size_t b,
             size_t count, struct group *g)
{
    for (size_t r = 0; r < TILE_ROWS; r++) {
        for (size_t i = 0; i < count; i++) {
            float *out = g->w[r] + i * RT_LANES;

            if (b + i < s->block_count) {
                UNROLL for (unsigned p = 0; p < PARTS; p++)
                    vec_store(out + p * WIDTH,
                              decode_at(e, s, row + r, b + i, p));
            } else {
                UNROLL for (unsigned p = 0; p < PARTS; p++)
                    vec_store(out + p * WIDTH,
                              decode_tail(e, s, row + r, p));
            }
        }
    }
}

/* Add count blocks of g->w times tokens from column on. */
INLINE void
add_tile(struct group *g, size_t row, size_t token, size_t column, size_t count)
{
    for (size_t p = 0; p < RT_LANES; p += WIDTH) {
        vec lane[TILE_ROWS][TILE_TOKENS];

        UNROLL for (unsigned r = 0; r < TILE_ROWS; r++)
            UNROLL for (unsigned t = 0; t < TILE_TOKENS; t++)
                lane[r][t] = vec_load(g->lane[row + r][token + t] + p);
        for (size_t i = p; i < count * RT_LANES; i += RT_LANES) {
            vec w[TILE_ROWS];

            UNROLL for (unsigned r = 0; r < TILE_ROWS; r++)
                w[r] = vec_load(g->w[r] + i);
            UNROLL for (unsigned t = 0; t < TILE_TOKENS; t++) {
                vec v = vec_load(g->x[token + t] + column + i);

                UNROLL for (unsigned r = 0; r < TILE_ROWS; r++)
                    lane[r][t] = vec_fma(w[r], v, lane[r][t]);
            }
        }
        UNROLL for (unsigned r = 0; r < TILE_ROWS; r++)
            UNROLL for (unsigned t = 0; t < TILE_TOKENS; t++)
                vec_store(g->lane[row + r][token + t] + p, lane[r][t]);
    }
}

/* Tokens first .. first + count - 1, count <= GROUP_TOKENS, and the strip's
 * rows, the first of which is row. */
INLINE void
multiply_group(enum lode_encoding e, const struct rt_matmul *m,
               const struct strip *s, size_t row, size_t first, size_t count)
{
    size_t blocks = s->block_count + (s->has_tail ? 1 : 0);
    struct group g;

    memset(g.lane, 0, sizeof(g.lane));
    for (size_t t = 0; t < GROUP_TOKENS; t++)
        g.x[t] = m->x + (first + (t < count ? t : count - 1)) * m->x_stride;
    for (size_t b = 0; b < blocks; b += CHUNK_BLOCKS) {
        size_t n = blocks - b < CHUNK_BLOCKS ? blocks - b : CHUNK_BLOCKS;

        for (size_t r = 0; r < s->row_count; r += TILE_ROWS) {
            decode_chunk(e, s, r, b, n, &g);
            for (size_t t = 0; t < count; t += TILE_TOKENS)
                add_tile(&g, r, t, b * RT_LANES, n);
        }
    }
    for (size_t r = 0; r < s->row_count; r++) {
        for (size_t t = 0; t < count; t++) {
            vec lane[PARTS];

            UNROLL for (unsigned p = 0; p < PARTS; p++)
                lane[p] = vec_load(g.lane[r][t] + p * WIDTH);
            m->y[(first + t) * m->y_stride + row + r] = sum(e, lane);
        }
    }
}

INLINE void
matmul_by(enum lode_encoding e, const struct rt_matmul *m)
{
    size_t tiled = m->tokens - m->tokens % TILE_TOKENS;

    if (m->tokens - tiled > TILE_TOKENS / 2)
        tiled = m->tokens; /* a tile with idle tokens is still faster */
    for (size_t r = 0; r < m->rows && tiled > 0; r += GROUP_ROWS) {
        struct strip s;

        cut_strip(m, r, m->rows - r < GROUP_ROWS ? m->rows - r : GROUP_ROWS,
                  &s);
        for (size_t t = 0; t < tiled; t += GROUP_TOKENS)
            multiply_group(e, m, &s, r, t, tiled - t < GROUP_TOKENS
                                               ? tiled - t : GROUP_TOKENS);
    }
    for (size_t r = 0; r < m->rows && tiled < m->tokens; r += STREAM_ROWS) {
        struct strip s;

        cut_strip(m, r, m->rows - r < STREAM_ROWS ? m->rows - r : STREAM_ROWS,
                  &s);
        for (size_t t = tiled; t < m->tokens; t++)
            stream(e, m, &s, m->x + t * m->x_stride,
                   m->y + t * m->y_stride + r);
    }
}

static void
matmul(const struct rt_matmul *m)
{
    switch (m->encoding) {
    case LODE_ENC_F32:
        matmul_by(LODE_ENC_F32, m);
        break;
    case LODE_ENC_F16:
        matmul_by(LODE_ENC_F16, m);
        break;
    case LODE_ENC_BF16:
        matmul_by(LODE_ENC_BF16, m);
        break;
    default:
        matmul_by(LODE_ENC_MXFP4, m);
        break;
    }
}

static float
dot(const float *a, const float *b, size_t n)
{
    float tail[2][RT_LANES] = {{0}};
    vec lane[PARTS];
    size_t i = 0;

    UNROLL for (unsigned p = 0; p < PARTS; p++)
        lane[p] = vec_zero();
    for (; n - i >= RT_LANES; i += RT_LANES)
        UNROLL for (unsigned p = 0; p < PARTS; p++)
            lane[p] = vec_fma(vec_load(a + i + p * WIDTH),
                              vec_load(b + i + p * WIDTH), lane[p]);
    if (i < n) {
        memcpy(tail[0], a + i, (n - i) * sizeof(*a));
        memcpy(tail[1], b + i, (n - i) * sizeof(*b));
        UNROLL for (unsigned p = 0; p < PARTS; p++)
            lane[p] = vec_fma(vec_load(tail[0] + p * WIDTH),
                              vec_load(tail[1] + p * WIDTH), lane[p]);
    }
    return sum(LODE_ENC_F32, lane);
}

static void
axpy(float a, const float *x, float *y, size_t n)
{
    size_t i = 0;

    for (; n - i >= WIDTH; i += WIDTH)
        vec_store(y + i,
                  vec_fma(vec_spread(a), vec_load(x + i), vec_load(y + i)));
    for (; i < n; i++)
        y[i] = fmaf(a, x[i], y[i]);
}

/* What a strip of columns of the state needs. */
struct kda {
    float *s; /* first row, at the strip */
    size_t key_width;
    size_t stride; /* from row to row */
    const float *decay, *k, *q;
    const float *v; /* at the strip, like o */
    float beta;
    float *o;
};

/* STRIP vectors of columns.  The decayed state is computed twice rather than
 * written twice. */
enum { STRIP = 4 };

INLINE void
kda_strip(const struct kda *c)
{
    vec u[STRIP], e[STRIP], o[STRIP];

    UNROLL for (unsigned i = 0; i < STRIP; i++)
        u[i] = o[i] = vec_zero();
    for (size_t d = 0; d < c->key_width; d++) {
        const float *s = c->s + d * c->stride;

        UNROLL for (unsigned i = 0; i < STRIP; i++)
            u[i] = vec_fma(vec_spread(c->k[d]),
                           vec_mul(vec_load(s + i * WIDTH),
                                   vec_spread(c->decay[d])),
                           u[i]);
    }
    UNROLL for (unsigned i = 0; i < STRIP; i++)
        e[i] = vec_mul(vec_spread(c->beta),
                       vec_sub(vec_load(c->v + i * WIDTH), u[i]));
    for (size_t d = 0; d < c->key_width; d++) {
        float *s = c->s + d * c->stride;

        UNROLL for (unsigned i = 0; i < STRIP; i++) {
            vec cell = vec_mul(vec_load(s + i * WIDTH),
                               vec_spread(c->decay[d]));

            cell = vec_fma(vec_spread(c->k[d]), e[i], cell);
            vec_store(s + i * WIDTH, cell);
            o[i] = vec_fma(vec_spread(c->q[d]), cell, o[i]);
        }
    }
    UNROLL for (unsigned i = 0; i < STRIP; i++)
        vec_store(c->o + i * WIDTH, o[i]);
}

/* One column. */
static void
kda_column(const struct kda *c)
{
    float u = 0.0F, o = 0.0F, e;

    for (size_t d = 0; d < c->key_width; d++)
        u = fmaf(c->k[d], c->s[d * c->stride] * c->decay[d], u);
    e = c->beta * (*c->v - u);
    for (size_t d = 0; d < c->key_width; d++) {
        float *cell = &c->s[d * c->stride];

        *cell = fmaf(c->k[d], e, *cell * c->decay[d]);
        o = fmaf(c->q[d], *cell, o);
    }
    *c->o = o;
}

static void
kda_step(float *s, size_t key_width, size_t value_width, const float *decay,
         const float *k, const float *q, const float *v, float beta, float *o,
         float *scratch)
{
    struct kda c = {s, key_width, value_width, decay, k, q, v, beta, o};
    size_t left = value_width;

    (void)scratch; /* registers suffice */
    while (left > 0) {
        size_t step = left >= STRIP * WIDTH ? STRIP * WIDTH : 1;

        if (step > 1)
            kda_strip(&c);
        else
            kda_column(&c);
        c.s += step;
        c.v += step;
        c.o += step;
        left -= step;
    }
}

#endif
