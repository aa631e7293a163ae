/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to the kernel files: the tables, and what vector files share. */

#ifndef LODE_RUNTIME_KERNELS_IMPL_H
#define LODE_RUNTIME_KERNELS_IMPL_H

#include "runtime/kernels.h"

#define INLINE static inline __attribute__((always_inline))

/* Before a loop of constant length. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

extern const struct rt_kernels rt_kernels_ref;
extern const struct rt_kernels rt_kernels_avx2;
extern const struct rt_kernels rt_kernels_avx512;
extern const struct rt_kernels rt_kernels_neon;

/* Row s holds the 16 values of a code at scale byte s, by code: what
 * lode_decode_mxfp4() gives. */
extern const float rt_kernels_mxfp4[256][16];

/* The same by bytes: the third ones of the 16 values, then the fourth ones.
 * The first two are zero: a weight has two significant bits. */
extern const uint8_t rt_kernels_mxfp4_bytes[256][32];

#endif
