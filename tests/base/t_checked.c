/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/checked.h"
#include "tests/tap.h"

int
main(void)
{
    uint64_t r;

    ok(lode_add(1, UINT64_MAX - 1, &r) && r == UINT64_MAX, "add to the top");
    ok(!lode_add(1, UINT64_MAX, &r), "add past the top");
    ok(lode_mul(UINT64_C(1) << 32, (UINT64_C(1) << 32) - 1, &r), "mul below");
    ok(!lode_mul(UINT64_C(1) << 32, UINT64_C(1) << 32, &r), "mul to 2^64");
    ok(lode_mul(0, UINT64_MAX, &r) && r == 0, "mul by 0");
    ok(lode_align_up(0, 4096, &r) && r == 0, "align 0");
    ok(lode_align_up(1, 4096, &r) && r == 4096, "align 1");
    ok(lode_align_up(4096, 4096, &r) && r == 4096, "align a multiple");
    ok(lode_align_up(UINT64_MAX - 4095, 4096, &r) && r == UINT64_MAX - 4095,
       "align the last multiple");
    ok(!lode_align_up(UINT64_MAX - 4094, 4096, &r), "align past it");
    ok(lode_in_range(0, 0, 0), "nothing in nothing");
    ok(lode_in_range(5, 5, 10) && !lode_in_range(5, 6, 10), "to the end");
    ok(lode_in_range(10, 0, 10) && !lode_in_range(11, 0, 10), "at the end");
    ok(!lode_in_range(UINT64_MAX, 2, 10) && !lode_in_range(2, UINT64_MAX, 10),
       "sums that would wrap");
    return done_testing();
}
