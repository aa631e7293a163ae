/* SPDX-License-Identifier: Apache-2.0
 *
 * The block records of an index, and the rules they obey (spec 7). */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/index.h"
#include "format/pack.h"
#include "format/rules.h"

uint32_t
lode_index_group_of(const struct lode_index *x, uint32_t block_index)
{
    uint32_t low = 0;
    uint32_t high = x->summary.group_count;

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (x->groups[middle].first_block_index <= block_index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* What follows from a block's number (spec 5.3). */
static void
identify(const struct lode_index *x, uint32_t group_index, uint32_t block_index,
         struct lode_block *out)
{
    const struct lode_group *g = &x->groups[group_index];
    uint32_t within = block_index - g->first_block_index;

    memset(out, 0, sizeof(*out));
    out->group_index = group_index;
    out->object_index = within / g->blocks_per_object;
    out->seq = within % g->blocks_per_object;
    out->raw_bytes = lode_rules_block_raw_bytes(g, out->seq);
}

int64_t
lode_index_record(const struct lode_index *x, uint32_t block_index)
{
    uint32_t low = 0;
    uint32_t high = x->record_count;

    if ((x->sb.incompat & LODE_INCOMPAT_VOLUME) == 0)
        return block_index;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t number = lode_load_u32(
            x->blocks + (uint64_t)middle * x->block_record_bytes + 24);

        if (number == block_index)
            return middle;
        if (number < block_index)
            low = middle + 1;
        else
            high = middle;
    }
    return LODE_NO_INDEX;
}

void
lode_index_block(const struct lode_index *x, uint32_t block_index,
                 struct lode_block_record *out)
{
    int64_t i = lode_index_record(x, block_index);

    if (i != LODE_NO_INDEX) {
        lode_block_decode(x->blocks + (uint64_t)i * x->block_record_bytes, out);
        return;
    }
    memset(out, 0, sizeof(*out));
    out->block_index = block_index;
    identify(x, lode_index_group_of(x, block_index), block_index, &out->block);
}

/* Spec 7.2. */
static bool
check_codec(const struct lode_index *x, const struct lode_block_record *r,
            struct lode_error *err)
{
    const struct lode_block *b = &r->block;
    bool raw = b->codec == LODE_CODEC_NONE;

    if (b->codec > LODE_CODEC_ZSTD || (b->filters & ~LODE_FILTERS_KNOWN) != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "codec %u, filters 0x%x: unknown to this version",
                         b->codec, b->filters);
    if ((x->sb.codecs >> b->codec & 1) == 0 ||
        (b->filters & ~x->sb.filters) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "codec %u, filters 0x%x: not in the superblock's "
                         "masks",
                         b->codec, b->filters);
    if (raw && (b->stored_bytes != b->raw_bytes || b->filters != 0))
        return lode_fail(err, LODE_E_CORRUPT,
                         "stored raw, with filters 0x%x, in %" PRIu32
                         " bytes of %" PRIu32,
                         b->filters, b->stored_bytes, b->raw_bytes);
    if (!raw && b->stored_bytes >= b->raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "packed from %" PRIu32 " to %" PRIu32 " bytes",
                         b->raw_bytes, b->stored_bytes);
    if (!raw && x->groups[b->group_index].kind == LODE_KIND_ROWS)
        return lode_fail(err, LODE_E_CORRUPT, "rows with codec %u", b->codec);
    if (((r->flags & LODE_BLOCK_SAME_DIGEST) != 0) != raw)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%x with codec %u",
                         r->flags, b->codec);
    return true;
}

/* Where blocks of a volume may lie: of another file than the one at hand only
 * its size is known. */
static bool
volume_range(const struct lode_index *x, uint16_t volume_index, uint64_t *first,
             uint64_t *end, struct lode_error *err)
{
    struct lode_volume_record v;
    const char *name;

    *first = x->sb.data_offset;
    *end = x->sb.file_bytes;
    if (volume_index == x->sb.volume_index)
        return true;
    if (x->volumes == NULL || volume_index >= x->sb.volume_count)
        return lode_fail(err, LODE_E_CORRUPT, "in volume %u, this is %u of %u",
                         volume_index, x->sb.volume_index, x->sb.volume_count);
    lode_index_volume(x, volume_index, &v, &name);
    *first = LODE_INDEX_OFFSET;
    *end = v.file_bytes;
    return true;
}

/* Spec 7.1: place and size; identity was compared by check_block(). */
static bool
check_extent(const struct lode_index *x, const struct lode_block_record *r,
             struct lode_error *err)
{
    uint64_t align = x->summary.align_bytes;
    const struct lode_block *b = &r->block;
    uint64_t first;
    uint64_t end;

    if (!volume_range(x, b->volume_index, &first, &end, err))
        return false;
    if (b->stored_bytes == 0 || b->stored_bytes > LODE_BLOCK_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32
                         " stored bytes, the limits are 1 and %" PRIu64,
                         b->stored_bytes, LODE_BLOCK_BYTES_MAX);
    if (b->offset % align != 0 || b->offset < first)
        return lode_fail(err, LODE_E_CORRUPT,
                         "offset %" PRIu64 " is no multiple of %" PRIu64
                         " from %" PRIu64,
                         b->offset, align, first);
    if (!lode_in_range(b->offset, lode_index_padded_bytes(x, b), end))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " bytes at %" PRIu64
                         " pass the end of the file at %" PRIu64,
                         b->stored_bytes, b->offset, end);
    return true;
}

/* Spec 7.4: nothing is said of a block that is not here. */
static bool
check_absent(const struct lode_index *x, const struct lode_block_record *r,
             struct lode_error *err)
{
    const struct lode_block *b = &r->block;

    if ((x->sb.incompat & LODE_INCOMPAT_PARTIAL) == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "is absent, in a container that is not partial");
    if (r->flags != 0 || b->offset != 0 || b->hash != 0 ||
        b->stored_bytes != 0 || b->codec != 0 || b->filters != 0 ||
        b->volume_index != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "is absent, with offset %" PRIu64 ", %" PRIu32
                         " stored bytes, flags 0x%x, codec %u, filters 0x%x, "
                         "volume %u",
                         b->offset, b->stored_bytes, r->flags, b->codec,
                         b->filters, b->volume_index);
    return true;
}

static bool
check_block(const struct lode_index *x, const uint8_t *raw,
            uint32_t group_index, uint32_t block_index, struct lode_error *err)
{
    struct lode_block expected;
    struct lode_block_record r;

    identify(x, group_index, block_index, &expected);
    lode_block_decode(raw, &r);
    if (!lode_reserved_check(LODE_RECORD_BLOCK, raw, err))
        return false;
    if ((r.flags & ~(LODE_BLOCK_PRESENT | LODE_BLOCK_SAME_DIGEST)) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%x", r.flags);
    if (r.block_index != block_index ||
        r.block.group_index != expected.group_index ||
        r.block.object_index != expected.object_index ||
        r.block.seq != expected.seq)
        return lode_fail(err, LODE_E_CORRUPT,
                         "record says block %" PRIu32 ", group %" PRIu32
                         ", object %" PRIu32 ", part %" PRIu32,
                         r.block_index, r.block.group_index,
                         r.block.object_index, r.block.seq);
    if (r.block.raw_bytes != expected.raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " bytes decoded, expected %" PRIu32,
                         r.block.raw_bytes, expected.raw_bytes);
    if (!r.block.present)
        return check_absent(x, &r, err);
    return check_extent(x, &r, err) && check_codec(x, &r, err);
}

/* Records in the order of their numbers: all numbers, or in a volume (spec 4.3)
 * some. */
static bool
check_records(const struct lode_index *x, struct lode_error *err)
{
    bool all = (x->sb.incompat & LODE_INCOMPAT_VOLUME) == 0;
    uint64_t next = 0;
    uint32_t g = 0;
    char name[256];

    for (uint32_t i = 0; i < x->record_count; i++) {
        const uint8_t *raw = x->blocks + (uint64_t)i * x->block_record_bytes;
        uint32_t number = all ? i : lode_load_u32(raw + 24);

        if (number < next || number >= x->summary.block_count)
            return lode_fail(err, LODE_E_CORRUPT,
                             "block record %" PRIu32 " has number %" PRIu32
                             ", expected %" PRIu64 " to %" PRIu32,
                             i, number, next, x->summary.block_count);
        next = (uint64_t)number + 1;
        while (number - x->groups[g].first_block_index >=
               x->groups[g].object_count * x->groups[g].blocks_per_object)
            g++; /* numbers below block_count are some group's */
        if (!check_block(x, raw, g, number, err))
            return lode_fail_in(
                err, "%s",
                lode_index_block_name(x, number, name, sizeof(name)));
    }
    return true;
}

struct place {
    uint64_t offset;
    uint32_t block_index;
    uint16_t volume_index;
};

static int
compare_places(const void *a, const void *b)
{
    const struct place *p = a;
    const struct place *q = b;

    if (p->volume_index != q->volume_index)
        return p->volume_index < q->volume_index ? -1 : 1;
    if (p->offset != q->offset)
        return p->offset < q->offset ? -1 : 1;
    return p->block_index < q->block_index ? -1
                                           : p->block_index > q->block_index;
}

bool
lode_index_by_offset(const struct lode_index *x, uint32_t **out,
                     struct lode_error *err)
{
    uint32_t count = 0;
    struct place *places;
    uint32_t *order;
    void *p = NULL;

    if (!lode_alloc_array(x->record_count, sizeof(*places), "block places", &p,
                          err))
        return false;
    places = p;
    for (uint32_t i = 0; i < x->record_count; i++) {
        struct lode_block_record r;

        lode_block_decode(x->blocks + (uint64_t)i * x->block_record_bytes, &r);
        if (!r.block.present)
            continue;
        places[count].offset = r.block.offset;
        places[count].volume_index = r.block.volume_index;
        places[count++].block_index = r.block_index;
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

/* Spec 7.1: no byte belongs to two blocks.  order NULL: by number, of count
 * records. */
static bool
check_order(const struct lode_index *x, const uint32_t *order, uint32_t count,
            struct lode_error *err)
{
    uint16_t volume_index = 0;
    uint64_t end = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct lode_block_record r;
        char name[256];

        if (order != NULL)
            lode_index_block(x, order[i], &r);
        else
            lode_block_decode(x->blocks + (uint64_t)i * x->block_record_bytes,
                              &r);
        if (!r.block.present)
            continue;
        if (r.block.volume_index < volume_index || /* not sorted, then */
            (r.block.volume_index == volume_index && r.block.offset < end))
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s: overlaps the block that ends at %" PRIu64,
                             lode_index_block_name(x, r.block_index, name,
                                                   sizeof(name)),
                             end);
        volume_index = r.block.volume_index;
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

    if (check_order(x, NULL, x->record_count, &ignored))
        return true;
    if (!lode_index_by_offset(x, &order, err))
        return false;
    good = check_order(x, order, x->summary.present_count, err);
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

    for (uint32_t i = 0; i < x->summary.group_count; i++) /* each <= 2^54 */
        raw_bytes +=
            x->groups[i].object_raw_bytes * x->groups[i].object_count;
    for (uint32_t i = 0; i < x->record_count; i++) {
        struct lode_block_record r;

        lode_block_decode(x->blocks + (uint64_t)i * x->block_record_bytes, &r);
        if (!r.block.present)
            continue;
        present_count++;
        stored_bytes += r.block.stored_bytes;
        codecs |= UINT64_C(1) << r.block.codec;
        filters |= r.block.filters;
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

/* Spec 4.3 and 7.4: a root that could not be known is not claimed, and the
 * feature bits stand where blocks are absent and nowhere else. */
static bool
check_unknown_roots(const struct lode_index *x, struct lode_error *err)
{
    bool is_volume = (x->sb.incompat & LODE_INCOMPAT_VOLUME) != 0;
    bool known = !is_zero(x->sb.content_root);

    if ((x->sb.incompat & LODE_INCOMPAT_PARTIAL) == 0 && !is_volume)
        return true;
    if (!is_volume && x->summary.present_count == x->summary.block_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "partial, with all of its %" PRIu32 " blocks",
                         x->summary.block_count);
    if (is_volume && known)
        return lode_fail(err, LODE_E_CORRUPT, "a volume with a content root");
    for (uint32_t i = 0; i < x->summary.group_count; i++) {
        bool zero = is_zero(x->groups[i].root);

        if (known && zero && x->groups[i].kind < LODE_KIND_VOLATILE)
            lode_fail(err, LODE_E_CORRUPT,
                      "its root is not known, the content root is");
        else if (is_volume && !zero && !lode_index_complete(x, i))
            lode_fail(err, LODE_E_CORRUPT, "blocks are absent, with a root");
        else
            continue;
        return lode_index_fail_in_group(&x->groups[i], i, err);
    }
    return true;
}

bool
lode_index_decode_blocks(struct lode_index *x, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_BLOCKS);

    x->blocks = x->hot + (s->offset - x->sb.hot_offset);
    x->block_record_bytes = s->record_bytes;
    x->record_count = s->count;
    return check_records(x, err) && check_totals(x, err) &&
           check_unknown_roots(x, err) && check_overlap(x, err);
}
