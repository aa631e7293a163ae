/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes <-> structs.  The only place that knows where a field lies; pure, and
 * without rules other than that reserved bytes are zero (format/rules.h has
 * the rest).  Decoding never fails; what it returns is not yet valid. */

#ifndef LODE_FORMAT_LAYOUT_H
#define LODE_FORMAT_LAYOUT_H

#include <stdint.h>

#include "base/error.h"
#include "format/lode.h"

enum {
    LODE_SUPERBLOCK_BYTES = 4096,
    LODE_SLOT_B_OFFSET = 65536,
    LODE_INDEX_OFFSET = 131072, /* first byte that a section may occupy */
    LODE_DATA_ALIGN_BYTES = 65536,
    LODE_SECTION_ALIGN_BYTES = 64,
    LODE_COLD_ALIGN_BYTES = 4096,
    LODE_MAGIC_BYTES = 8,
    LODE_DIRECTORY_OFFSET = 512, /* in a superblock */
    LODE_WRITER_TEXT_BYTES = 64,
    LODE_LABEL_TEXT_BYTES = 128,
};

/* Sizes of the records of version 1.0. */
enum {
    LODE_SECTION_RECORD_BYTES = 80,
    LODE_GROUP_RECORD_BYTES = 128,
    LODE_SCHEMA_RECORD_BYTES = 32,
    LODE_TENSOR_RECORD_BYTES = 96,
    LODE_BLOCK_RECORD_BYTES = 64,
    LODE_VOLUME_RECORD_BYTES = 128,
    LODE_ORDER_RECORD_BYTES = 4,
};

enum lode_section_type {
    LODE_SECTION_VOLUMES = 1,
    LODE_SECTION_GROUPS = 2,
    LODE_SECTION_SCHEMAS = 3,
    LODE_SECTION_TENSORS = 4,
    LODE_SECTION_STRINGS = 5,
    LODE_SECTION_BLOCKS = 6,
    LODE_SECTION_SEGMENTS = 7, /* reserved */
    LODE_SECTION_CONTENT_DIGESTS = 8,
    LODE_SECTION_STORED_DIGESTS = 9,
    LODE_SECTION_ORDER = 10,
    LODE_SECTION_LAST = LODE_SECTION_ORDER,
};

enum { LODE_SECTION_CRITICAL = 1, LODE_SECTION_COLD = 2 };
enum { LODE_STATE_FINAL = 1 };
/* Bits of incompat: 1 and 63 are reserved (spec 12.2). */
#define LODE_INCOMPAT_VOLUME (UINT64_C(1) << 0)
#define LODE_INCOMPAT_PARTIAL (UINT64_C(1) << 2)
enum { LODE_KIND_VOLATILE = 0x8000 }; /* from here on outside the root */
enum { LODE_DIGEST_SHA256_TREE = 1, LODE_CHECK_XXH3 = 1 };
enum { LODE_BLOCK_PRESENT = 1, LODE_BLOCK_SAME_DIGEST = 2 };

/* Spec 3.2. */
struct lode_section {
    uint64_t offset;
    uint64_t bytes;
    uint64_t hash;
    uint32_t type;
    uint32_t flags;
    uint32_t count;
    uint32_t record_bytes;
    uint8_t digest[LODE_DIGEST_BYTES];
};

/* Spec 3.1. */
struct lode_superblock {
    uint64_t incompat;
    uint64_t ro_compat;
    uint64_t compat;
    uint64_t file_bytes;
    uint64_t data_offset;
    uint64_t hot_offset;
    uint64_t hot_bytes;
    uint64_t block_count;      /* in the model */
    uint64_t block_here_count; /* in this file */
    uint64_t raw_bytes;
    uint64_t stored_bytes;
    uint64_t codecs;
    uint64_t filters;
    uint32_t superblock_bytes;
    uint32_t section_count;
    uint16_t major;
    uint16_t minor;
    uint16_t volume_index;
    uint16_t volume_count;
    uint8_t align_log2;
    uint8_t digest_algorithm;
    uint8_t check_algorithm;
    uint8_t state;
    uint8_t set_uuid[16];
    uint8_t volume_uuid[16];
    uint8_t content_root[LODE_DIGEST_BYTES];
    uint8_t index_digest[LODE_DIGEST_BYTES];
    char writer[LODE_WRITER_TEXT_BYTES + 1];
    char label[LODE_LABEL_TEXT_BYTES + 1];
    struct lode_section sections[LODE_SECTIONS_MAX];
};

/* Spec 6.1. */
struct lode_schema {
    uint64_t object_raw_bytes;
    uint32_t first_tensor_index;
    uint32_t tensor_count;
    uint32_t segment_count;
    uint32_t name_ref; /* in STRINGS */
};

/* Records whose texts are still references into STRINGS. */
struct lode_group_record {
    struct lode_group group;
    uint32_t name_ref;
};

struct lode_tensor_record {
    struct lode_tensor tensor;
    uint32_t name_ref;
    uint32_t encoding_ref;
    uint32_t dtype_ref;
};

/* Spec 7.1. */
struct lode_block_record {
    struct lode_block block;
    uint32_t block_index;
    uint8_t flags;
};

/* Spec 4.3. */
struct lode_volume_record {
    uint64_t file_bytes;
    uint32_t name_ref;
    uint8_t uuid[16];
    uint8_t index_digest[LODE_DIGEST_BYTES];
};

extern const uint8_t lode_magic[LODE_MAGIC_BYTES];

/* Magic and checksum: is this a superblock at all? */
bool lode_superblock_valid(const uint8_t raw[LODE_SUPERBLOCK_BYTES]);
void lode_superblock_decode(const uint8_t raw[LODE_SUPERBLOCK_BYTES],
                            struct lode_superblock *out);
/* Fills raw, checksum included. */
void lode_superblock_encode(const struct lode_superblock *sb,
                            uint8_t raw[LODE_SUPERBLOCK_BYTES]);

void lode_section_decode(const uint8_t *raw, struct lode_section *out);
void lode_section_encode(const struct lode_section *s, uint8_t *raw);
void lode_group_decode(const uint8_t *raw, struct lode_group_record *out);
void lode_group_encode(const struct lode_group_record *g, uint8_t *raw);
void lode_schema_decode(const uint8_t *raw, struct lode_schema *out);
void lode_schema_encode(const struct lode_schema *s, uint8_t *raw);
void lode_tensor_decode(const uint8_t *raw, struct lode_tensor_record *out);
void lode_tensor_encode(const struct lode_tensor_record *t, uint8_t *raw);
void lode_block_decode(const uint8_t *raw, struct lode_block_record *out);
void lode_block_encode(const struct lode_block_record *b, uint8_t *raw);
void lode_volume_decode(const uint8_t *raw, struct lode_volume_record *out);
void lode_volume_encode(const struct lode_volume_record *v, uint8_t *raw);

enum lode_record {
    LODE_RECORD_SUPERBLOCK,
    LODE_RECORD_SECTION,
    LODE_RECORD_GROUP,
    LODE_RECORD_SCHEMA,
    LODE_RECORD_TENSOR,
    LODE_RECORD_BLOCK,
    LODE_RECORD_VOLUME,
};

/* Spec 2.3: are the must-be-zero bytes of this record zero?  LODE_E_CORRUPT
 * names the first that is not. */
LODE_MUST_CHECK
bool lode_reserved_check(enum lode_record record, const uint8_t *raw,
                         struct lode_error *err);

#endif
