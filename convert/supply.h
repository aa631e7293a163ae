/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of a container's blocks, made from a checkpoint or another container:
 * what repair writes back. */

#ifndef LODE_CONVERT_SUPPLY_H
#define LODE_CONVERT_SUPPLY_H

#include "convert/flow.h"
#include "format/lode_write.h"

struct cv_supply;

/* source is a folder of shards or a container; folders as for
 * lode_reader_open_in().  Of target a reader and its digests are borrowed until
 * cv_supply_close(); stored may be NULL. */
LODE_MUST_CHECK
bool cv_supply_open(const char *source, const char *const *folders,
                    const struct lode_reader *target, const uint8_t *contents,
                    const uint8_t *stored, struct cv_supply **out,
                    struct lode_error *err);
void cv_supply_close(struct cv_supply *s); /* NULL is allowed */

/* The stored bytes of a block, borrowed until the next call.  Fails with
 * LODE_E_UNSUPPORTED when the source has not its content, or no choice of codec
 * gives the recorded bytes. */
LODE_MUST_CHECK
bool cv_supply_block(struct cv_supply *s, uint32_t block_index,
                     const void **bytes, uint32_t *stored_bytes,
                     struct lode_error *err);

#endif
