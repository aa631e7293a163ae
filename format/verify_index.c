/* SPDX-License-Identifier: Apache-2.0
 *
 * Superblocks, sections and roots: all of spec 10.4 but blocks. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "base/file.h"
#include "base/le.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/head.h"
#include "format/root.h"
#include "format/rules.h"
#include "format/verify_state.h"

/* ---- superblocks ---- */

static void
check_slots(struct lode_look *l, const uint8_t *head, size_t head_bytes)
{
    static const char *const names[] = {"superblock A", "superblock B"};
    static const size_t offsets[] = {0, LODE_SLOT_B_OFFSET};
    struct lode_error err;
    bool both = true;

    for (int i = 0; i < 2; i++) {
        if (head_bytes < offsets[i] + LODE_SUPERBLOCK_BYTES) {
            lode_look_report(l, names[i], "cut off: the file ends at %zu",
                             head_bytes);
            both = false;
        } else if (!lode_head_check_slot(head + offsets[i], &err)) {
            lode_look_report(l, names[i], "%s", err.text);
            both = false;
        }
    }
    both = both && l->v->opt->level == LODE_VERIFY_STRICT;
    for (size_t i = 0; both && i < LODE_SUPERBLOCK_BYTES; i++)
        if (head[i] != head[LODE_SLOT_B_OFFSET + i]) {
            lode_look_report(l, names[1],
                             "differs from superblock A at byte %zu", i);
            return;
        }
}

/* Find the superblock that counts; without one nothing more can be done. */
static bool
load_head(struct lode_look *l, struct lode_verify_file *f,
          struct lode_error *err)
{
    size_t head_bytes = f->file_bytes < LODE_INDEX_OFFSET
                            ? (size_t)f->file_bytes
                            : LODE_INDEX_OFFSET;
    const uint8_t *raw;
    void *head = NULL;
    bool good = false;

    if (!lode_alloc_array(head_bytes, 1, "superblocks", &head, err) ||
        !lode_file_read(f->fd, 0, head, head_bytes, err))
        goto out;
    raw = lode_head_choose(head, head_bytes);
    /* Only a container has superblocks to find fault with. */
    if (raw != NULL)
        check_slots(l, head, head_bytes);
    /* Its rules, with the size that it claims: the real one is a fault of its
     * own and leaves much to check. */
    f->sb.file_bytes = f->file_bytes;
    if (raw != NULL)
        lode_superblock_decode(raw, &f->sb);
    good = lode_head_decode(head, head_bytes, f->sb.file_bytes, &f->sb, err);
    if (good && f->file_bytes != f->sb.file_bytes)
        lode_look_report(
            l, "file", "has %" PRIu64 " bytes, expected %" PRIu64 ": %s",
            f->file_bytes, f->sb.file_bytes,
            f->file_bytes < f->sb.file_bytes ? "cut short"
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
check_section(struct lode_look *l, const struct lode_section *s)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    bool digest_too = l->v->opt->level > LODE_VERIFY_FAST;
    struct lode_digest_state sha;
    struct lode_hash_state hash;
    char where[64];

    section_name(s, where, sizeof(where));
    lode_digest_begin(&sha);
    lode_hash_begin(&hash);
    for (uint64_t at = 0; at < s->bytes;) {
        uint64_t bytes = lode_look_piece(s->bytes - at);

        if (!lode_look_read(l, s->offset + at, bytes, where))
            return;
        if (digest_too)
            lode_digest_update(&sha, l->piece, (size_t)bytes);
        lode_hash_update(&hash, l->piece, (size_t)bytes);
        at += bytes;
    }
    lode_digest_end(&sha, digest);
    if (lode_hash_end(&hash) != s->hash)
        lode_look_report(l, where, "checksum does not match");
    if (digest_too && memcmp(digest, s->digest, sizeof(digest)) != 0)
        lode_look_report(l, where, "SHA-256 does not match");
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
check_index_region(struct lode_look *l)
{
    const struct lode_section *sections[LODE_SECTIONS_MAX];
    uint32_t count = sort_sections(&l->f->sb, sections);
    uint64_t at = LODE_INDEX_OFFSET;

    lode_look_zero(l, LODE_SUPERBLOCK_BYTES, LODE_SLOT_B_OFFSET,
                   "gap between superblocks");
    lode_look_zero(l, LODE_SLOT_B_OFFSET + LODE_SUPERBLOCK_BYTES,
                   LODE_INDEX_OFFSET, "gap behind superblock B");
    for (uint32_t i = 0; i < count; i++) {
        lode_look_zero(l, at, sections[i]->offset, "padding of the index");
        check_section(l, sections[i]);
        at = sections[i]->offset + sections[i]->bytes;
    }
    lode_look_zero(l, at, l->f->sb.data_offset, "padding of the index");
}

/* The bytes of a section for free(), or NULL with the reason in *err. */
static uint8_t *
load_section(const struct lode_verify_file *f, uint32_t type,
             struct lode_error *err)
{
    const struct lode_section *s = lode_rules_section(&f->sb, type);
    void *p = NULL;

    if (!lode_in_range(s->offset, s->bytes, f->file_bytes)) {
        lode_fail(err, LODE_E_CORRUPT, "cut off: the file ends at %" PRIu64,
                  f->file_bytes);
        return NULL;
    }
    if (!lode_alloc_array(s->bytes, 1, "section", &p, err))
        return NULL;
    if (!lode_file_read(f->fd, s->offset, p, (size_t)s->bytes, err)) {
        free(p);
        return NULL;
    }
    return p;
}

static bool
decode_hot(struct lode_verify_file *f, struct lode_error *err)
{
    void *hot = NULL;

    if (!lode_in_range(f->sb.hot_offset, f->sb.hot_bytes, f->file_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "cut off: the file ends at %" PRIu64, f->file_bytes);
    if (!lode_alloc_array(f->sb.hot_bytes, 1, "index", &hot, err))
        return false;
    if (!lode_file_read(f->fd, f->sb.hot_offset, hot, (size_t)f->sb.hot_bytes,
                        err)) {
        free(hot);
        return false;
    }
    return lode_index_decode(&f->sb, hot, &f->index, err);
}

static void
load_index(struct lode_look *l, struct lode_verify_file *f)
{
    const struct lode_section *stored =
        lode_rules_section(&f->sb, LODE_SECTION_STORED_DIGESTS);
    struct lode_error err;

    f->index_good = decode_hot(f, &err);
    if (!f->index_good) {
        lode_look_stop(l, "index", &err);
        return;
    }
    f->contents = load_section(f, LODE_SECTION_CONTENT_DIGESTS, &err);
    if (f->contents == NULL)
        lode_look_stop(l, "content digests", &err);
    if (stored == NULL || stored->count == 0)
        return;
    f->stored = load_section(f, LODE_SECTION_STORED_DIGESTS, &err);
    if (f->stored == NULL)
        lode_look_stop(l, "stored digests", &err);
}

/* Spec 4.4. */
static void
check_order(struct lode_look *l)
{
    const struct lode_verify_file *f = l->f;
    const struct lode_section *s =
        lode_rules_section(&f->sb, LODE_SECTION_ORDER);
    struct lode_error err;
    uint32_t *order = NULL;
    uint8_t *raw;
    void *p = NULL;

    if (s == NULL || s->count == 0)
        return;
    raw = load_section(f, LODE_SECTION_ORDER, &err);
    if (raw == NULL) {
        lode_look_stop(l, "order", &err);
        return;
    }
    if (!lode_alloc_array(s->count, sizeof(*order), "order", &p, &err)) {
        lode_look_stop(l, "order", &err);
        free(raw);
        return;
    }
    order = p;
    if (!lode_index_order(&f->index, raw, order, &err)) {
        if (err.code == LODE_E_CORRUPT)
            lode_look_report(l, "order", "%s", err.text);
        else
            lode_look_stop(l, "order", &err);
    }
    free(order);
    free(raw);
}

/* ---- roots ---- */

const uint8_t *
lode_verify_digest(const struct lode_verify_file *f, const uint8_t *section,
                   uint32_t type, uint32_t block_index)
{
    /* Only asked for blocks that are listed. */
    return section + (uint64_t)lode_index_record(&f->index, block_index) *
                         lode_rules_section(&f->sb, type)->record_bytes;
}

/* Are the content digests of all blocks of a group known?  *first is where the
 * first one's stands. */
static bool
digests_known(const struct lode_verify_file *f, const struct lode_group *g,
              const uint8_t **first, uint32_t *record_bytes)
{
    const struct lode_section *s =
        lode_rules_section(&f->sb, LODE_SECTION_CONTENT_DIGESTS);
    uint32_t count = g->object_count * g->blocks_per_object;

    *first = f->contents;
    *record_bytes = s->record_bytes;
    for (uint32_t i = 0; i < count; i++) {
        int64_t at = lode_index_record(&f->index, g->first_block_index + i);

        if (at == LODE_NO_INDEX ||
            lode_look_is_zero(f->contents + (uint64_t)at * s->record_bytes,
                              LODE_DIGEST_BYTES))
            return false;
        if (i == 0)
            *first = f->contents + (uint64_t)at * s->record_bytes;
    }
    return true;
}

/* Spec 8.4 and 8.5: what GROUPS says against digests and schemas. */
static void
check_group(struct lode_look *l, uint32_t group_index)
{
    const struct lode_index *x = &l->f->index;
    const struct lode_group *g = &x->groups[group_index];
    const struct lode_schema *c = &x->schemas[g->schema_index];
    bool claimed = !lode_look_is_zero(g->root, LODE_DIGEST_BYTES);
    uint8_t found[LODE_DIGEST_BYTES];
    const uint8_t *first;
    uint32_t record_bytes;
    char where[256];
    bool known;

    (void)snprintf(where, sizeof(where),
                   "group \"%.128s\" (kind %" PRIu32 ", layer %" PRId32 ")",
                   g->name, g->kind, g->layer);
    lode_root_schema(x->tensors + c->first_tensor_index, c->tensor_count,
                     found);
    if (memcmp(found, g->schema_digest, sizeof(found)) != 0)
        lode_look_report(l, where, "schema digest does not match its schema");
    if (l->f->contents == NULL)
        return; /* said before */
    known = digests_known(l->f, g, &first, &record_bytes);
    if (known != claimed) {
        /* Spec 4.3 and 7.4. */
        lode_look_report(l, where,
                         known ? "has no root, and all digests"
                               : "has a root, and not all digests");
        return;
    }
    if (!known)
        return;
    lode_root_group(g, first, record_bytes, found);
    if (memcmp(found, g->root, sizeof(found)) != 0)
        lode_look_report(l, where, "root does not match the content digests");
}

/* Spec 4.3 and 7.4: may the content root be left out? */
static bool
root_unknown(const struct lode_verify_file *f)
{
    if ((f->sb.incompat & LODE_INCOMPAT_VOLUME) != 0)
        return true;
    for (uint32_t i = 0; i < f->index.summary.group_count; i++)
        if (f->index.groups[i].kind < LODE_KIND_VOLATILE &&
            lode_look_is_zero(f->index.groups[i].root, LODE_DIGEST_BYTES))
            return true;
    return false;
}

/* Spec 8.3: nothing is stored of what is absent. */
static void
check_absent(struct lode_look *l)
{
    const struct lode_index *x = &l->f->index;

    if (l->f->stored == NULL ||
        (l->f->sb.incompat & LODE_INCOMPAT_PARTIAL) == 0)
        return;
    for (uint32_t i = 0; i < x->summary.block_count; i++) {
        struct lode_block_record r;
        char name[256];

        lode_index_block(x, i, &r);
        if (!r.block.present &&
            !lode_look_is_zero(lode_verify_digest(l->f, l->f->stored,
                                                  LODE_SECTION_STORED_DIGESTS,
                                                  i),
                               LODE_DIGEST_BYTES))
            lode_look_report(l, lode_index_block_name(x, i, name, sizeof(name)),
                             "is absent, with a digest of what is stored");
    }
}

static void
check_roots(struct lode_look *l)
{
    const struct lode_index *x = &l->f->index;
    uint8_t found[LODE_DIGEST_BYTES] = {0};
    char hex[2 * LODE_DIGEST_BYTES + 1];

    for (uint32_t i = 0; i < x->summary.group_count; i++)
        check_group(l, i);
    check_absent(l);
    if (!root_unknown(l->f))
        lode_root_content(x->groups, x->summary.group_count, found);
    if (memcmp(found, l->f->sb.content_root, sizeof(found)) != 0)
        lode_look_report(l, "content root",
                         "is %s by the groups, the superblock says otherwise",
                         lode_hex(found, hex));
}

/* Spec 8.7 and 8.8: needs the directory alone. */
static void
check_directory(struct lode_look *l)
{
    const struct lode_superblock *sb = &l->f->sb;
    uint8_t found[LODE_DIGEST_BYTES];
    uint8_t set[16];
    uint8_t volume[16];

    lode_root_index(sb, found);
    if (memcmp(found, sb->index_digest, sizeof(found)) != 0)
        lode_look_report(l, "index digest",
                         "does not match the section directory");
    lode_root_uuids(sb, set, volume);
    if (memcmp(set, sb->set_uuid, sizeof(set)) != 0 ||
        memcmp(volume, sb->volume_uuid, sizeof(volume)) != 0)
        lode_look_report(l, "superblock",
                         "UUIDs do not match content root and index");
}

bool
lode_verify_index(struct lode_look *l, struct lode_verify_file *f,
                  struct lode_error *err)
{
    bool digests_too = l->v->opt->level > LODE_VERIFY_FAST;

    if (!load_head(l, f, err)) {
        lode_look_stop(l, "superblock", err);
        return false;
    }
    if (digests_too)
        check_directory(l);
    check_index_region(l);
    load_index(l, f);
    if (f->index_good && digests_too)
        check_roots(l);
    if (f->index_good)
        check_order(l);
    return true;
}
