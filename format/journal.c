/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/hash.h"

enum { ENTRY_BYTES = 192, CHECKSUM_OFFSET = 184, ENTRY_START = 0 };

static const uint8_t magic[4] = {'L', 'D', 'J', '1'};

static void
encode(const struct lode_entry *e, uint64_t number,
       const uint8_t plan[LODE_DIGEST_BYTES], uint8_t raw[ENTRY_BYTES])
{
    memset(raw, 0, ENTRY_BYTES);
    memcpy(raw, magic, sizeof(magic));
    lode_store_u32(raw + 4, e->type);
    lode_store_u64(raw + 8, number);
    lode_store_u64(raw + 16, e->offset);
    lode_store_u64(raw + 24, e->hash);
    lode_store_u32(raw + 32, e->block_index);
    lode_store_u32(raw + 36, e->stored_bytes);
    lode_store_u16(raw + 40, e->volume_index);
    raw[42] = e->codec;
    raw[43] = e->filters;
    memcpy(raw + 48, e->content, LODE_DIGEST_BYTES);
    memcpy(raw + 80, e->stored, LODE_DIGEST_BYTES);
    memcpy(raw + 112, plan, LODE_DIGEST_BYTES);
    lode_store_u64(raw + CHECKSUM_OFFSET, lode_hash(raw, CHECKSUM_OFFSET));
}

static void
decode(const uint8_t raw[ENTRY_BYTES], struct lode_entry *e)
{
    e->type = (enum lode_entry_type)lode_load_u32(raw + 4);
    e->offset = lode_load_u64(raw + 16);
    e->hash = lode_load_u64(raw + 24);
    e->block_index = lode_load_u32(raw + 32);
    e->stored_bytes = lode_load_u32(raw + 36);
    e->volume_index = lode_load_u16(raw + 40);
    e->codec = raw[42];
    e->filters = raw[43];
    memcpy(e->content, raw + 48, LODE_DIGEST_BYTES);
    memcpy(e->stored, raw + 80, LODE_DIGEST_BYTES);
}

/* Is this whole, and number i? */
static bool
is_entry(const uint8_t raw[ENTRY_BYTES], uint64_t i)
{
    return memcmp(raw, magic, sizeof(magic)) == 0 &&
           lode_load_u64(raw + 8) == i &&
           lode_load_u64(raw + CHECKSUM_OFFSET) ==
               lode_hash(raw, CHECKSUM_OFFSET);
}

bool
lode_journal_path(const char *out_path, char **path, struct lode_error *err)
{
    static const char suffix[] = ".wip.journal";
    size_t bytes = strlen(out_path);
    void *p = NULL;

    if (!lode_alloc_array(bytes + sizeof(suffix), 1, "path", &p, err))
        return false;
    memcpy(p, out_path, bytes);
    memcpy((char *)p + bytes, suffix, sizeof(suffix));
    *path = p;
    return true;
}

/* The bytes of entry i; *found false when the file ends before its end. */
static bool
read_raw(int fd, uint64_t i, uint8_t raw[ENTRY_BYTES], bool *found,
         struct lode_error *err)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return lode_fail_errno(err, "journal");
    *found = (uint64_t)st.st_size / ENTRY_BYTES > i;
    return !*found ||
           lode_file_read(fd, i * ENTRY_BYTES, raw, ENTRY_BYTES, err);
}

bool
lode_journal_read(int fd, const uint8_t plan[LODE_DIGEST_BYTES], uint64_t i,
                  struct lode_entry *out, bool *found, struct lode_error *err)
{
    uint8_t raw[ENTRY_BYTES];

    if (!read_raw(fd, i + 1, raw, found, err)) /* 0 only names the plan */
        return false;
    *found = *found && is_entry(raw, i + 1) &&
             memcmp(raw + 112, plan, LODE_DIGEST_BYTES) == 0;
    if (*found)
        decode(raw, out);
    return true;
}

bool
lode_journal_peek(const char *path, const uint8_t plan[LODE_DIGEST_BYTES],
                  enum lode_journal_state *state, struct lode_error *err)
{
    uint8_t raw[ENTRY_BYTES];
    bool found;
    bool ok;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    *state = LODE_JOURNAL_NONE;
    if (fd < 0)
        return errno == ENOENT ? true : lode_fail_errno(err, "%s", path);
    ok = read_raw(fd, 0, raw, &found, err);
    (void)close(fd); /* nothing was written */
    if (!ok)
        return lode_fail_in(err, "%s", path);
    if (found && is_entry(raw, 0))
        *state = memcmp(raw + 112, plan, LODE_DIGEST_BYTES) == 0
                     ? LODE_JOURNAL_OURS
                     : LODE_JOURNAL_OTHERS;
    return true;
}

static bool
append(struct lode_journal *j, const struct lode_entry *e, uint64_t number,
       struct lode_error *err)
{
    uint8_t raw[ENTRY_BYTES];

    encode(e, number, j->plan, raw);
    if (!lode_file_write(j->fd, number * ENTRY_BYTES, raw, sizeof(raw), err))
        return lode_fail_in(err, "%s", j->path);
    return true;
}

/* What is cut off was torn, or tells of blocks that are not there, or soon will
 * not be: it must not come back. */
static bool
cut(struct lode_journal *j, uint64_t bytes, uint64_t old_bytes,
    struct lode_error *err)
{
    if (ftruncate(j->fd, (off_t)bytes) != 0)
        return lode_fail_errno(err, "%s", j->path);
    if (old_bytes > bytes && fsync(j->fd) != 0)
        return lode_fail_errno(err, "sync of %s", j->path);
    return true;
}

bool
lode_journal_open(struct lode_journal *j, const char *path,
                  const uint8_t plan[LODE_DIGEST_BYTES], uint64_t keep,
                  struct lode_error *err)
{
    const struct lode_entry start = {.type = (enum lode_entry_type)ENTRY_START};
    struct stat st;

    memset(j, 0, sizeof(*j));
    j->fd = -1;
    memcpy(j->plan, plan, LODE_DIGEST_BYTES);
    if (!lode_strndup(path, strlen(path), &j->path, err))
        return false;
    j->fd = open(path,
                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
    if (j->fd < 0)
        return lode_fail_errno(err, "%s", path);
    if (fstat(j->fd, &st) != 0)
        return lode_fail_errno(err, "%s", path);
    if (!S_ISREG(st.st_mode))
        return lode_fail(err, LODE_E_IO, "%s is in the way: not a regular file",
                         path);
    j->count = keep;
    return cut(j, keep == 0 ? 0 : (keep + 1) * ENTRY_BYTES,
               (uint64_t)st.st_size, err) &&
           (keep != 0 || append(j, &start, 0, err));
}

bool
lode_journal_append(struct lode_journal *j, const struct lode_entry *e,
                    struct lode_error *err)
{
    if (!append(j, e, j->count + 1, err))
        return false;
    j->count++;
    return true;
}

bool
lode_journal_sync(struct lode_journal *j, struct lode_error *err)
{
    if (fdatasync(j->fd) == 0)
        return true;
    return lode_fail_errno(err, "sync of %s", j->path);
}

void
lode_journal_distrust(struct lode_journal *j)
{
    j->count = j->synced_count;
    /* There is a failure to tell already. */
    (void)!ftruncate(j->fd, (off_t)((j->count + 1) * ENTRY_BYTES));
}

void
lode_journal_close(struct lode_journal *j, bool remove)
{
    if (j->fd >= 0) {
        if (remove)
            (void)unlink(j->path); /* a leftover is recognised as finished */
        (void)close(j->fd); /* synced where that matters */
    }
    free(j->path);
    memset(j, 0, sizeof(*j));
    j->fd = -1;
}
