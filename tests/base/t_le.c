/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers are little-endian at any address (spec 2.2). */
#include "config.h"

#include "base/le.h"
#include "tests/tap.h"

int
main(void)
{
    const uint8_t raw[] = {0xff, 1, 2, 3, 4, 5, 6, 7, 0x88};
    uint8_t out[10] = {0};

    is_u64(lode_load_u16(raw + 1), 0x0201, "load u16");
    is_u64(lode_load_u32(raw + 1), 0x04030201, "load u32");
    is_u64(lode_load_u64(raw + 1), 0x8807060504030201, "load u64");
    is_u64(lode_load_u16(raw + 7), 0x8807, "the sign bit of u16");
    is_u64(lode_load_u32(raw + 5), 0x88070605, "the sign bit of u32");
    lode_store_u64(out + 1, 0x8807060504030201);
    ok(memcmp(out + 1, raw + 1, 8) == 0 && out[0] == 0 && out[9] == 0,
       "store u64");
    lode_store_u32(out + 1, 0xaabbccdd);
    ok(out[1] == 0xdd && out[4] == 0xaa && out[5] == 5, "store u32");
    lode_store_u16(out + 1, 0x1234);
    ok(out[1] == 0x34 && out[2] == 0x12 && out[3] == 0xbb, "store u16");
    return done_testing();
}
