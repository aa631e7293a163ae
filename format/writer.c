/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/lode_write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/index.h"
#include "format/output.h"
#include "format/root.h"
#include "format/rules.h"
#include "format/strings.h"

/* What the file remembers of a schema, and what we need to find it again. */
struct declared_schema {
    struct lode_schema schema;
    uint64_t hash; /* of its tensor records */
    uint8_t digest[LODE_DIGEST_BYTES];
};

struct declared_group {
    struct lode_group_record record;
    uint32_t position; /* in the file, once sorted */
};

struct lode_writer {
    struct lode_output output;
    struct lode_strings strings;
    struct lode_buf schemas;        /* struct declared_schema */
    struct lode_buf tensor_records; /* as in the file */
    struct lode_buf groups;         /* struct declared_group, by handle */
    uint32_t schema_count;
    uint32_t tensor_count;
    uint32_t group_count;
    struct lode_group *sorted; /* as in the file; names point into strings */
    struct lode_superblock sb;
    uint8_t *index; /* the file from LODE_INDEX_OFFSET to data_offset */
    uint64_t index_bytes;
    uint64_t next_offset;
    uint32_t written_count;
    bool begun;
    bool index_only;
};

static struct declared_schema *
schema_at(const struct lode_writer *w, uint32_t i)
{
    return (struct declared_schema *)(void *)w->schemas.data + i;
}

static struct declared_group *
group_at(const struct lode_writer *w, uint32_t i)
{
    return (struct declared_group *)(void *)w->groups.data + i;
}

/* ---- 1. declare ---- */

bool
lode_writer_new(const char *path, const struct lode_writer_options *opt,
                struct lode_writer **out, struct lode_error *err)
{
    const char *label = opt->label != NULL ? opt->label : "";
    struct lode_writer *w;
    void *p = NULL;

    if (opt->align_log2 < LODE_ALIGN_LOG2_MIN ||
        opt->align_log2 > LODE_ALIGN_LOG2_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "alignment 2^%" PRIu32 ", the limits are 2^%u and "
                         "2^%u",
                         opt->align_log2, LODE_ALIGN_LOG2_MIN,
                         LODE_ALIGN_LOG2_MAX);
    if (strlen(label) >= LODE_LABEL_TEXT_BYTES)
        return lode_fail(err, LODE_E_LIMIT,
                         "label of %zu bytes, the limit is %d", strlen(label),
                         LODE_LABEL_TEXT_BYTES - 1);
    if (!lode_rules_text(label, strlen(label), "label", err) ||
        !lode_alloc_array(1, sizeof(*w), "writer", &p, err))
        return false;
    w = p;
    memcpy(w->sb.label, label, strlen(label));
    w->sb.align_log2 = (uint8_t)opt->align_log2;
    w->index_only = opt->index_only;
    w->output.fd = w->output.folder_fd = -1;
    if (!lode_output_init(&w->output, path, err) ||
        !lode_strings_init(&w->strings, err)) {
        lode_writer_free(w);
        return false;
    }
    *out = w;
    return true;
}

void
lode_writer_free(struct lode_writer *w)
{
    if (w == NULL)
        return;
    lode_output_fini(&w->output);
    lode_strings_fini(&w->strings);
    lode_buf_fini(&w->schemas);
    lode_buf_fini(&w->tensor_records);
    lode_buf_fini(&w->groups);
    free(w->sorted);
    lode_free_aligned(w->index, w->index_bytes);
    free(w);
}

/* The schema that is equal to s, or -1. */
static int64_t
find_schema(const struct lode_writer *w, const struct declared_schema *s,
            const uint8_t *records)
{
    size_t bytes = (size_t)s->schema.tensor_count * LODE_TENSOR_RECORD_BYTES;

    for (uint32_t i = 0; i < w->schema_count; i++) {
        const struct declared_schema *d = schema_at(w, i);

        if (d->hash == s->hash &&
            d->schema.object_raw_bytes == s->schema.object_raw_bytes &&
            d->schema.tensor_count == s->schema.tensor_count &&
            (bytes == 0 || memcmp(w->tensor_records.data +
                                      (size_t)d->schema.first_tensor_index *
                                          LODE_TENSOR_RECORD_BYTES,
                                  records, bytes) == 0))
            return i;
    }
    return -1;
}

/* Append the records of tensors to b. */
static bool
encode_tensors(struct lode_writer *w, const struct lode_tensor *tensors,
               uint32_t tensor_count, struct lode_buf *b,
               struct lode_error *err)
{
    for (uint32_t i = 0; i < tensor_count; i++) {
        struct lode_tensor_record r = {.tensor = tensors[i]};
        uint8_t raw[LODE_TENSOR_RECORD_BYTES];

        if (!lode_strings_add(&w->strings, tensors[i].name, &r.name_ref, err) ||
            !lode_strings_add(&w->strings, tensors[i].encoding, &r.encoding_ref,
                              err) ||
            !lode_strings_add(&w->strings, tensors[i].dtype, &r.dtype_ref, err))
            return lode_fail_in(err, "tensor %" PRIu32, i);
        lode_tensor_encode(&r, raw);
        if (!lode_buf_append(b, raw, sizeof(raw), err))
            return false;
    }
    return true;
}

static bool
add_schema(struct lode_writer *w, const struct declared_schema *s,
           const struct lode_buf *records, struct lode_error *err)
{
    struct declared_schema d = *s;

    if (w->schema_count == LODE_SCHEMAS_MAX ||
        d.schema.tensor_count > LODE_TENSORS_MAX - w->tensor_count)
        return lode_fail(err, LODE_E_LIMIT,
                         "more than %u schemas or %u tensors", LODE_SCHEMAS_MAX,
                         LODE_TENSORS_MAX);
    d.schema.first_tensor_index = w->tensor_count;
    if (!lode_buf_append(&w->tensor_records, records->data, records->used_bytes,
                         err) ||
        !lode_buf_append(&w->schemas, &d, sizeof(d), err))
        return false;
    w->schema_count++;
    w->tensor_count += d.schema.tensor_count;
    return true;
}

bool
lode_writer_schema(struct lode_writer *w, const struct lode_tensor *tensors,
                   uint32_t tensor_count, uint64_t object_raw_bytes,
                   uint32_t *schema_index, struct lode_error *err)
{
    struct declared_schema s = {.schema = {.object_raw_bytes = object_raw_bytes,
                                           .tensor_count = tensor_count,
                                           .segment_count = 1}};
    struct lode_buf records = {0};
    int64_t found;
    bool good = false;

    assert(!w->begun);
    if (tensor_count > 0)
        s.schema.segment_count = tensors[tensor_count - 1].segment + 1U;
    if (!lode_rules_schema(tensors, tensor_count, object_raw_bytes,
                           s.schema.segment_count, err) ||
        !encode_tensors(w, tensors, tensor_count, &records, err))
        goto out;
    s.hash = lode_hash(records.data != NULL ? records.data : (uint8_t *)"",
                       records.used_bytes);
    lode_root_schema(tensors, tensor_count, s.digest);
    found = find_schema(w, &s, records.data);
    good = found >= 0 || add_schema(w, &s, &records, err);
    if (good)
        *schema_index = found >= 0 ? (uint32_t)found : w->schema_count - 1;
out:
    lode_buf_fini(&records);
    return good;
}

static bool
fail_in_group(const struct lode_group *g, struct lode_error *err)
{
    return lode_fail_in(
        err, "group \"%.100s\" (kind %" PRIu32 ", layer %" PRId32 ")", g->name,
        g->kind, g->layer);
}

bool
lode_writer_group(struct lode_writer *w, uint32_t kind, int32_t layer,
                  const char *name, uint32_t object_count,
                  uint32_t schema_index, uint64_t object_raw_bytes,
                  uint32_t block_raw_bytes, uint32_t *handle,
                  struct lode_error *err)
{
    struct declared_group d = {0};
    struct lode_group *g = &d.record.group;
    uint64_t blocks = object_raw_bytes != 0;

    assert(!w->begun && schema_index < w->schema_count);
    g->kind = kind;
    g->layer = layer;
    g->name = name;
    g->object_count = object_count;
    g->schema_index = schema_index;
    g->object_raw_bytes = object_raw_bytes;
    if (block_raw_bytes != 0 && object_raw_bytes > block_raw_bytes)
        blocks = (object_raw_bytes - 1) / block_raw_bytes + 1;
    else if (object_raw_bytes > LODE_BLOCK_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "group \"%.100s\": block of %" PRIu64
                         " bytes, the limit is %" PRIu64,
                         name, object_raw_bytes, LODE_BLOCK_BYTES_MAX);
    /* One spelling: an object of one block has blocks of its own size. */
    g->block_raw_bytes =
        blocks > 1 ? block_raw_bytes : (uint32_t)object_raw_bytes;
    g->blocks_per_object = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
    if (w->group_count == LODE_GROUPS_MAX)
        return lode_fail(err, LODE_E_LIMIT, "more than %u groups",
                         LODE_GROUPS_MAX);
    if (!lode_rules_group(g, err) ||
        !lode_strings_add(&w->strings, name, &d.record.name_ref, err))
        return fail_in_group(g, err);
    if (object_raw_bytes !=
        schema_at(w, schema_index)->schema.object_raw_bytes) {
        lode_fail(err, LODE_E_CORRUPT,
                  "objects of %" PRIu64 " bytes, its schema has %" PRIu64,
                  object_raw_bytes,
                  schema_at(w, schema_index)->schema.object_raw_bytes);
        return fail_in_group(g, err);
    }
    memcpy(g->schema_digest, schema_at(w, schema_index)->digest,
           LODE_DIGEST_BYTES);
    if (!lode_buf_append(&w->groups, &d, sizeof(d), err))
        return false;
    *handle = w->group_count++;
    return true;
}

/* ---- the layout that follows from what was declared ---- */

static int
compare_groups(const void *a, const void *b)
{
    return lode_rules_group_order(
        &(*(struct declared_group *const *)a)->record.group,
        &(*(struct declared_group *const *)b)->record.group);
}

/* Number groups and blocks in file order (spec 5.3). */
static bool
number_groups(struct lode_writer *w, struct declared_group **order,
              struct lode_error *err)
{
    uint64_t block_count = 0;

    for (uint32_t i = 0; i < w->group_count; i++) {
        order[i] = group_at(w, i);
        order[i]->record.group.name =
            lode_strings_at(&w->strings, order[i]->record.name_ref);
    }
    qsort(order, w->group_count, sizeof(*order), compare_groups);
    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_group *g = &order[i]->record.group;

        if (i > 0 && lode_rules_group_order(&w->sorted[i - 1], g) == 0) {
            lode_fail(err, LODE_E_CORRUPT, "is declared twice");
            return fail_in_group(g, err);
        }
        g->first_block_index = (uint32_t)block_count;
        block_count += (uint64_t)g->object_count * g->blocks_per_object;
        if (block_count > LODE_BLOCKS_MAX)
            return lode_fail(err, LODE_E_LIMIT, "more than %u blocks",
                             LODE_BLOCKS_MAX);
        order[i]->position = i;
        w->sorted[i] = *g;
    }
    w->sb.block_count = block_count;
    return lode_rules_distinct_paths(w->sorted, w->group_count, err);
}

static bool
sort_groups(struct lode_writer *w, struct lode_error *err)
{
    void *order = NULL;
    void *sorted = NULL;
    bool good = false;

    if (lode_alloc_array(w->group_count, sizeof(struct declared_group *),
                         "group order", &order, err) &&
        lode_alloc_array(w->group_count, sizeof(*w->sorted), "groups", &sorted,
                         err)) {
        free(w->sorted);
        w->sorted = sorted;
        good = number_groups(w, order, err);
    }
    free(order);
    return good;
}

static uint64_t
align_up(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) & ~(align - 1); /* far below 2^64 */
}

/* Spec 4.1: sections in the order of their types, the cold ones last. */
static bool
place_sections(struct lode_writer *w, struct lode_error *err)
{
    const struct {
        uint32_t type;
        uint32_t count;
        uint32_t record_bytes;
        uint32_t flags;
    } plan[] = {
        {LODE_SECTION_GROUPS, w->group_count, LODE_GROUP_RECORD_BYTES,
         LODE_SECTION_CRITICAL},
        {LODE_SECTION_SCHEMAS, w->schema_count, LODE_SCHEMA_RECORD_BYTES,
         LODE_SECTION_CRITICAL},
        {LODE_SECTION_TENSORS, w->tensor_count, LODE_TENSOR_RECORD_BYTES,
         LODE_SECTION_CRITICAL},
        {LODE_SECTION_STRINGS, (uint32_t)w->strings.bytes.used_bytes, 1,
         LODE_SECTION_CRITICAL},
        {LODE_SECTION_BLOCKS, (uint32_t)w->sb.block_count,
         LODE_BLOCK_RECORD_BYTES, LODE_SECTION_CRITICAL},
        {LODE_SECTION_CONTENT_DIGESTS, (uint32_t)w->sb.block_count,
         LODE_DIGEST_BYTES, LODE_SECTION_COLD},
    };
    uint64_t at = LODE_INDEX_OFFSET;

    w->sb.section_count = sizeof(plan) / sizeof(plan[0]);
    w->sb.hot_offset = at;
    for (uint32_t i = 0; i < w->sb.section_count; i++) {
        struct lode_section *s = &w->sb.sections[i];
        bool cold = (plan[i].flags & LODE_SECTION_COLD) != 0;

        at = align_up(at,
                      cold ? LODE_COLD_ALIGN_BYTES : LODE_SECTION_ALIGN_BYTES);
        s->type = plan[i].type;
        s->flags = plan[i].flags;
        s->offset = at;
        s->count = plan[i].count;
        s->record_bytes = plan[i].record_bytes;
        s->bytes = (uint64_t)s->count * s->record_bytes;
        at += s->bytes;
        if (!cold)
            w->sb.hot_bytes = at - w->sb.hot_offset;
    }
    w->sb.data_offset = align_up(at, LODE_DATA_ALIGN_BYTES);
    if (w->sb.data_offset - LODE_INDEX_OFFSET > LODE_INDEX_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "index of %" PRIu64 " bytes, the limit is %" PRIu64,
                         w->sb.data_offset - LODE_INDEX_OFFSET,
                         LODE_INDEX_BYTES_MAX);
    return true;
}

static uint64_t
padded_bytes(const struct lode_writer *w, uint32_t bytes)
{
    return align_up(bytes, UINT64_C(1) << w->sb.align_log2);
}

bool
lode_writer_sizes(struct lode_writer *w, uint64_t *index_bytes,
                  uint64_t *file_bytes, uint32_t *block_count,
                  struct lode_error *err)
{
    uint64_t total;

    if (!w->begun && (!sort_groups(w, err) || !place_sections(w, err)))
        return false;
    total = w->sb.data_offset;
    for (uint32_t i = 0; i < w->group_count; i++) {
        const struct lode_group *g = &w->sorted[i];
        uint64_t object = 0;

        if (g->blocks_per_object == 0)
            continue;
        object =
            (g->blocks_per_object - 1) * padded_bytes(w, g->block_raw_bytes) +
            padded_bytes(
                w, lode_rules_block_raw_bytes(g, g->blocks_per_object - 1));
        total += object * g->object_count; /* at most 2^24 x 2^30 */
    }
    *index_bytes = w->sb.data_offset;
    *file_bytes = total;
    *block_count = (uint32_t)w->sb.block_count;
    return true;
}

/* ---- 2. begin ---- */

static uint8_t *
section_data(const struct lode_writer *w, uint32_t type)
{
    return w->index +
           (lode_rules_section(&w->sb, type)->offset - LODE_INDEX_OFFSET);
}

/* The sections that are known before the first block. */
static void
encode_declared(struct lode_writer *w)
{
    uint8_t *schemas = section_data(w, LODE_SECTION_SCHEMAS);

    for (uint32_t i = 0; i < w->schema_count; i++)
        lode_schema_encode(&schema_at(w, i)->schema,
                           schemas + (size_t)i * LODE_SCHEMA_RECORD_BYTES);
    if (w->tensor_count != 0)
        memcpy(section_data(w, LODE_SECTION_TENSORS), w->tensor_records.data,
               w->tensor_records.used_bytes);
    memcpy(section_data(w, LODE_SECTION_STRINGS), w->strings.bytes.data,
           w->strings.bytes.used_bytes);
}

bool
lode_writer_begin(struct lode_writer *w, struct lode_error *err)
{
    uint64_t index_bytes;
    uint64_t file_bytes;
    uint32_t block_count;
    void *p = NULL;

    assert(!w->begun);
    if (!lode_writer_sizes(w, &index_bytes, &file_bytes, &block_count, err))
        return false;
    w->index_bytes = index_bytes - LODE_INDEX_OFFSET;
    if (!lode_alloc_aligned(w->index_bytes, "index", &p, err))
        return false;
    w->index = p;
    encode_declared(w);
    w->next_offset = w->sb.data_offset;
    w->begun = true;
    return lode_output_create(&w->output,
                              w->index_only ? index_bytes : file_bytes, err);
}

/* ---- 3. blocks ---- */

uint32_t
lode_writer_block_index(const struct lode_writer *w, uint32_t handle,
                        uint32_t object_index, uint32_t seq)
{
    const struct lode_group *g = &group_at(w, handle)->record.group;

    assert(w->begun && handle < w->group_count &&
           object_index < g->object_count && seq < g->blocks_per_object);
    return g->first_block_index + object_index * g->blocks_per_object + seq;
}

/* The group of a block: the last whose first block is not behind it.  Groups
 * without blocks precede the one they share a number with. */
static uint32_t
group_of(const struct lode_writer *w, uint32_t block_index)
{
    uint32_t low = 0;
    uint32_t high = w->group_count;

    assert(w->begun && block_index < w->sb.block_count);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (w->sorted[middle].first_block_index <= block_index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t
lode_writer_block_raw_bytes(const struct lode_writer *w, uint32_t block_index)
{
    const struct lode_group *g = &w->sorted[group_of(w, block_index)];

    return lode_rules_block_raw_bytes(g, (block_index - g->first_block_index) %
                                             g->blocks_per_object);
}

/* Spec 6.2: what lies between tensors is zero.  Else equal tensors could have
 * different roots. */
static bool
check_gaps(const struct lode_writer *w, const struct lode_block *b,
           const uint8_t *image, struct lode_error *err)
{
    const struct lode_group *g = &w->sorted[b->group_index];
    const struct lode_schema *c = &schema_at(w, g->schema_index)->schema;
    const uint8_t *records = w->tensor_records.data;
    struct lode_gap gap;

    lode_rules_gap_begin(&gap, (uint64_t)b->seq * g->block_raw_bytes,
                         b->raw_bytes);
    for (uint32_t i = 0; i <= c->tensor_count && c->tensor_count != 0; i++) {
        struct lode_tensor_record r = {0};

        if (i < c->tensor_count)
            lode_tensor_decode(records + (size_t)(c->first_tensor_index + i) *
                                             LODE_TENSOR_RECORD_BYTES,
                               &r);
        else
            r.tensor.raw_offset = c->object_raw_bytes;
        if (!lode_rules_gap_check(&gap, &r.tensor, image, err))
            return false;
    }
    return true;
}

bool
lode_writer_append(struct lode_writer *w, uint32_t block_index, void *image,
                   uint32_t raw_bytes, const struct lode_seal *seal,
                   struct lode_error *err)
{
    uint32_t group_index = group_of(w, block_index);
    const struct lode_group *g = &w->sorted[group_index];
    uint32_t within = block_index - g->first_block_index;
    uint8_t *raw = section_data(w, LODE_SECTION_BLOCKS) +
                   (size_t)block_index * LODE_BLOCK_RECORD_BYTES;
    uint64_t bytes = padded_bytes(w, raw_bytes);
    struct lode_block_record r = {
        .block = {.offset = w->next_offset,
                  .hash = seal->hash,
                  .stored_bytes = raw_bytes,
                  .raw_bytes = raw_bytes,
                  .group_index = group_index,
                  .object_index = within / g->blocks_per_object,
                  .seq = within % g->blocks_per_object},
        .block_index = block_index,
        .first_segment_index = LODE_NO_SEGMENT,
        .segment_count = 1,
        .flags = LODE_BLOCK_PRESENT | LODE_BLOCK_SAME_DIGEST};

    if (raw[47] != 0)
        return lode_fail(err, LODE_E_USAGE,
                         "block %" PRIu32 " was written before", block_index);
    if (raw_bytes != lode_writer_block_raw_bytes(w, block_index))
        return lode_fail(err, LODE_E_USAGE,
                         "block %" PRIu32 " of %" PRIu32 " bytes, %" PRIu32
                         " were declared",
                         block_index, raw_bytes,
                         lode_writer_block_raw_bytes(w, block_index));
    if (!check_gaps(w, &r.block, image, err)) {
        lode_fail_in(err, "object %" PRIu32, r.block.object_index);
        return fail_in_group(g, err);
    }
    memset((uint8_t *)image + raw_bytes, 0, (size_t)(bytes - raw_bytes));
    if (!lode_output_write(&w->output, w->next_offset, image, bytes, err))
        return false;
    lode_block_encode(&r, raw);
    memcpy(section_data(w, LODE_SECTION_CONTENT_DIGESTS) +
               (size_t)block_index * LODE_DIGEST_BYTES,
           seal->content, LODE_DIGEST_BYTES);
    w->next_offset += bytes;
    w->sb.stored_bytes += raw_bytes;
    w->written_count++;
    return true;
}

/* ---- 4. finish ---- */

/* Spec 7.4: records of the blocks that were left out.  One without flags was
 * never written; its digest is zero already. */
static void
finish_blocks(struct lode_writer *w)
{
    uint8_t *records = section_data(w, LODE_SECTION_BLOCKS);

    for (uint32_t i = 0; i < w->group_count; i++) {
        const struct lode_group *g = &w->sorted[i];
        uint32_t count = g->object_count * g->blocks_per_object; /* <= 2^24 */

        w->sb.raw_bytes += g->object_count * g->object_raw_bytes;
        for (uint32_t k = 0; k < count; k++) {
            uint32_t block_index = g->first_block_index + k;
            uint8_t *raw =
                records + (size_t)block_index * LODE_BLOCK_RECORD_BYTES;
            struct lode_block_record r = {
                .block = {.raw_bytes = lode_rules_block_raw_bytes(
                              g, k % g->blocks_per_object),
                          .group_index = i,
                          .object_index = k / g->blocks_per_object,
                          .seq = k % g->blocks_per_object},
                .block_index = block_index,
                .first_segment_index = LODE_NO_SEGMENT};

            if (raw[47] == 0)
                lode_block_encode(&r, raw);
        }
    }
}

/* Are all blocks of a group written? */
static bool
is_complete(const struct lode_writer *w, const struct lode_group *g)
{
    const uint8_t *records = section_data(w, LODE_SECTION_BLOCKS);
    uint32_t count = g->object_count * g->blocks_per_object;

    for (uint32_t k = 0; k < count; k++)
        if (records[(size_t)(g->first_block_index + k) *
                        LODE_BLOCK_RECORD_BYTES +
                    47] == 0)
            return false;
    return true;
}

/* Roots of the groups, then of the container; the GROUPS section. */
static void
finish_groups(struct lode_writer *w)
{
    const uint8_t *contents = section_data(w, LODE_SECTION_CONTENT_DIGESTS);
    uint8_t *records = section_data(w, LODE_SECTION_GROUPS);

    for (uint32_t i = 0; i < w->group_count; i++) {
        struct declared_group *d = group_at(w, i);
        struct lode_group *g = &d->record.group;

        if (is_complete(w, g))
            lode_root_group(
                g, contents + (size_t)g->first_block_index * LODE_DIGEST_BYTES,
                LODE_DIGEST_BYTES, g->root);
        w->sorted[d->position] = *g;
        lode_group_encode(&d->record, records + (size_t)d->position *
                                                    LODE_GROUP_RECORD_BYTES);
    }
    if (w->written_count == w->sb.block_count)
        lode_root_content(w->sorted, w->group_count, w->sb.content_root);
    else
        w->sb.incompat |= LODE_INCOMPAT_INDEX_ONLY;
}

static void
finish_superblock(struct lode_writer *w)
{
    struct lode_superblock *sb = &w->sb;

    for (uint32_t i = 0; i < sb->section_count; i++) {
        struct lode_section *s = &sb->sections[i];
        const uint8_t *data = w->index + (s->offset - LODE_INDEX_OFFSET);

        s->hash = lode_hash(data, (size_t)s->bytes);
        lode_digest(data, (size_t)s->bytes, s->digest);
    }
    sb->major = 1;
    sb->superblock_bytes = LODE_SUPERBLOCK_BYTES;
    sb->volume_count = 1;
    sb->digest_algorithm = LODE_DIGEST_SHA256_TREE;
    sb->check_algorithm = LODE_CHECK_XXH3;
    sb->state = LODE_STATE_FINAL;
    sb->file_bytes = w->next_offset;
    sb->block_here_count = w->written_count;
    sb->codecs = sb->filters = w->written_count != 0; /* raw: bit 0 of both */
    (void)snprintf(sb->writer, sizeof(sb->writer) - 1, "%s", PACKAGE_STRING);
    lode_root_index(sb, sb->index_digest);
    lode_root_uuids(sb, sb->set_uuid, sb->volume_uuid);
}

/* Spec 11.2: the superblocks are the last to reach the drive, and B the first
 * of them, so that a file that seems whole is whole. */
static bool
write_index(struct lode_writer *w, struct lode_error *err)
{
    struct lode_output *o = &w->output;
    void *slot = NULL;
    bool good;

    if (!lode_alloc_aligned(LODE_SUPERBLOCK_BYTES, "superblock", &slot, err))
        return false;
    lode_superblock_encode(&w->sb, slot);
    good = lode_output_write(o, LODE_INDEX_OFFSET, w->index, w->index_bytes,
                             err) &&
           lode_output_sync(o, false, err) &&
           lode_output_write(o, LODE_SLOT_B_OFFSET, slot, LODE_SUPERBLOCK_BYTES,
                             err) &&
           lode_output_write(o, 0, slot, LODE_SUPERBLOCK_BYTES, err) &&
           lode_output_sync(o, true, err);
    lode_free_aligned(slot, LODE_SUPERBLOCK_BYTES);
    return good;
}

/* What we wrote must pass for a container before it gets its name. */
static bool
reopen(const struct lode_writer *w, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    bool same;

    if (!lode_reader_open(w->output.wip_path, &r, err))
        return lode_fail_in(err, "the new container cannot be read back");
    same = memcmp(lode_reader_summary(r)->index_digest, w->sb.index_digest,
                  LODE_DIGEST_BYTES) == 0;
    lode_reader_close(r);
    if (!same)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: another index was read back than was written",
                         w->output.wip_path);
    return true;
}

bool
lode_writer_finish(struct lode_writer *w,
                   uint8_t content_root[LODE_DIGEST_BYTES],
                   struct lode_error *err)
{
    assert(w->begun);
    if (w->written_count != w->sb.block_count && !w->index_only)
        return lode_fail(err, LODE_E_USAGE,
                         "%" PRIu32 " of %" PRIu64 " blocks were written",
                         w->written_count, w->sb.block_count);
    finish_blocks(w);
    finish_groups(w);
    finish_superblock(w);
    if (!write_index(w, err) || !reopen(w, err) ||
        !lode_output_commit(&w->output, err))
        return false;
    if (content_root != NULL)
        memcpy(content_root, w->sb.content_root, LODE_DIGEST_BYTES);
    return true;
}
