/* SPDX-License-Identifier: Apache-2.0
 *
 * Encodings (appendix A) and roles (appendix B). */
#include "config.h"

#include <math.h>
#include <string.h>

#include "base/le.h"
#include "format/encoding.h"
#include "format/role.h"
#include "tests/tap.h"

static void
test_names(void)
{
    static const struct {
        const char *dtype;
        const char *encoding;
        uint32_t bits;
    } words[] = {
        {"F32", "f32", 32},
        {"F16", "f16", 16},
        {"BF16", "bf16", 16},
        {"F64", "f64", 64},
        {"C64", "c64", 64},
        {"BOOL", "bool", 8},
        {"U8", "u8", 8},
        {"I8", "i8", 8},
        {"U16", "u16", 16},
        {"I16", "i16", 16},
        {"U32", "u32", 32},
        {"I32", "i32", 32},
        {"U64", "u64", 64},
        {"I64", "i64", 64},
        {"F8_E4M3", "f8.e4m3", 8},
        {"F8_E5M2", "f8.e5m2", 8},
        {"F8_E4M3FNUZ", "f8.e4m3fnuz", 8},
        {"F8_E5M2FNUZ", "f8.e5m2fnuz", 8},
        {"F8_E8M0", "f8.e8m0", 8},
        {"F6_E2M3", "f6.e2m3", 6},
        {"F6_E3M2", "f6.e3m2", 6},
        {"F4", "f4.e2m1", 4},
    };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        ok(lode_dtype_bits(words[i].dtype) == words[i].bits &&
               strcmp(lode_dtype_encoding(words[i].dtype), words[i].encoding) ==
                   0 &&
               lode_encoding_find(words[i].encoding) != LODE_ENC_UNKNOWN,
           "dtype %s", words[i].dtype);
    is_u64(lode_dtype_bits("bf16"), 0, "words are compared with case");
    ok(lode_dtype_encoding("X9") == NULL, "no encoding for an unknown word");
    is_u64(lode_encoding_find("f32"), LODE_ENC_F32, "f32");
    is_u64(lode_encoding_find("f16"), LODE_ENC_F16, "f16");
    is_u64(lode_encoding_find("bf16"), LODE_ENC_BF16, "bf16");
    is_u64(lode_encoding_find("mxfp4.e2m1.lo"), LODE_ENC_MXFP4, "mxfp4");
    is_u64(lode_encoding_find("e8m0.g32"), LODE_ENC_E8M0_G32, "e8m0");
    is_u64(lode_encoding_find("i64"), LODE_ENC_OPAQUE, "i64 is carried");
    is_u64(lode_encoding_find("f3"), LODE_ENC_UNKNOWN, "no prefix matches");
    is_u64(lode_encoding_find(""), LODE_ENC_UNKNOWN, "nor the empty name");
}

static uint32_t
bits_of(float f)
{
    uint32_t u;

    memcpy(&u, &f, sizeof(u));
    return u;
}

/* All 65,536 values, against the definition in double arithmetic. */
static void
test_f16(void)
{
    uint32_t wrong = 0;

    for (uint32_t h = 0; h < 65536; h++) {
        uint32_t e = h >> 10 & 31;
        uint32_t m = h & 1023;
        double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, (int)e - 25);
        uint8_t raw[2];
        float f;

        lode_store_u16(raw, (uint16_t)h);
        lode_decode_plain(LODE_ENC_F16, raw, 1, &f);
        if (h & 0x8000)
            v = -v;
        if (e == 31)
            wrong += m != 0 ? !isnan(f)
                            : !isinf(f) || (signbit(f) != 0) != (h >> 15);
        else
            wrong += bits_of(f) != bits_of((float)v);
    }
    is_u64(wrong, 0, "f16: all values");
}

static void
test_plain(void)
{
    const uint8_t bf16[] = {0x80, 0x3f, 0x49, 0xc0, 0x01, 0x00};
    const uint8_t f32[] = {0, 0, 0x80, 0x7f, 1, 0, 0, 0x80};
    float out[3];

    lode_decode_plain(LODE_ENC_BF16, bf16, 3, out);
    ok(out[0] == 1.0F && out[1] == -3.140625F, "bf16: 1 and -3.140625");
    is_u64(bits_of(out[2]), 0x00010000, "bf16: the smallest");
    lode_decode_plain(LODE_ENC_F32, f32, 2, out);
    ok(isinf(out[0]), "f32: infinity");
    is_u64(bits_of(out[1]), 0x80000001, "f32: bits pass through");
}

static void
test_mxfp4(void)
{
    static const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    uint8_t nibbles[32];
    uint8_t scales[2];
    float out[64];
    uint32_t wrong = 0;

    for (int i = 0; i < 32; i++)
        nibbles[i] = (uint8_t)(i % 16 | (15 - i % 16) << 4);
    for (int s = 0; s < 255; s++) {
        scales[0] = (uint8_t)s;
        scales[1] = (uint8_t)(254 - s);
        lode_decode_mxfp4(nibbles, scales, 64, out);
        for (int c = 0; c < 64; c++) {
            int n = c % 2 == 0 ? nibbles[c / 2] & 15 : nibbles[c / 2] >> 4;
            double v = ldexp(values[n & 7], scales[c / 32] - 127);

            wrong += bits_of(out[c]) != bits_of((float)(n & 8 ? -v : v));
        }
    }
    is_u64(wrong, 0, "mxfp4: all values and scales, low nibble first");
    scales[0] = 255;
    lode_decode_mxfp4(nibbles, scales, 32, out);
    ok(isnan(out[0]) && isnan(out[31]), "mxfp4: scale 255 is NaN");
}

static void
test_roles(void)
{
    is_str(lode_role_name(LODE_ROLE_NONE), "none", "role 0");
    is_str(lode_role_name(LODE_ROLE_LATENT_NORM), "latent norm", "last role");
    is_str(lode_role_name(3), "unknown role", "a number without a role");
    is_str(lode_role_name(65535), "unknown role", "the top of the type");
}

int
main(void)
{
    test_names();
    test_f16();
    test_plain();
    test_mxfp4();
    test_roles();
    return done_testing();
}
