/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/supply.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "convert/checkpoint.h"
#include "convert/choice.h"
#include "convert/origin.h"
#include "convert/window.h"

struct cv_supply {
    const struct lode_reader *target;
    const uint8_t *contents;
    const uint8_t *stored;
    struct cv_checkpoint *checkpoint;      /* this, or a container: */
    uint8_t (*digests)[LODE_DIGEST_BYTES]; /* of its files, once wanted */
    struct lode_reader *r;
    struct cv_window *w;
    uint8_t *source_contents;
    uint8_t *source_stored;
    struct cv_slot slot;
    struct cv_worker worker;
    uint32_t room_bytes; /* of the slot; 0: it has none yet */
};

/* ---- opening ---- */

static bool
open_source(struct cv_supply *s, const char *source, const char *const *folders,
            struct lode_error *err)
{
    const struct cv_checkpoint_options opt = {.follow_symlinks = true,
                                              .include_unindexed = true};
    struct cv_notes notes = {0};
    struct stat st;
    bool ok;

    if (stat(source, &st) != 0)
        return lode_fail_errno(err, "%s", source);
    if (!S_ISDIR(st.st_mode))
        return lode_reader_open_in(source, folders, &s->r, err) &&
               cv_window_open(s->r, &s->w, err) &&
               lode_reader_digests(s->r, &s->source_contents, &s->source_stored,
                                   err);
    ok = cv_checkpoint_open(source, &opt, &s->checkpoint, &notes, err);
    cv_notes_fini(&notes);
    return ok;
}

bool
cv_supply_open(const char *source, const char *const *folders,
               const struct lode_reader *target, const uint8_t *contents,
               const uint8_t *stored, struct cv_supply **out,
               struct lode_error *err)
{
    struct lode_error ignored; /* without a packer nothing is packed */
    struct cv_supply *s;
    void *p = NULL;

    if (!lode_alloc_array(1, sizeof(*s), "source", &p, err))
        return false;
    s = p;
    s->target = target;
    s->contents = contents;
    s->stored = stored != NULL ? stored : contents;
    if (!open_source(s, source, folders, err)) {
        cv_supply_close(s);
        return false;
    }
    if (lode_reader_summary(target)->packed &&
        !lode_packer_new(&s->worker.packer, &ignored))
        s->worker.packer = NULL;
    *out = s;
    return true;
}

void
cv_supply_close(struct cv_supply *s)
{
    if (s == NULL)
        return;
    cv_checkpoint_close(s->checkpoint);
    free(s->digests);
    cv_window_close(s->w);
    lode_reader_close(s->r);
    free(s->source_contents);
    free(s->source_stored);
    if (s->room_bytes != 0)
        cv_slot_fini(&s->slot, s->room_bytes);
    lode_packer_free(s->worker.packer);
    lode_scratch_fini(&s->worker.scratch);
    free(s);
}

static bool
make_room(struct cv_supply *s, uint32_t bytes, struct lode_error *err)
{
    if (s->room_bytes >= bytes)
        return true;
    if (s->room_bytes != 0)
        cv_slot_fini(&s->slot, s->room_bytes);
    s->room_bytes = bytes;
    if (cv_slot_init(&s->slot, bytes, true, err))
        return true;
    cv_slot_fini(&s->slot, bytes);
    s->room_bytes = 0;
    return false;
}

/* ---- an image from a checkpoint ---- */

static int
by_name(const void *key, const void *tensor)
{
    return strcmp(key, ((const struct cv_tensor *)tensor)->name);
}

/* The part of one tensor that lies in bytes [start, end) of the image. */
static bool
put_tensor(struct cv_supply *s, const struct lode_group *g,
           uint32_t object_index, const struct lode_tensor *t, uint64_t start,
           uint64_t end, struct lode_error *err)
{
    const struct cv_checkpoint *c = s->checkpoint;
    uint64_t first = t->raw_offset > start ? t->raw_offset : start;
    uint64_t last = t->raw_offset + t->raw_bytes;
    char name[LODE_NAME_BYTES_MAX + 32];
    const struct cv_tensor *found = NULL;

    if (last > end)
        last = end;
    if (first >= last)
        return true;
    if (!lode_tensor_name(t, g->layer, object_index, name, sizeof(name), err))
        return false;
    if (c->tensor_count != 0)
        found = bsearch(name, c->tensors, c->tensor_count,
                        sizeof(c->tensors[0]), by_name);
    if (found == NULL || found->raw_bytes != t->raw_bytes)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "the source has no tensor %.160s of %" PRIu64 " bytes",
                         name, t->raw_bytes);
    return lode_file_read(
        c->sources[found->source].fd, found->offset + (first - t->raw_offset),
        s->slot.image + (first - start), (size_t)(last - first), err);
}

static bool
hash_source(const struct cv_source *source, uint8_t *buffer,
            size_t buffer_bytes, uint8_t out[LODE_DIGEST_BYTES],
            struct lode_error *err)
{
    struct lode_sha256 *sha = NULL;
    bool ok = lode_sha256_new(&sha, err);

    for (uint64_t at = 0; ok && at < source->file_bytes;) {
        uint64_t left = source->file_bytes - at;
        size_t n = left < buffer_bytes ? (size_t)left : buffer_bytes;

        if (lode_cancelled != 0)
            ok = lode_fail(err, LODE_E_CANCELLED, "cancelled");
        ok = ok && lode_file_read(source->fd, at, buffer, n, err);
        if (ok)
            lode_sha256_update(sha, buffer, n);
        at += n;
    }
    if (ok)
        lode_sha256_final(sha, out);
    lode_sha256_free(sha);
    return ok || lode_fail_in(err, "%s", source->name);
}

/* The origin's records have a digest of each file in them: all are read. */
static bool
hash_sources(struct cv_supply *s, struct lode_error *err)
{
    enum { BUFFER_BYTES = 4 << 20 };
    const struct cv_checkpoint *c = s->checkpoint;
    void *buffer = NULL;
    void *p = NULL;
    bool ok;

    if (s->digests != NULL)
        return true;
    ok = lode_alloc_array(1, BUFFER_BYTES, "buffer", &buffer, err) &&
         lode_alloc_array(c->source_count, LODE_DIGEST_BYTES, "digests", &p,
                          err);
    s->digests = p;
    for (uint32_t i = 0; ok && i < c->source_count; i++)
        ok = hash_source(&c->sources[i], buffer, BUFFER_BYTES, s->digests[i],
                         err);
    free(buffer);
    if (!ok) {
        free(s->digests);
        s->digests = NULL;
    }
    return ok;
}

/* What conversion without further options would record. */
static bool
make_origin(struct cv_supply *s, const struct lode_group *g, uint64_t offset,
            uint32_t bytes, struct lode_error *err)
{
    const struct cv_checkpoint *c = s->checkpoint;
    char *text = NULL;
    size_t text_bytes = 0;
    bool ok = false;

    if (strcmp(g->name, CV_HEADERS_NAME) == 0 &&
        cv_headers_bytes(c) == g->object_raw_bytes)
        return hash_sources(s, err) &&
               cv_headers_fill(c,
                               (const uint8_t(*)[LODE_DIGEST_BYTES])s->digests,
                               offset, s->slot.image, bytes, err);
    if (strcmp(g->name, CV_PROVENANCE_NAME) == 0) {
        if (!hash_sources(s, err) ||
            !cv_provenance(c, (const uint8_t(*)[LODE_DIGEST_BYTES])s->digests,
                           &text, &text_bytes, err))
            return false;
        ok = text_bytes == g->object_raw_bytes;
        if (ok)
            memcpy(s->slot.image, text + offset, bytes);
        free(text);
    }
    return ok || lode_fail(err, LODE_E_UNSUPPORTED,
                           "cannot be made from this checkpoint; a container "
                           "has it");
}

static bool
read_plain_file(struct cv_supply *s, const struct lode_group *g,
                uint64_t offset, uint32_t bytes, struct lode_error *err)
{
    uint64_t file_bytes;
    char *path = NULL;
    bool ok;
    int fd;

    if (g->kind != LODE_KIND_META)
        return make_origin(s, g, offset, bytes, err);
    if (!lode_path_join(s->checkpoint->path, g->name, &path, err))
        return false;
    ok = lode_file_open(path, &fd, &file_bytes, err);
    free(path);
    if (!ok)
        return false;
    ok = file_bytes == g->object_raw_bytes
             ? lode_file_read(fd, offset, s->slot.image, bytes, err)
             : lode_fail(err, LODE_E_UNSUPPORTED,
                         "the source's file has %" PRIu64
                         " bytes, expected %" PRIu64,
                         file_bytes, g->object_raw_bytes);
    (void)close(fd); /* nothing was written */
    return ok;
}

static bool
image_from_checkpoint(struct cv_supply *s, const struct lode_block *b,
                      struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(s->target, b->group_index);
    uint64_t start = (uint64_t)b->seq * g->block_raw_bytes;
    const struct lode_tensor *tensors;
    uint32_t count;

    tensors = lode_reader_schema(s->target, g->schema_index, &count);
    if (count == 0)
        return read_plain_file(s, g, start, b->raw_bytes, err);
    memset(s->slot.image, 0, b->raw_bytes);
    for (uint32_t i = 0; i < count; i++)
        if (!put_tensor(s, g, b->object_index, &tensors[i], start,
                        start + b->raw_bytes, err))
            return false;
    return true;
}

/* ---- an image from a container ---- */

/* The group of the source that stands for the target's, or NULL. */
static const struct lode_group *
counterpart(const struct cv_supply *s, const struct lode_block *b)
{
    const struct lode_group *g = lode_reader_group(s->target, b->group_index);
    const struct lode_group *h;
    int64_t i = lode_reader_find(s->r, g->kind, g->layer, g->name);

    if (i < 0)
        return NULL;
    h = lode_reader_group(s->r, (uint32_t)i);
    return h->object_raw_bytes == g->object_raw_bytes &&
                   b->object_index < h->object_count
               ? h
               : NULL;
}

static bool
image_from_container(struct cv_supply *s, const struct lode_block *b,
                     struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(s->target, b->group_index);
    const struct lode_group *h = counterpart(s, b);

    if (h == NULL)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "the source has no such object");
    return cv_window_copy(
        s->w, (uint32_t)lode_reader_find(s->r, h->kind, h->layer, h->name),
        b->object_index, (uint64_t)b->seq * g->block_raw_bytes, s->slot.image,
        b->raw_bytes, err);
}

/* Has the source the very stored bytes?  Then they are read, whatever wrote
 * them. */
static bool
copy_stored(struct cv_supply *s, uint32_t block_index,
            const struct lode_block *b)
{
    const struct lode_group *g = lode_reader_group(s->target, b->group_index);
    const struct lode_group *h = s->r != NULL ? counterpart(s, b) : NULL;
    const uint8_t *digests =
        s->source_stored != NULL ? s->source_stored : s->source_contents;
    struct lode_error ignored; /* there are other ways */
    struct lode_block c;
    uint32_t i;

    if (h == NULL || h->block_raw_bytes != g->block_raw_bytes)
        return false;
    i = h->first_block_index + b->object_index * h->blocks_per_object + b->seq;
    lode_reader_block(s->r, i, &c);
    return lode_reader_here(s->r, &c) && c.stored_bytes == b->stored_bytes &&
           memcmp(digests + (size_t)i * LODE_DIGEST_BYTES,
                  s->stored + (size_t)block_index * LODE_DIGEST_BYTES,
                  LODE_DIGEST_BYTES) == 0 &&
           lode_file_read(lode_reader_volume(
                              s->r, lode_reader_summary(s->r)->volume_index != 0
                                        ? 0
                                        : c.volume_index)
                              ->fd,
                          c.offset, s->slot.packed, c.stored_bytes, &ignored) &&
           lode_reader_check(s->r, i, s->slot.packed, &ignored);
}

/* ---- stored bytes ---- */

static bool
pack_as(struct cv_supply *s, uint32_t block_index, const struct lode_block *b,
        const struct cv_choice *choice, bool *same, struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(s->target, b->group_index);
    const struct lode_tensor *tensors;
    struct lode_buf runs = {0};
    uint32_t count;
    bool ok;

    tensors = lode_reader_schema(s->target, g->schema_index, &count);
    ok = cv_choice_runs(choice, g, tensors, count, b->seq, &runs, err);
    if (ok) {
        const struct cv_packing packing = {
            .runs = (const void *)runs.data,
            .run_count = (uint32_t)(runs.used_bytes / sizeof(struct lode_run)),
            .min_gain = cv_choice_min_gain(choice),
            .align_bytes = lode_reader_summary(s->target)->align_bytes};

        ok = cv_slot_seal_packed(&s->slot, b->raw_bytes, &s->worker, &packing,
                                 err);
    }
    *same = ok && s->slot.parcel.stored_bytes == b->stored_bytes &&
            s->slot.parcel.seal.hash == b->hash &&
            memcmp(s->slot.parcel.seal.stored,
                   s->stored + (size_t)block_index * LODE_DIGEST_BYTES,
                   LODE_DIGEST_BYTES) == 0;
    lode_buf_fini(&runs);
    return ok;
}

/* Which choice made the block is recorded nowhere: try all, the usual ones
 * first. */
static bool
pack(struct cv_supply *s, uint32_t block_index, const struct lode_block *b,
     struct lode_error *err)
{
    static const enum cv_codec codecs[] = {CV_CODEC_AUTO, CV_CODEC_ZSTD,
                                           CV_CODEC_ARCHIVE};
    bool same = false;

    for (int level = 0; s->worker.packer != NULL && level <= 19; level++)
        for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
            const struct cv_choice choice = {.codec = codecs[i],
                                             .level = level};

            if (!pack_as(s, block_index, b, &choice, &same, err))
                return false;
            if (same)
                return true;
        }
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "no choice of codec gives the recorded bytes; lode repack "
                     "makes a new container from a whole one");
}

bool
cv_supply_block(struct cv_supply *s, uint32_t block_index, const void **bytes,
                uint32_t *stored_bytes, struct lode_error *err)
{
    struct lode_block b;

    lode_reader_block(s->target, block_index, &b);
    if (!make_room(s, b.raw_bytes, err))
        return false;
    *stored_bytes = b.stored_bytes;
    if (copy_stored(s, block_index, &b)) {
        *bytes = s->slot.packed;
        return true;
    }
    if (!(s->r != NULL ? image_from_container(s, &b, err)
                       : image_from_checkpoint(s, &b, err)))
        return false;
    cv_slot_seal_raw(&s->slot, b.raw_bytes);
    if (memcmp(s->slot.parcel.seal.content,
               s->contents + (size_t)block_index * LODE_DIGEST_BYTES,
               LODE_DIGEST_BYTES) != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "the source has other content");
    if (b.codec != LODE_CODEC_NONE && !pack(s, block_index, &b, err))
        return false;
    *bytes = s->slot.parcel.stored;
    return true;
}
