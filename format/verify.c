/* SPDX-License-Identifier: Apache-2.0
 *
 * One pass over every byte of a container (spec 10.4), in pieces of 4 MiB.
 * Unlike the reader it goes on after a fault: a person with a damaged file
 * wants to know everything that must be fetched again. */
#include "config.h"

#include "format/lode_write.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/head.h"
#include "format/index.h"
#include "format/root.h"
#include "format/rules.h"

enum { PIECE_BYTES = 4 * LODE_LEAF_BYTES };

struct verify {
    const struct lode_verify_options *opt;
    int fd;
    uint64_t file_bytes; /* as found */
    uint64_t fault_count;
    uint32_t absent_count;
    uint8_t *piece;
    struct lode_superblock sb;
    struct lode_index index;
    bool index_good;
    uint8_t *contents; /* the CONTENT DIGESTS section, NULL if unreadable */
    uint8_t *stored;   /* STORED DIGESTS, likewise, or NULL if there are none */
    bool stopped;      /* a check could not be made; why has the first reason */
    bool cancelled;
    struct lode_error why;
};

__attribute__((format(printf, 3, 4))) static void
report(struct verify *v, const char *where, const char *fmt, ...)
{
    char what[LODE_ERROR_TEXT_BYTES];
    struct lode_fault f = {.where = where, .what = what};
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(what, sizeof(what), fmt, ap); /* may be cut */
    va_end(ap);
    v->fault_count++;
    if (v->opt->fault != NULL)
        v->opt->fault(v->opt->user, &f);
}

/* A fault that is also the reason why a check could not be made. */
static void
stop(struct verify *v, const char *where, const struct lode_error *err)
{
    report(v, where, "%s", err->text);
    if (v->stopped)
        return;
    v->stopped = true;
    v->why = *err;
    lode_fail_in(&v->why, "%s", where);
}

/* Read bytes (at most a piece) into v->piece, or say why not.  A file that
 * ends too early is damage, anything else is a check not made. */
static bool
read_piece(struct verify *v, uint64_t offset, uint64_t bytes, const char *where)
{
    struct lode_error err;

    if (v->cancelled)
        return false;
    if (!lode_in_range(offset, bytes, v->file_bytes)) {
        report(v, where, "cut off: the file ends at %" PRIu64, v->file_bytes);
        return false;
    }
    if (!lode_file_read(v->fd, offset, v->piece, (size_t)bytes, &err)) {
        stop(v, where, &err);
        return false;
    }
    if (v->opt->progress != NULL && !v->opt->progress(v->opt->user, bytes))
        v->cancelled = true;
    return true;
}

static uint64_t
piece_of(uint64_t bytes)
{
    return bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
}

/* ---- zeros ---- */

/* At the speed of memcmp(): each byte equals the one before it. */
static bool
is_zero(const uint8_t *p, uint64_t bytes)
{
    return p[0] == 0 && memcmp(p, p + 1, (size_t)bytes - 1) == 0;
}

/* Spec 4.1: what belongs to nothing is zero. */
static void
check_zero(struct verify *v, uint64_t offset, uint64_t end, const char *where)
{
    uint64_t wrong_count = 0;
    uint64_t first = 0;
    uint8_t value = 0;

    if (end > v->file_bytes)
        end = v->file_bytes; /* reported where the size is compared */
    while (offset < end) {
        uint64_t bytes = piece_of(end - offset);

        if (!read_piece(v, offset, bytes, where))
            return;
        for (uint64_t i = is_zero(v->piece, bytes) ? bytes : 0; i < bytes;
             i++) {
            if (v->piece[i] == 0)
                continue;
            if (wrong_count++ == 0) {
                first = offset + i;
                value = v->piece[i];
            }
        }
        offset += bytes;
    }
    if (wrong_count != 0)
        report(v, where,
               "byte at %" PRIu64 " is 0x%02x, expected 0 (%" PRIu64
               " such bytes)",
               first, value, wrong_count);
}

/* ---- superblocks ---- */

static void
check_slots(struct verify *v, const uint8_t *head, size_t head_bytes)
{
    static const char *const names[] = {"superblock A", "superblock B"};
    static const size_t offsets[] = {0, LODE_SLOT_B_OFFSET};
    struct lode_error err;
    bool both = true;

    for (int i = 0; i < 2; i++) {
        if (head_bytes < offsets[i] + LODE_SUPERBLOCK_BYTES) {
            report(v, names[i], "cut off: the file ends at %zu", head_bytes);
            both = false;
        } else if (!lode_head_check_slot(head + offsets[i], &err)) {
            report(v, names[i], "%s", err.text);
            both = false;
        }
    }
    for (size_t i = 0; both && i < LODE_SUPERBLOCK_BYTES; i++)
        if (head[i] != head[LODE_SLOT_B_OFFSET + i]) {
            report(v, names[1], "differs from superblock A at byte %zu", i);
            return;
        }
}

/* Find the superblock that counts; without one nothing more can be done. */
static bool
load_head(struct verify *v, struct lode_error *err)
{
    size_t head_bytes = v->file_bytes < LODE_INDEX_OFFSET
                            ? (size_t)v->file_bytes
                            : LODE_INDEX_OFFSET;
    const uint8_t *raw;
    void *head = NULL;
    bool good = false;

    if (!lode_alloc_array(head_bytes, 1, "superblocks", &head, err) ||
        !lode_file_read(v->fd, 0, head, head_bytes, err))
        goto out;
    raw = lode_head_choose(head, head_bytes);
    /* Only a container has superblocks to find fault with. */
    if (raw != NULL)
        check_slots(v, head, head_bytes);
    /* Its rules, with the size that it claims: the real one is a fault of its
     * own and leaves much to check. */
    v->sb.file_bytes = v->file_bytes;
    if (raw != NULL)
        lode_superblock_decode(raw, &v->sb);
    good = lode_head_decode(head, head_bytes, v->sb.file_bytes, &v->sb, err);
    if (good && v->file_bytes != v->sb.file_bytes)
        report(v, "file", "has %" PRIu64 " bytes, expected %" PRIu64 ": %s",
               v->file_bytes, v->sb.file_bytes,
               v->file_bytes < v->sb.file_bytes ? "cut short"
                                                : "something was appended");
out:
    free(head);
    return good;
}

/* ---- sections ---- */

static void
section_name(const struct lode_section *s, char *out, size_t out_bytes)
{
    (void)snprintf(out, out_bytes, "section %s (type %" PRIu32 ")",
                   lode_rules_section_name(s->type), s->type);
}

/* Spec 3.2: both sums of one section. */
static void
check_section(struct verify *v, const struct lode_section *s)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_digest_state sha;
    struct lode_hash_state hash;
    char where[64];

    section_name(s, where, sizeof(where));
    lode_digest_begin(&sha);
    lode_hash_begin(&hash);
    for (uint64_t at = 0; at < s->bytes;) {
        uint64_t bytes = piece_of(s->bytes - at);

        if (!read_piece(v, s->offset + at, bytes, where))
            return;
        lode_digest_update(&sha, v->piece, (size_t)bytes);
        lode_hash_update(&hash, v->piece, (size_t)bytes);
        at += bytes;
    }
    lode_digest_end(&sha, digest);
    if (lode_hash_end(&hash) != s->hash)
        report(v, where, "checksum does not match");
    if (memcmp(digest, s->digest, sizeof(digest)) != 0)
        report(v, where, "SHA-256 does not match");
}

/* The non-empty sections by offset; at most LODE_SECTIONS_MAX. */
static uint32_t
sort_sections(const struct lode_superblock *sb, const struct lode_section **out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < sb->section_count; i++) {
        uint32_t k = count;

        if (sb->sections[i].bytes == 0)
            continue;
        for (; k > 0 && out[k - 1]->offset > sb->sections[i].offset; k--)
            out[k] = out[k - 1];
        out[k] = &sb->sections[i];
        count++;
    }
    return count;
}

static void
check_index_region(struct verify *v)
{
    const struct lode_section *sections[LODE_SECTIONS_MAX];
    uint32_t count = sort_sections(&v->sb, sections);
    uint64_t at = LODE_INDEX_OFFSET;

    check_zero(v, LODE_SUPERBLOCK_BYTES, LODE_SLOT_B_OFFSET,
               "gap between superblocks");
    check_zero(v, LODE_SLOT_B_OFFSET + LODE_SUPERBLOCK_BYTES, LODE_INDEX_OFFSET,
               "gap behind superblock B");
    for (uint32_t i = 0; i < count; i++) {
        check_zero(v, at, sections[i]->offset, "padding of the index");
        check_section(v, sections[i]);
        at = sections[i]->offset + sections[i]->bytes;
    }
    check_zero(v, at, v->sb.data_offset, "padding of the index");
}

/* The bytes of a section for free(), or NULL with the reason in *err. */
static uint8_t *
load_section(const struct verify *v, uint32_t type, struct lode_error *err)
{
    const struct lode_section *s = lode_rules_section(&v->sb, type);
    void *p = NULL;

    if (!lode_in_range(s->offset, s->bytes, v->file_bytes)) {
        lode_fail(err, LODE_E_CORRUPT, "cut off: the file ends at %" PRIu64,
                  v->file_bytes);
        return NULL;
    }
    if (!lode_alloc_array(s->bytes, 1, "section", &p, err))
        return NULL;
    if (!lode_file_read(v->fd, s->offset, p, (size_t)s->bytes, err)) {
        free(p);
        return NULL;
    }
    return p;
}

static void
load_index(struct verify *v)
{
    const struct lode_section *stored =
        lode_rules_section(&v->sb, LODE_SECTION_STORED_DIGESTS);
    struct lode_error err;
    void *hot = NULL;

    if (!lode_in_range(v->sb.hot_offset, v->sb.hot_bytes, v->file_bytes)) {
        lode_fail(&err, LODE_E_CORRUPT, "cut off: the file ends at %" PRIu64,
                  v->file_bytes);
        stop(v, "index", &err);
        return;
    }
    if (!lode_alloc_array(v->sb.hot_bytes, 1, "index", &hot, &err)) {
        stop(v, "index", &err);
        return;
    }
    if (!lode_file_read(v->fd, v->sb.hot_offset, hot, (size_t)v->sb.hot_bytes,
                        &err)) {
        free(hot);
        stop(v, "index", &err);
        return;
    }
    v->index_good = lode_index_decode(&v->sb, hot, &v->index, &err);
    if (!v->index_good) {
        stop(v, "index", &err);
        return;
    }
    v->contents = load_section(v, LODE_SECTION_CONTENT_DIGESTS, &err);
    if (v->contents == NULL)
        stop(v, "content digests", &err);
    if (stored == NULL || stored->count == 0)
        return;
    v->stored = load_section(v, LODE_SECTION_STORED_DIGESTS, &err);
    if (v->stored == NULL)
        stop(v, "stored digests", &err);
}

/* ---- blocks ---- */

static const uint8_t *
digest_at(const struct verify *v, const uint8_t *section, uint32_t type,
          uint32_t block_index)
{
    return section + (uint64_t)block_index *
                         lode_rules_section(&v->sb, type)->record_bytes;
}

/* Spec 6.2: the piece of a raw block that begins at image_offset. */
static bool
check_gaps(const struct verify *v, const struct lode_group *g,
           uint64_t image_offset, uint64_t bytes, struct lode_error *err)
{
    const struct lode_schema *c = &v->index.schemas[g->schema_index];
    const struct lode_tensor end = {.raw_offset = c->object_raw_bytes};
    struct lode_gap gap;

    if (c->tensor_count == 0)
        return true;
    lode_rules_gap_begin(&gap, image_offset, bytes);
    for (uint32_t i = 0; i < c->tensor_count; i++)
        if (!lode_rules_gap_check(&gap,
                                  &v->index.tensors[c->first_tensor_index + i],
                                  v->piece, err))
            return false;
    return lode_rules_gap_check(&gap, &end, v->piece, err);
}

/* Read the stored bytes once for checksum, digest and gaps.  g is NULL when the
 * index is unusable. */
static bool
sum_block(struct verify *v, const struct lode_block *b,
          const struct lode_group *g, const char *where,
          uint8_t digest[LODE_DIGEST_BYTES])
{
    bool look_at_gaps = g != NULL && b->codec == LODE_CODEC_NONE;
    struct lode_hash_state hash;
    struct lode_error err;
    struct lode_tree tree;

    lode_hash_begin(&hash);
    lode_tree_begin(&tree);
    for (uint64_t at = 0; at < b->stored_bytes;) {
        uint64_t bytes = piece_of(b->stored_bytes - at);

        if (!read_piece(v, b->offset + at, bytes, where))
            return false;
        lode_hash_update(&hash, v->piece, (size_t)bytes);
        lode_tree_data(&tree, v->piece, (size_t)bytes);
        if (look_at_gaps &&
            !check_gaps(v, g, (uint64_t)b->seq * g->block_raw_bytes + at, bytes,
                        &err)) {
            report(v, where, "%s", err.text);
            look_at_gaps = false; /* one fault a block is enough */
        }
        at += bytes;
    }
    lode_tree_end(&tree, digest);
    if (lode_hash_end(&hash) != b->hash)
        report(v, where,
               "checksum of %" PRIu32 " bytes at %" PRIu64 " does not match",
               b->stored_bytes, b->offset);
    return true;
}

/* Spec 8.3. */
static void
check_block(struct verify *v, uint32_t block_index, const char *where)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_block_record r;
    struct lode_error err;

    lode_index_block(&v->index, block_index, &r);
    if (!sum_block(v, &r.block, &v->index.groups[r.block.group_index], where,
                   digest))
        return;
    if (v->stored != NULL &&
        memcmp(
            digest,
            digest_at(v, v->stored, LODE_SECTION_STORED_DIGESTS, block_index),
            LODE_DIGEST_BYTES) != 0)
        report(v, where, "SHA-256 tree of the stored bytes does not match");
    if (r.block.codec != LODE_CODEC_NONE) {
        lode_fail(&err, LODE_E_UNSUPPORTED,
                  "content not checked: codec %u is not supported by this "
                  "version",
                  r.block.codec);
        stop(v, where, &err);
    } else if (v->contents != NULL &&
               memcmp(digest,
                      digest_at(v, v->contents, LODE_SECTION_CONTENT_DIGESTS,
                                block_index),
                      LODE_DIGEST_BYTES) != 0) {
        report(v, where, "SHA-256 tree of the content does not match");
    }
}

/* Spec 7.4: of a block that is not here no digest is known. */
static void
check_absent(struct verify *v, uint32_t block_index, const char *where)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    v->absent_count++;
    if (v->contents != NULL &&
        memcmp(digest_at(v, v->contents, LODE_SECTION_CONTENT_DIGESTS,
                         block_index),
               zero, sizeof(zero)) != 0)
        report(v, where, "is absent, with a content digest");
}

static void
check_blocks(struct verify *v)
{
    char gap[320] = "gap before the first block";
    uint64_t at = v->sb.data_offset;
    uint32_t *order = NULL;
    struct lode_error err;

    if (!lode_index_by_offset(&v->index, &order, &err)) {
        stop(v, "blocks", &err);
        return;
    }
    for (uint32_t i = 0; i < v->index.summary.block_count; i++) {
        struct lode_block_record r;
        char name[256];

        lode_index_block_name(&v->index, order[i], name, sizeof(name));
        lode_index_block(&v->index, order[i], &r);
        if (!r.block.present) {
            check_absent(v, order[i], name);
            continue;
        }
        check_zero(v, at, r.block.offset, gap);
        check_block(v, order[i], name);
        (void)snprintf(gap, sizeof(gap), "padding after %s", name);
        at = r.block.offset + r.block.stored_bytes;
        if (v->cancelled)
            break;
    }
    check_zero(v, at, v->sb.file_bytes, gap);
    free(order);
}

/* The index has a fault: check each block under its number.  Nothing says that
 * these records do not overlap, so the file's size bounds the work. */
static void
check_numbered_blocks(struct verify *v)
{
    const struct lode_section *s =
        lode_rules_section(&v->sb, LODE_SECTION_BLOCKS);
    uint64_t bytes_left = v->file_bytes;
    struct lode_error err;
    uint8_t *records = load_section(v, LODE_SECTION_BLOCKS, &err);

    if (records == NULL || lode_hash(records, (size_t)s->bytes) != s->hash) {
        report(v, "blocks", "not checked: section BLOCKS is damaged");
        free(records);
        return;
    }
    for (uint32_t i = 0; i < s->count && !v->cancelled; i++) {
        uint8_t digest[LODE_DIGEST_BYTES];
        struct lode_block_record r;
        char name[32];

        lode_block_decode(records + (uint64_t)i * s->record_bytes, &r);
        (void)snprintf(name, sizeof(name), "block %" PRIu32, i);
        if (r.block.stored_bytes > bytes_left) {
            report(v, name, "overlaps others; the rest was not checked");
            break;
        }
        bytes_left -= r.block.stored_bytes;
        (void)sum_block(v, &r.block, NULL, name, digest); /* it reports */
    }
    free(records);
}

/* ---- roots ---- */

/* Spec 8.4 and 8.5: what GROUPS says against digests and schemas. */
static void
check_group(struct verify *v, uint32_t group_index)
{
    const struct lode_group *g = &v->index.groups[group_index];
    const struct lode_schema *c = &v->index.schemas[g->schema_index];
    const struct lode_section *s =
        lode_rules_section(&v->sb, LODE_SECTION_CONTENT_DIGESTS);
    uint8_t found[LODE_DIGEST_BYTES];
    char where[256];

    (void)snprintf(where, sizeof(where),
                   "group \"%.128s\" (kind %" PRIu32 ", layer %" PRId32 ")",
                   g->name, g->kind, g->layer);
    lode_root_schema(v->index.tensors + c->first_tensor_index, c->tensor_count,
                     found);
    if (memcmp(found, g->schema_digest, sizeof(found)) != 0)
        report(v, where, "schema digest does not match its schema");
    /* The reader has seen that the root of an incomplete group is zero. */
    if (v->contents == NULL || !lode_index_complete(&v->index, group_index))
        return;
    lode_root_group(
        g, v->contents + (uint64_t)g->first_block_index * s->record_bytes,
        s->record_bytes, found);
    if (memcmp(found, g->root, sizeof(found)) != 0)
        report(v, where, "root does not match the content digests");
}

static void
check_roots(struct verify *v)
{
    uint8_t found[LODE_DIGEST_BYTES];
    char hex[2 * LODE_DIGEST_BYTES + 1];

    for (uint32_t i = 0; i < v->index.summary.group_count; i++)
        check_group(v, i);
    if (v->index.summary.present_count != v->index.summary.block_count)
        return; /* unknown */
    lode_root_content(v->index.groups, v->index.summary.group_count, found);
    if (memcmp(found, v->sb.content_root, sizeof(found)) != 0)
        report(v, "content root",
               "is %s by the groups, the superblock says "
               "otherwise",
               lode_hex(found, hex));
}

/* Spec 8.7 and 8.8: needs the directory alone. */
static void
check_directory(struct verify *v)
{
    uint8_t found[LODE_DIGEST_BYTES];
    uint8_t set[16];
    uint8_t volume[16];

    lode_root_index(&v->sb, found);
    if (memcmp(found, v->sb.index_digest, sizeof(found)) != 0)
        report(v, "index digest", "does not match the section directory");
    lode_root_uuids(&v->sb, set, volume);
    if (memcmp(set, v->sb.set_uuid, sizeof(set)) != 0 ||
        memcmp(volume, v->sb.volume_uuid, sizeof(volume)) != 0)
        report(v, "superblock", "UUIDs do not match content root and index");
}

static void
check_all(struct verify *v)
{
    check_directory(v);
    check_index_region(v);
    load_index(v);
    if (v->index_good) {
        check_roots(v);
        check_blocks(v);
    } else {
        check_numbered_blocks(v);
    }
}

static bool
run(struct verify *v, const char *path, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_file_open(path, &v->fd, &v->file_bytes, err)) {
        stop(v, "file", err);
        return false; /* the message has the path */
    }
    (void)posix_fadvise(v->fd, 0, 0, POSIX_FADV_SEQUENTIAL); /* only a hint */
    if (!lode_alloc_aligned(PIECE_BYTES, "buffer", &p, err)) {
        stop(v, "memory", err);
        return lode_fail_in(err, "%s", path);
    }
    v->piece = p;
    if (!load_head(v, err)) {
        stop(v, "superblock", err);
        return lode_fail_in(err, "%s", path);
    }
    check_all(v);
    if (v->cancelled)
        return lode_fail(err, LODE_E_CANCELLED, "%s: cancelled", path);
    if (v->stopped) {
        *err = v->why;
        return lode_fail_in(err, "%s", path);
    }
    return true;
}

bool
lode_verify(const char *path, const struct lode_verify_options *opt,
            uint64_t *fault_count, struct lode_error *err)
{
    struct verify *v;
    void *p = NULL;
    bool good;

    *fault_count = 0;
    if (opt->absent_count != NULL)
        *opt->absent_count = 0;
    if (!lode_alloc_array(1, sizeof(*v), path, &p, err)) {
        const struct lode_fault f = {.where = "memory", .what = err->text};

        *fault_count = 1;
        if (opt->fault != NULL)
            opt->fault(opt->user, &f);
        return false;
    }
    v = p;
    v->opt = opt;
    v->fd = -1;
    good = run(v, path, err);
    *fault_count = v->fault_count;
    if (opt->absent_count != NULL)
        *opt->absent_count = v->absent_count;
    if (v->fd >= 0)
        (void)close(v->fd); /* nothing was written */
    lode_free_aligned(v->piece, PIECE_BYTES);
    lode_index_fini(&v->index);
    free(v->contents);
    free(v->stored);
    free(v);
    return good;
}
