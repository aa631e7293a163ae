/* SPDX-License-Identifier: Apache-2.0
 *
 * Packers and unpackers without memory: each allocation fails once. */
#include "config.h"

#include <errno.h>

#include "format/pack.h"
#include "tests/fault/wrap.h"
#include "tests/tap.h"

int
main(void)
{
    struct lode_error err;
    uint32_t failures[2] = {0, 0};

    for (uint64_t nth = 1;; nth++) {
        struct lode_packer *p = NULL;
        bool made;

        wrap_reset();
        wrap_fail(WRAP_ALLOC, nth, ENOMEM);
        made = lode_packer_new(&p, &err);
        if (!wrap_failed()) {
            must(made, &err);
            lode_packer_free(p);
            break;
        }
        failures[0] += !made && err.code == LODE_E_NOMEM && p == NULL;
    }
    for (uint64_t nth = 1;; nth++) {
        struct lode_unpacker *u = NULL;
        bool made;

        wrap_reset();
        wrap_fail(WRAP_ALLOC, nth, ENOMEM);
        made = lode_unpacker_new(&u, &err);
        if (!wrap_failed()) {
            must(made, &err);
            lode_unpacker_free(u);
            break;
        }
        failures[1] += !made && err.code == LODE_E_NOMEM && u == NULL;
    }
    wrap_reset();
    is_u64(failures[0], 3, "a packer's three allocations");
    is_u64(failures[1], 2, "an unpacker's two allocations");
    return done_testing();
}
