/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks pass through a ring of slots, in the order of the plan:
 *
 *   one thread reads the source bytes of a block into its image;
 *   one feeds them to the digests of the sources (a digest is sequential);
 *   jobs threads seal images (hash and digest tree);
 *   the caller's thread writes.
 *
 * A slot is read into again when its block was written and fed. */
#include "config.h"

#include "convert/pipeline.h"

#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/origin.h"
#include "convert/source_hash.h"

enum {
    RING_BYTES = 96 << 20,
    SLOTS_MIN = 3,
    SLOTS_MAX = 64,
    AHEAD_BYTES = 32 << 20, /* asked of the drive before it is read */
};

struct slot {
    uint8_t *image;
    struct lode_buf pieces; /* struct cv_piece, by place in the sources */
    struct lode_seal seal;
    bool sealed;
};

struct run {
    const struct cv_plan *p;
    struct lode_writer *w;
    struct lode_progress *progress;
    struct cv_hashes *hashes;
    struct slot slots[SLOTS_MAX];
    uint32_t slot_count;
    uint64_t slot_bytes;
    struct lode_buf ahead; /* the reader's */
    uint64_t ahead_bytes;
    uint32_t ahead_count;
    pthread_mutex_t lock; /* guards what follows, and sealed of each slot */
    pthread_cond_t changed;
    uint32_t read_count; /* blocks: the first read_count were read */
    uint32_t fed_count;
    uint32_t taken_count; /* given to a sealing thread */
    uint32_t written_count;
    bool stopped;
    struct lode_error error; /* the first, when stopped */
};

static uint64_t
slot_bytes(const struct cv_plan *p)
{
    uint64_t align = UINT64_C(1) << LODE_ALIGN_LOG2_MAX;

    return (p->largest_block_bytes + align - 1) / align * align + align;
}

static uint32_t
slot_count(const struct cv_plan *p)
{
    uint64_t n = RING_BYTES / slot_bytes(p);

    return n < SLOTS_MIN ? SLOTS_MIN : n > SLOTS_MAX ? SLOTS_MAX : (uint32_t)n;
}

uint64_t
cv_pipeline_bytes(const struct cv_plan *p)
{
    return slot_bytes(p) * slot_count(p);
}

static struct slot *
slot_of(struct run *r, uint32_t block)
{
    return &r->slots[block % r->slot_count];
}

/* The first failure counts; everybody stops. */
static void
stop(struct run *r, const struct lode_error *err)
{
    pthread_mutex_lock(&r->lock);
    if (!r->stopped)
        r->error = *err;
    r->stopped = true;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

static void
count_up(struct run *r, uint32_t *counter)
{
    pthread_mutex_lock(&r->lock);
    ++*counter;
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
}

/* ---- reading ---- */

static int
by_place(const void *a, const void *b)
{
    const struct cv_piece *x = a;
    const struct cv_piece *y = b;

    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->source_offset != y->source_offset)
        return x->source_offset < y->source_offset ? -1 : 1;
    return 0;
}

static size_t
piece_count(const struct lode_buf *pieces)
{
    return pieces->used_bytes / sizeof(struct cv_piece);
}

/* Ask the drive for the blocks to come, so that it is never idle. */
static bool
read_ahead(struct run *r, uint32_t block, struct lode_error *err)
{
    r->ahead_bytes -= r->ahead_count > block ? r->p->blocks[block].raw_bytes
                                             : r->ahead_bytes;
    if (r->ahead_count <= block)
        r->ahead_count = block + 1;
    while (r->ahead_count < r->p->block_count &&
           r->ahead_bytes < AHEAD_BYTES) {
        const struct cv_block *b = &r->p->blocks[r->ahead_count++];
        const struct cv_piece *piece;

        if (!cv_plan_pieces(r->p, b, &r->ahead, err))
            return false;
        piece = (const void *)r->ahead.data;
#ifdef HAVE_POSIX_FADVISE
        for (size_t i = 0; i < piece_count(&r->ahead); i++)
            (void)posix_fadvise(r->p->c->sources[piece[i].source].fd,
                                (off_t)piece[i].source_offset,
                                (off_t)piece[i].bytes,
                                POSIX_FADV_WILLNEED); /* only advice */
#endif
        r->ahead_bytes += b->raw_bytes;
    }
    return true;
}

/* What lies between the pieces of a block is zero. */
static void
clear_gaps(uint8_t *image, const struct lode_buf *pieces, uint32_t raw_bytes)
{
    const struct cv_piece *piece = (const void *)pieces->data;
    uint32_t at = 0;

    for (size_t i = 0; i < piece_count(pieces); i++) {
        memset(image + at, 0, piece[i].image_offset - at);
        at = piece[i].image_offset + piece[i].bytes;
    }
    memset(image + at, 0, raw_bytes - at);
}

static bool
read_block(struct run *r, uint32_t block, struct lode_error *err)
{
    const struct cv_checkpoint *c = r->p->c;
    struct slot *s = slot_of(r, block);
    struct cv_piece *piece;

    if (lode_cancelled != 0)
        return lode_fail(err, LODE_E_CANCELLED, "cancelled");
    if (!cv_plan_pieces(r->p, &r->p->blocks[block], &s->pieces, err))
        return false;
    clear_gaps(s->image, &s->pieces, r->p->blocks[block].raw_bytes);
    piece = (void *)s->pieces.data;
    if (piece_count(&s->pieces) != 0)
        qsort(piece, piece_count(&s->pieces), sizeof(*piece), by_place);
    for (size_t i = 0; i < piece_count(&s->pieces); i++) {
        const struct cv_source *from = &c->sources[piece[i].source];

        if (!lode_file_read(from->fd, piece[i].source_offset,
                            s->image + piece[i].image_offset, piece[i].bytes,
                            err))
            return lode_fail_in(err, "%s/%s", c->path, from->name);
    }
    return true;
}

static void *
reader(void *user)
{
    struct run *r = user;
    struct lode_error err = {0};

    for (uint32_t i = 0; i < r->p->block_count; i++) {
        bool go;

        pthread_mutex_lock(&r->lock);
        while (!r->stopped && (i >= r->fed_count + r->slot_count ||
                               i >= r->written_count + r->slot_count))
            pthread_cond_wait(&r->changed, &r->lock);
        go = !r->stopped;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        if (!read_ahead(r, i, &err) || !read_block(r, i, &err)) {
            stop(r, &err);
            break;
        }
        count_up(r, &r->read_count);
    }
    return NULL;
}

/* ---- digests of the sources ---- */

static bool
feed_block(struct run *r, uint32_t block, struct lode_error *err)
{
    struct slot *s = slot_of(r, block);
    const struct cv_piece *piece = (const void *)s->pieces.data;

    for (size_t i = 0; i < piece_count(&s->pieces); i++)
        if (!cv_hashes_feed(r->hashes, piece[i].source, piece[i].source_offset,
                            s->image + piece[i].image_offset, piece[i].bytes,
                            err))
            return false;
    return true;
}

static void *
feeder(void *user)
{
    struct run *r = user;
    struct lode_error err = {0};

    for (uint32_t i = 0; i < r->p->block_count; i++) {
        bool go;

        pthread_mutex_lock(&r->lock);
        while (!r->stopped && i >= r->read_count)
            pthread_cond_wait(&r->changed, &r->lock);
        go = !r->stopped;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            break;
        if (!feed_block(r, i, &err)) {
            stop(r, &err);
            break;
        }
        count_up(r, &r->fed_count);
    }
    return NULL;
}

/* ---- sealing ---- */

static void *
sealer(void *user)
{
    struct run *r = user;

    for (;;) {
        struct slot *s;
        uint32_t i;

        pthread_mutex_lock(&r->lock);
        while (!r->stopped && r->taken_count < r->p->block_count &&
               r->taken_count >= r->read_count)
            pthread_cond_wait(&r->changed, &r->lock);
        if (r->stopped || r->taken_count == r->p->block_count) {
            pthread_mutex_unlock(&r->lock);
            return NULL;
        }
        i = r->taken_count++;
        pthread_mutex_unlock(&r->lock);
        s = slot_of(r, i);
        lode_seal(s->image, r->p->blocks[i].raw_bytes, &s->seal);
        pthread_mutex_lock(&r->lock);
        s->sealed = true;
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
}

/* ---- writing ---- */

static bool
write_block(struct run *r, uint32_t block, struct lode_error *err)
{
    const struct cv_block *b = &r->p->blocks[block];
    struct slot *s = slot_of(r, block);

    return lode_writer_append(
        r->w,
        lode_writer_block_index(r->w, r->p->groups[b->group].handle,
                                b->object, b->seq),
        s->image, b->raw_bytes, &s->seal, err);
}

static void
write_blocks(struct run *r)
{
    struct lode_error err = {0};

    for (uint32_t i = 0; i < r->p->block_count; i++) {
        struct slot *s = slot_of(r, i);
        bool go;

        pthread_mutex_lock(&r->lock);
        while (!r->stopped && !s->sealed)
            pthread_cond_wait(&r->changed, &r->lock);
        go = !r->stopped;
        s->sealed = false;
        pthread_mutex_unlock(&r->lock);
        if (!go)
            return;
        if (!write_block(r, i, &err)) {
            stop(r, &err);
            return;
        }
        lode_progress_add(r->progress, r->p->blocks[i].raw_bytes);
        count_up(r, &r->written_count);
    }
}

/* ---- the files that tell the origin ---- */

static bool
write_text(struct run *r, const struct cv_group *g, const void *text,
           struct lode_error *err)
{
    uint64_t step = g->block_raw_bytes != 0 ? g->block_raw_bytes
                                            : g->object_raw_bytes;
    uint32_t seq = 0;

    for (uint64_t at = 0; at < g->object_raw_bytes; at += step, seq++) {
        uint32_t block = lode_writer_block_index(r->w, g->handle, 0, seq);
        uint32_t bytes = lode_writer_block_raw_bytes(r->w, block);
        struct lode_seal seal;

        memcpy(r->slots[0].image, (const uint8_t *)text + at, bytes);
        lode_seal(r->slots[0].image, bytes, &seal);
        if (!lode_writer_append(r->w, block, r->slots[0].image, bytes, &seal,
                                err))
            return false;
    }
    return true;
}

static bool
write_provenance(struct run *r, const struct cv_group *g,
                 const uint8_t (*digests)[LODE_DIGEST_BYTES],
                 struct lode_error *err)
{
    size_t bytes;
    char *text;
    bool ok;

    if (!cv_provenance(r->p->c, digests, &text, &bytes, err))
        return false;
    assert(bytes == g->object_raw_bytes); /* digests all have one length */
    ok = write_text(r, g, text, err);
    free(text);
    return ok;
}

static bool
write_headers(struct run *r, const struct cv_group *g,
              const uint8_t (*digests)[LODE_DIGEST_BYTES],
              struct lode_error *err)
{
    uint64_t step = g->block_raw_bytes != 0 ? g->block_raw_bytes
                                            : g->object_raw_bytes;
    uint32_t seq = 0;

    for (uint64_t at = 0; at < g->object_raw_bytes; at += step, seq++) {
        uint32_t block = lode_writer_block_index(r->w, g->handle, 0, seq);
        uint32_t bytes = lode_writer_block_raw_bytes(r->w, block);
        struct lode_seal seal;

        if (!cv_headers_fill(r->p->c, digests, at, r->slots[0].image, bytes,
                             err))
            return false;
        lode_seal(r->slots[0].image, bytes, &seal);
        if (!lode_writer_append(r->w, block, r->slots[0].image, bytes, &seal,
                                err))
            return false;
    }
    return true;
}

static bool
write_origin(struct run *r, struct lode_error *err)
{
    const struct cv_group *last = &r->p->groups[r->p->group_count - 2];
    uint8_t(*digests)[LODE_DIGEST_BYTES];
    bool ok;
    void *p;

    if (!lode_alloc_array(r->p->c->source_count, LODE_DIGEST_BYTES, "digests",
                          &p, err))
        return false;
    digests = p;
    ok = cv_hashes_finish(r->hashes, digests, err) &&
         write_provenance(r, &last[0], (const void *)digests, err) &&
         write_headers(r, &last[1], (const void *)digests, err);
    free(p);
    return ok;
}

/* ---- the run ---- */

/* Start the threads, write, and wait for them. */
static bool
run_threads(struct run *r, uint32_t jobs, struct lode_error *err)
{
    pthread_t threads[CV_JOBS_MAX + 2];
    uint32_t count = 0;

    for (uint32_t i = 0; i < jobs + 2; i++) {
        void *(*work)(void *) = i == 0 ? reader : i == 1 ? feeder : sealer;
        int code = pthread_create(&threads[count], NULL, work, r);

        if (code != 0) {
            struct lode_error e = {0};

            lode_fail(&e, LODE_E_IO, "cannot start a thread: %s",
                      strerror(code));
            stop(r, &e);
            break;
        }
        count++;
    }
    write_blocks(r);
    while (count > 0)
        (void)pthread_join(threads[--count], NULL); /* ours, joined once */
    if (r->stopped)
        *err = r->error;
    return !r->stopped;
}

static bool
make_slots(struct run *r, struct lode_error *err)
{
    uint32_t wanted = slot_count(r->p);
    void *p;

    r->slot_bytes = slot_bytes(r->p);
    for (; r->slot_count < wanted; r->slot_count++) {
        if (!lode_alloc_aligned(r->slot_bytes, "block", &p, err))
            return false;
        r->slots[r->slot_count].image = p;
    }
    return true;
}

static void
free_slots(struct run *r)
{
    for (uint32_t i = 0; i < r->slot_count; i++) {
        lode_free_aligned(r->slots[i].image, r->slot_bytes);
        lode_buf_fini(&r->slots[i].pieces);
    }
    lode_buf_fini(&r->ahead);
}

static bool
begin(const struct cv_plan *p, struct lode_writer *w, struct run **out,
      struct lode_error *err)
{
    struct run *r;
    void *memory;

    if (!lode_alloc_array(1, sizeof(*r), "pipeline", &memory, err))
        return false;
    r = memory;
    r->p = p;
    r->w = w;
    /* Default attributes: these cannot fail on Linux. */
    (void)pthread_mutex_init(&r->lock, NULL);
    (void)pthread_cond_init(&r->changed, NULL);
    *out = r;
    return true;
}

static void
end(struct run *r)
{
    cv_hashes_free(r->hashes);
    free_slots(r);
    (void)pthread_cond_destroy(&r->changed); /* nobody waits any more */
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

bool
cv_pipeline_run(const struct cv_plan *p, struct lode_writer *w, uint32_t jobs,
                struct lode_progress *progress, struct lode_error *err)
{
    struct run *r;
    bool ok;

    assert(jobs >= 1 && jobs <= CV_JOBS_MAX);
    if (!begin(p, w, &r, err))
        return false;
    r->progress = progress;
    ok = make_slots(r, err) && cv_hashes_new(p->c, &r->hashes, err) &&
         run_threads(r, jobs, err) && write_origin(r, err) &&
         cv_checkpoint_unchanged(p->c, err);
    end(r);
    return ok;
}

bool
cv_pipeline_run_files(const struct cv_plan *p, struct lode_writer *w,
                      struct lode_error *err)
{
    struct run *r;
    bool ok;

    if (!begin(p, w, &r, err))
        return false;
    ok = make_slots(r, err);
    for (uint32_t i = 0; ok && i < p->block_count; i++) {
        struct slot *s = slot_of(r, i);

        if (p->groups[p->blocks[i].group].kind != LODE_KIND_META)
            continue;
        ok = read_block(r, i, err);
        if (ok)
            lode_seal(s->image, p->blocks[i].raw_bytes, &s->seal);
        ok = ok && write_block(r, i, err);
    }
    end(r);
    return ok;
}
