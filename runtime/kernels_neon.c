/* SPDX-License-Identifier: Apache-2.0
 *
 * NEON, which every 64-bit ARM processor has. */
#include "config.h"

#include <arm_neon.h>

#include "runtime/kernels_impl.h"

enum {
    WIDTH = 4,
    PARTS = RT_LANES / WIDTH,
    STREAM_ROWS = 1,
    TILE_ROWS = 4,
    TILE_TOKENS = 4,
};

typedef float32x4_t vec;

INLINE vec
vec_zero(void)
{
    return vdupq_n_f32(0.0F);
}

INLINE vec
vec_load(const float *p)
{
    return vld1q_f32(p);
}

INLINE void
vec_store(float *p, vec v)
{
    vst1q_f32(p, v);
}

INLINE vec
vec_spread(float f)
{
    return vdupq_n_f32(f);
}

INLINE vec
vec_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}

INLINE vec
vec_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}

INLINE vec
vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}

/* A load of 8 bfloat16 gives the even ones (even parts) and the odd ones. */
INLINE vec
decode_bf16(const uint8_t *w, unsigned part)
{
    uint32x4_t pair = vreinterpretq_u32_u8(vld1q_u8(w + part / 2 * 16));

    if (part % 2 == 0)
        pair = vshlq_n_u32(pair, 16);
    else
        pair = vandq_u32(pair, vdupq_n_u32(0xffff0000U));
    return vreinterpretq_f32_u32(pair);
}

/* Products of a code and a scale fit bfloat16, so two byte look-ups give the
 * upper half of the float.  Nibbles of a group of 32: place j of part p is
 * weight 8 j + p % 8 of group p / 8. */
INLINE vec
decode_mxfp4(const uint8_t *w, const uint8_t *scale, unsigned part)
{
    const float *row = rt_kernels_mxfp4[scale[part / 8]];
    uint8x16x4_t bytes = vld4q_u8((const uint8_t *)row);
    uint32x4_t codes = vreinterpretq_u32_u8(vld1q_u8(w + part / 8 * 16));
    uint32x4_t code =
        vandq_u32(vshlq_u32(codes, vdupq_n_s32(-4 * (int)(part % 8))),
                  vdupq_n_u32(15));
    /* Bytes 2 and 3 of each word select; an index of 255 gives zero. */
    uint32x4_t at = vorrq_u32(vshlq_n_u32(code, 16),
                              vdupq_n_u32(0xff00ffffU));
    uint32x4_t above = vorrq_u32(vshlq_n_u32(code, 24),
                                 vdupq_n_u32(0x00ffffffU));
    uint8x16_t low = vqtbl1q_u8(bytes.val[2], vreinterpretq_u8_u32(at));
    uint8x16_t high = vqtbl1q_u8(bytes.val[3], vreinterpretq_u8_u32(above));

    return vreinterpretq_f32_u8(vorrq_u8(low, high));
}

INLINE vec
decode(enum lode_encoding e, const uint8_t *w, const uint8_t *scale,
       unsigned part)
{
    switch (e) {
    case LODE_ENC_F32:
        return vreinterpretq_f32_u8(vld1q_u8(w + part * 16));
    case LODE_ENC_F16:
        return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(w + part * 8)));
    case LODE_ENC_BF16:
        return decode_bf16(w, part);
    default:
        return decode_mxfp4(w, scale, part);
    }
}

INLINE unsigned
order(enum lode_encoding e, unsigned i)
{
    unsigned part = i / 4, place = i % 4;

    switch (e) {
    case LODE_ENC_BF16:
        return part / 2 * 8 + place * 2 + part % 2;
    case LODE_ENC_MXFP4:
        return part / 8 * 32 + place * 8 + part % 8;
    default:
        return i;
    }
}

INLINE vec
add_pairs(vec v)
{
    return vaddq_f32(v, vextq_f32(v, v, 2));
}

INLINE vec
add_neighbours(vec v)
{
    return vaddq_f32(v, vrev64q_f32(v));
}

/* The first distance vectors each take the one distance behind. */
INLINE void
add_behind(vec *part, unsigned distance)
{
    UNROLL for (unsigned p = 0; p < distance; p++)
        part[p] = vaddq_f32(part[p], part[p + distance]);
}

/* Each line adds the lanes at the distances beside it. */
INLINE float
sum(enum lode_encoding e, const vec *lane)
{
    vec part[PARTS / 2];

    UNROLL for (unsigned p = 0; p < PARTS / 2; p++)
        part[p] = vaddq_f32(lane[p], lane[p + PARTS / 2]); /* 32 */
    switch (e) {
    case LODE_ENC_BF16:
        add_behind(part, 4); /* 16 */
        add_behind(part, 2); /* 8 */
        part[0] = add_neighbours(add_pairs(part[0])); /* 4, 2 */
        part[1] = add_neighbours(add_pairs(part[1]));
        add_behind(part, 1); /* 1 */
        return vgetq_lane_f32(part[0], 0);
    case LODE_ENC_MXFP4:
        UNROLL for (unsigned p = 0; p < PARTS / 2; p++)
            part[p] = add_neighbours(add_pairs(part[p])); /* 16, 8 */
        add_behind(part, 4); /* 4 */
        add_behind(part, 2); /* 2 */
        add_behind(part, 1); /* 1 */
        return vgetq_lane_f32(part[0], 0);
    default:
        add_behind(part, 4); /* 16 */
        add_behind(part, 2); /* 8 */
        add_behind(part, 1); /* 4 */
        part[0] = add_neighbours(add_pairs(part[0])); /* 2, 1 */
        return vgetq_lane_f32(part[0], 0);
    }
}

#include "runtime/kernels_body.h"

const struct rt_kernels rt_kernels_neon = {
    .name = "neon",
    .prepare = prepare,
    .matmul = matmul,
    .dot = dot,
    .axpy = axpy,
    .kda_step = kda_step,
};
