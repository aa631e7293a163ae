/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX2, FMA, F16C.  Built with their flags; called only where the processor has
 * them. */
#include "config.h"

#include <immintrin.h>

#include "runtime/kernels_impl.h"

enum {
    WIDTH = 8,
    PARTS = RT_LANES / WIDTH,
    STREAM_ROWS = 1,
    TILE_ROWS = 2,
    TILE_TOKENS = 4,
};

typedef __m256 vec;

INLINE vec
vec_zero(void)
{
    return _mm256_setzero_ps();
}

INLINE vec
vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

INLINE void
vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

INLINE vec
vec_spread(float f)
{
    return _mm256_set1_ps(f);
}

INLINE vec
vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}

INLINE vec
vec_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}

INLINE vec
vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* A load of 16 bfloat16 gives the even ones (even parts) and the odd ones. */
INLINE vec
decode_bf16(const uint8_t *w, unsigned part)
{
    __m256i pair = _mm256_loadu_si256((const void *)(w + part / 2 * 32));

    if (part % 2 == 0)
        pair = _mm256_slli_epi32(pair, 16);
    else
        pair = _mm256_and_si256(pair, _mm256_set1_epi32((int)0xffff0000));
    return _mm256_castsi256_ps(pair);
}

/* 16 bytes are one group of 32 weights, which is four parts.  Both halves of
 * the vector hold them, the upper one shifted by a nibble: place 4 q + j of
 * part p is weight 8 j + q + 2 (p % 4) of group p / 4.  The magnitude is looked
 * up by three bits; the fourth becomes the sign. */
INLINE vec
decode_mxfp4(const uint8_t *w, const uint8_t *scale, unsigned part)
{
    int n = (int)(part % 4 * 8);
    const __m256i down =
        _mm256_setr_epi32(n, n, n, n, n + 4, n + 4, n + 4, n + 4);
    const __m256i up = _mm256_setr_epi32(28 - n, 28 - n, 28 - n, 28 - n, 24 - n,
                                         24 - n, 24 - n, 24 - n);
    __m128i group = _mm_loadu_si128((const void *)(w + part / 4 * 16));
    __m256i codes = _mm256_broadcastsi128_si256(group);
    __m256i sign = _mm256_and_si256(_mm256_sllv_epi32(codes, up),
                                    _mm256_set1_epi32(INT32_MIN));
    vec magnitude = _mm256_permutevar8x32_ps(
        _mm256_load_ps(rt_kernels_mxfp4[scale[part / 4]]),
        _mm256_srlv_epi32(codes, down));

    return _mm256_xor_ps(magnitude, _mm256_castsi256_ps(sign));
}

INLINE vec
decode(enum lode_encoding e, const uint8_t *w, const uint8_t *scale,
       unsigned part)
{
    switch (e) {
    case LODE_ENC_F32:
        return _mm256_castsi256_ps(
            _mm256_loadu_si256((const void *)(w + part * 32)));
    case LODE_ENC_F16:
        return _mm256_cvtph_ps(_mm_loadu_si128((const void *)(w + part * 16)));
    case LODE_ENC_BF16:
        return decode_bf16(w, part);
    default:
        return decode_mxfp4(w, scale, part);
    }
}

INLINE unsigned
order(enum lode_encoding e, unsigned i)
{
    unsigned part = i / 8, place = i % 8;

    switch (e) {
    case LODE_ENC_BF16:
        return part / 2 * 16 + place * 2 + part % 2;
    case LODE_ENC_MXFP4:
        return part / 4 * 32 + place % 4 * 8 + place / 4 + part % 4 * 2;
    default:
        return i;
    }
}

/* v + v with its 128-bit halves exchanged, and so on down. */
INLINE vec
add_halves(vec v)
{
    return _mm256_add_ps(v, _mm256_permute2f128_ps(v, v, 0x01));
}

INLINE vec
add_pairs(vec v)
{
    return _mm256_add_ps(v, _mm256_permute_ps(v, 0x4e));
}

INLINE vec
add_neighbours(vec v)
{
    return _mm256_add_ps(v, _mm256_permute_ps(v, 0xb1));
}

INLINE vec
add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

/* Each line adds the lanes at the distance beside it. */
INLINE float
sum(enum lode_encoding e, const vec *lane)
{
    vec a = add(lane[0], lane[4]); /* 32 */
    vec b = add(lane[1], lane[5]);
    vec c = add(lane[2], lane[6]);
    vec d = add(lane[3], lane[7]);

    switch (e) {
    case LODE_ENC_BF16:
        a = add(a, c); /* 16 */
        b = add(b, d);
        a = add_neighbours(add_pairs(add_halves(a))); /* 8, 4, 2 */
        b = add_neighbours(add_pairs(add_halves(b)));
        a = add(a, b); /* 1 */
        break;
    case LODE_ENC_MXFP4:
        a = add_neighbours(add_pairs(a)); /* 16, 8 */
        b = add_neighbours(add_pairs(b));
        c = add_neighbours(add_pairs(c));
        d = add_neighbours(add_pairs(d));
        a = add(add(a, c), add(b, d)); /* 4, 2 */
        a = add_halves(a);             /* 1 */
        break;
    default:
        a = add(add(a, c), add(b, d));                /* 16, 8 */
        a = add_neighbours(add_pairs(add_halves(a))); /* 4, 2, 1 */
        break;
    }
    return _mm256_cvtss_f32(a);
}

#include "runtime/kernels_body.h"

const struct rt_kernels rt_kernels_avx2 = {
    .name = "avx2",
    .prepare = prepare,
    .matmul = matmul,
    .dot = dot,
    .axpy = axpy,
    .kda_step = kda_step,
};
