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
