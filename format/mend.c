/* SPDX-License-Identifier: Apache-2.0
 *
 * Repair in place.  Of two superblocks one counts (spec 3.3) and says what the
 * rest must be; whatever is written was compared with its digest before. */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
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
#include "format/lode_write.h"
#include "format/root.h"
#include "format/rules.h"

enum { ZERO_BYTES = 1 << 20 };

struct lode_mender {
    char *path;
    int fd;
    bool dry_run;
    uint64_t file_bytes;
    uint8_t slots[2][LODE_SUPERBLOCK_BYTES];
    uint8_t good[LODE_SUPERBLOCK_BYTES];
    struct lode_superblock sb;
    struct lode_index index; /* after lode_mender_frame() */
    uint8_t *zeros;          /* twice ZERO_BYTES: read into the second half */
    uint8_t *contents;
    uint8_t *stored;
};

static const uint64_t slot_offsets[2] = {0, LODE_SLOT_B_OFFSET};

static bool
write_at(struct lode_mender *m, uint64_t offset, const void *data, size_t bytes,
         struct lode_error *err)
{
    return m->dry_run || lode_file_write(m->fd, offset, data, bytes, err);
}

static bool
sync_file(struct lode_mender *m, struct lode_error *err)
{
    return m->dry_run || fsync(m->fd) == 0 || lode_fail_errno(err, "sync");
}

/* ---- opening ---- */

/* The superblock of an open file, both slots as they are, zeros where the file
 * is too short. */
static bool
read_slots(int fd, uint64_t file_bytes, uint8_t slots[2][LODE_SUPERBLOCK_BYTES],
           uint8_t *good, struct lode_superblock *sb, struct lode_error *err)
{
    size_t head_bytes =
        file_bytes < LODE_INDEX_OFFSET ? (size_t)file_bytes : LODE_INDEX_OFFSET;
    const uint8_t *raw;
    void *head = NULL;
    bool ok = false;

    if (!lode_alloc_array(LODE_INDEX_OFFSET, 1, "superblocks", &head, err))
        return false;
    if (!lode_file_read(fd, 0, head, head_bytes, err))
        goto out;
    raw = lode_head_choose(head, head_bytes);
    if (raw == NULL) {
        ok = lode_head_decode(head, head_bytes, file_bytes, sb, err);
        goto out; /* it says why not */
    }
    for (int i = 0; i < 2; i++)
        memcpy(slots[i], (uint8_t *)head + slot_offsets[i],
               LODE_SUPERBLOCK_BYTES);
    memcpy(good, raw, LODE_SUPERBLOCK_BYTES);
    lode_superblock_decode(raw, sb);
    /* The size is repaired; all other rules must be kept. */
    ok = lode_head_decode(head, head_bytes, sb->file_bytes, sb, err);
out:
    free(head);
    return ok;
}

/* Spec 8.7 and 8.8: does the superblock contradict itself? */
static bool
check_identity(const struct lode_superblock *sb, struct lode_error *err)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    uint8_t set[16];
    uint8_t volume[16];

    lode_root_index(sb, digest);
    lode_root_uuids(sb, set, volume);
    if (memcmp(digest, sb->index_digest, sizeof(digest)) == 0 &&
        memcmp(set, sb->set_uuid, sizeof(set)) == 0 &&
        memcmp(volume, sb->volume_uuid, sizeof(volume)) == 0)
        return true;
    return lode_fail(err, LODE_E_CORRUPT,
                     "superblock contradicts itself: index digest or UUIDs do "
                     "not match");
}

bool
lode_mender_open(const char *path, bool dry_run, struct lode_mender **out,
                 struct lode_error *err)
{
    struct lode_mender *m;
    uint64_t file_bytes;
    void *p = NULL;
    int fd = -1;

    /* Refuses what is no regular file. */
    if (!lode_file_open(path, &fd, &file_bytes, err))
        return false;
    (void)close(fd); /* nothing was written */
    if (!lode_alloc_array(1, sizeof(*m), path, &p, err))
        return false;
    m = p;
    m->fd = open(path, (dry_run ? O_RDONLY : O_RDWR) | O_CLOEXEC);
    m->dry_run = dry_run;
    m->file_bytes = file_bytes;
    if (m->fd < 0) {
        lode_fail_errno(err, "%s", path);
        lode_mender_close(m);
        return false;
    }
    if (lode_strndup(path, strlen(path), &m->path, err) &&
        lode_alloc_array(2, ZERO_BYTES, "buffer", &p, err)) {
        m->zeros = p;
        if (read_slots(m->fd, file_bytes, m->slots, m->good, &m->sb, err) &&
            check_identity(&m->sb, err)) {
            *out = m;
            return true;
        }
    }
    lode_mender_close(m);
    return lode_fail_in(err, "%s", path);
}

void
lode_mender_close(struct lode_mender *m)
{
    if (m == NULL)
        return;
    if (m->fd >= 0)
        (void)close(m->fd); /* what was written was synced */
    lode_index_fini(&m->index);
    free(m->contents);
    free(m->stored);
    free(m->zeros);
    free(m->path);
    free(m);
}

/* ---- sections ---- */

/* The bytes of a section in an open file if they are right; NULL without a
 * message otherwise. */
static uint8_t *
read_section(int fd, const struct lode_section *s)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_error ignored; /* whatever is wrong, it is not usable */
    void *p = NULL;

    if (!lode_alloc_array(s->bytes, 1, "section", &p, &ignored))
        return NULL;
    if (lode_file_read(fd, s->offset, p, (size_t)s->bytes, &ignored) &&
        lode_hash(p, (size_t)s->bytes) == s->hash) {
        lode_digest(p, (size_t)s->bytes, digest);
        if (memcmp(digest, s->digest, sizeof(digest)) == 0)
            return p;
    }
    free(p);
    return NULL;
}

/* A source with the same index has the same sections in the same places. */
static uint8_t *
from_source(const struct lode_mender *m, const char *path,
            const struct lode_section *s)
{
    uint8_t slots[2][LODE_SUPERBLOCK_BYTES];
    uint8_t good[LODE_SUPERBLOCK_BYTES];
    struct lode_error ignored;
    struct lode_superblock sb;
    uint64_t file_bytes;
    uint8_t *data = NULL;
    int fd;

    if (!lode_file_open(path, &fd, &file_bytes, &ignored))
        return NULL;
    if (read_slots(fd, file_bytes, slots, good, &sb, &ignored) &&
        memcmp(sb.index_digest, m->sb.index_digest, LODE_DIGEST_BYTES) == 0)
        data = read_section(fd, s);
    (void)close(fd); /* nothing was written */
    return data;
}

static bool
mend_section(struct lode_mender *m, const struct lode_section *s,
             const char *const *sources, struct lode_mended *out,
             struct lode_error *err)
{
    uint8_t *data = read_section(m->fd, s);
    bool ok;

    if (data != NULL) {
        free(data);
        return true;
    }
    for (; data == NULL && sources != NULL && *sources != NULL; sources++)
        data = from_source(m, *sources, s);
    if (data == NULL)
        return lode_fail(err, LODE_E_CORRUPT,
                         "section %s is damaged, and the source has not this "
                         "very index; make the container again from its "
                         "checkpoint",
                         lode_rules_section_name(s->type));
    ok = write_at(m, s->offset, data, (size_t)s->bytes, err);
    free(data);
    out->section_count++;
    return ok;
}

/* ---- what belongs to nothing ---- */

static bool
mend_zeros(struct lode_mender *m, uint64_t at, uint64_t end,
           struct lode_mended *out, struct lode_error *err)
{
    uint8_t *found = m->zeros + ZERO_BYTES;

    while (at < end) {
        size_t n = end - at < ZERO_BYTES ? (size_t)(end - at) : ZERO_BYTES;
        uint64_t before = out->zeroed_bytes;

        if (!lode_file_read(m->fd, at, found, n, err))
            return false;
        for (size_t i = memcmp(found, m->zeros, n) == 0 ? n : 0; i < n; i++)
            out->zeroed_bytes += found[i] != 0;
        if (out->zeroed_bytes != before && !write_at(m, at, m->zeros, n, err))
            return false;
        at += n;
    }
    return true;
}

/* Between sections: the end of one to the start of the next above it. */
static bool
mend_index_gaps(struct lode_mender *m, struct lode_mended *out,
                struct lode_error *err)
{
    uint64_t at = LODE_INDEX_OFFSET;

    if (!mend_zeros(m, LODE_SUPERBLOCK_BYTES, LODE_SLOT_B_OFFSET, out, err) ||
        !mend_zeros(m, LODE_SLOT_B_OFFSET + LODE_SUPERBLOCK_BYTES, at, out,
                    err))
        return false;
    while (at < m->sb.data_offset) {
        const struct lode_section *next = NULL;

        for (uint32_t i = 0; i < m->sb.section_count; i++) {
            const struct lode_section *s = &m->sb.sections[i];

            if (s->bytes != 0 && s->offset >= at &&
                (next == NULL || s->offset < next->offset))
                next = s;
        }
        if (!mend_zeros(m, at, next != NULL ? next->offset : m->sb.data_offset,
                        out, err))
            return false;
        at = next != NULL ? next->offset + next->bytes : m->sb.data_offset;
    }
    return true;
}

static bool
mend_block_gaps(struct lode_mender *m, struct lode_mended *out,
                struct lode_error *err)
{
    uint64_t at = m->sb.data_offset;
    uint32_t *order = NULL;
    bool ok = true;

    if (!lode_index_by_offset(&m->index, &order, err))
        return false;
    for (uint32_t i = 0; ok && i < m->index.summary.present_count; i++) {
        struct lode_block_record r;

        lode_index_block(&m->index, order[i], &r);
        if (r.block.volume_index != m->sb.volume_index)
            break; /* sorted: the rest lies in volumes */
        ok = mend_zeros(m, at, r.block.offset, out, err);
        at = r.block.offset + r.block.stored_bytes;
    }
    free(order);
    return ok && mend_zeros(m, at, m->sb.file_bytes, out, err);
}

/* ---- the frame ---- */

static bool
mend_size(struct lode_mender *m, struct lode_mended *out,
          struct lode_error *err)
{
    if (m->file_bytes == m->sb.file_bytes)
        return true;
    out->size = true;
    if (m->dry_run)
        return true;
    if (ftruncate(m->fd, (off_t)m->sb.file_bytes) != 0)
        return lode_fail_errno(err, "resize to %" PRIu64 " bytes",
                               m->sb.file_bytes);
    m->file_bytes = m->sb.file_bytes;
    return true;
}

static bool
load_index(struct lode_mender *m, struct lode_error *err)
{
    const struct lode_section *content =
        lode_rules_section(&m->sb, LODE_SECTION_CONTENT_DIGESTS);
    const struct lode_section *stored =
        lode_rules_section(&m->sb, LODE_SECTION_STORED_DIGESTS);
    void *hot = NULL;

    if (!lode_alloc_array(m->sb.hot_bytes, 1, "index", &hot, err))
        return false;
    if (!lode_file_read(m->fd, m->sb.hot_offset, hot, (size_t)m->sb.hot_bytes,
                        err)) {
        free(hot);
        return false;
    }
    if (!lode_index_decode(&m->sb, hot, &m->index, err))
        return false;
    m->contents = read_section(m->fd, content);
    if (stored != NULL && stored->count != 0)
        m->stored = read_section(m->fd, stored);
    return m->contents != NULL ||
           lode_fail(err, LODE_E_CORRUPT, "content digests cannot be read");
}

/* The other slot, when all it speaks of is in its place. */
static bool
mend_slots(struct lode_mender *m, struct lode_mended *out,
           struct lode_error *err)
{
    for (int i = 1; i >= 0; i--) {
        if (memcmp(m->slots[i], m->good, LODE_SUPERBLOCK_BYTES) == 0)
            continue;
        out->slot = true;
        if (!write_at(m, slot_offsets[i], m->good, LODE_SUPERBLOCK_BYTES, err))
            return false;
        memcpy(m->slots[i], m->good, LODE_SUPERBLOCK_BYTES);
    }
    return true;
}

static bool
mend_frame(struct lode_mender *m, const char *const *sources,
           struct lode_mended *out, struct lode_error *err)
{
    if (!mend_size(m, out, err))
        return false;
    for (uint32_t i = 0; i < m->sb.section_count; i++)
        if (!mend_section(m, &m->sb.sections[i], sources, out, err))
            return false;
    if (m->dry_run && (out->size || out->section_count != 0))
        return true; /* what is behind cannot be looked at */
    return load_index(m, err) && mend_index_gaps(m, out, err) &&
           mend_block_gaps(m, out, err) && sync_file(m, err) &&
           mend_slots(m, out, err) && sync_file(m, err);
}

bool
lode_mender_frame(struct lode_mender *m, const char *const *sources,
                  struct lode_mended *out, struct lode_error *err)
{
    memset(out, 0, sizeof(*out));
    return mend_frame(m, sources, out, err) || lode_fail_in(err, "%s", m->path);
}

/* ---- blocks ---- */

static bool
check_stored(const struct lode_mender *m, uint32_t block_index,
             const struct lode_block *b, const void *stored,
             uint32_t stored_bytes, struct lode_error *err)
{
    const uint8_t *wanted = m->stored != NULL ? m->stored : m->contents;
    const struct lode_section *s = lode_rules_section(
        &m->sb, m->stored != NULL ? LODE_SECTION_STORED_DIGESTS
                                  : LODE_SECTION_CONTENT_DIGESTS);
    uint8_t found[LODE_DIGEST_BYTES];
    struct lode_tree tree;

    if (stored_bytes != b->stored_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " bytes, expected %" PRIu32, stored_bytes,
                         b->stored_bytes);
    lode_tree_begin(&tree);
    lode_tree_data(&tree, stored, stored_bytes);
    lode_tree_end(&tree, found);
    wanted +=
        (uint64_t)lode_index_record(&m->index, block_index) * s->record_bytes;
    if (lode_hash(stored, stored_bytes) != b->hash ||
        memcmp(found, wanted, sizeof(found)) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "other bytes than those that are recorded");
    return true;
}

bool
lode_mender_block(struct lode_mender *m, uint32_t block_index,
                  const void *stored, uint32_t stored_bytes,
                  struct lode_error *err)
{
    struct lode_block_record r;
    struct lode_block *b = &r.block;
    char name[256];
    uint64_t end;

    lode_index_block(&m->index, block_index, &r);
    end = b->offset + b->stored_bytes;
    if (!b->present || b->volume_index != m->sb.volume_index)
        lode_fail(err, LODE_E_CORRUPT, "not in this file");
    else if (check_stored(m, block_index, b, stored, stored_bytes, err) &&
             write_at(m, b->offset, stored, stored_bytes, err) &&
             write_at(m, end, m->zeros,
                      (size_t)(b->offset +
                               lode_index_padded_bytes(&m->index, b) - end),
                      err) &&
             sync_file(m, err))
        return true;
    lode_fail_in(
        err, "%s",
        lode_index_block_name(&m->index, block_index, name, sizeof(name)));
    return lode_fail_in(err, "%s", m->path);
}
