/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/layout.h"

#include <stddef.h>
#include <string.h>

#include "base/le.h"
#include "format/hash.h"

enum { CHECKSUM_OFFSET = LODE_SUPERBLOCK_BYTES - 8 };

const uint8_t lode_magic[LODE_MAGIC_BYTES] = {0x8f, 'L',  'O',  'D',
                                              0x0d, 0x0a, 0x1a, 0x0a};

/* Spec 2.3: [first, end) of each run of must-be-zero bytes. */
static const struct {
    enum lode_record record;
    uint16_t first;
    uint16_t end;
} reserved[] = {
    {LODE_RECORD_SUPERBLOCK, 40, 48}, {LODE_RECORD_SUPERBLOCK, 92, 96},
    {LODE_RECORD_SECTION, 72, 80},    {LODE_RECORD_GROUP, 28, 32},
    {LODE_RECORD_GROUP, 44, 64},      {LODE_RECORD_SCHEMA, 20, 24},
    {LODE_RECORD_SCHEMA, 28, 32},     {LODE_RECORD_TENSOR, 88, 96},
    {LODE_RECORD_BLOCK, 28, 32},      {LODE_RECORD_BLOCK, 46, 47},
    {LODE_RECORD_BLOCK, 48, 64},      {LODE_RECORD_VOLUME, 28, 32},
    {LODE_RECORD_VOLUME, 64, 128},
};

bool
lode_reserved_check(enum lode_record record, const uint8_t *raw,
                    struct lode_error *err)
{
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (reserved[i].record != record)
            continue;
        for (uint32_t at = reserved[i].first; at < reserved[i].end; at++)
            if (raw[at] != 0)
                return lode_fail(err, LODE_E_CORRUPT,
                                 "reserved byte %u is %u, expected 0", at,
                                 raw[at]);
    }
    return true;
}

bool
lode_superblock_valid(const uint8_t raw[LODE_SUPERBLOCK_BYTES])
{
    return memcmp(raw, lode_magic, sizeof(lode_magic)) == 0 &&
           lode_load_u64(raw + CHECKSUM_OFFSET) ==
               lode_hash(raw, CHECKSUM_OFFSET);
}

/* Spec 3.1. */
void
lode_superblock_decode(const uint8_t raw[LODE_SUPERBLOCK_BYTES],
                       struct lode_superblock *out)
{
    memset(out, 0, sizeof(*out));
    out->major = lode_load_u16(raw + 8);
    out->minor = lode_load_u16(raw + 10);
    out->superblock_bytes = lode_load_u32(raw + 12);
    out->incompat = lode_load_u64(raw + 16);
    out->ro_compat = lode_load_u64(raw + 24);
    out->compat = lode_load_u64(raw + 32);
    memcpy(out->set_uuid, raw + 48, 16);
    memcpy(out->volume_uuid, raw + 64, 16);
    out->volume_index = lode_load_u16(raw + 80);
    out->volume_count = lode_load_u16(raw + 82);
    out->align_log2 = raw[84];
    out->digest_algorithm = raw[85];
    out->check_algorithm = raw[86];
    out->state = raw[87];
    out->section_count = lode_load_u32(raw + 88);
    out->file_bytes = lode_load_u64(raw + 96);
    out->data_offset = lode_load_u64(raw + 104);
    out->hot_offset = lode_load_u64(raw + 112);
    out->hot_bytes = lode_load_u64(raw + 120);
    out->block_count = lode_load_u64(raw + 128);
    out->block_here_count = lode_load_u64(raw + 136);
    out->raw_bytes = lode_load_u64(raw + 144);
    out->stored_bytes = lode_load_u64(raw + 152);
    memcpy(out->content_root, raw + 160, LODE_DIGEST_BYTES);
    memcpy(out->index_digest, raw + 192, LODE_DIGEST_BYTES);
    out->codecs = lode_load_u64(raw + 224);
    out->filters = lode_load_u64(raw + 232);
    for (uint32_t i = 0; i < LODE_SECTIONS_MAX; i++)
        lode_section_decode(raw + LODE_DIRECTORY_OFFSET +
                                i * LODE_SECTION_RECORD_BYTES,
                            &out->sections[i]);
    memcpy(out->writer, raw + 3072, LODE_WRITER_TEXT_BYTES);
    memcpy(out->label, raw + 3136, LODE_LABEL_TEXT_BYTES);
}

void
lode_superblock_encode(const struct lode_superblock *sb,
                       uint8_t raw[LODE_SUPERBLOCK_BYTES])
{
    memset(raw, 0, LODE_SUPERBLOCK_BYTES);
    memcpy(raw, lode_magic, sizeof(lode_magic));
    lode_store_u16(raw + 8, sb->major);
    lode_store_u16(raw + 10, sb->minor);
    lode_store_u32(raw + 12, sb->superblock_bytes);
    lode_store_u64(raw + 16, sb->incompat);
    lode_store_u64(raw + 24, sb->ro_compat);
    lode_store_u64(raw + 32, sb->compat);
    memcpy(raw + 48, sb->set_uuid, 16);
    memcpy(raw + 64, sb->volume_uuid, 16);
    lode_store_u16(raw + 80, sb->volume_index);
    lode_store_u16(raw + 82, sb->volume_count);
    raw[84] = sb->align_log2;
    raw[85] = sb->digest_algorithm;
    raw[86] = sb->check_algorithm;
    raw[87] = sb->state;
    lode_store_u32(raw + 88, sb->section_count);
    lode_store_u64(raw + 96, sb->file_bytes);
    lode_store_u64(raw + 104, sb->data_offset);
    lode_store_u64(raw + 112, sb->hot_offset);
    lode_store_u64(raw + 120, sb->hot_bytes);
    lode_store_u64(raw + 128, sb->block_count);
    lode_store_u64(raw + 136, sb->block_here_count);
    lode_store_u64(raw + 144, sb->raw_bytes);
    lode_store_u64(raw + 152, sb->stored_bytes);
    memcpy(raw + 160, sb->content_root, LODE_DIGEST_BYTES);
    memcpy(raw + 192, sb->index_digest, LODE_DIGEST_BYTES);
    lode_store_u64(raw + 224, sb->codecs);
    lode_store_u64(raw + 232, sb->filters);
    for (uint32_t i = 0; i < sb->section_count; i++)
        lode_section_encode(&sb->sections[i],
                            raw + LODE_DIRECTORY_OFFSET +
                                i * LODE_SECTION_RECORD_BYTES);
    memcpy(raw + 3072, sb->writer, LODE_WRITER_TEXT_BYTES);
    memcpy(raw + 3136, sb->label, LODE_LABEL_TEXT_BYTES);
    lode_store_u64(raw + CHECKSUM_OFFSET, lode_hash(raw, CHECKSUM_OFFSET));
}

/* Spec 3.2. */
void
lode_section_decode(const uint8_t *raw, struct lode_section *out)
{
    out->type = lode_load_u32(raw + 0);
    out->flags = lode_load_u32(raw + 4);
    out->offset = lode_load_u64(raw + 8);
    out->bytes = lode_load_u64(raw + 16);
    out->count = lode_load_u32(raw + 24);
    out->record_bytes = lode_load_u32(raw + 28);
    out->hash = lode_load_u64(raw + 32);
    memcpy(out->digest, raw + 40, LODE_DIGEST_BYTES);
}

void
lode_section_encode(const struct lode_section *s, uint8_t *raw)
{
    memset(raw, 0, LODE_SECTION_RECORD_BYTES);
    lode_store_u32(raw + 0, s->type);
    lode_store_u32(raw + 4, s->flags);
    lode_store_u64(raw + 8, s->offset);
    lode_store_u64(raw + 16, s->bytes);
    lode_store_u32(raw + 24, s->count);
    lode_store_u32(raw + 28, s->record_bytes);
    lode_store_u64(raw + 32, s->hash);
    memcpy(raw + 40, s->digest, LODE_DIGEST_BYTES);
}

/* Spec 5.1. */
void
lode_group_decode(const uint8_t *raw, struct lode_group_record *out)
{
    struct lode_group *g = &out->group;

    memset(out, 0, sizeof(*out));
    g->kind = lode_load_u32(raw + 0);
    g->layer = (int32_t)lode_load_u32(raw + 4);
    g->object_count = lode_load_u32(raw + 8);
    g->blocks_per_object = lode_load_u32(raw + 12);
    g->first_block_index = lode_load_u32(raw + 16);
    g->schema_index = lode_load_u32(raw + 20);
    out->name_ref = lode_load_u32(raw + 24);
    g->object_raw_bytes = lode_load_u64(raw + 32);
    g->block_raw_bytes = lode_load_u32(raw + 40);
    memcpy(g->root, raw + 64, LODE_DIGEST_BYTES);
    memcpy(g->schema_digest, raw + 96, LODE_DIGEST_BYTES);
}

void
lode_group_encode(const struct lode_group_record *record, uint8_t *raw)
{
    const struct lode_group *g = &record->group;

    memset(raw, 0, LODE_GROUP_RECORD_BYTES);
    lode_store_u32(raw + 0, g->kind);
    lode_store_u32(raw + 4, (uint32_t)g->layer);
    lode_store_u32(raw + 8, g->object_count);
    lode_store_u32(raw + 12, g->blocks_per_object);
    lode_store_u32(raw + 16, g->first_block_index);
    lode_store_u32(raw + 20, g->schema_index);
    lode_store_u32(raw + 24, record->name_ref);
    lode_store_u64(raw + 32, g->object_raw_bytes);
    lode_store_u32(raw + 40, g->block_raw_bytes);
    memcpy(raw + 64, g->root, LODE_DIGEST_BYTES);
    memcpy(raw + 96, g->schema_digest, LODE_DIGEST_BYTES);
}

/* Spec 6.1. */
void
lode_schema_decode(const uint8_t *raw, struct lode_schema *out)
{
    out->first_tensor_index = lode_load_u32(raw + 0);
    out->tensor_count = lode_load_u32(raw + 4);
    out->object_raw_bytes = lode_load_u64(raw + 8);
    out->segment_count = lode_load_u32(raw + 16);
    out->name_ref = lode_load_u32(raw + 24);
}

void
lode_schema_encode(const struct lode_schema *s, uint8_t *raw)
{
    memset(raw, 0, LODE_SCHEMA_RECORD_BYTES);
    lode_store_u32(raw + 0, s->first_tensor_index);
    lode_store_u32(raw + 4, s->tensor_count);
    lode_store_u64(raw + 8, s->object_raw_bytes);
    lode_store_u32(raw + 16, s->segment_count);
    lode_store_u32(raw + 24, s->name_ref);
}

/* Spec 6.2. */
void
lode_tensor_decode(const uint8_t *raw, struct lode_tensor_record *out)
{
    struct lode_tensor *t = &out->tensor;

    memset(out, 0, sizeof(*out));
    out->name_ref = lode_load_u32(raw + 0);
    out->encoding_ref = lode_load_u32(raw + 4);
    out->dtype_ref = lode_load_u32(raw + 8);
    t->role = lode_load_u16(raw + 12);
    t->dim_count = raw[14];
    t->segment = raw[15];
    t->raw_offset = lode_load_u64(raw + 16);
    t->raw_bytes = lode_load_u64(raw + 24);
    t->flags = lode_load_u32(raw + 32);
    t->quant_group = lode_load_u32(raw + 36);
    for (uint32_t i = 0; i < LODE_DIMS_MAX; i++)
        t->dim[i] = lode_load_u64(raw + 40 + 8 * i);
}

void
lode_tensor_encode(const struct lode_tensor_record *record, uint8_t *raw)
{
    const struct lode_tensor *t = &record->tensor;

    memset(raw, 0, LODE_TENSOR_RECORD_BYTES);
    lode_store_u32(raw + 0, record->name_ref);
    lode_store_u32(raw + 4, record->encoding_ref);
    lode_store_u32(raw + 8, record->dtype_ref);
    lode_store_u16(raw + 12, t->role);
    raw[14] = t->dim_count;
    raw[15] = t->segment;
    lode_store_u64(raw + 16, t->raw_offset);
    lode_store_u64(raw + 24, t->raw_bytes);
    lode_store_u32(raw + 32, t->flags);
    lode_store_u32(raw + 36, t->quant_group);
    for (uint32_t i = 0; i < LODE_DIMS_MAX; i++)
        lode_store_u64(raw + 40 + 8 * i, t->dim[i]);
}

/* Spec 7.1. */
void
lode_block_decode(const uint8_t *raw, struct lode_block_record *out)
{
    struct lode_block *b = &out->block;

    b->offset = lode_load_u64(raw + 0);
    b->hash = lode_load_u64(raw + 8);
    b->stored_bytes = lode_load_u32(raw + 16);
    b->raw_bytes = lode_load_u32(raw + 20);
    out->block_index = lode_load_u32(raw + 24);
    b->group_index = lode_load_u32(raw + 32);
    b->object_index = lode_load_u32(raw + 36);
    b->seq = lode_load_u16(raw + 40);
    b->volume_index = lode_load_u16(raw + 42);
    b->codec = raw[44];
    b->filters = raw[45];
    out->flags = raw[47];
    b->present = (out->flags & LODE_BLOCK_PRESENT) != 0;
}

void
lode_block_encode(const struct lode_block_record *record, uint8_t *raw)
{
    const struct lode_block *b = &record->block;

    memset(raw, 0, LODE_BLOCK_RECORD_BYTES);
    lode_store_u64(raw + 0, b->offset);
    lode_store_u64(raw + 8, b->hash);
    lode_store_u32(raw + 16, b->stored_bytes);
    lode_store_u32(raw + 20, b->raw_bytes);
    lode_store_u32(raw + 24, record->block_index);
    lode_store_u32(raw + 32, b->group_index);
    lode_store_u32(raw + 36, b->object_index);
    lode_store_u16(raw + 40, (uint16_t)b->seq);
    lode_store_u16(raw + 42, b->volume_index);
    raw[44] = b->codec;
    raw[45] = b->filters;
    raw[47] = record->flags;
}

/* Spec 4.3. */
void
lode_volume_decode(const uint8_t *raw, struct lode_volume_record *out)
{
    memcpy(out->uuid, raw, sizeof(out->uuid));
    out->file_bytes = lode_load_u64(raw + 16);
    out->name_ref = lode_load_u32(raw + 24);
    memcpy(out->index_digest, raw + 32, LODE_DIGEST_BYTES);
}

void
lode_volume_encode(const struct lode_volume_record *v, uint8_t *raw)
{
    memset(raw, 0, LODE_VOLUME_RECORD_BYTES);
    memcpy(raw, v->uuid, sizeof(v->uuid));
    lode_store_u64(raw + 16, v->file_bytes);
    lode_store_u32(raw + 24, v->name_ref);
    memcpy(raw + 32, v->index_digest, LODE_DIGEST_BYTES);
}
