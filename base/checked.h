/* SPDX-License-Identifier: Apache-2.0
 *
 * Arithmetic on sizes that came from a file: false means it overflowed, and
 * *out is then garbage. */

#ifndef LODE_BASE_CHECKED_H
#define LODE_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool
lode_add(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool
lode_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* a rounded up to a multiple of align, a power of two. */
static inline bool
lode_align_up(uint64_t a, uint64_t align, uint64_t *out)
{
    uint64_t sum;

    if (!lode_add(a, align - 1, &sum))
        return false;
    *out = sum & ~(align - 1);
    return true;
}

/* Does [offset, offset + bytes) lie in [0, total)?  Cannot overflow. */
static inline bool
lode_in_range(uint64_t offset, uint64_t bytes, uint64_t total)
{
    return offset <= total && bytes <= total - offset;
}

#endif
