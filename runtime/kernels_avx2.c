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
    TILE_ROWS = 3,
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

/* Bytes 16 k .. 16 k + 15 of the rows of two scales, one in each half. */
INLINE __m256i
half_rows(const uint8_t *scale, unsigned k)
{
    const __m128i *a = (const void *)rt_kernels_mxfp4_bytes[scale[0]];
    const __m128i *b = (const void *)rt_kernels_mxfp4_bytes[scale[1]];

    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_load_si128(a + k)), _mm_load_si128(b + k),
        1);
}

/* A half of a vector is a group of 32 weights.  The upper 16 bits of a weight,
 * which are all there are, come from two look-ups by byte; then it goes on as
 * with bfloat16.  Three bits of part choose which eight come out: the nibble,
 * even or odd bytes, the lower or upper half of the bytes.  Compilers see that
 * the parts of a block have most of this in common. */
INLINE vec
decode_mxfp4(const uint8_t *w, const uint8_t *scale, unsigned part)
{
    __m256i codes = _mm256_loadu_si256((const void *)w);
    __m256i low, high, words;

    if (part % 2 != 0)
        codes = _mm256_srli_epi16(codes, 4);
    codes = _mm256_and_si256(codes, _mm256_set1_epi8(15));
    low = _mm256_shuffle_epi8(half_rows(scale, 0), codes);
    high = _mm256_shuffle_epi8(half_rows(scale, 1), codes);
    if (part / 4 == 0)
        words = _mm256_unpacklo_epi8(low, high);
    else
        words = _mm256_unpackhi_epi8(low, high);
    if (part / 2 % 2 == 0)
        words = _mm256_slli_epi32(words, 16);
    else
        words = _mm256_and_si256(words, _mm256_set1_epi32((int)0xffff0000));
    return _mm256_castsi256_ps(words);
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
        return place / 4 * 32 + part / 4 * 16 + place % 4 * 4 +
               part / 2 % 2 * 2 + part % 2;
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

/* One half plus the other, of a into the lower and of b into the upper. */
INLINE vec
add_halves_of(vec a, vec b)
{
    return add(_mm256_permute2f128_ps(a, b, 0x20),
               _mm256_permute2f128_ps(a, b, 0x31));
}

INLINE __m128
fold(vec v)
{
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
}

/* The distances of a place's bits are 32, 8, 4 and of a part's 16, 2, 1. */
INLINE float
sum_mxfp4(const vec *lane)
{
    __m128 c[4], d, e;

    UNROLL for (unsigned i = 0; i < 4; i++)
        c[i] = fold(add_halves_of(lane[i], lane[i + 4])); /* 32, 16 */
    d = _mm_add_ps(_mm_movelh_ps(c[0], c[1]),
                   _mm_movehl_ps(c[1], c[0])); /* 8 */
    e = _mm_add_ps(_mm_movelh_ps(c[2], c[3]), _mm_movehl_ps(c[3], c[2]));
    d = _mm_add_ps(_mm_shuffle_ps(d, e, 0x88),
                   _mm_shuffle_ps(d, e, 0xdd));       /* 4 */
    d = _mm_add_ps(d, _mm_movehl_ps(d, d));           /* 2 */
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d))); /* 1 */
}

/* Each line adds the lanes at the distance beside it. */
INLINE float
sum(enum lode_encoding e, const vec *lane)
{
    vec a, b;

    if (e == LODE_ENC_MXFP4)
        return sum_mxfp4(lane);
    a = add(add(lane[0], lane[4]), add(lane[2], lane[6])); /* 32, 16 */
    b = add(add(lane[1], lane[5]), add(lane[3], lane[7]));
    if (e == LODE_ENC_BF16) {
        a = add_neighbours(add_pairs(add_halves(a))); /* 8, 4, 2 */
        b = add_neighbours(add_pairs(add_halves(b)));
        a = add(a, b); /* 1 */
    } else {
        a = add(a, b);                                /* 8 */
        a = add_neighbours(add_pairs(add_halves(a))); /* 4, 2, 1 */
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
