/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/hash.h"
#include "format/rules.h"

/* The bytes of a hot section.  lode_rules_superblock() has seen that they lie
 * in the hot range. */
static const uint8_t *
section_data(const struct lode_index *x, const struct lode_section *s)
{
    return x->hot + (s->offset - x->sb.hot_offset);
}

/* Spec 10.2: damage is found here before any entry is looked at. */
static bool
check_section_hashes(const struct lode_index *x, struct lode_error *err)
{
    for (uint32_t i = 0; i < x->sb.section_count; i++) {
        const struct lode_section *s = &x->sb.sections[i];
        uint64_t found;

        if ((s->flags & LODE_SECTION_COLD) != 0)
            continue;
        found = lode_hash(section_data(x, s), (size_t)s->bytes);
        if (found != s->hash)
            return lode_fail(err, LODE_E_CORRUPT,
                             "section %" PRIu32 " (%s): checksum %016" PRIx64
                             ", expected %016" PRIx64,
                             i, lode_rules_section_name(s->type), found,
                             s->hash);
    }
    return true;
}

/* Spec 4.2: STRINGS begins and ends with NUL and is made of valid texts. */
static bool
decode_strings(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_STRINGS);
    const char *text = (const char *)section_data(x, s);
    uint32_t at = 0;

    if (s->bytes == 0 || text[0] != '\0' || text[s->bytes - 1] != '\0')
        return lode_fail(err, LODE_E_CORRUPT,
                         "section STRINGS does not begin and end with NUL");
    x->strings = text;
    x->strings_bytes = (uint32_t)s->bytes;
    while (at < x->strings_bytes) {
        size_t bytes = strlen(text + at);

        if (!lode_rules_text(text + at, bytes, "text", err))
            return lode_fail_in(err, "section STRINGS at %" PRIu32, at);
        at += (uint32_t)bytes + 1;
    }
    return true;
}

/* A reference is the position of a text's first byte. */
static bool
find_text(const struct lode_index *x, uint32_t ref, const char *what,
          const char **out, struct lode_error *err)
{
    if (ref >= x->strings_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s at %" PRIu32 " of STRINGS, which has %" PRIu32
                         " bytes",
                         what, ref, x->strings_bytes);
    if (ref != 0 && x->strings[ref - 1] != '\0')
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s at %" PRIu32 " of STRINGS, inside a text", what,
                         ref);
    *out = x->strings + ref;
    return true;
}

/* Spec 6.2. */
static bool
decode_tensors(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_TENSORS);
    void *p = NULL;

    if (!lode_alloc_array(s->count, sizeof(*x->tensors), "tensors", &p, err))
        return false;
    x->tensors = p;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *raw = section_data(x, s) + (uint64_t)i * s->record_bytes;
        struct lode_tensor_record r;

        lode_tensor_decode(raw, &r);
        if (!lode_reserved_check(LODE_RECORD_TENSOR, raw, err) ||
            !find_text(x, r.name_ref, "name", &r.tensor.name, err) ||
            !find_text(x, r.encoding_ref, "encoding", &r.tensor.encoding,
                       err) ||
            !find_text(x, r.dtype_ref, "dtype", &r.tensor.dtype, err))
            return lode_fail_in(err, "tensor record %" PRIu32, i);
        x->tensors[i] = r.tensor;
    }
    return true;
}

/* Spec 6.1: schemas share out TENSORS without gap or overlap, so that the work
 * is bounded by the section's length. */
static bool
decode_schemas(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_SCHEMAS);
    uint32_t tensors_left =
        lode_rules_section(&x->sb, LODE_SECTION_TENSORS)->count;
    uint32_t next = 0;
    void *p = NULL;

    if (!lode_alloc_array(s->count, sizeof(*x->schemas), "schemas", &p, err))
        return false;
    x->schemas = p;
    x->summary.schema_count = s->count;
    for (uint32_t i = 0; i < s->count; i++) {
        const uint8_t *raw = section_data(x, s) + (uint64_t)i * s->record_bytes;
        struct lode_schema *c = &x->schemas[i];
        const char *name;

        lode_schema_decode(raw, c);
        if (!lode_reserved_check(LODE_RECORD_SCHEMA, raw, err) ||
            !find_text(x, c->name_ref, "name", &name, err))
            return lode_fail_in(err, "schema %" PRIu32, i);
        if (c->first_tensor_index != next || c->tensor_count > tensors_left)
            return lode_fail(
                err, LODE_E_CORRUPT,
                "schema %" PRIu32 ": %" PRIu32 " tensors from %" PRIu32
                ", expected at most %" PRIu32 " from %" PRIu32,
                i, c->tensor_count, c->first_tensor_index, tensors_left, next);
        if (!lode_rules_schema(x->tensors + next, c->tensor_count,
                               c->object_raw_bytes, c->segment_count, err))
            return lode_fail_in(err, "schema %" PRIu32, i);
        next += c->tensor_count;
        tensors_left -= c->tensor_count;
    }
    if (tensors_left != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " tensors belong to no schema",
                         tensors_left);
    return true;
}

bool
lode_index_fail_in_group(const struct lode_group *g, uint32_t index,
              struct lode_error *err)
{
    return lode_fail_in(
        err,
        "group %" PRIu32 " (kind %" PRIu32 ", layer %" PRId32 ", \"%.80s\")",
        index, g->kind, g->layer, g->name != NULL ? g->name : "");
}

/* Spec 5.1 and 5.3. */
static bool
decode_group(struct lode_index *x, uint32_t i, const uint8_t *raw,
             uint64_t *block_count, struct lode_error *err)
{
    struct lode_group *g = &x->groups[i];
    struct lode_group_record r;

    lode_group_decode(raw, &r);
    *g = r.group;
    if (!lode_reserved_check(LODE_RECORD_GROUP, raw, err) ||
        !find_text(x, r.name_ref, "name", &g->name, err) ||
        !lode_rules_group(g, err))
        return false;
    if (i > 0 && lode_rules_group_order(&x->groups[i - 1], g) >= 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "does not come after the group before it");
    if (g->first_block_index != *block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "first block %" PRIu32 ", expected %" PRIu64,
                         g->first_block_index, *block_count);
    if (g->schema_index >= x->summary.schema_count)
        return lode_fail(err, LODE_E_CORRUPT, "schema %" PRIu32 " of %" PRIu32,
                         g->schema_index, x->summary.schema_count);
    if (g->object_raw_bytes != x->schemas[g->schema_index].object_raw_bytes)
        return lode_fail(
            err, LODE_E_CORRUPT,
            "objects of %" PRIu64 " bytes, its schema has %" PRIu64,
            g->object_raw_bytes, x->schemas[g->schema_index].object_raw_bytes);
    /* At most 2^32 x 2^16: no overflow. */
    *block_count += (uint64_t)g->object_count * g->blocks_per_object;
    if (*block_count > LODE_BLOCKS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu64 " blocks, the limit is %u", *block_count,
                         LODE_BLOCKS_MAX);
    return true;
}

static bool
decode_groups(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_GROUPS);
    uint32_t records = lode_rules_section(&x->sb, LODE_SECTION_BLOCKS)->count;
    uint64_t block_count = 0;
    uint64_t expected;
    void *p = NULL;

    if (!lode_alloc_array(s->count, sizeof(*x->groups), "groups", &p, err))
        return false;
    x->groups = p;
    x->summary.group_count = s->count;
    for (uint32_t i = 0; i < s->count; i++)
        if (!decode_group(x, i,
                          section_data(x, s) + (uint64_t)i * s->record_bytes,
                          &block_count, err))
            return lode_index_fail_in_group(&x->groups[i], i, err);
    if ((x->sb.incompat & LODE_INCOMPAT_VOLUME) != 0)
        expected = x->sb.block_here_count;
    else
        expected = block_count;
    if (expected != records || x->sb.block_count != block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " block records, groups have %" PRIu64
                         ", superblock %" PRIu64,
                         records, block_count, x->sb.block_count);
    x->summary.block_count = (uint32_t)block_count;
    return lode_rules_distinct_paths(x->groups, s->count, err);
}

/* Spec 4.3. */
static bool
decode_volumes(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_VOLUMES);

    if (s == NULL || s->count == 0)
        return true;
    x->volumes = section_data(x, s);
    x->volume_record_bytes = s->record_bytes;
    for (uint32_t i = 1; i <= s->count; i++) {
        const uint8_t *raw = x->volumes + (uint64_t)(i - 1) * s->record_bytes;
        struct lode_volume_record v;
        const char *name;

        lode_volume_decode(raw, &v);
        if (!lode_reserved_check(LODE_RECORD_VOLUME, raw, err) ||
            !find_text(x, v.name_ref, "name", &name, err) ||
            !lode_rules_volume_name(name, err))
            return lode_fail_in(err, "volume %" PRIu32, i);
        for (uint32_t k = 1; k < i; k++) {
            struct lode_volume_record other;
            const char *taken;

            lode_index_volume(x, k, &other, &taken);
            if (strcmp(name, taken) == 0)
                return lode_fail(err, LODE_E_CORRUPT,
                                 "volumes %" PRIu32 " and %" PRIu32
                                 " are both called %s",
                                 k, i, name);
        }
    }
    return true;
}

/* Spec 8: one digest a record, and stored digests where they differ. */
static bool
check_cold(const struct lode_index *x, struct lode_error *err)
{
    uint32_t records = lode_rules_section(&x->sb, LODE_SECTION_BLOCKS)->count;
    const struct lode_section *content =
        lode_rules_section(&x->sb, LODE_SECTION_CONTENT_DIGESTS);
    const struct lode_section *stored =
        lode_rules_section(&x->sb, LODE_SECTION_STORED_DIGESTS);
    const struct lode_section *order =
        lode_rules_section(&x->sb, LODE_SECTION_ORDER);
    bool packed = (x->sb.codecs & ~UINT64_C(1)) != 0;

    if (content->count != records)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " content digests for %" PRIu32 " blocks",
                         content->count, records);
    if (packed && (stored == NULL || stored->count == 0))
        return lode_fail(err, LODE_E_CORRUPT,
                         "packed blocks without stored digests");
    if (stored != NULL && stored->count != 0 && stored->count != records)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " stored digests for %" PRIu32 " blocks",
                         stored->count, records);
    if (order != NULL && order->count != 0 &&
        order->count != x->sb.block_here_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "order of %" PRIu32 " blocks, %" PRIu64 " are here",
                         order->count, x->sb.block_here_count);
    return true;
}

static void
fill_summary(struct lode_index *x)
{
    struct lode_summary *s = &x->summary;

    s->file_bytes = x->sb.file_bytes;
    s->data_offset = x->sb.data_offset;
    s->raw_bytes = x->sb.raw_bytes;
    s->stored_bytes = x->sb.stored_bytes;
    s->align_bytes = UINT32_C(1) << x->sb.align_log2;
    s->volume_count = x->sb.volume_count;
    s->volume_index = x->sb.volume_index;
    s->packed = (x->sb.codecs & ~UINT64_C(1)) != 0;
    for (uint32_t i = 0; i < x->sb.section_count; i++)
        s->index_bytes += x->sb.sections[i].bytes;
    memcpy(s->content_root, x->sb.content_root, LODE_DIGEST_BYTES);
    memcpy(s->index_digest, x->sb.index_digest, LODE_DIGEST_BYTES);
    memcpy(s->writer, x->sb.writer, sizeof(s->writer));
    memcpy(s->label, x->sb.label, sizeof(s->label));
}

bool
lode_index_decode(const struct lode_superblock *sb, uint8_t *hot,
                  struct lode_index *x, struct lode_error *err)
{
    memset(x, 0, sizeof(*x));
    x->sb = *sb;
    x->hot = hot;
    fill_summary(x);
    return check_section_hashes(x, err) && decode_strings(x, err) &&
           decode_tensors(x, err) && decode_schemas(x, err) &&
           decode_groups(x, err) && check_cold(x, err) &&
           decode_volumes(x, err) && lode_index_decode_blocks(x, err);
}

void
lode_index_fini(struct lode_index *x)
{
    free(x->hot);
    free(x->groups);
    free(x->schemas);
    free(x->tensors);
    memset(x, 0, sizeof(*x));
}

void
lode_index_volume(const struct lode_index *x, uint32_t volume_index,
                  struct lode_volume_record *out, const char **name)
{
    lode_volume_decode(
        x->volumes + (uint64_t)(volume_index - 1) * x->volume_record_bytes,
        out);
    *name = x->strings + out->name_ref;
}

bool
lode_index_complete(const struct lode_index *x, uint32_t group_index)
{
    const struct lode_group *g = &x->groups[group_index];
    uint32_t count = g->object_count * g->blocks_per_object; /* <= 2^24 */

    for (uint32_t i = 0; i < count; i++) {
        struct lode_block_record r;

        lode_index_block(x, g->first_block_index + i, &r);
        if (!r.block.present)
            return false;
    }
    return true;
}

uint64_t
lode_index_padded_bytes(const struct lode_index *x, const struct lode_block *b)
{
    uint64_t mask = (uint64_t)x->summary.align_bytes - 1;

    return (b->stored_bytes + mask) & ~mask; /* both below 2^33 */
}
