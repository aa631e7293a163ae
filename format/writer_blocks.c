/* SPDX-License-Identifier: Apache-2.0
 *
 * The second and third step of writing: begin or go on, and the blocks. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "format/hash.h"
#include "format/rules.h"
#include "format/writer_state.h"

/* What a power cut may cost, at most. */
#define SYNC_BYTES (UINT64_C(1) << 30)
#define SYNC_NS UINT64_C(5000000000)

enum { BLOCK_FLAGS = 47 }; /* where a record has them */

static uint64_t
now_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail on Linux */
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static uint8_t *
record_of(const struct lode_writer *w, uint32_t block_index)
{
    return w->records + (size_t)block_index * LODE_BLOCK_RECORD_BYTES;
}

static struct lode_writer_file *
file_of(const struct lode_writer *w, uint32_t block_index)
{
    return &w->files[w->volume_of != NULL ? w->volume_of[block_index] : 0];
}

/* Enter a block that is in its file, from the journal or just written. */
static void
enter(struct lode_writer *w, const struct lode_entry *e)
{
    uint32_t group_index = lode_writer_group_of(w, e->block_index);
    const struct lode_group *g = &w->sorted[group_index];
    uint32_t within = e->block_index - g->first_block_index;
    struct lode_writer_file *f = file_of(w, e->block_index);
    struct lode_block_record r = {
        .block = {.offset = e->offset,
                  .hash = e->hash,
                  .stored_bytes = e->stored_bytes,
                  .group_index = group_index,
                  .object_index = within / g->blocks_per_object,
                  .seq = within % g->blocks_per_object,
                  .volume_index = e->volume_index,
                  .codec = e->codec,
                  .filters = e->filters},
        .block_index = e->block_index,
        .flags = LODE_BLOCK_PRESENT};

    r.block.raw_bytes = lode_rules_block_raw_bytes(g, r.block.seq);
    if (e->codec == LODE_CODEC_NONE)
        r.flags |= LODE_BLOCK_SAME_DIGEST;
    lode_block_encode(&r, record_of(w, e->block_index));
    memcpy(w->contents + (size_t)e->block_index * LODE_DIGEST_BYTES, e->content,
           LODE_DIGEST_BYTES);
    memcpy(w->stored + (size_t)e->block_index * LODE_DIGEST_BYTES, e->stored,
           LODE_DIGEST_BYTES);
    w->order[w->written_count++] = e->block_index;
    w->written_bytes += e->stored_bytes;
    f->next_offset = e->offset + lode_writer_padded_bytes(w, e->stored_bytes);
}

/* ---- going on ---- */

/* Does an entry of the journal fit in here at all? */
static bool
is_next(const struct lode_writer *w, const struct lode_entry *e)
{
    const struct lode_writer_file *f;
    uint32_t raw_bytes;

    if (e->block_index >= w->block_count ||
        record_of(w, e->block_index)[BLOCK_FLAGS] != 0)
        return false;
    f = file_of(w, e->block_index);
    raw_bytes = lode_writer_block_raw_bytes(w, e->block_index);
    return e->volume_index == (uint16_t)(f - w->files) &&
           e->offset == f->next_offset && e->stored_bytes != 0 &&
           (e->codec == LODE_CODEC_NONE ? e->stored_bytes == raw_bytes
                                        : e->stored_bytes < raw_bytes) &&
           /* Someone may have removed the file since. */
           e->offset + lode_writer_padded_bytes(w, e->stored_bytes) <=
               f->found_bytes;
}

/* After a power cut what came behind the last sync may be lost. */
static bool
is_there(const struct lode_writer *w, const struct lode_entry *e, bool *there,
         struct lode_error *err)
{
    const struct lode_writer_file *f = file_of(w, e->block_index);
    uint64_t bytes = lode_writer_padded_bytes(w, e->stored_bytes);
    struct lode_error why;
    void *p = NULL;

    if (!lode_alloc_aligned(bytes, "block", &p, err))
        return false;
    *there = lode_file_read(f->output.fd, e->offset, p, (size_t)bytes, &why) &&
             lode_hash(p, e->stored_bytes) == e->hash;
    lode_free_aligned(p, bytes);
    return true;
}

static bool
put_note(struct lode_writer *w, uint32_t key,
         const uint8_t data[LODE_DIGEST_BYTES], struct lode_error *err)
{
    struct lode_note *notes = (void *)w->notes.data;
    struct lode_note note = {.key = key};

    for (size_t i = 0; i < w->notes.used_bytes / sizeof(note); i++)
        if (notes[i].key == key) {
            memcpy(notes[i].data, data, LODE_DIGEST_BYTES);
            return true;
        }
    memcpy(note.data, data, LODE_DIGEST_BYTES);
    return lode_buf_append(&w->notes, &note, sizeof(note), err);
}

/* The number of entries up to the last sync. */
static bool
find_sync(const struct lode_writer *w, int fd, uint64_t *synced,
          struct lode_error *err)
{
    struct lode_entry e;
    bool found = true;

    *synced = 0;
    for (uint64_t i = 0; found; i++) {
        if (!lode_journal_read(fd, w->plan, i, &e, &found, err))
            return false;
        if (found && e.type == LODE_ENTRY_SYNC)
            *synced = i + 1;
    }
    return true;
}

/* Take over what the journal tells; *keep entries of it are right. */
static bool
replay(struct lode_writer *w, int fd, uint64_t synced, uint64_t *keep,
       struct lode_error *err)
{
    for (uint64_t i = 0;; i++) {
        struct lode_entry e;
        bool found;

        *keep = i;
        if (!lode_journal_read(fd, w->plan, i, &e, &found, err))
            return false;
        if (!found)
            return true;
        if (e.type == LODE_ENTRY_NOTE) {
            if (!put_note(w, e.block_index, e.content, err))
                return false;
        } else if (e.type == LODE_ENTRY_BLOCK) {
            bool there = is_next(w, &e);

            if (there && i >= synced && !is_there(w, &e, &there, err))
                return false;
            if (!there)
                return true;
            enter(w, &e);
        }
    }
}

static bool
resume(struct lode_writer *w, const char *path, uint64_t *synced,
       uint64_t *keep, struct lode_error *err)
{
    uint64_t file_bytes;
    bool ok;
    int fd;

    if (!lode_file_open(path, &fd, &file_bytes, err))
        return false;
    ok = find_sync(w, fd, synced, err) && replay(w, fd, *synced, keep, err);
    (void)close(fd); /* nothing was written */
    return ok || lode_fail_in(err, "%s", path);
}

/* ---- begin ---- */

/* A volume that was renamed before the head was: take it back. */
static bool
claim_volume(const struct lode_writer_file *f, bool ours,
             struct lode_error *err)
{
    struct stat st;

    if (lstat(f->output.path, &st) != 0)
        return true;
    if (ours && lstat(f->output.wip_path, &st) != 0 &&
        rename(f->output.path, f->output.wip_path) == 0)
        return true;
    return lode_fail(err, LODE_E_USAGE,
                     "%s exists: volumes are never replaced; remove it or "
                     "choose another name for the set",
                     f->output.path);
}

static bool
open_files(struct lode_writer *w, bool ours, struct lode_error *err)
{
    for (uint32_t i = 0; i < w->file_count; i++) {
        struct lode_writer_file *f = &w->files[i];
        struct stat st;

        f->next_offset = f->sb.data_offset;
        if ((i > 0 && !claim_volume(f, ours, err)) ||
            !lode_output_open(&f->output, err))
            return false;
        if (fstat(f->output.fd, &st) != 0)
            return lode_fail_errno(err, "%s", f->output.wip_path);
        f->found_bytes = (uint64_t)st.st_size;
    }
    return true;
}

static bool
check_room(struct lode_writer *w, uint64_t needed_bytes, struct lode_error *err)
{
    uint64_t done = 0;

    for (uint32_t i = 0; i < w->file_count; i++)
        done += w->files[i].next_offset;
    if (!lode_output_check_room(&w->files[0].output,
                                needed_bytes > done ? needed_bytes - done : 0,
                                w->file_count == 1 ? needed_bytes : 0, err))
        return false;
    return true;
}

static bool
fail_other_plan(const struct lode_writer *w, struct lode_error *err)
{
    return lode_fail(err, LODE_E_USAGE,
                     "%s: unfinished work of another source or with other "
                     "options is there; finish it with its own command, or "
                     "throw it away with --restart",
                     w->files[0].output.wip_path);
}

/* What is on the drive already, and the journal for what follows. */
static bool
begin_journal(struct lode_writer *w, const char *path, bool ours,
              struct lode_error *err)
{
    uint64_t synced = 0;
    uint64_t keep = 0;

    if (ours && !resume(w, path, &synced, &keep, err))
        return false;
    /* Before the files, so that it never tells of what they lost. */
    if (w->journaled &&
        !lode_journal_open(&w->journal, path, w->plan, keep, err))
        return false;
    w->journal.synced_count = synced < keep ? synced : keep;
    w->keep = keep != 0;
    for (uint32_t i = 0; i < w->file_count; i++)
        if (!lode_output_cut(&w->files[i].output,
                             keep != 0 ? w->files[i].next_offset : 0, err))
            return false;
    w->synced_ns = now_ns();
    return true;
}

bool
lode_writer_begin(struct lode_writer *w, uint64_t needed_bytes,
                  struct lode_error *err)
{
    enum lode_journal_state state = LODE_JOURNAL_NONE;
    uint64_t index_bytes;
    uint64_t file_bytes;
    char *path = NULL;
    bool ours;
    bool ok;

    assert(w->numbered && !w->begun);
    w->begun = true;
    if (!lode_writer_sizes(w, &index_bytes, &file_bytes, err) ||
        !lode_journal_path(w->path, &path, err))
        return false;
    ok = !w->journaled || lode_journal_peek(path, w->plan, &state, err);
    if (ok && state == LODE_JOURNAL_OTHERS && !w->restart)
        ok = fail_other_plan(w, err);
    ours = state == LODE_JOURNAL_OURS && !w->restart;
    /* From here on a failure keeps what was there, also what is to be thrown
     * away until the journal knows. */
    w->keep = state != LODE_JOURNAL_NONE;
    ok = ok && open_files(w, ours, err) && begin_journal(w, path, ours, err) &&
         check_room(w, needed_bytes != 0 ? needed_bytes
                       : w->partial      ? index_bytes
                                         : file_bytes,
                    err);
    free(path);
    return ok;
}

bool
lode_writer_done(const struct lode_writer *w, uint32_t block_index)
{
    return record_of(w, block_index)[BLOCK_FLAGS] != 0;
}

uint32_t
lode_writer_written(const struct lode_writer *w, uint64_t *bytes)
{
    *bytes = w->written_bytes;
    return w->written_count;
}

/* ---- blocks ---- */

/* Spec 6.2: what lies between tensors is zero.  Else equal tensors could have
 * different roots. */
static bool
check_gaps(const struct lode_writer *w, uint32_t block_index,
           const uint8_t *image, struct lode_error *err)
{
    uint32_t group_index = lode_writer_group_of(w, block_index);
    const struct lode_group *g = &w->sorted[group_index];
    const struct lode_schema *c =
        &lode_writer_schema_at(w, g->schema_index)->schema;
    uint32_t object =
        (block_index - g->first_block_index) / g->blocks_per_object;
    uint32_t seq = (block_index - g->first_block_index) % g->blocks_per_object;
    const uint8_t *records = w->tensor_records.data;
    struct lode_gap gap;

    lode_rules_gap_begin(&gap, (uint64_t)seq * g->block_raw_bytes,
                         lode_rules_block_raw_bytes(g, seq));
    for (uint32_t i = 0; i <= c->tensor_count && c->tensor_count != 0; i++) {
        struct lode_tensor_record r = {0};

        if (i < c->tensor_count)
            lode_tensor_decode(records + (size_t)(c->first_tensor_index + i) *
                                             LODE_TENSOR_RECORD_BYTES,
                               &r);
        else
            r.tensor.raw_offset = c->object_raw_bytes;
        if (!lode_rules_gap_check(&gap, &r.tensor, image, err)) {
            lode_fail_in(err, "object %" PRIu32, object);
            return lode_writer_fail_in_group(g, err);
        }
    }
    return true;
}

static bool
check_parcel(const struct lode_writer *w, uint32_t block_index,
             const struct lode_parcel *p, struct lode_error *err)
{
    uint32_t raw_bytes = lode_writer_block_raw_bytes(w, block_index);

    assert(w->begun && block_index < w->block_count);
    if (lode_writer_done(w, block_index))
        return lode_fail(err, LODE_E_USAGE,
                         "block %" PRIu32 " was written before", block_index);
    if (p->raw_bytes != raw_bytes)
        return lode_fail(err, LODE_E_USAGE,
                         "block %" PRIu32 " of %" PRIu32 " bytes, %" PRIu32
                         " were declared",
                         block_index, p->raw_bytes, raw_bytes);
    if (p->codec == LODE_CODEC_NONE ? p->stored_bytes != raw_bytes
                                    : p->stored_bytes >= raw_bytes ||
                                          p->stored_bytes == 0 || !w->packed)
        return lode_fail(err, LODE_E_USAGE,
                         "block %" PRIu32 ": %" PRIu32
                         " bytes stored as %" PRIu32 " with codec %u",
                         block_index, raw_bytes, p->stored_bytes, p->codec);
    return p->image == NULL || check_gaps(w, block_index, p->image, err);
}

/* Remember a block that is in its file. */
static bool
note_block(struct lode_writer *w, uint32_t block_index,
           const struct lode_parcel *p, struct lode_error *err)
{
    struct lode_writer_file *f = file_of(w, block_index);
    struct lode_entry e = {.type = LODE_ENTRY_BLOCK,
                           .offset = f->next_offset,
                           .hash = p->seal.hash,
                           .block_index = block_index,
                           .stored_bytes = p->stored_bytes,
                           .volume_index = (uint16_t)(f - w->files),
                           .codec = p->codec,
                           .filters = p->filters};

    memcpy(e.content, p->seal.content, LODE_DIGEST_BYTES);
    memcpy(e.stored, p->seal.stored, LODE_DIGEST_BYTES);
    if (w->journaled && !lode_journal_append(&w->journal, &e, err))
        return false;
    enter(w, &e);
    w->unsynced_bytes += p->stored_bytes;
    if (!w->journaled || (w->unsynced_bytes < SYNC_BYTES &&
                          now_ns() - w->synced_ns < SYNC_NS))
        return true;
    return lode_writer_sync(w, err);
}

bool
lode_writer_append(struct lode_writer *w, uint32_t block_index,
                   const struct lode_parcel *p, struct lode_error *err)
{
    struct lode_writer_file *f = file_of(w, block_index);
    uint64_t bytes = lode_writer_padded_bytes(w, p->stored_bytes);

    if (!check_parcel(w, block_index, p, err))
        return false;
    memset((uint8_t *)p->stored + p->stored_bytes, 0,
           (size_t)(bytes - p->stored_bytes));
    return lode_output_write(&f->output, f->next_offset, p->stored, bytes,
                             err) &&
           note_block(w, block_index, p, err);
}

/* The last page of a block, whose padding may be anything where it comes from,
 * and the rest of its extent. */
static bool
copy_tail(struct lode_writer *w, struct lode_writer_file *f,
          const struct lode_parcel *p, int fd, uint64_t offset,
          struct lode_error *err)
{
    uint64_t whole = p->stored_bytes / 4096U * 4096U;
    uint64_t bytes = lode_writer_padded_bytes(w, p->stored_bytes) - whole;
    void *tail = NULL;
    bool ok;

    if (bytes == 0)
        return true;
    if (!lode_alloc_aligned(bytes, "block", &tail, err))
        return false;
    ok = lode_file_read(fd, offset + whole, tail,
                        (size_t)(p->stored_bytes - whole), err) &&
         lode_output_write(&f->output, f->next_offset + whole, tail, bytes,
                           err);
    lode_free_aligned(tail, bytes);
    return ok;
}

bool
lode_writer_copy(struct lode_writer *w, uint32_t block_index,
                 const struct lode_parcel *p, int fd, uint64_t offset,
                 struct lode_error *err)
{
    struct lode_writer_file *f = file_of(w, block_index);
    struct lode_parcel known = *p;

    known.image = NULL;
    return check_parcel(w, block_index, &known, err) &&
           lode_output_copy(&f->output, f->next_offset, fd, offset,
                            p->stored_bytes / 4096U * 4096U, err) &&
           copy_tail(w, f, p, fd, offset, err) &&
           note_block(w, block_index, p, err);
}

void
lode_writer_absent(struct lode_writer *w, uint32_t block_index,
                   const uint8_t content[LODE_DIGEST_BYTES])
{
    assert(w->begun && w->partial && !lode_writer_done(w, block_index));
    memcpy(w->contents + (size_t)block_index * LODE_DIGEST_BYTES, content,
           LODE_DIGEST_BYTES);
}

/* ---- durability ---- */

static bool
sync_all(struct lode_writer *w, struct lode_error *err)
{
    const struct lode_entry mark = {.type = LODE_ENTRY_SYNC};

    for (uint32_t i = 0; i < w->file_count; i++)
        if (!lode_output_sync(&w->files[i].output, false, err))
            return false;
    if (!lode_journal_append(&w->journal, &mark, err) ||
        !lode_journal_sync(&w->journal, err))
        return false;
    /* Files that have no name after a power cut are of no use. */
    return w->folder_synced ||
           lode_output_sync_folder(&w->files[0].output, err);
}

bool
lode_writer_sync(struct lode_writer *w, struct lode_error *err)
{
    assert(w->journaled && w->begun);
    if (w->sync_failed)
        return lode_fail(err, LODE_E_IO, "%s: an earlier sync failed",
                         w->files[0].output.wip_path);
    if (!sync_all(w, err)) {
        w->sync_failed = true;
        lode_journal_distrust(&w->journal);
        return false;
    }
    w->folder_synced = true;
    w->journal.synced_count = w->journal.count;
    w->unsynced_bytes = 0;
    w->synced_ns = now_ns();
    return true;
}

bool
lode_writer_note(struct lode_writer *w, uint32_t key,
                 const uint8_t data[LODE_DIGEST_BYTES], struct lode_error *err)
{
    struct lode_entry e = {.type = LODE_ENTRY_NOTE, .block_index = key};

    assert(w->journaled && w->begun);
    memcpy(e.content, data, LODE_DIGEST_BYTES);
    return put_note(w, key, data, err) &&
           lode_journal_append(&w->journal, &e, err);
}

const uint8_t *
lode_writer_noted(const struct lode_writer *w, uint32_t key)
{
    const struct lode_note *notes = (const void *)w->notes.data;

    for (size_t i = 0; i < w->notes.used_bytes / sizeof(*notes); i++)
        if (notes[i].key == key)
            return notes[i].data;
    return NULL;
}
