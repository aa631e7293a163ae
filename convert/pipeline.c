/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/pipeline.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/consume.h"
#include "convert/identity.h"
#include "convert/origin.h"
#include "convert/source_hash.h"

enum { AHEAD_BYTES = 32 << 20 }; /* asked of the drive before it is read */

/* Keys of notes in the journal, each plus the number of the source. */
enum { NOTE_DIGEST = 0, NOTE_TIME = 0x10000 };

/* How far a source is. */
struct state {
    uint32_t unfed_count;     /* blocks with bytes of it: the feeder's */
    uint32_t unwritten_count; /* the writer's */
    bool noted;               /* the writer's: its digest is in the journal */
    bool known;               /* digest is set: by the feeder, before the
                                 last block of the source is written */
    uint8_t digest[LODE_DIGEST_BYTES];
};

struct run {
    struct cv_plan *p;
    struct lode_writer *w;
    const struct cv_pipeline_options *opt;
    struct lode_progress *progress;
    struct cv_hashes *hashes;
    struct state *states; /* by source */
    struct cv_slot slot;  /* for blocks that are made one by one */
    struct cv_worker worker;
    struct lode_buf ahead; /* the reader's */
    uint64_t ahead_bytes;
    uint32_t ahead_count;
};

static bool
is_packing(const struct cv_pipeline_options *opt)
{
    return opt->choice.codec != CV_CODEC_NONE;
}

uint64_t
cv_pipeline_bytes(const struct cv_plan *p,
                  const struct cv_pipeline_options *opt)
{
    return cv_flow_bytes(p->largest_block_bytes, is_packing(opt), opt->jobs);
}

static uint32_t
block_number(const struct run *r, uint32_t block)
{
    const struct cv_block *b = &r->p->blocks[block];

    return lode_writer_block_index(r->w, r->p->groups[b->group].handle,
                                   b->object, b->seq);
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
read_block(void *user, uint32_t block, struct cv_slot *s,
           struct lode_error *err)
{
    struct run *r = user;
    const struct cv_checkpoint *c = r->p->c;
    struct cv_piece *piece;

    if (!read_ahead(r, block, err) ||
        !cv_plan_pieces(r->p, &r->p->blocks[block], &s->pieces, err))
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

/* ---- digests of the sources ---- */

static bool
feed_block(void *user, uint32_t block, struct cv_slot *s,
           struct lode_error *err)
{
    struct run *r = user;
    const struct cv_piece *piece = (const void *)s->pieces.data;

    (void)block;
    for (size_t i = 0; i < piece_count(&s->pieces); i++) {
        struct state *st = &r->states[piece[i].source];
        bool last = i + 1 == piece_count(&s->pieces) ||
                    piece[i + 1].source != piece[i].source;

        if (!cv_hashes_feed(r->hashes, piece[i].source, piece[i].source_offset,
                            s->image + piece[i].image_offset, piece[i].bytes,
                            err))
            return false;
        if (!last || --st->unfed_count != 0)
            continue;
        if (!cv_hashes_finish_source(r->hashes, piece[i].source, st->digest,
                                     err))
            return false;
        st->known = true;
    }
    return true;
}

/* ---- making and writing ---- */

/* Pack, where that was chosen, and seal. */
static bool
make_parcel(const struct run *r, const struct cv_group *g, uint32_t seq,
            uint32_t raw_bytes, struct cv_slot *s, struct cv_worker *w,
            struct lode_error *err)
{
    const struct lode_group group = {.kind = g->kind,
                                     .object_raw_bytes = g->object_raw_bytes,
                                     .block_raw_bytes =
                                         g->block_raw_bytes != 0
                                             ? g->block_raw_bytes
                                             : (uint32_t)g->object_raw_bytes,
                                     .blocks_per_object =
                                         cv_blocks_per_object(g)};
    struct cv_packing packing = {
        .min_gain = cv_choice_min_gain(&r->opt->choice),
        .align_bytes = r->opt->align_bytes};
    struct lode_buf runs = {0};
    bool ok;

    if (!is_packing(r->opt)) {
        cv_slot_seal_raw(s, raw_bytes);
        return true;
    }
    ok = cv_choice_runs(&r->opt->choice, &group, g->tensors, g->tensor_count,
                        seq, &runs, err);
    if (ok) {
        packing.runs = (const void *)runs.data;
        packing.run_count =
            (uint32_t)(runs.used_bytes / sizeof(struct lode_run));
        ok = cv_slot_seal_packed(s, raw_bytes, w, &packing, err);
    }
    lode_buf_fini(&runs);
    return ok;
}

static bool
make_block(void *user, uint32_t block, struct cv_slot *s, struct cv_worker *w,
           struct lode_error *err)
{
    const struct run *r = user;
    const struct cv_block *b = &r->p->blocks[block];

    return make_parcel(r, &r->p->groups[b->group], b->seq, b->raw_bytes, s, w,
                       err);
}

/* All of this source is written, and its digest is known. */
static bool
settle_source(struct run *r, uint32_t source, struct lode_error *err)
{
    struct state *st = &r->states[source];
    struct cv_source *s = &r->p->c->sources[source];
    uint64_t header_bytes = 8 + s->header_bytes;
    char *path = NULL;
    char *consumed = NULL;
    bool ok;

    st->noted = true;
    if (!lode_writer_note(r->w, NOTE_DIGEST + source, st->digest, err))
        return false;
    if (!r->opt->consume || source >= r->p->c->shard_count)
        return true;
    ok = cv_source_unchanged(r->p->c, source, err) &&
         lode_writer_sync(r->w, err) &&
         lode_path_join(r->p->c->path, s->name, &path, err) &&
         cv_consume_name(path, &consumed, err) &&
         (s->consumed || cv_consume_claim(path, err));
    s->consumed = s->consumed || ok;
    ok = ok && cv_consume_punch(consumed, header_bytes,
                                s->file_bytes - header_bytes, err);
    free(path);
    free(consumed);
    return ok;
}

static bool
settle_sources(struct run *r, struct lode_error *err)
{
    for (uint32_t i = 0; i < r->p->c->source_count; i++) {
        struct state *st = &r->states[i];

        if (st->unwritten_count == 0 && !st->noted &&
            st->known && !settle_source(r, i, err))
            return false;
    }
    return true;
}

static bool
write_block(void *user, uint32_t block, struct cv_slot *s,
            struct lode_error *err)
{
    struct run *r = user;
    const struct cv_piece *piece = (const void *)s->pieces.data;
    bool ended = false;

    if (!lode_writer_append(r->w, block_number(r, block), &s->parcel, err))
        return false;
    lode_progress_add(r->progress, r->p->blocks[block].raw_bytes);
    for (size_t i = 0; i < piece_count(&s->pieces); i++)
        if (i + 1 == piece_count(&s->pieces) ||
            piece[i + 1].source != piece[i].source)
            ended = --r->states[piece[i].source].unwritten_count == 0 || ended;
    return !r->opt->journal || !ended || settle_sources(r, err);
}

static bool
is_done(void *user, uint32_t block)
{
    const struct run *r = user;

    return lode_writer_done(r->w, block_number(r, block));
}

/* ---- the files that tell the origin ---- */

/* A file that is in memory, or is made piece by piece, block by block. */
static bool
write_origin_file(struct run *r, const struct cv_group *g, const char *text,
                  const uint8_t (*digests)[LODE_DIGEST_BYTES],
                  struct lode_error *err)
{
    uint64_t step = g->block_raw_bytes != 0 ? g->block_raw_bytes
                                            : g->object_raw_bytes;
    uint32_t seq = 0;

    for (uint64_t at = 0; at < g->object_raw_bytes; at += step, seq++) {
        uint32_t block = lode_writer_block_index(r->w, g->handle, 0, seq);
        uint32_t bytes = lode_writer_block_raw_bytes(r->w, block);

        if (lode_writer_done(r->w, block))
            continue;
        if (text != NULL)
            memcpy(r->slot.image, text + at, bytes);
        else if (!cv_headers_fill(r->p->c, digests, at, r->slot.image, bytes,
                                  err))
            return false;
        if (!make_parcel(r, g, seq, bytes, &r->slot, &r->worker, err) ||
            !lode_writer_append(r->w, block, &r->slot.parcel, err))
            return false;
    }
    return true;
}

static bool
write_origin(struct run *r, struct lode_error *err)
{
    const struct cv_group *last = &r->p->groups[r->p->group_count - 2];
    uint8_t(*digests)[LODE_DIGEST_BYTES];
    size_t bytes;
    char *text;
    bool ok;
    void *p;

    if (!lode_alloc_array(r->p->c->source_count, LODE_DIGEST_BYTES, "digests",
                          &p, err))
        return false;
    digests = p;
    ok = cv_hashes_finish(r->hashes, digests, err) &&
         cv_provenance(r->p->c, (const void *)digests, &text, &bytes, err);
    if (ok) {
        /* Digests all have one length. */
        assert(bytes == last[0].object_raw_bytes);
        ok = write_origin_file(r, &last[0], text, NULL, err) &&
             write_origin_file(r, &last[1], NULL, (const void *)digests, err);
        free(text);
    }
    free(p);
    return ok;
}

/* ---- the run ---- */

static void
fini(struct run *r)
{
    cv_hashes_free(r->hashes);
    cv_slot_fini(&r->slot, r->p->largest_block_bytes);
    lode_packer_free(r->worker.packer);
    lode_buf_fini(&r->ahead);
    free(r->states);
}

static bool
init(struct run *r, struct lode_error *err)
{
    void *p = NULL;

    if (!cv_slot_init(&r->slot, r->p->largest_block_bytes, is_packing(r->opt),
                      err) ||
        (is_packing(r->opt) && !lode_packer_new(&r->worker.packer, err)) ||
        !lode_alloc_array(r->p->c->source_count, sizeof(*r->states), "sources",
                          &p, err))
        return false;
    r->states = p;
    return true;
}

/* What the journal tells of the sources: digests, and that they are still the
 * files that they were. */
static bool
take_notes(struct run *r, struct lode_error *err)
{
    for (uint32_t i = 0; i < r->p->c->source_count; i++) {
        const struct cv_source *s = &r->p->c->sources[i];
        const uint8_t *digest = lode_writer_noted(r->w, NOTE_DIGEST + i);
        const uint8_t *known = lode_writer_noted(r->w, NOTE_TIME + i);
        uint8_t now[LODE_DIGEST_BYTES];

        cv_identity_time(s, now);
        if (known != NULL && !s->consumed &&
            memcmp(known, now, sizeof(now)) != 0)
            return lode_fail(err, LODE_E_USAGE,
                             "%s/%s: the file was changed since its "
                             "conversion was begun; --restart begins anew",
                             r->p->c->path, s->name);
        if (known == NULL && !lode_writer_note(r->w, NOTE_TIME + i, now, err))
            return false;
        if (digest == NULL)
            continue;
        cv_hashes_known(r->hashes, i, digest);
        memcpy(r->states[i].digest, digest, LODE_DIGEST_BYTES);
        r->states[i].known = true;
    }
    return true;
}

/* How many of the blocks to come have bytes of each source. */
static bool
count_blocks(struct run *r, struct lode_error *err)
{
    struct lode_buf pieces = {0};
    bool ok = true;

    for (uint32_t i = 0; ok && i < r->p->block_count; i++) {
        struct cv_piece *piece;

        if (is_done(r, i)) {
            lode_progress_add(r->progress, r->p->blocks[i].raw_bytes);
            continue;
        }
        ok = cv_plan_pieces(r->p, &r->p->blocks[i], &pieces, err);
        piece = (void *)pieces.data;
        if (ok && piece_count(&pieces) > 1)
            qsort(piece, piece_count(&pieces), sizeof(*piece), by_place);
        for (size_t k = 0; ok && k < piece_count(&pieces); k++)
            if (k == 0 || piece[k - 1].source != piece[k].source) {
                r->states[piece[k].source].unfed_count++;
                r->states[piece[k].source].unwritten_count++;
            }
    }
    lode_buf_fini(&pieces);
    return ok;
}

/* Those that have no blocks to come: a run before this one has written them. */
static bool
settle_rest(struct run *r, struct lode_error *err)
{
    for (uint32_t i = 0; i < r->p->c->source_count; i++)
        if (!r->states[i].known && r->states[i].unwritten_count == 0) {
            if (!cv_hashes_finish_source(r->hashes, i, r->states[i].digest,
                                         err))
                return false;
            r->states[i].known = true;
        }
    return settle_sources(r, err);
}

bool
cv_pipeline_run(struct cv_plan *p, struct lode_writer *w,
                const struct cv_pipeline_options *opt,
                struct lode_progress *progress, struct lode_error *err)
{
    struct run r = {.p = p, .w = w, .opt = opt, .progress = progress};
    const struct cv_job job = {.user = &r,
                               .count = p->block_count,
                               .largest_bytes = p->largest_block_bytes,
                               .packing = is_packing(opt),
                               .done = is_done,
                               .read = read_block,
                               .feed = feed_block,
                               .make = make_block,
                               .write = write_block};
    bool ok;

    ok = init(&r, err) && cv_hashes_new(p->c, &r.hashes, err) &&
         (!opt->journal || take_notes(&r, err)) && count_blocks(&r, err) &&
         (!opt->consume || settle_rest(&r, err)) &&
         cv_flow_run(&job, opt->jobs, err) &&
         cv_checkpoint_unchanged(p->c, err) && write_origin(&r, err) &&
         cv_checkpoint_unchanged(p->c, err);
    fini(&r);
    return ok;
}

bool
cv_pipeline_run_files(struct cv_plan *p, struct lode_writer *w,
                      struct lode_error *err)
{
    const struct cv_pipeline_options opt = {.jobs = 1};
    struct lode_progress none = {0};
    struct run r = {.p = p, .w = w, .opt = &opt, .progress = &none};
    bool ok = init(&r, err) && count_blocks(&r, err);

    for (uint32_t i = 0; ok && i < p->block_count; i++)
        if (p->groups[p->blocks[i].group].kind == LODE_KIND_META)
            ok = read_block(&r, i, &r.slot, err) &&
                 make_block(&r, i, &r.slot, NULL, err) &&
                 write_block(&r, i, &r.slot, err);
    fini(&r);
    return ok;
}

/* ---- giving up shards ---- */

/* Blocks are written in order; each frees its sources when it was their last.
 */
static uint64_t
walk(const struct cv_plan *p, const uint32_t *last, uint64_t index_bytes,
     uint64_t align_bytes)
{
    uint64_t grown = index_bytes;
    uint64_t freed = 0;
    uint64_t peak = grown;

    for (uint32_t i = 0; i < p->block_count; i++) {
        grown += (p->blocks[i].raw_bytes + align_bytes - 1) / align_bytes *
                 align_bytes;
        if (grown - freed > peak)
            peak = grown - freed;
        for (uint32_t k = 0; k < p->c->shard_count; k++)
            if (last[k] == i + 1)
                freed += p->c->sources[k].file_bytes -
                         p->c->sources[k].header_bytes;
        if (freed > grown)
            freed = grown;
    }
    return peak;
}

bool
cv_pipeline_consume_peak(const struct cv_plan *p, uint64_t index_bytes,
                         uint64_t align_bytes, uint64_t *out,
                         struct lode_error *err)
{
    struct lode_buf pieces = {0};
    uint32_t *last; /* by source: its last block, plus 1 */
    void *memory = NULL;
    bool ok = true;

    if (!lode_alloc_array(p->c->source_count, sizeof(*last), "sources",
                          &memory, err))
        return false;
    last = memory;
    for (uint32_t i = 0; ok && i < p->block_count; i++) {
        const struct cv_piece *piece;

        ok = cv_plan_pieces(p, &p->blocks[i], &pieces, err);
        piece = (const void *)pieces.data;
        for (size_t k = 0; ok && k < piece_count(&pieces); k++)
            last[piece[k].source] = i + 1;
    }
    if (ok)
        *out = walk(p, last, index_bytes, align_bytes);
    lode_buf_fini(&pieces);
    free(last);
    return ok;
}

bool
cv_pipeline_remove_shards(const struct cv_checkpoint *c, struct lode_error *err)
{
    for (uint32_t i = 0; i < c->shard_count; i++) {
        char *path = NULL;
        bool ok;

        if (!lode_path_join(c->path, c->sources[i].name, &path, err))
            return false;
        ok = cv_consume_remove(path, err);
        free(path);
        if (!ok)
            return false;
    }
    return true;
}
