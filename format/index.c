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

/* "kind 1, layer 3, name": a group before its blocks have names. */
static bool
fail_in_group(const struct lode_group *g, uint32_t index,
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
    void *p = NULL;

    if (!lode_alloc_array(s->count, sizeof(*x->groups), "groups", &p, err))
        return false;
    x->groups = p;
    x->summary.group_count = s->count;
    for (uint32_t i = 0; i < s->count; i++)
        if (!decode_group(x, i,
                          section_data(x, s) + (uint64_t)i * s->record_bytes,
                          &block_count, err))
            return fail_in_group(&x->groups[i], i, err);
    if (block_count != records || x->sb.block_count != records)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " block records, groups have %" PRIu64
                         ", superblock %" PRIu64,
                         records, block_count, x->sb.block_count);
    x->summary.block_count = records;
    return lode_rules_distinct_paths(x->groups, s->count, err);
}

/* ---- blocks ---- */

/* Spec 7.3: each segment's stored size is at most its share of the image. */
static bool
check_segments(const struct lode_index *x, const struct lode_block_record *r,
               struct lode_error *err)
{
    const struct lode_group *g = &x->groups[r->block.group_index];
    const struct lode_schema *c = &x->schemas[g->schema_index];
    uint64_t start = 0;
    uint64_t sum = 0;
    uint32_t t = 0;

    if (r->segment_count != c->segment_count || g->blocks_per_object != 1)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%u segments, expected 1 or, in objects of one "
                         "block, the schema's %" PRIu32,
                         r->segment_count, c->segment_count);
    if (!lode_in_range(r->first_segment_index, r->segment_count,
                       x->segment_count))
        return lode_fail(
            err, LODE_E_CORRUPT, "%u segments from %" PRIu32 " of %" PRIu32,
            r->segment_count, r->first_segment_index, x->segment_count);
    for (uint32_t i = 0; i < r->segment_count; i++) {
        uint64_t end = c->object_raw_bytes;
        uint32_t bytes =
            lode_load_u32(x->segments + (uint64_t)(r->first_segment_index + i) *
                                            x->segment_record_bytes);

        while (t < c->tensor_count &&
               x->tensors[c->first_tensor_index + t].segment <= i)
            t++;
        if (t < c->tensor_count)
            end = x->tensors[c->first_tensor_index + t].raw_offset;
        if (bytes == 0 || bytes > end - start)
            return lode_fail(err, LODE_E_CORRUPT,
                             "segment %" PRIu32 " of %" PRIu32
                             " stored bytes, %" PRIu64 " decoded",
                             i, bytes, end - start);
        sum += bytes;
        start = end;
    }
    if (sum != r->block.stored_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "segments add up to %" PRIu64 " bytes, the block has "
                         "%" PRIu32,
                         sum, r->block.stored_bytes);
    return true;
}

/* Spec 7.2. */
static bool
check_codec(const struct lode_index *x, const struct lode_block_record *r,
            struct lode_error *err)
{
    const struct lode_block *b = &r->block;
    bool raw = b->codec == LODE_CODEC_NONE;

    if (b->codec > LODE_CODEC_ZSTD || b->filter > LODE_FILTER_PLANES_4)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "codec %u, filter %u: unknown to this version",
                         b->codec, b->filter);
    if ((x->sb.codecs >> b->codec & 1) == 0 ||
        (x->sb.filters >> b->filter & 1) == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "codec %u, filter %u: not in the superblock's masks",
                         b->codec, b->filter);
    if (raw && (b->stored_bytes != b->raw_bytes || b->filter != 0))
        return lode_fail(err, LODE_E_CORRUPT,
                         "stored raw, with filter %u, in %" PRIu32
                         " bytes of %" PRIu32,
                         b->filter, b->stored_bytes, b->raw_bytes);
    if (!raw && b->stored_bytes >= b->raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "compressed from %" PRIu32 " to %" PRIu32 " bytes",
                         b->raw_bytes, b->stored_bytes);
    if (!raw && x->groups[b->group_index].kind == LODE_KIND_ROWS)
        return lode_fail(err, LODE_E_CORRUPT, "rows with codec %u", b->codec);
    if (((r->flags & LODE_BLOCK_SAME_DIGEST) != 0) != raw)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%x with codec %u",
                         r->flags, b->codec);
    if (r->first_segment_index != LODE_NO_SEGMENT)
        return raw ? lode_fail(err, LODE_E_CORRUPT, "stored raw, in segments")
                   : check_segments(x, r, err);
    if (r->segment_count != 1)
        return lode_fail(err, LODE_E_CORRUPT, "%u segments, none is listed",
                         r->segment_count);
    return true;
}

/* Spec 7.1: place and size; identity was compared by check_block(). */
static bool
check_extent(const struct lode_index *x, const struct lode_block_record *r,
             struct lode_error *err)
{
    uint64_t align = x->summary.align_bytes;
    const struct lode_block *b = &r->block;

    if (b->stored_bytes == 0 || b->stored_bytes > LODE_BLOCK_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32
                         " stored bytes, the limits are 1 and %" PRIu64,
                         b->stored_bytes, LODE_BLOCK_BYTES_MAX);
    if (b->offset % align != 0 || b->offset < x->sb.data_offset)
        return lode_fail(err, LODE_E_CORRUPT,
                         "offset %" PRIu64 " is no multiple of %" PRIu64
                         " from %" PRIu64,
                         b->offset, align, x->sb.data_offset);
    if (!lode_in_range(b->offset, lode_index_padded_bytes(x, b),
                       x->sb.file_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " bytes at %" PRIu64
                         " pass the end of the file at %" PRIu64,
                         b->stored_bytes, b->offset, x->sb.file_bytes);
    return true;
}

/* Spec 7.4: nothing is said of a block that is not here. */
static bool
check_absent(const struct lode_index *x, const struct lode_block_record *r,
             struct lode_error *err)
{
    const struct lode_block *b = &r->block;

    if ((x->sb.incompat & LODE_INCOMPAT_INDEX_ONLY) == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "is absent, in a container that is not index only");
    if (r->flags != 0 || b->offset != 0 || b->hash != 0 ||
        b->stored_bytes != 0 || b->codec != 0 || b->filter != 0 ||
        r->segment_count != 0 || r->first_segment_index != LODE_NO_SEGMENT)
        return lode_fail(err, LODE_E_CORRUPT,
                         "is absent, with offset %" PRIu64 ", %" PRIu32
                         " stored bytes, flags 0x%x, codec %u, filter %u, "
                         "%u segments",
                         b->offset, b->stored_bytes, r->flags, b->codec,
                         b->filter, r->segment_count);
    return true;
}

static bool
check_block(const struct lode_index *x, const uint8_t *raw,
            const struct lode_block *expected, struct lode_error *err)
{
    uint32_t block_index = x->groups[expected->group_index].first_block_index;
    struct lode_block_record r;

    block_index += expected->object_index *
                       x->groups[expected->group_index].blocks_per_object +
                   expected->seq;
    lode_block_decode(raw, &r);
    if (!lode_reserved_check(LODE_RECORD_BLOCK, raw, err))
        return false;
    if ((r.flags & ~(LODE_BLOCK_PRESENT | LODE_BLOCK_SAME_DIGEST)) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%x", r.flags);
    if (r.block_index != block_index ||
        r.block.group_index != expected->group_index ||
        r.block.object_index != expected->object_index ||
        r.block.seq != expected->seq || r.volume_index != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "record says block %" PRIu32 ", group %" PRIu32
                         ", object %" PRIu32 ", part %" PRIu32 ", volume %u",
                         r.block_index, r.block.group_index,
                         r.block.object_index, r.block.seq, r.volume_index);
    if (r.block.raw_bytes != expected->raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " bytes decoded, expected %" PRIu32,
                         r.block.raw_bytes, expected->raw_bytes);
    if (!r.block.present)
        return check_absent(x, &r, err);
    return check_extent(x, &r, err) && check_codec(x, &r, err);
}

static bool
check_group_blocks(const struct lode_index *x, uint32_t group_index,
                   struct lode_error *err)
{
    const struct lode_group *g = &x->groups[group_index];
    struct lode_block expected = {.group_index = group_index};
    uint32_t count = g->object_count * g->blocks_per_object; /* <= 2^24 */
    char name[256];

    for (uint32_t i = 0; i < count; i++) {
        uint32_t block_index = g->first_block_index + i;

        expected.object_index = i / g->blocks_per_object;
        expected.seq = i % g->blocks_per_object;
        expected.raw_bytes = lode_rules_block_raw_bytes(g, expected.seq);
        if (!check_block(
                x, x->blocks + (uint64_t)block_index * x->block_record_bytes,
                &expected, err))
            return lode_fail_in(
                err, "%s",
                lode_index_block_name(x, block_index, name, sizeof(name)));
    }
    return true;
}

struct place {
    uint64_t offset;
    uint32_t block_index;
};

static int
compare_places(const void *a, const void *b)
{
    const struct place *p = a;
    const struct place *q = b;

    if (p->offset != q->offset)
        return p->offset < q->offset ? -1 : 1;
    return p->block_index < q->block_index ? -1
                                           : p->block_index > q->block_index;
}

bool
lode_index_by_offset(const struct lode_index *x, uint32_t **out,
                     struct lode_error *err)
{
    uint32_t count = x->summary.block_count;
    struct place *places;
    uint32_t *order;
    void *p = NULL;

    if (!lode_alloc_array(count, sizeof(*places), "block places", &p, err))
        return false;
    places = p;
    for (uint32_t i = 0; i < count; i++) {
        places[i].offset =
            lode_load_u64(x->blocks + (uint64_t)i * x->block_record_bytes);
        places[i].block_index = i;
    }
    qsort(places, count, sizeof(*places), compare_places);
    if (!lode_alloc_array(count, sizeof(*order), "block order", &p, err)) {
        free(places);
        return false;
    }
    order = p;
    for (uint32_t i = 0; i < count; i++)
        order[i] = places[i].block_index;
    free(places);
    *out = order;
    return true;
}

/* Spec 7.1: no byte belongs to two blocks.  order NULL: by number. */
static bool
check_order(const struct lode_index *x, const uint32_t *order,
            struct lode_error *err)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < x->summary.block_count; i++) {
        uint32_t block_index = order != NULL ? order[i] : i;
        struct lode_block_record r;
        char name[256];

        lode_index_block(x, block_index, &r);
        if (!r.block.present)
            continue;
        if (r.block.offset < end)
            return lode_fail(
                err, LODE_E_CORRUPT,
                "%s: overlaps the block that ends at %" PRIu64,
                lode_index_block_name(x, block_index, name, sizeof(name)), end);
        end = r.block.offset + lode_index_padded_bytes(x, &r.block);
    }
    return true;
}

/* Most files have their blocks in order: then nothing needs to be sorted. */
static bool
check_overlap(const struct lode_index *x, struct lode_error *err)
{
    uint32_t *order = NULL;
    struct lode_error ignored;
    bool good;

    if (check_order(x, NULL, &ignored))
        return true;
    if (!lode_index_by_offset(x, &order, err))
        return false;
    good = check_order(x, order, err);
    free(order);
    return good;
}

/* Spec 3.1: the totals of the superblock are those of the blocks. */
static bool
check_totals(struct lode_index *x, struct lode_error *err)
{
    uint64_t raw_bytes = 0;
    uint64_t stored_bytes = 0;
    uint64_t codecs = 0;
    uint64_t filters = 0;
    uint32_t present_count = 0;

    for (uint32_t i = 0; i < x->summary.block_count; i++) {
        struct lode_block_record r;

        lode_index_block(x, i, &r);
        raw_bytes += r.block.raw_bytes; /* at most 2^24 x 2^30 */
        if (!r.block.present)
            continue;
        present_count++;
        stored_bytes += r.block.stored_bytes;
        codecs |= UINT64_C(1) << r.block.codec;
        filters |= UINT64_C(1) << r.block.filter;
    }
    if (raw_bytes != x->sb.raw_bytes || stored_bytes != x->sb.stored_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "blocks have %" PRIu64 " bytes, %" PRIu64
                         " stored; the superblock says %" PRIu64 ", %" PRIu64,
                         raw_bytes, stored_bytes, x->sb.raw_bytes,
                         x->sb.stored_bytes);
    if (codecs != x->sb.codecs || filters != x->sb.filters)
        return lode_fail(err, LODE_E_CORRUPT,
                         "blocks have codecs 0x%" PRIx64 ", filters 0x%" PRIx64
                         "; the superblock says 0x%" PRIx64 ", 0x%" PRIx64,
                         codecs, filters, x->sb.codecs, x->sb.filters);
    if (present_count != x->sb.block_here_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32
                         " blocks are here, the superblock says %" PRIu64,
                         present_count, x->sb.block_here_count);
    x->summary.present_count = present_count;
    return true;
}

static bool
is_zero(const uint8_t digest[LODE_DIGEST_BYTES])
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(digest, zero, sizeof(zero)) == 0;
}

/* Spec 7.4: a root that no one could know is not claimed, and the feature bit
 * stands where a block is absent and nowhere else. */
static bool
check_unknown_roots(const struct lode_index *x, struct lode_error *err)
{
    if ((x->sb.incompat & LODE_INCOMPAT_INDEX_ONLY) == 0)
        return true;
    if (x->summary.present_count == x->summary.block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "index only, with all of its %" PRIu32 " blocks",
                         x->summary.block_count);
    if (!is_zero(x->sb.content_root))
        return lode_fail(err, LODE_E_CORRUPT,
                         "index only, with a content root");
    for (uint32_t i = 0; i < x->summary.group_count; i++)
        if (!lode_index_complete(x, i) && !is_zero(x->groups[i].root)) {
            lode_fail(err, LODE_E_CORRUPT, "blocks are absent, with a root");
            return fail_in_group(&x->groups[i], i, err);
        }
    return true;
}

static bool
decode_blocks(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_BLOCKS);
    const struct lode_section *segments =
        lode_rules_section(&x->sb, LODE_SECTION_SEGMENTS);

    x->blocks = section_data(x, s);
    x->block_record_bytes = s->record_bytes;
    if (segments != NULL) {
        x->segments = section_data(x, segments);
        x->segment_record_bytes = segments->record_bytes;
        x->segment_count = segments->count;
    }
    for (uint32_t i = 0; i < x->summary.group_count; i++)
        if (!check_group_blocks(x, i, err))
            return false;
    return check_totals(x, err) && check_unknown_roots(x, err) &&
           check_overlap(x, err);
}

/* Spec 8: one digest a block, and stored digests where they differ. */
static bool
check_cold(const struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *volumes =
        lode_rules_section(&x->sb, LODE_SECTION_VOLUMES);
    const struct lode_section *content =
        lode_rules_section(&x->sb, LODE_SECTION_CONTENT_DIGESTS);
    const struct lode_section *stored =
        lode_rules_section(&x->sb, LODE_SECTION_STORED_DIGESTS);
    bool compressed = (x->sb.codecs & ~UINT64_C(1)) != 0;

    if (volumes != NULL && volumes->count != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "head of %" PRIu32 " volumes; this version reads "
                         "single files",
                         volumes->count);
    if (content->count != x->summary.block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " content digests for %" PRIu32 " blocks",
                         content->count, x->summary.block_count);
    if (stored == NULL && compressed)
        return lode_fail(err, LODE_E_CORRUPT,
                         "compressed blocks without stored digests");
    if (stored != NULL && stored->count != 0 &&
        stored->count != x->summary.block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " stored digests for %" PRIu32 " blocks",
                         stored->count, x->summary.block_count);
    if (compressed && stored->count == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "compressed blocks without stored digests");
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
           decode_groups(x, err) && check_cold(x, err) && decode_blocks(x, err);
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
lode_index_block(const struct lode_index *x, uint32_t block_index,
                 struct lode_block_record *out)
{
    lode_block_decode(x->blocks + (uint64_t)block_index * x->block_record_bytes,
                      out);
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
