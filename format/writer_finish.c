/* SPDX-License-Identifier: Apache-2.0
 *
 * The last step of writing: indexes, superblocks, names (spec 11.2). */
#include "config.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/le.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/root.h"
#include "format/rules.h"
#include "format/writer_state.h"

enum { BLOCK_FLAGS = 47 }; /* where a record has them */

/* An index region on its way to its file. */
struct region {
    const struct lode_writer *w;
    struct lode_writer_file *f;
    uint8_t *data; /* the file from LODE_INDEX_OFFSET to data_offset */
    uint64_t bytes;
};

static uint8_t *
section_data(const struct region *x, uint32_t type)
{
    return x->data + (lode_rules_section(&x->f->sb, type)->offset -
                      LODE_INDEX_OFFSET);
}

static const uint8_t *
record_of(const struct lode_writer *w, uint32_t block_index)
{
    return w->records + (size_t)block_index * LODE_BLOCK_RECORD_BYTES;
}

static bool
is_present(const struct lode_writer *w, uint32_t block_index)
{
    return record_of(w, block_index)[BLOCK_FLAGS] != 0;
}

static bool
is_zero(const uint8_t digest[LODE_DIGEST_BYTES])
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(digest, zero, sizeof(zero)) == 0;
}

/* Is the block listed in this file? */
static bool
is_listed(const struct region *x, uint32_t block_index)
{
    return x->f == x->w->files ||
           x->w->volume_of[block_index] == (uint16_t)(x->f - x->w->files);
}

/* ---- roots ---- */

/* Are all digests of a group known; in a volume, are all blocks in it? */
static bool
is_known(const struct region *x, const struct lode_group *g)
{
    uint32_t count = g->object_count * g->blocks_per_object; /* <= 2^24 */

    for (uint32_t i = 0; i < count; i++) {
        uint32_t b = g->first_block_index + i;

        if (!is_listed(x, b) ||
            is_zero(x->w->contents + (size_t)b * LODE_DIGEST_BYTES))
            return false;
    }
    return true;
}

static void
put_groups(const struct region *x)
{
    const struct lode_writer *w = x->w;
    uint8_t *records = section_data(x, LODE_SECTION_GROUPS);
    bool known = true;

    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_declared_group *d = lode_writer_group_at(w, i);
        struct lode_group *g = &d->record.group;

        memset(g->root, 0, LODE_DIGEST_BYTES);
        if (is_known(x, g))
            lode_root_group(g,
                            w->contents + (size_t)g->first_block_index *
                                              LODE_DIGEST_BYTES,
                            LODE_DIGEST_BYTES, g->root);
        else if (g->kind < LODE_KIND_VOLATILE)
            known = false;
        w->sorted[d->position] = *g;
        lode_group_encode(&d->record, records + (size_t)d->position *
                                                    LODE_GROUP_RECORD_BYTES);
    }
    memset(x->f->sb.content_root, 0, LODE_DIGEST_BYTES);
    if (known && x->f == w->files)
        lode_root_content(w->sorted, w->group_count, x->f->sb.content_root);
}

/* ---- blocks ---- */

/* Spec 7.4: records of the blocks that were left out. */
static void
put_absent(const struct lode_writer *w, uint32_t block_index, uint8_t *raw)
{
    uint32_t group_index = lode_writer_group_of(w, block_index);
    const struct lode_group *g = &w->sorted[group_index];
    uint32_t within = block_index - g->first_block_index;
    struct lode_block_record r = {
        .block = {.group_index = group_index,
                  .object_index = within / g->blocks_per_object,
                  .seq = within % g->blocks_per_object},
        .block_index = block_index};

    r.block.raw_bytes = lode_rules_block_raw_bytes(g, r.block.seq);
    lode_block_encode(&r, raw);
}

/* One listed block: its record, its digests, and its part in the totals. */
static void
put_block(const struct region *x, uint32_t block_index, uint32_t at)
{
    const struct lode_writer *w = x->w;
    struct lode_superblock *sb = &x->f->sb;
    uint8_t *raw = section_data(x, LODE_SECTION_BLOCKS) +
                   (size_t)at * LODE_BLOCK_RECORD_BYTES;
    struct lode_block_record r;

    memcpy(section_data(x, LODE_SECTION_CONTENT_DIGESTS) +
               (size_t)at * LODE_DIGEST_BYTES,
           w->contents + (size_t)block_index * LODE_DIGEST_BYTES,
           LODE_DIGEST_BYTES);
    if (!is_present(w, block_index)) {
        put_absent(w, block_index, raw);
        sb->incompat |= LODE_INCOMPAT_PARTIAL;
        return;
    }
    memcpy(raw, record_of(w, block_index), LODE_BLOCK_RECORD_BYTES);
    if (w->packed)
        memcpy(section_data(x, LODE_SECTION_STORED_DIGESTS) +
                   (size_t)at * LODE_DIGEST_BYTES,
               w->stored + (size_t)block_index * LODE_DIGEST_BYTES,
               LODE_DIGEST_BYTES);
    lode_block_decode(raw, &r);
    sb->block_here_count++;
    sb->stored_bytes += r.block.stored_bytes;
    sb->codecs |= UINT64_C(1) << r.block.codec;
    sb->filters |= r.block.filters;
}

static void
put_blocks(const struct region *x)
{
    const struct lode_writer *w = x->w;
    struct lode_superblock *sb = &x->f->sb;
    uint32_t at = 0;

    sb->block_count = w->block_count;
    sb->block_here_count = 0;
    sb->stored_bytes = sb->raw_bytes = sb->codecs = sb->filters = 0;
    sb->incompat = x->f != w->files ? LODE_INCOMPAT_VOLUME : 0;
    for (uint32_t i = 0; i < w->group_count; i++)
        sb->raw_bytes +=
            w->sorted[i].object_count * w->sorted[i].object_raw_bytes;
    for (uint32_t i = 0; i < w->block_count; i++)
        if (is_listed(x, i))
            put_block(x, i, at++);
}

/* ---- the rest of an index ---- */

static void
put_declared(const struct region *x)
{
    const struct lode_writer *w = x->w;
    uint8_t *schemas = section_data(x, LODE_SECTION_SCHEMAS);

    for (uint32_t i = 0; i < w->schema_count; i++)
        lode_schema_encode(&lode_writer_schema_at(w, i)->schema,
                           schemas + (size_t)i * LODE_SCHEMA_RECORD_BYTES);
    if (w->tensor_count != 0)
        memcpy(section_data(x, LODE_SECTION_TENSORS), w->tensor_records.data,
               w->tensor_records.used_bytes);
    memcpy(section_data(x, LODE_SECTION_STRINGS), w->strings.bytes.data,
           w->strings.bytes.used_bytes);
}

/* What only the head of a set has.  Its volumes are finished. */
static void
put_set(const struct region *x)
{
    const struct lode_writer *w = x->w;
    const struct lode_section *order =
        lode_rules_section(&x->f->sb, LODE_SECTION_ORDER);

    for (uint32_t i = 1; i < w->file_count; i++) {
        const struct lode_superblock *sb = &w->files[i].sb;
        struct lode_volume_record v = {.file_bytes = sb->file_bytes,
                                       .name_ref = w->files[i].name_ref};

        memcpy(v.uuid, sb->volume_uuid, sizeof(v.uuid));
        memcpy(v.index_digest, sb->index_digest, LODE_DIGEST_BYTES);
        lode_volume_encode(&v, section_data(x, LODE_SECTION_VOLUMES) +
                                   (size_t)(i - 1) * LODE_VOLUME_RECORD_BYTES);
    }
    for (uint32_t i = 0; order != NULL && i < order->count; i++)
        lode_store_u32(section_data(x, LODE_SECTION_ORDER) +
                           (size_t)i * LODE_ORDER_RECORD_BYTES,
                       w->order[i]);
}

static void
put_superblock(const struct region *x)
{
    const struct lode_writer *w = x->w;
    struct lode_superblock *sb = &x->f->sb;

    for (uint32_t i = 0; i < sb->section_count; i++) {
        struct lode_section *s = &sb->sections[i];
        const uint8_t *data = x->data + (s->offset - LODE_INDEX_OFFSET);

        s->hash = lode_hash(data, (size_t)s->bytes);
        lode_digest(data, (size_t)s->bytes, s->digest);
    }
    sb->major = 1;
    sb->superblock_bytes = LODE_SUPERBLOCK_BYTES;
    sb->volume_index = (uint16_t)(x->f - w->files);
    sb->volume_count = (uint16_t)w->file_count;
    sb->align_log2 = (uint8_t)w->align_log2;
    sb->digest_algorithm = LODE_DIGEST_SHA256_TREE;
    sb->check_algorithm = LODE_CHECK_XXH3;
    sb->state = LODE_STATE_FINAL;
    sb->file_bytes = x->f->next_offset;
    memcpy(sb->label, w->label, sizeof(sb->label));
    (void)snprintf(sb->writer, sizeof(sb->writer) - 1, "%s", PACKAGE_STRING);
    lode_root_index(sb, sb->index_digest);
    lode_root_uuids(sb, sb->set_uuid, sb->volume_uuid);
}

/* ---- to the drive ---- */

/* Spec 11.2: the superblocks are the last to reach the drive, and B the first
 * of them, so that a file that seems whole is whole. */
static bool
write_region(const struct region *x, struct lode_error *err)
{
    struct lode_output *o = &x->f->output;
    void *slot = NULL;
    bool good;

    if (!lode_alloc_aligned(LODE_SUPERBLOCK_BYTES, "superblock", &slot, err))
        return false;
    lode_superblock_encode(&x->f->sb, slot);
    good = lode_output_write(o, LODE_INDEX_OFFSET, x->data, x->bytes, err) &&
           lode_output_sync(o, false, err) &&
           lode_output_write(o, LODE_SLOT_B_OFFSET, slot, LODE_SUPERBLOCK_BYTES,
                             err) &&
           lode_output_write(o, 0, slot, LODE_SUPERBLOCK_BYTES, err) &&
           lode_output_sync(o, true, err);
    lode_free_aligned(slot, LODE_SUPERBLOCK_BYTES);
    return good;
}

static bool
finish_file(struct lode_writer *w, uint32_t volume_index,
            struct lode_error *err)
{
    struct region x = {.w = w, .f = &w->files[volume_index]};
    void *p = NULL;
    bool good;

    x.bytes = x.f->sb.data_offset - LODE_INDEX_OFFSET;
    if (!lode_alloc_aligned(x.bytes, "index", &p, err))
        return false;
    x.data = p;
    put_declared(&x);
    put_blocks(&x);
    put_groups(&x);
    if (volume_index == 0)
        put_set(&x);
    put_superblock(&x);
    good = write_region(&x, err);
    lode_free_aligned(x.data, x.bytes);
    return good;
}

/* What we wrote must pass for a container before it gets its name. */
static bool
reopen(const struct lode_writer_file *f, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    bool same;

    if (!lode_reader_open(f->output.wip_path, &r, err))
        return lode_fail_in(err, "the new container cannot be read back");
    same = memcmp(lode_reader_summary(r)->index_digest, f->sb.index_digest,
                  LODE_DIGEST_BYTES) == 0;
    lode_reader_close(r);
    if (!same)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: another index was read back than was written",
                         f->output.wip_path);
    return true;
}

/* From here on there is a container, whatever its name. */
static bool
note_end(struct lode_writer *w, struct lode_error *err)
{
    struct lode_entry e = {.type = LODE_ENTRY_DONE};

    memcpy(e.content, w->files[0].sb.index_digest, LODE_DIGEST_BYTES);
    return lode_journal_append(&w->journal, &e, err) &&
           lode_journal_sync(&w->journal, err);
}

/* All files get their names, or none; that of the head tells that the others
 * are there. */
static bool
commit_all(struct lode_writer *w, struct lode_error *err)
{
    struct lode_output *head = &w->files[0].output;
    bool ok = true;

    for (uint32_t v = 1; ok && v < w->file_count; v++)
        ok = lode_output_rename(&w->files[v].output, err);
    ok = ok && (w->file_count == 1 || lode_output_sync_folder(head, err)) &&
         lode_output_commit(head, err);
    if (ok || head->fd < 0) /* if it has its name, the set is whole */
        return ok;
    for (uint32_t v = 1; v < w->file_count; v++)
        lode_output_withdraw(&w->files[v].output, w->journaled);
    return false;
}

bool
lode_writer_finish(struct lode_writer *w,
                   uint8_t content_root[LODE_DIGEST_BYTES],
                   struct lode_error *err)
{
    assert(w->begun);
    if (w->written_count != w->block_count && !w->partial)
        return lode_fail(err, LODE_E_USAGE,
                         "%" PRIu32 " of %" PRIu32 " blocks were written",
                         w->written_count, w->block_count);
    if (w->journaled && !lode_writer_sync(w, err))
        return false;
    for (uint32_t i = w->file_count; i-- > 0;) /* the head last */
        if (!finish_file(w, i, err) || !reopen(&w->files[i], err))
            return false;
    if ((w->journaled && !note_end(w, err)) || !commit_all(w, err))
        return false;
    if (w->journaled)
        lode_journal_close(&w->journal, true);
    if (content_root != NULL)
        memcpy(content_root, w->files[0].sb.content_root, LODE_DIGEST_BYTES);
    return true;
}

/* The index digest of what a journal tells to be finished. */
static bool
find_end(const char *name, const uint8_t *plan, bool *found,
         uint8_t digest[LODE_DIGEST_BYTES], struct lode_error *err)
{
    uint64_t file_bytes;
    struct lode_entry e;
    bool more = true;
    bool ok = true;
    int fd;

    *found = false;
    if (!lode_file_open(name, &fd, &file_bytes, err))
        return false;
    for (uint64_t i = 0; ok && more; i++) {
        ok = lode_journal_read(fd, plan, i, &e, &more, err);
        if (ok && more && e.type == LODE_ENTRY_DONE) {
            memcpy(digest, e.content, LODE_DIGEST_BYTES);
            *found = true;
        }
    }
    (void)close(fd); /* nothing was written */
    return ok || lode_fail_in(err, "%s", name);
}

/* Is OUT what the journal tells of?  What cannot be read is not known. */
static bool
is_end(const char *path, const uint8_t digest[LODE_DIGEST_BYTES], bool *is,
       struct lode_error *err)
{
    struct lode_reader *r = NULL;

    *is = false;
    if (!lode_reader_open(path, &r, err))
        return err->code == LODE_E_CORRUPT || err->code == LODE_E_UNSUPPORTED ||
               err->code == LODE_E_LIMIT;
    *is = memcmp(lode_reader_summary(r)->index_digest, digest,
                 LODE_DIGEST_BYTES) == 0;
    lode_reader_close(r);
    return true;
}

bool
lode_writer_was_finished(const char *path, const uint8_t *plan, bool *finished,
                         struct lode_error *err)
{
    enum lode_journal_state state;
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_output o;
    struct stat st;
    char *name = NULL;
    bool end = false;
    bool ok;

    *finished = false;
    if (!lode_journal_path(path, &name, err))
        return false;
    if (!lode_output_init(&o, path, err)) {
        free(name);
        return false;
    }
    ok = lode_journal_peek(name, plan, &state, err);
    if (ok && state == LODE_JOURNAL_OURS && lstat(o.wip_path, &st) != 0 &&
        lstat(path, &st) == 0)
        ok = find_end(name, plan, &end, digest, err) &&
             (!end || is_end(path, digest, finished, err));
    /* The rename may be in memory only. */
    if (ok && *finished)
        ok = lode_file_sync_directory(path, err);
    if (ok && *finished)
        (void)unlink(name); /* if it stays, this happens again */
    *finished = *finished && ok;
    lode_output_fini(&o);
    free(name);
    return ok;
}
