/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3-64, seed 0: finds accidental damage, fast.  hash.c is the only file
 * that includes xxhash.h. */

#ifndef LODE_FORMAT_HASH_H
#define LODE_FORMAT_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t lode_hash(const void *data, size_t bytes);

/* The same in pieces, without allocation. */
struct lode_hash_state {
    _Alignas(64) uint8_t opaque[640];
};

void lode_hash_begin(struct lode_hash_state *s);
void lode_hash_update(struct lode_hash_state *s, const void *data,
                      size_t bytes);
uint64_t lode_hash_end(const struct lode_hash_state *s);

#endif
