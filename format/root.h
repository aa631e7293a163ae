/* SPDX-License-Identifier: Apache-2.0
 *
 * From block digests to the content root (spec 8).  Pure; needs SHA-256, so
 * the runtime does not link it. */

#ifndef LODE_FORMAT_ROOT_H
#define LODE_FORMAT_ROOT_H

#include "format/layout.h"

/* Digest of a schema's tensors, in image order. */
void lode_root_schema(const struct lode_tensor *tensors, uint32_t tensor_count,
                      uint8_t out[LODE_DIGEST_BYTES]);

/* Root of a group.  contents holds the content digests of its blocks, one every
 * record_bytes bytes. */
void lode_root_group(const struct lode_group *g, const uint8_t *contents,
                     uint32_t record_bytes, uint8_t out[LODE_DIGEST_BYTES]);

/* Root of the container, from the groups' roots and schema digests. */
void lode_root_content(const struct lode_group *groups, uint32_t group_count,
                       uint8_t out[LODE_DIGEST_BYTES]);

/* Digest of the section directory. */
void lode_root_index(const struct lode_superblock *sb,
                     uint8_t out[LODE_DIGEST_BYTES]);

/* Both identifiers, from content root and index digest. */
void lode_root_uuids(const struct lode_superblock *sb, uint8_t set[16],
                     uint8_t volume[16]);

#endif
