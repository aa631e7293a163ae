/* SPDX-License-Identifier: Apache-2.0
 *
 * The first 128 KiB of a file: is it a container, and which of the two
 * superblocks counts? */

#ifndef LODE_FORMAT_HEAD_H
#define LODE_FORMAT_HEAD_H

#include <stddef.h>

#include "format/layout.h"

/* Decode slot A, or slot B where A is damaged, and check it against the file's
 * size.  head holds the file's first head_bytes, at most LODE_INDEX_OFFSET.
 * For what is no container the message says what it seems to be. */
LODE_MUST_CHECK
bool lode_head_decode(const uint8_t *head, size_t head_bytes,
                      uint64_t file_bytes, struct lode_superblock *out,
                      struct lode_error *err);

/* The slot that counts, in head, or NULL when neither is valid. */
const uint8_t *lode_head_choose(const uint8_t *head, size_t head_bytes);

/* One slot: why it is damaged, or true. */
LODE_MUST_CHECK
bool lode_head_check_slot(const uint8_t raw[LODE_SUPERBLOCK_BYTES],
                          struct lode_error *err);

#endif
