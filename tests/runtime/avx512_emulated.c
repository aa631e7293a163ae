/* SPDX-License-Identifier: Apache-2.0
 *
 * The AVX-512 kernels on machines without AVX-512: their file is compiled with
 * each intrinsic that it uses replaced by a function that does, element by
 * element, what the instruction set reference says.  So their shuffles, orders
 * and sums are tested everywhere; only the instructions themselves are not. */
#include "config.h"

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "format/encoding.h"

#define E static inline __attribute__((always_inline, unused))

typedef float floats __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef struct {
    uint8_t byte[32];
} half;

E floats
e_load(const void *p)
{
    floats v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* The aligned one faults otherwise. */
E floats
e_load_aligned(const void *p)
{
    if ((uintptr_t)p % 64 != 0)
        __builtin_trap();
    return e_load(p);
}

E void
e_store(void *p, floats v)
{
    memcpy(p, &v, sizeof(v));
}

E ints
e_load_ints(const void *p)
{
    ints v;

    memcpy(&v, p, sizeof(v));
    return v;
}

E floats
e_spread(float f)
{
    floats v;

    for (int i = 0; i < 16; i++)
        v[i] = f;
    return v;
}

E ints
e_spread_int(int n)
{
    ints v;

    for (int i = 0; i < 16; i++)
        v[i] = n;
    return v;
}

E ints
e_spread_quarter(__m128i quarter)
{
    ints v;

    for (int i = 0; i < 4; i++)
        memcpy((uint8_t *)&v + 16 * i, &quarter, 16);
    return v;
}

E ints
e_shift_right(ints a, ints count)
{
    ints v;

    for (int i = 0; i < 16; i++)
        v[i] = (uint32_t)count[i] > 31
                   ? 0
                   : (int32_t)((uint32_t)a[i] >> (uint32_t)count[i]);
    return v;
}

E floats
e_permute(ints at, floats table)
{
    floats v;

    for (int i = 0; i < 16; i++)
        v[i] = table[at[i] & 15];
    return v;
}

E floats
e_fma(floats a, floats b, floats c)
{
    floats v;

    for (int i = 0; i < 16; i++)
        v[i] = fmaf(a[i], b[i], c[i]);
    return v;
}

E half
e_load_half(const void *p)
{
    half h;

    memcpy(&h, p, sizeof(h));
    return h;
}

E floats
e_from_f16(half h)
{
    float out[16];

    lode_decode_plain(LODE_ENC_F16, &h, 16, out);
    return e_load(out);
}

/* Two bits of control choose each 128-bit quarter: two of a, two of b. */
E floats
e_shuffle_quarters(floats a, floats b, int control)
{
    floats v;

    for (int i = 0; i < 16; i++)
        v[i] = (i < 8 ? a : b)[4 * (control >> i / 4 * 2 & 3) + i % 4];
    return v;
}

/* Two bits for each place, in every quarter alike. */
E floats
e_permute_in_quarters(floats a, int control)
{
    floats v;

    for (int i = 0; i < 16; i++)
        v[i] = a[i / 4 * 4 + (control >> i % 4 * 2 & 3)];
    return v;
}

#undef _mm512_setr_epi32
#undef _mm512_cvtph_ps
#undef _mm512_shuffle_f32x4
#undef _mm512_permute_ps
#define __m512 floats
#define __m512i ints
#define _mm512_setzero_ps() e_spread(0.0F)
#define _mm512_loadu_ps e_load
#define _mm512_load_ps e_load_aligned
#define _mm512_storeu_ps e_store
#define _mm512_set1_ps e_spread
#define _mm512_add_ps(a, b) ((a) + (b))
#define _mm512_sub_ps(a, b) ((a) - (b))
#define _mm512_mul_ps(a, b) ((a) * (b))
#define _mm512_fmadd_ps e_fma
#define _mm512_loadu_si512 e_load_ints
#define _mm512_slli_epi32(a, n) ((ints)((words)(a) << (n)))
#define _mm512_and_si512(a, b) ((a) & (b))
#define _mm512_set1_epi32 e_spread_int
#define _mm512_setr_epi32(...) ((ints){__VA_ARGS__})
#define _mm512_castsi512_ps(a) ((floats)(a))
#define _mm512_broadcast_i32x4 e_spread_quarter
#define _mm512_srlv_epi32 e_shift_right
#define _mm512_permutexvar_ps e_permute
#define _mm256_loadu_si256 e_load_half
#define _mm512_cvtph_ps e_from_f16
#define _mm512_shuffle_f32x4 e_shuffle_quarters
#define _mm512_permute_ps e_permute_in_quarters
#define _mm512_cvtss_f32(a) ((a)[0])
#define rt_kernels_avx512 rt_kernels_emulated

extern const struct rt_kernels rt_kernels_emulated;

#include "runtime/kernels_avx512.c"
