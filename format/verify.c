/* SPDX-License-Identifier: Apache-2.0
 *
 * A pass over every byte of a container or set (spec 10.4), in pieces of 4 MiB.
 * Unlike the reader it goes on after a fault: a person with a damaged file
 * wants to know everything that must be fetched again.
 *
 * Whoever checks writes findings into a buffer; they are told, in order, by
 * one thread.  So the report is the same however many threads check. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/file.h"
#include "format/rules.h"
#include "format/verify_state.h"

/* ---- findings ---- */

struct finding {
    int64_t block_index;
    uint32_t file;
    bool stops; /* a check could not be made, for err */
    struct lode_error err;
    char where[512];
    char what[LODE_ERROR_TEXT_BYTES];
};

static void
add(struct lode_look *l, const struct finding *f)
{
    struct lode_error err;

    l->fault_count++;
    if (!lode_buf_append(l->found, f, sizeof(*f), &err))
        l->lost = true;
}

void
lode_look_report(struct lode_look *l, const char *where, const char *fmt, ...)
{
    struct finding f = {.block_index = l->block_index,
                        .file = l->f->sb.volume_index};
    va_list ap;

    (void)snprintf(f.where, sizeof(f.where), "%s%s", l->f->prefix, where);
    va_start(ap, fmt);
    (void)vsnprintf(f.what, sizeof(f.what), fmt, ap); /* may be cut */
    va_end(ap);
    add(l, &f);
}

void
lode_look_stop(struct lode_look *l, const char *where,
               const struct lode_error *err)
{
    struct finding f = {.block_index = l->block_index,
                        .file = l->f->sb.volume_index,
                        .stops = true,
                        .err = *err};

    (void)snprintf(f.where, sizeof(f.where), "%s%s", l->f->prefix, where);
    (void)snprintf(f.what, sizeof(f.what), "%s", err->text);
    lode_fail_in(&f.err, "%s", f.where);
    add(l, &f);
}

bool
lode_look_read(struct lode_look *l, uint64_t offset, uint64_t bytes,
               const char *where)
{
    struct lode_error err;

    if (!lode_in_range(offset, bytes, l->f->file_bytes)) {
        lode_look_report(l, where, "cut off: the file ends at %" PRIu64,
                         l->f->file_bytes);
        return false;
    }
    if (!lode_file_read(l->f->fd, offset, l->piece, (size_t)bytes, &err)) {
        lode_look_stop(l, where, &err);
        return false;
    }
    l->bytes += bytes;
    return true;
}

void
lode_look_zero(struct lode_look *l, uint64_t offset, uint64_t end,
               const char *where)
{
    uint64_t wrong_count = 0;
    uint64_t first = 0;
    uint8_t value = 0;

    if (l->v->opt->level < LODE_VERIFY_STRICT)
        return;
    if (end > l->f->file_bytes)
        end = l->f->file_bytes; /* reported where the size is compared */
    while (offset < end) {
        uint64_t bytes = lode_look_piece(end - offset);

        if (!lode_look_read(l, offset, bytes, where))
            return;
        for (uint64_t i = lode_look_is_zero(l->piece, bytes) ? bytes : 0;
             i < bytes; i++) {
            if (l->piece[i] == 0)
                continue;
            if (wrong_count++ == 0) {
                first = offset + i;
                value = l->piece[i];
            }
        }
        offset += bytes;
    }
    if (wrong_count != 0)
        lode_look_report(l, where,
                         "byte at %" PRIu64 " is 0x%02x, expected 0 (%" PRIu64
                         " such bytes)",
                         first, value, wrong_count);
}

/* ---- telling ---- */

static void
tell(struct lode_verifier *v, const struct lode_buf *found)
{
    for (size_t at = 0; at < found->used_bytes; at += sizeof(struct finding)) {
        struct finding f;
        struct lode_fault fault = {.where = f.where, .what = f.what};

        memcpy(&f, found->data + at, sizeof(f));
        fault.block_index = f.block_index;
        fault.volume_index = f.file;
        v->fault_count++;
        if (v->opt->fault != NULL)
            v->opt->fault(v->opt->user, &fault);
        if (f.stops && !v->stopped) {
            v->stopped = true;
            v->why = f.err;
        }
    }
}

/* For what has no file to look at. */
static void
tell_one(struct lode_verifier *v, const char *where, const char *what)
{
    const struct lode_fault f = {
        .where = where, .what = what, .block_index = LODE_NO_INDEX};

    v->fault_count++;
    if (v->opt->fault != NULL)
        v->opt->fault(v->opt->user, &f);
}

/* ---- opening ---- */

static void
look_begin(struct lode_look *l, const struct lode_verifier *v,
           const struct lode_verify_file *f, uint8_t *piece,
           struct lode_buf *found)
{
    memset(l, 0, sizeof(*l));
    l->v = v;
    l->f = f;
    l->piece = piece;
    l->found = found;
    l->block_index = LODE_NO_INDEX;
}

/* The largest image that a packed block has. */
static void
count_image(struct lode_verifier *v, const struct lode_verify_file *f)
{
    for (uint32_t i = 0; f->index_good && i < f->block_count; i++) {
        struct lode_block_record r;

        lode_index_block(&f->index, f->order[i], &r);
        if (r.block.codec != LODE_CODEC_NONE &&
            r.block.raw_bytes > v->image_bytes)
            v->image_bytes = r.block.raw_bytes;
    }
}

/* Check all of a file but its blocks, and list those.  Volume 0 is the file at
 * v->path.  False: out of memory. */
static bool
open_file(struct lode_verifier *v, const char *path, uint32_t volume_index,
          uint8_t *piece, struct lode_error *err)
{
    struct lode_verify_file *f = &v->files[v->file_count++];
    struct lode_buf found = {0};
    struct lode_look l;
    struct lode_error why;
    bool same = true;
    bool lost;

    f->prefix = volume_index == 0 ? "" : v->names[volume_index - 1];
    f->sb.volume_index = (uint16_t)volume_index; /* until it is known */
    look_begin(&l, v, f, piece, &found);
    if (!lode_strndup(path, strlen(path), &f->path, err))
        return false;
    if (!lode_file_open(path, &f->fd, &f->file_bytes, &why)) {
        f->fd = -1;
        lode_look_stop(&l, "file", &why);
    } else if (lode_verify_index(&l, f, &why)) {
        /* Only a hint. */
        (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
        if (volume_index != 0)
            lode_verify_volume(&l, &v->files[0], volume_index, &same);
        if (same)
            lode_verify_list_blocks(&l, f);
        f->first_part = v->part_count;
        f->part_count = same ? f->block_count + 1 : 0;
        v->part_count += f->part_count;
        count_image(v, f);
    }
    v->total_bytes += f->file_bytes;
    tell(v, &found);
    lost = l.lost;
    lode_buf_fini(&found);
    if (v->opt->progress != NULL && !v->opt->progress(v->opt->user, l.bytes))
        v->cancelled = true;
    return !lost || lode_fail(err, LODE_E_NOMEM, "faults: out of memory");
}

/* The first file of this name beside the head, or in a folder; *path is for
 * free(), or NULL. */
static bool
find_volume(const struct lode_verifier *v, const char *name, char **path,
            struct lode_error *err)
{
    const char *const *folders = v->opt->folders;
    const char *slash = strrchr(v->path, '/');
    char *beside = NULL;
    struct stat st;
    bool ok;

    *path = NULL;
    if (!lode_strndup(slash != NULL ? v->path : ".",
                      slash == NULL
                          ? 1
                          : (uint64_t)(slash - v->path) + (slash == v->path),
                      &beside, err))
        return false;
    ok = lode_path_join(beside, name, path, err);
    free(beside);
    while (ok && stat(*path, &st) != 0 &&
           (errno == ENOENT || errno == ENOTDIR)) {
        free(*path);
        *path = NULL;
        if (folders == NULL || *folders == NULL)
            break;
        ok = lode_path_join(*folders++, name, path, err);
    }
    return ok;
}

static bool
open_volume(struct lode_verifier *v, uint32_t i, uint8_t *piece,
            struct lode_error *err)
{
    struct lode_volume_record record;
    char prefix[300];
    const char *name;
    char *path = NULL;
    bool ok;

    lode_index_volume(&v->files[0].index, i, &record, &name);
    (void)snprintf(prefix, sizeof(prefix), "volume %.256s", name);
    if (!find_volume(v, name, &path, err))
        return false;
    if (path == NULL) {
        tell_one(v, prefix, "is missing");
        return true;
    }
    (void)snprintf(prefix, sizeof(prefix), "volume %.256s: ", name);
    ok = lode_strndup(prefix, strlen(prefix), &v->names[i - 1], err) &&
         open_file(v, path, i, piece, err);
    free(path);
    return ok;
}

/* Room for count files; those that are open move. */
static bool
make_files(struct lode_verifier *v, uint32_t count, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(count, sizeof(*v->files), v->path, &p, err))
        return false;
    if (v->file_count != 0)
        memcpy(p, v->files, v->file_count * sizeof(*v->files));
    free(v->files);
    v->files = p;
    return true;
}

static bool
open_all(struct lode_verifier *v, uint8_t *piece, struct lode_error *err)
{
    const struct lode_verify_file *head;
    uint32_t volume_count;
    void *p = NULL;

    if (!make_files(v, 1, err) || !open_file(v, v->path, 0, piece, err))
        return false;
    head = &v->files[0];
    if (head->index_good)
        v->absent_count =
            head->index.summary.block_count - head->index.summary.present_count;
    volume_count = head->sb.volume_index == 0 ? head->sb.volume_count : 1;
    if (volume_count <= 1 || head->fd < 0)
        return true;
    if (!head->index_good) {
        tell_one(v, "volumes", "not checked: the head's index is damaged");
        return true;
    }
    if (!lode_alloc_array(volume_count, sizeof(*v->names), "volumes", &p, err))
        return false;
    v->names = p;
    if (!make_files(v, volume_count, err))
        return false;
    for (uint32_t i = 1; i < volume_count && !v->cancelled; i++)
        if (!open_volume(v, i, piece, err))
            return false;
    return true;
}

bool
lode_verifier_open(const char *path, const struct lode_verify_options *opt,
                   struct lode_verifier **out, struct lode_error *err)
{
    struct lode_verifier *v;
    void *piece = NULL;
    void *p = NULL;
    bool good;

    if (!lode_alloc_array(1, sizeof(*v), path, &p, err))
        return false;
    v = p;
    v->opt = opt;
    v->image_bytes = 1;
    good = lode_strndup(path, strlen(path), &v->path, err) &&
           lode_alloc_aligned(LODE_VERIFY_PIECE_BYTES, "buffer", &piece, err) &&
           open_all(v, piece, err);
    lode_free_aligned(piece, LODE_VERIFY_PIECE_BYTES);
    if (good) {
        *out = v;
        return true;
    }
    lode_verifier_close(v);
    return lode_fail_in(err, "%s", path);
}

void
lode_verifier_close(struct lode_verifier *v)
{
    if (v == NULL)
        return;
    for (uint32_t i = 0; i < v->file_count; i++) {
        struct lode_verify_file *f = &v->files[i];

        if (f->fd >= 0)
            (void)close(f->fd); /* nothing was written */
        lode_index_fini(&f->index);
        free(f->contents);
        free(f->stored);
        free(f->order);
        free(f->records);
        free(f->path);
    }
    for (uint32_t i = 1; v->names != NULL && i < v->files[0].sb.volume_count;
         i++)
        free(v->names[i - 1]);
    free(v->names);
    free(v->files);
    free(v->path);
    free(v);
}

/* ---- parts ---- */

uint32_t
lode_verifier_part_count(const struct lode_verifier *v)
{
    return v->part_count;
}

uint64_t
lode_verifier_bytes(const struct lode_verifier *v)
{
    return v->total_bytes;
}

const char *
lode_verifier_file(const struct lode_verifier *v, uint32_t i,
                   uint32_t *volume_index)
{
    if (i >= v->file_count)
        return NULL;
    *volume_index = v->files[i].sb.volume_index;
    return v->files[i].path;
}

uint32_t
lode_verifier_image_bytes(const struct lode_verifier *v)
{
    return v->image_bytes;
}

static const struct lode_verify_file *
file_of(const struct lode_verifier *v, uint32_t part)
{
    const struct lode_verify_file *f = v->files;

    while (part - f->first_part >= f->part_count)
        f++; /* every part is some file's */
    return f;
}

bool
lode_verifier_check(const struct lode_verifier *v, uint32_t part,
                    struct lode_scratch *s, void *image, struct lode_buf *found,
                    struct lode_error *err)
{
    const struct lode_verify_file *f = file_of(v, part);
    struct lode_look l;

    if (!lode_scratch_room(s, LODE_VERIFY_PIECE_BYTES, err))
        return false;
    look_begin(&l, v, f, s->stored, found);
    lode_verify_part(&l, part - f->first_part, s, image);
    return !l.lost || lode_fail(err, LODE_E_NOMEM, "faults: out of memory");
}

bool
lode_verifier_tell(struct lode_verifier *v, uint32_t part,
                   const struct lode_buf *found)
{
    const struct lode_verify_file *f = file_of(v, part);
    struct lode_look l;
    uint64_t bytes;

    look_begin(&l, v, f, NULL, NULL);
    bytes = lode_verify_part_bytes(&l, part - f->first_part);
    tell(v, found);
    if (v->opt->progress != NULL && !v->opt->progress(v->opt->user, bytes))
        v->cancelled = true;
    return !v->cancelled;
}

bool
lode_verifier_result(const struct lode_verifier *v, uint64_t *fault_count,
                     struct lode_error *err)
{
    *fault_count = v->fault_count;
    if (v->opt->absent_count != NULL)
        *v->opt->absent_count = v->absent_count;
    if (v->cancelled)
        return lode_fail(err, LODE_E_CANCELLED, "%s: cancelled", v->path);
    if (!v->stopped)
        return true;
    *err = v->why;
    /* What could not be opened has named its path. */
    return v->files[0].fd < 0 ? false : lode_fail_in(err, "%s", v->path);
}

/* ---- by one thread ---- */

static bool
check_parts(struct lode_verifier *v, struct lode_error *err)
{
    struct lode_scratch s = {0};
    struct lode_buf found = {0};
    void *image = NULL;
    bool good = lode_alloc_aligned(v->image_bytes, "block", &image, err);

    for (uint32_t i = 0; good && i < v->part_count && !v->cancelled; i++) {
        found.used_bytes = 0;
        good = lode_verifier_check(v, i, &s, image, &found, err);
        if (!lode_verifier_tell(v, i, &found))
            break;
    }
    lode_free_aligned(image, v->image_bytes);
    lode_buf_fini(&found);
    lode_scratch_fini(&s);
    return good || lode_fail_in(err, "%s", v->path);
}

bool
lode_verify(const char *path, const struct lode_verify_options *opt,
            uint64_t *fault_count, struct lode_error *err)
{
    struct lode_verifier *v = NULL;
    bool good;

    *fault_count = 0;
    if (opt->absent_count != NULL)
        *opt->absent_count = 0;
    good = lode_verifier_open(path, opt, &v, err) && check_parts(v, err);
    if (v != NULL)
        *fault_count = v->fault_count;
    if (good) {
        good = lode_verifier_result(v, fault_count, err);
    } else {
        const struct lode_fault f = {
            .where = "memory", .what = err->text, .block_index = LODE_NO_INDEX};

        ++*fault_count;
        if (opt->fault != NULL)
            opt->fault(opt->user, &f);
    }
    lode_verifier_close(v);
    return good;
}
