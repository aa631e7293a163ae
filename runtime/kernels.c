/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/kernels_impl.h"

#include <string.h>

#ifdef LODE_X86
#include <cpuid.h>
#endif

/* Best first, and each needs what those behind it need, so that the usable
 * ones are always the end of the list. */
static const struct rt_kernels *const tables[] = {
#ifdef LODE_X86
    &rt_kernels_avx512,
    &rt_kernels_avx2,
#endif
#ifdef LODE_ARM64
    &rt_kernels_neon,
#endif
    &rt_kernels_ref,
    NULL,
};

static const char *const names[] = {"scalar", "avx2", "avx512", "neon"};

#ifdef LODE_X86
/* __builtin_cpu_supports() also asks whether the operating system saves the
 * registers.  Not every compiler knows "f16c" there, so CPUID is asked; its
 * registers are those of AVX. */
static bool
has_avx2(void)
{
    unsigned a, b, c, d;

    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

static bool
has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq");
}
#endif

const struct rt_kernels *const *
rt_kernels_all(void)
{
#ifdef LODE_X86
    return has_avx512() ? &tables[0] : has_avx2() ? &tables[1] : &tables[2];
#else
    return tables;
#endif
}

bool
rt_kernels_select(const char *name, const struct rt_kernels **out,
                  struct lode_error *err)
{
    const struct rt_kernels *const *k = rt_kernels_all();

    while (*k != NULL && name != NULL && strcmp(name, (*k)->name) != 0)
        k++;
    if (*k != NULL) {
        *out = *k;
        return true;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return lode_fail(err, LODE_E_UNSUPPORTED,
                             "kernels \"%s\": not on this processor or not in "
                             "this build",
                             name);
    return lode_fail(err, LODE_E_USAGE,
                     "unknown kernels \"%s\": expected scalar, avx2, avx512 "
                     "or neon",
                     name);
}
