/* SPDX-License-Identifier: Apache-2.0
 *
 * The two files that a container gets beside the checkpoint's own: the shard
 * headers, from which extraction makes the shards again, and the provenance
 * (spec 9).  Both contain digests that are known when everything has been
 * read, but their sizes are known before. */

#ifndef LODE_CONVERT_ORIGIN_H
#define LODE_CONVERT_ORIGIN_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "convert/checkpoint.h"
#include "format/lode.h"

#define CV_HEADERS_NAME "source-headers"
#define CV_PROVENANCE_NAME "provenance.json"

/* Bytes of a record of source-headers without its name and its header: name
 * length, file size, SHA-256, header length. */
enum { CV_HEADER_RECORD_BYTES = 2 + 8 + LODE_DIGEST_BYTES + 8 };

uint64_t cv_headers_bytes(const struct cv_checkpoint *c);

/* Bytes [offset, offset + bytes) of source-headers into dst.  digests has one
 * SHA-256 for each source. */
LODE_MUST_CHECK
bool cv_headers_fill(const struct cv_checkpoint *c,
                     const uint8_t (*digests)[LODE_DIGEST_BYTES],
                     uint64_t offset, uint8_t *dst, uint64_t bytes,
                     struct lode_error *err);

/* The text of provenance.json, for free().  Equal length for all digests;
 * NULL stands for zeros. */
LODE_MUST_CHECK
bool cv_provenance(const struct cv_checkpoint *c,
                   const uint8_t (*digests)[LODE_DIGEST_BYTES], char **out,
                   size_t *out_bytes, struct lode_error *err);

#endif
