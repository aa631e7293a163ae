/* SPDX-License-Identifier: Apache-2.0
 *
 * AVX-512 F, BW, VL, DQ.  Built with their flags; called only where the
 * processor has them. */
#include "config.h"

#include <immintrin.h>

#include "runtime/kernels_impl.h"

enum {
    WIDTH = 16,
    PARTS = RT_LANES / WIDTH,
    STREAM_ROWS = 4,
    TILE_ROWS = 4,
    TILE_TOKENS = 4,
};

typedef __m512 vec;

INLINE vec
vec_zero(void)
{
    return _mm512_setzero_ps();
}

INLINE vec
vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

INLINE void
vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

INLINE vec
vec_spread(float f)
{
    return _mm512_set1_ps(f);
}

INLINE vec
vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}

INLINE vec
vec_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}

INLINE vec
vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* A load of 32 bfloat16 gives the even ones (part 0, 2) and the odd ones (part
 * 1, 3). */
INLINE vec
decode_bf16(const uint8_t *w, unsigned part)
{
    __m512i pair = _mm512_loadu_si512(w + part / 2 * 64);

    if (part % 2 == 0)
        pair = _mm512_slli_epi32(pair, 16);
    else
        pair = _mm512_and_si512(pair, _mm512_set1_epi32((int)0xffff0000));
    return _mm512_castsi512_ps(pair);
}

/* 16 bytes are one group of 32 weights.  All four quarters of the vector hold
 * them, quarter q shifted by q nibbles; the look-up uses the low four bits of
 * each 32-bit word, so nothing is masked.  Place 4 q + j of part p is weight
 * 8 j + q of group p / 2, or 8 j + q + 4 when p is odd. */
INLINE vec
decode_mxfp4(const uint8_t *w, const uint8_t *scale, unsigned part)
{
    int odd = part % 2 == 0 ? 0 : 16;
    const __m512i shifts =
        _mm512_setr_epi32(odd, odd, odd, odd, odd + 4, odd + 4, odd + 4,
                          odd + 4, odd + 8, odd + 8, odd + 8, odd + 8,
                          odd + 12, odd + 12, odd + 12, odd + 12);
    __m128i group = _mm_loadu_si128((const void *)(w + part / 2 * 16));
    __m512i code = _mm512_srlv_epi32(_mm512_broadcast_i32x4(group), shifts);

    return _mm512_permutexvar_ps(
        code, _mm512_load_ps(rt_kernels_mxfp4[scale[part / 2]]));
}

INLINE vec
decode(enum lode_encoding e, const uint8_t *w, const uint8_t *scale,
       unsigned part)
{
    switch (e) {
    case LODE_ENC_F32:
        return _mm512_loadu_ps(w + part * 64);
    case LODE_ENC_F16:
        return _mm512_cvtph_ps(
            _mm256_loadu_si256((const void *)(w + part * 32)));
    case LODE_ENC_BF16:
        return decode_bf16(w, part);
    default:
        return decode_mxfp4(w, scale, part);
    }
}

INLINE unsigned
order(enum lode_encoding e, unsigned i)
{
    unsigned part = i / 16, place = i % 16;

    switch (e) {
    case LODE_ENC_BF16:
        return part / 2 * 32 + place * 2 + part % 2;
    case LODE_ENC_MXFP4:
        return part / 2 * 32 + place % 4 * 8 + place / 4 + part % 2 * 4;
    default:
        return i;
    }
}

/* v + v with its 256-bit halves exchanged, and so on down. */
INLINE vec
add_halves(vec v)
{
    return _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0x4e));
}

INLINE vec
add_quarters(vec v)
{
    return _mm512_add_ps(v, _mm512_shuffle_f32x4(v, v, 0xb1));
}

INLINE vec
add_pairs(vec v)
{
    return _mm512_add_ps(v, _mm512_permute_ps(v, 0x4e));
}

INLINE vec
add_neighbours(vec v)
{
    return _mm512_add_ps(v, _mm512_permute_ps(v, 0xb1));
}

/* Each line adds the lanes at the distance beside it. */
INLINE float
sum(enum lode_encoding e, const vec *lane)
{
    vec a = _mm512_add_ps(lane[0], lane[2]); /* 32 */
    vec b = _mm512_add_ps(lane[1], lane[3]);

    switch (e) {
    case LODE_ENC_BF16:
        a = add_pairs(add_quarters(add_halves(a))); /* 16, 8, 4 */
        b = add_pairs(add_quarters(add_halves(b)));
        a = add_neighbours(a); /* 2 */
        b = add_neighbours(b);
        a = _mm512_add_ps(a, b); /* 1 */
        break;
    case LODE_ENC_MXFP4:
        a = add_neighbours(add_pairs(a)); /* 16, 8 */
        b = add_neighbours(add_pairs(b));
        a = _mm512_add_ps(a, b);          /* 4 */
        a = add_quarters(add_halves(a));  /* 2, 1 */
        break;
    default:
        a = _mm512_add_ps(a, b);            /* 16 */
        a = add_quarters(add_halves(a));    /* 8, 4 */
        a = add_neighbours(add_pairs(a));   /* 2, 1 */
        break;
    }
    return _mm512_cvtss_f32(a);
}

#include "runtime/kernels_body.h"

const struct rt_kernels rt_kernels_avx512 = {
    .name = "avx512",
    .prepare = prepare,
    .matmul = matmul,
    .dot = dot,
    .axpy = axpy,
    .kda_step = kda_step,
};
