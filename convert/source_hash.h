/* SPDX-License-Identifier: Apache-2.0
 *
 * The SHA-256 of every source file, made from bytes that are in memory anyway
 * because blocks are made of them.  Bytes that come before their turn are read
 * again when it comes; so are those that no block wants. */

#ifndef LODE_CONVERT_SOURCE_HASH_H
#define LODE_CONVERT_SOURCE_HASH_H

#include <stdint.h>

#include "base/error.h"
#include "convert/checkpoint.h"
#include "format/lode.h"

struct cv_hashes;

/* c must live as long as *out, which is the caller's, for cv_hashes_free().
 * One thread at a time. */
LODE_MUST_CHECK
bool cv_hashes_new(const struct cv_checkpoint *c, struct cv_hashes **out,
                   struct lode_error *err);
void cv_hashes_free(struct cv_hashes *h); /* NULL is allowed */

/* Bytes of a source; each byte at most once. */
LODE_MUST_CHECK
bool cv_hashes_feed(struct cv_hashes *h, uint32_t source, uint64_t offset,
                    const void *data, uint64_t bytes, struct lode_error *err);

/* The digest of this source is known already: nothing is fed or read. */
void cv_hashes_known(struct cv_hashes *h, uint32_t source,
                     const uint8_t digest[LODE_DIGEST_BYTES]);

/* Read what is missing of one source; its digest.  It is known from then on. */
LODE_MUST_CHECK
bool cv_hashes_finish_source(struct cv_hashes *h, uint32_t source,
                             uint8_t digest[LODE_DIGEST_BYTES],
                             struct lode_error *err);

/* Read what is still missing; digests has one entry for each source.  After
 * this the object is only good for cv_hashes_free(). */
LODE_MUST_CHECK
bool cv_hashes_finish(struct cv_hashes *h,
                      uint8_t (*digests)[LODE_DIGEST_BYTES],
                      struct lode_error *err);

#endif
