/* SPDX-License-Identifier: Apache-2.0
 *
 * Code times scale, for every scale byte: a kernel looks weights up instead of
 * multiplying them.  Real matrices use a handful of the 256 rows, which then
 * stay in the first-level cache. */
#include "config.h"

#include "runtime/kernels_impl.h"

#include <math.h>

/* 2^(s - 127), a constant expression; exact in double. */
#define BIT(s, n, factor) (((s) >> (n)) & 1 ? (factor) : 1.0)
#define POWER(s)                                                              \
    (0x1p-127 * BIT(s, 0, 0x1p1) * BIT(s, 1, 0x1p2) * BIT(s, 2, 0x1p4) *      \
     BIT(s, 3, 0x1p8) * BIT(s, 4, 0x1p16) * BIT(s, 5, 0x1p32) *               \
     BIT(s, 6, 0x1p64) * BIT(s, 7, 0x1p128))

/* Magnitudes by code & 7, then the same with the sign of code & 8. */
#define SIGNED(a, b, c, d, e, f, g, h)                                        \
    {a, b, c, d, e, f, g, h, -(a), -(b), -(c), -(d), -(e), -(f), -(g), -(h)}
#define VALUE(m, s) ((float)((m) * POWER(s)))
#define ROW(s)                                                                \
    SIGNED(0.0F, VALUE(0.5, s), VALUE(1.0, s), VALUE(1.5, s), VALUE(2.0, s),  \
           VALUE(3.0, s), VALUE(4.0, s), VALUE(6.0, s))
#define ROWS4(s) ROW(s), ROW((s) + 1), ROW((s) + 2), ROW((s) + 3)
#define ROWS16(s) ROWS4(s), ROWS4((s) + 4), ROWS4((s) + 8), ROWS4((s) + 12)
#define ROWS64(s)                                                             \
    ROWS16(s), ROWS16((s) + 16), ROWS16((s) + 32), ROWS16((s) + 48)

const float rt_kernels_mxfp4[256][16] __attribute__((aligned(64))) = {
    ROWS64(0),
    ROWS64(64),
    ROWS16(128),
    ROWS16(144),
    ROWS16(160),
    ROWS16(176),
    ROWS16(192),
    ROWS16(208),
    ROWS16(224),
    ROWS4(240),
    ROWS4(244),
    ROWS4(248),
    ROW(252),
    /* Beyond float32, as by the reference: infinite. */
    SIGNED(0.0F, 0x1p125F, 0x1p126F, 0x1.8p126F, 0x1p127F, 0x1.8p127F,
           INFINITY, INFINITY),
    SIGNED(0.0F, 0x1p126F, 0x1p127F, 0x1.8p127F, INFINITY, INFINITY, INFINITY,
           INFINITY),
    SIGNED(NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN),
};

/* The upper half of the float32 (1 + m / 2) x 2^(s + k - 127), a subnormal one
 * where s + k <= 0. */
#define HALF(s, k, m)                                                         \
    ((s) == 255         ? 0x7fc0                                              \
     : (s) + (k) >= 255 ? 0x7f80                                              \
     : (s) + (k) > 0    ? ((s) + (k)) * 0x80 + (m) * 0x40                     \
     : (s) + (k) == 0   ? 0x40 + (m) * 0x20                                   \
                        : 0x20)
#define MAGNITUDES(part, sign, s)                                             \
    part(sign, (s) == 255 ? 0x7fc0 : 0), part(sign, HALF(s, -1, 0)),          \
        part(sign, HALF(s, 0, 0)), part(sign, HALF(s, 0, 1)),                 \
        part(sign, HALF(s, 1, 0)), part(sign, HALF(s, 1, 1)),                 \
        part(sign, HALF(s, 2, 0)), part(sign, HALF(s, 2, 1))
#define THIRD(sign, half) ((half) & 255)
#define FOURTH(sign, half) ((half) >> 8 | (sign))
#define BYTES(s)                                                              \
    {                                                                         \
        MAGNITUDES(THIRD, 0, s), MAGNITUDES(THIRD, 128, s),                   \
            MAGNITUDES(FOURTH, 0, s), MAGNITUDES(FOURTH, 128, s)              \
    }
#define BYTES4(s) BYTES(s), BYTES((s) + 1), BYTES((s) + 2), BYTES((s) + 3)
#define BYTES16(s)                                                            \
    BYTES4(s), BYTES4((s) + 4), BYTES4((s) + 8), BYTES4((s) + 12)
#define BYTES64(s)                                                            \
    BYTES16(s), BYTES16((s) + 16), BYTES16((s) + 32), BYTES16((s) + 48)

const uint8_t rt_kernels_mxfp4_bytes[256][32] __attribute__((aligned(64))) = {
    BYTES64(0),
    BYTES64(64),
    BYTES64(128),
    BYTES64(192),
};
