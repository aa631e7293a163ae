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
    const uint8_t *volumes; /* of the head of a set, else NULL */
    uint32_t strings_bytes;
    uint32_t block_record_bytes;
    uint32_t record_count; /* of blocks: of a volume only its own */
    uint32_t volume_record_bytes;
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

/* Where the record of a block stands in BLOCKS and in the digest sections, or
 * LODE_NO_INDEX when a volume does not list it. */
int64_t lode_index_record(const struct lode_index *x, uint32_t block_index);

/* Volume volume_index >= 1 of a head; *name is borrowed. */
void lode_index_volume(const struct lode_index *x, uint32_t volume_index,
                       struct lode_volume_record *out, const char **name);

/* The group that holds a block: the last whose first block is not behind it;
 * groups without blocks precede the one they share a number with. */
uint32_t lode_index_group_of(const struct lode_index *x, uint32_t block_index);

/* The second half of lode_index_decode(): all but the blocks is decoded. */
LODE_MUST_CHECK
bool lode_index_decode_blocks(struct lode_index *x, struct lode_error *err);

/* "group 3 (kind 1, layer 3, name): ..." for a group whose blocks may have no
 * names yet.  False. */
bool lode_index_fail_in_group(const struct lode_group *g, uint32_t index,
                              struct lode_error *err);

/* As lode_reader_block_name(). */
const char *lode_index_block_name(const struct lode_index *x,
                                  uint32_t block_index, char *out,
                                  size_t out_bytes);

/* Are all blocks of the group in this file, or set? */
bool lode_index_complete(const struct lode_index *x, uint32_t group_index);

uint64_t lode_index_padded_bytes(const struct lode_index *x,
                                 const struct lode_block *b);

/* The numbers of the blocks present, in the order of volume and offset, for
 * free().  summary.present_count of them. */
LODE_MUST_CHECK
bool lode_index_by_offset(const struct lode_index *x, uint32_t **out,
                          struct lode_error *err);

/* Spec 4.4: the numbers in section ORDER (raw), as many as it has, if no block
 * occurs twice and all are here. */
LODE_MUST_CHECK
bool lode_index_order(const struct lode_index *x, const uint8_t *raw,
                      uint32_t *out, struct lode_error *err);

#endif
