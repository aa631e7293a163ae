/* SPDX-License-Identifier: Apache-2.0
 *
 * One block, and what lies before it (spec 10.4). */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/le.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/pack.h"
#include "format/rules.h"
#include "format/verify_state.h"

/* Spec 6.2: the part of a block's image that begins at image_offset. */
static bool
check_gaps(const struct lode_look *l, const struct lode_group *g,
           const uint8_t *part, uint64_t image_offset, uint64_t bytes,
           struct lode_error *err)
{
    const struct lode_schema *c = &l->f->index.schemas[g->schema_index];
    const struct lode_tensor *tensors =
        l->f->index.tensors + c->first_tensor_index;
    const struct lode_tensor end = {.raw_offset = c->object_raw_bytes};
    struct lode_gap gap;

    if (c->tensor_count == 0)
        return true;
    lode_rules_gap_begin(&gap, image_offset, bytes);
    for (uint32_t i = 0; i < c->tensor_count; i++)
        if (!lode_rules_gap_check(&gap, &tensors[i], part, err))
            return false;
    return lode_rules_gap_check(&gap, &end, part, err);
}

/* Read the stored bytes once for checksum, digest and gaps.  g is NULL when the
 * index is unusable. */
static bool
sum_block(struct lode_look *l, const struct lode_block *b,
          const struct lode_group *g, const char *where,
          uint8_t digest[LODE_DIGEST_BYTES])
{
    bool tree_too = l->v->opt->level > LODE_VERIFY_FAST;
    bool look_at_gaps = tree_too && g != NULL && b->codec == LODE_CODEC_NONE;
    struct lode_hash_state hash;
    struct lode_error err;
    struct lode_tree tree;

    lode_hash_begin(&hash);
    lode_tree_begin(&tree);
    for (uint64_t at = 0; at < b->stored_bytes;) {
        uint64_t bytes = lode_look_piece(b->stored_bytes - at);

        if (!lode_look_read(l, b->offset + at, bytes, where))
            return false;
        lode_hash_update(&hash, l->piece, (size_t)bytes);
        if (tree_too)
            lode_tree_data(&tree, l->piece, (size_t)bytes);
        if (look_at_gaps &&
            !check_gaps(l, g, l->piece,
                        (uint64_t)b->seq * g->block_raw_bytes + at, bytes,
                        &err)) {
            lode_look_report(l, where, "%s", err.text);
            look_at_gaps = false; /* one fault a block is enough */
        }
        at += bytes;
    }
    lode_tree_end(&tree, digest);
    if (lode_hash_end(&hash) != b->hash)
        lode_look_report(l, where,
                         "checksum of %" PRIu32 " bytes at %" PRIu64
                         " does not match",
                         b->stored_bytes, b->offset);
    return true;
}

/* The content digest of a packed block whose stored bytes are right.  False:
 * it could not be found out, which was reported. */
static bool
unpack_block(struct lode_look *l, const struct lode_block *b, const char *where,
             struct lode_scratch *s, uint8_t *image,
             uint8_t digest[LODE_DIGEST_BYTES])
{
    const struct lode_group *g = &l->f->index.groups[b->group_index];
    struct lode_error err;
    struct lode_tree tree;

    if (!lode_scratch_room(s, b->stored_bytes, &err) ||
        (s->unpacker == NULL && !lode_unpacker_new(&s->unpacker, &err)) ||
        !lode_file_read(l->f->fd, b->offset, s->stored, b->stored_bytes,
                        &err)) {
        lode_look_stop(l, where, &err);
        return false;
    }
    if (!lode_unpack(s->unpacker, s->stored, b->stored_bytes, b->filters, image,
                     b->raw_bytes, &err)) {
        lode_look_report(l, where, "%s", err.text);
        return false;
    }
    if (!check_gaps(l, g, image, (uint64_t)b->seq * g->block_raw_bytes,
                    b->raw_bytes, &err))
        lode_look_report(l, where, "%s", err.text);
    lode_tree_begin(&tree);
    lode_tree_data(&tree, image, b->raw_bytes);
    lode_tree_end(&tree, digest);
    return true;
}

/* Spec 8.3. */
static void
check_block(struct lode_look *l, const struct lode_block *b,
            uint32_t block_index, const char *where, struct lode_scratch *s,
            uint8_t *image)
{
    const struct lode_verify_file *f = l->f;
    uint64_t faults = l->fault_count;
    uint8_t digest[LODE_DIGEST_BYTES];

    if (!sum_block(l, b, &f->index.groups[b->group_index], where, digest) ||
        l->v->opt->level == LODE_VERIFY_FAST)
        return;
    if (f->stored != NULL &&
        memcmp(digest,
               lode_verify_digest(f, f->stored, LODE_SECTION_STORED_DIGESTS,
                                  block_index),
               LODE_DIGEST_BYTES) != 0)
        lode_look_report(l, where,
                         "SHA-256 tree of the stored bytes does not match");
    if (b->codec != LODE_CODEC_NONE &&
        (faults != l->fault_count ||
         !unpack_block(l, b, where, s, image, digest)))
        return; /* what is damaged was named */
    if (f->contents != NULL &&
        memcmp(digest,
               lode_verify_digest(f, f->contents, LODE_SECTION_CONTENT_DIGESTS,
                                  block_index),
               LODE_DIGEST_BYTES) != 0)
        lode_look_report(l, where,
                         "SHA-256 tree of the content does not match");
}

/* ---- the list of blocks ---- */

static bool
list_good(struct lode_verify_file *f, struct lode_error *err)
{
    uint32_t present_count = f->index.summary.present_count;

    if (!lode_index_by_offset(&f->index, &f->order, err))
        return false;
    /* Sorted by volume: those of a head come first, of a volume there are no
     * others. */
    while (f->block_count < present_count) {
        struct lode_block_record r;

        lode_index_block(&f->index, f->order[f->block_count], &r);
        if (r.block.volume_index != f->sb.volume_index)
            break;
        f->block_count++;
    }
    return true;
}

/* The index has a fault: check each block under its number.  Nothing says that
 * these records do not overlap, so the file's size bounds the work. */
static bool
list_numbered(struct lode_look *l, struct lode_verify_file *f,
              struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&f->sb, LODE_SECTION_BLOCKS);
    uint64_t bytes_left = f->file_bytes;
    void *p = NULL;

    if (!lode_alloc_array(s->bytes, 1, "section", &p, err))
        return false;
    f->records = p;
    if (!lode_file_read(f->fd, s->offset, p, (size_t)s->bytes, err))
        return err->code == LODE_E_CORRUPT
                   ? lode_fail(err, LODE_E_CORRUPT,
                               "not checked: section BLOCKS is cut off")
                   : false;
    if (lode_hash(p, (size_t)s->bytes) != s->hash)
        return lode_fail(err, LODE_E_CORRUPT,
                         "not checked: section BLOCKS is damaged");
    for (; f->block_count < s->count; f->block_count++) {
        struct lode_block_record r;
        char name[32];

        lode_block_decode(
            f->records + (uint64_t)f->block_count * s->record_bytes, &r);
        if (r.block.volume_index == f->sb.volume_index &&
            r.block.stored_bytes > bytes_left) {
            (void)snprintf(name, sizeof(name), "block %" PRIu32,
                           f->block_count);
            lode_look_report(l, name,
                             "overlaps others; the rest was not checked");
            break;
        }
        if (r.block.volume_index == f->sb.volume_index)
            bytes_left -= r.block.stored_bytes;
    }
    return true;
}

void
lode_verify_list_blocks(struct lode_look *l, struct lode_verify_file *f)
{
    struct lode_error err;

    if (f->index_good ? list_good(f, &err) : list_numbered(l, f, &err))
        return;
    f->block_count = 0;
    if (err.code == LODE_E_CORRUPT)
        lode_look_report(l, "blocks", "%s", err.text);
    else
        lode_look_stop(l, "blocks", &err);
}

/* ---- parts ---- */

/* Entry i of the list. */
static void
entry(const struct lode_verify_file *f, uint32_t i, struct lode_block_record *r)
{
    const struct lode_section *s =
        lode_rules_section(&f->sb, LODE_SECTION_BLOCKS);

    if (f->index_good)
        lode_index_block(&f->index, f->order[i], r);
    else
        lode_block_decode(f->records + (uint64_t)i * s->record_bytes, r);
}

/* Where what belongs to nothing begins in front of entry i. */
static uint64_t
gap_before(const struct lode_verify_file *f, uint32_t i)
{
    struct lode_block_record r;

    if (i == 0)
        return f->sb.data_offset;
    entry(f, i - 1, &r);
    return r.block.offset + r.block.stored_bytes;
}

static void
check_gap(struct lode_look *l, uint32_t i, uint64_t end)
{
    const struct lode_verify_file *f = l->f;
    char name[256];
    char where[320] = "gap before the first block";

    if (l->v->opt->level < LODE_VERIFY_STRICT)
        return;
    if (i > 0)
        (void)snprintf(where, sizeof(where), "padding after %s",
                       lode_index_block_name(&f->index, f->order[i - 1], name,
                                             sizeof(name)));
    lode_look_zero(l, gap_before(f, i), end, where);
}

/* Of a damaged index. */
static void
check_numbered(struct lode_look *l, uint32_t i)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_block_record r;
    char name[32];

    if (i == l->f->block_count)
        return;
    entry(l->f, i, &r);
    if (!r.block.present || r.block.volume_index != l->f->sb.volume_index)
        return;
    (void)snprintf(name, sizeof(name), "block %" PRIu32, i);
    (void)sum_block(l, &r.block, NULL, name, digest); /* it reports */
}

void
lode_verify_part(struct lode_look *l, uint32_t i, struct lode_scratch *s,
                 uint8_t *image)
{
    const struct lode_verify_file *f = l->f;
    struct lode_block_record r;
    char name[256];

    if (!f->index_good) {
        check_numbered(l, i);
        return;
    }
    if (i == f->block_count) {
        check_gap(l, i, f->sb.file_bytes);
        return;
    }
    entry(f, i, &r);
    check_gap(l, i, r.block.offset);
    l->block_index = f->order[i];
    check_block(
        l, &r.block, f->order[i],
        lode_index_block_name(&f->index, f->order[i], name, sizeof(name)), s,
        image);
    l->block_index = LODE_NO_INDEX;
}

uint64_t
lode_verify_part_bytes(const struct lode_look *l, uint32_t i)
{
    bool strict = l->v->opt->level == LODE_VERIFY_STRICT;
    struct lode_block_record r;

    if (i == l->f->block_count)
        return strict && l->f->index_good
                   ? l->f->sb.file_bytes - gap_before(l->f, i)
                   : 0;
    entry(l->f, i, &r);
    if (!strict || !l->f->index_good)
        return r.block.stored_bytes;
    return r.block.offset + r.block.stored_bytes - gap_before(l->f, i);
}
