/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of the specification on decoded values, shared by reader, writer
 * and verify.  All fail with LODE_E_CORRUPT, LODE_E_LIMIT or
 * LODE_E_UNSUPPORTED and do not name the file. */

#ifndef LODE_FORMAT_RULES_H
#define LODE_FORMAT_RULES_H

#include <stddef.h>

#include "format/layout.h"

/* Spec 2.5: a text of the container: UTF-8, no control characters, at most
 * LODE_NAME_BYTES_MAX bytes.  what names it in the message. */
LODE_MUST_CHECK
bool lode_rules_text(const char *text, size_t bytes, const char *what,
                     struct lode_error *err);

/* Spec 9.1: a relative path that is safe to create below a folder. */
LODE_MUST_CHECK
bool lode_rules_path(const char *path, struct lode_error *err);

/* Spec 4.3: the file name of a volume. */
LODE_MUST_CHECK
bool lode_rules_volume_name(const char *name, struct lode_error *err);

/* Spec 3.1 and 3.2: version, masks, sizes and the section directory.  A file
 * of another size than file_bytes is refused with both numbers. */
LODE_MUST_CHECK
bool lode_rules_superblock(const struct lode_superblock *sb,
                           uint64_t file_bytes, struct lode_error *err);

/* The section of a type, or NULL. */
const struct lode_section *lode_rules_section(const struct lode_superblock *sb,
                                              uint32_t type);

const char *lode_rules_section_name(uint32_t type);

/* Spec 6: tensors with their texts. */
LODE_MUST_CHECK
bool lode_rules_schema(const struct lode_tensor *tensors, uint32_t tensor_count,
                       uint64_t object_raw_bytes, uint32_t segment_count,
                       struct lode_error *err);

/* Spec 5: one group with its name; not its place among the others. */
LODE_MUST_CHECK
bool lode_rules_group(const struct lode_group *g, struct lode_error *err);

/* By kind, layer, name: less than, equal to or greater than 0. */
int lode_rules_group_order(const struct lode_group *a,
                           const struct lode_group *b);

/* Spec 9.1: among sorted groups, no two files of a kind share a path when case
 * is ignored, and none is a folder of another. */
LODE_MUST_CHECK
bool lode_rules_distinct_paths(const struct lode_group *groups,
                               uint32_t group_count, struct lode_error *err);

/* Spec 6.2: the bytes of an image that belong to no tensor are zero.  Feed the
 * tensors in order, then one of offset object_raw_bytes and no bytes; a schema
 * without tensors has no such bytes. */
struct lode_gap {
    uint64_t start; /* of the part of the image that is at hand */
    uint64_t end;
    uint64_t free_from; /* end of the tensor before */
};

void lode_rules_gap_begin(struct lode_gap *g, uint64_t start, uint64_t bytes);
LODE_MUST_CHECK
bool lode_rules_gap_check(struct lode_gap *g, const struct lode_tensor *next,
                          const uint8_t *part, struct lode_error *err);

/* Raw bytes of the seq-th block of an object. */
uint32_t lode_rules_block_raw_bytes(const struct lode_group *g, uint32_t seq);

#endif
