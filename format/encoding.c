/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/encoding.h"

#include <math.h>
#include <string.h>

#include "base/le.h"

static const struct {
    const char *dtype;
    const char *encoding;
    uint32_t bits;
} dtypes[] = {
    {"BOOL", "bool", 8},
    {"F4", "f4.e2m1", 4},
    {"F6_E2M3", "f6.e2m3", 6},
    {"F6_E3M2", "f6.e3m2", 6},
    {"U8", "u8", 8},
    {"I8", "i8", 8},
    {"F8_E5M2", "f8.e5m2", 8},
    {"F8_E4M3", "f8.e4m3", 8},
    {"F8_E8M0", "f8.e8m0", 8},
    {"F8_E4M3FNUZ", "f8.e4m3fnuz", 8},
    {"F8_E5M2FNUZ", "f8.e5m2fnuz", 8},
    {"I16", "i16", 16},
    {"U16", "u16", 16},
    {"F16", "f16", 16},
    {"BF16", "bf16", 16},
    {"I32", "i32", 32},
    {"U32", "u32", 32},
    {"F32", "f32", 32},
    {"C64", "c64", 64},
    {"F64", "f64", 64},
    {"I64", "i64", 64},
    {"U64", "u64", 64},
};

static const struct {
    const char *name;
    enum lode_encoding encoding;
} encodings[] = {
    {"f32", LODE_ENC_F32},           {"f16", LODE_ENC_F16},
    {"bf16", LODE_ENC_BF16},         {"mxfp4.e2m1.lo", LODE_ENC_MXFP4},
    {"e8m0.g32", LODE_ENC_E8M0_G32},
};

enum lode_encoding
lode_encoding_find(const char *name)
{
    for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++)
        if (strcmp(encodings[i].name, name) == 0)
            return encodings[i].encoding;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].encoding, name) == 0)
            return LODE_ENC_OPAQUE;
    return LODE_ENC_UNKNOWN;
}

uint32_t
lode_dtype_bits(const char *dtype)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].dtype, dtype) == 0)
            return dtypes[i].bits;
    return 0;
}

const char *
lode_dtype_encoding(const char *dtype)
{
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(dtypes[0]); i++)
        if (strcmp(dtypes[i].dtype, dtype) == 0)
            return dtypes[i].encoding;
    return NULL;
}

static float
from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

/* IEEE 754 binary16: subnormals are value x 2^-24, exact in float32. */
static float
decode_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16;
    uint32_t exponent = (h >> 10) & 31U;
    uint32_t mantissa = h & 1023U;
    float f;

    if (exponent == 31)
        return from_bits(sign | 0x7f800000U | mantissa << 13);
    if (exponent != 0)
        return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    f = (float)mantissa * 0x1p-24F;
    return sign != 0 ? -f : f;
}

void
lode_decode_plain(enum lode_encoding e, const void *src, size_t count,
                  float *out)
{
    const uint8_t *p = src;

    for (size_t i = 0; i < count; i++) {
        if (e == LODE_ENC_BF16)
            out[i] = from_bits((uint32_t)lode_load_u16(p + 2 * i) << 16);
        else if (e == LODE_ENC_F16)
            out[i] = decode_f16(lode_load_u16(p + 2 * i));
        else
            out[i] = from_bits(lode_load_u32(p + 4 * i));
    }
}

void
lode_decode_mxfp4(const uint8_t *nibbles, const uint8_t *scales, size_t cols,
                  float *out)
{
    static const float e2m1[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,
                                   4.0F,  6.0F,  -0.0F, -0.5F, -1.0F, -1.5F,
                                   -2.0F, -3.0F, -4.0F, -6.0F};

    for (size_t i = 0; i < cols; i++) {
        uint8_t byte = nibbles[i / 2];
        uint8_t scale_byte = scales[i / 32];
        float scale =
            scale_byte == 255 ? NAN : ldexpf(1.0F, (int)scale_byte - 127);

        out[i] = e2m1[i % 2 == 0 ? byte & 15 : byte >> 4] * scale;
    }
}
