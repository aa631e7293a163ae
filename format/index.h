/* SPDX-License-Identifier: Apache-2.0
 *
 * The decoded index of one container: everything the hot sections say, valid.
 * Shared by reader, verify and the fuzzer. */

#ifndef LODE_FORMAT_INDEX_H
#define LODE_FORMAT_INDEX_H

#include "format/layout.h"

struct lode_index {
    struct lode_superblock sb;
    struct lode_summary summary;
    uint8_t *hot; /* the hot range as it is on disk; owned */
    struct lode_group *groups;
    struct lode_schema *schemas;
    struct lode_tensor *tensors;
    const char *strings; /* in hot, like the next two */
    const uint8_t *blocks;
    const uint8_t *segments; /* NULL when there are none */
    uint32_t strings_bytes;
    uint32_t block_record_bytes;
    uint32_t segment_record_bytes;
    uint32_t segment_count;
};

/* Decode and check all rules on a superblock that passed
 * lode_rules_superblock().  hot holds sb->hot_bytes bytes and is x's from this
 * call on, also after a failure; lode_index_fini() frees it.  Messages do not
 * name the file. */
LODE_MUST_CHECK
bool lode_index_decode(const struct lode_superblock *sb, uint8_t *hot,
                       struct lode_index *x, struct lode_error *err);
void lode_index_fini(struct lode_index *x);

void lode_index_block(const struct lode_index *x, uint32_t block_index,
                      struct lode_block_record *out);

/* As lode_reader_block_name(). */
const char *lode_index_block_name(const struct lode_index *x,
                                  uint32_t block_index, char *out,
                                  size_t out_bytes);

/* Are all blocks of the group in this file? */
bool lode_index_complete(const struct lode_index *x, uint32_t group_index);

uint64_t lode_index_padded_bytes(const struct lode_index *x,
                                 const struct lode_block *b);

/* The blocks' numbers in the order of their offsets, for free(). */
LODE_MUST_CHECK
bool lode_index_by_offset(const struct lode_index *x, uint32_t **out,
                          struct lode_error *err);

#endif
