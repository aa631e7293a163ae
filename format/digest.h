/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 and its tree (spec 8.2).  digest.c is the only file that includes
 * OpenSSL; nothing the runtime links may refer to it. */

#ifndef LODE_FORMAT_DIGEST_H
#define LODE_FORMAT_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "format/lode_write.h"

enum { LODE_LEAF_BYTES = 1 << 20 };

/* A tree being built from the left: node[i] is the root of a full subtree for
 * each bit i that is set in count. */
struct lode_tree {
    uint64_t count;
    uint8_t node[64][LODE_DIGEST_BYTES];
};

void lode_digest(const void *data, size_t bytes,
                 uint8_t out[LODE_DIGEST_BYTES]);

/* The same in pieces, without allocation. */
struct lode_digest_state {
    _Alignas(16) uint8_t opaque[128];
};

void lode_digest_begin(struct lode_digest_state *s);
void lode_digest_update(struct lode_digest_state *s, const void *data,
                        size_t bytes);
void lode_digest_end(struct lode_digest_state *s,
                     uint8_t out[LODE_DIGEST_BYTES]);

void lode_tree_begin(struct lode_tree *t);
/* The next leaf's digest, or that of a full subtree at a block boundary. */
void lode_tree_push(struct lode_tree *t,
                    const uint8_t digest[LODE_DIGEST_BYTES]);
/* The next leaf is H(00 || data). */
void lode_tree_leaf(struct lode_tree *t, const void *data, size_t bytes);
/* Data cut into leaves of 1 MiB; only the last call may bring a part of one. */
void lode_tree_data(struct lode_tree *t, const void *data, size_t bytes);
void lode_tree_end(const struct lode_tree *t, uint8_t out[LODE_DIGEST_BYTES]);

#endif
