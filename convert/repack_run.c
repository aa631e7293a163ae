/* SPDX-License-Identifier: Apache-2.0
 *
 * Doing what a repack plans. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "convert/consume.h"
#include "convert/repack_plan.h"

struct run {
    struct cv_repack *x;
    struct lode_progress *progress;
    /* The reader's: the old block that was decoded last, for new images. */
    struct lode_scratch scratch;
    uint8_t *old_image;
    uint64_t old_image_bytes;
    int64_t old_block;
    /* The writer's. */
    uint64_t unsynced_bytes;
    uint32_t freed_count; /* items whose old blocks are gone */
    uint32_t written_count;
};

static uint32_t
new_block(const struct cv_repack *x, const struct cv_item *item)
{
    return lode_writer_block_index(x->w, x->groups[item->group].handle,
                                   item->object, item->seq);
}

/* ---- reading ---- */

/* Stored bytes of the old block, checked, into the slot: where they are
 * decoded from, or where they are the image. */
static bool
read_stored(const struct cv_repack *x, const struct cv_item *item,
            struct cv_slot *s, struct lode_error *err)
{
    const struct lode_volume *v;
    struct lode_block b;
    char name[256];
    uint8_t *dst;

    lode_reader_block(x->in, item->old_block, &b);
    v = lode_reader_volume(x->in, b.volume_index);
    dst = b.codec != LODE_CODEC_NONE ? s->packed : s->image;
    if (!lode_file_read(v->fd, b.offset, dst, b.stored_bytes, err))
        return lode_fail_in(
            err, "%s: %s", v->path,
            lode_reader_block_name(x->in, item->old_block, name, sizeof(name)));
    return lode_reader_check(x->in, item->old_block, dst, err);
}

/* Bytes of an old object's image, block by block. */
static bool
read_old(struct run *r, const struct lode_group *g, uint64_t from, uint8_t *dst,
         uint64_t bytes, struct lode_error *err)
{
    while (bytes > 0) {
        uint32_t seq = (uint32_t)(from / g->block_raw_bytes);
        uint64_t within = from - (uint64_t)seq * g->block_raw_bytes;
        uint64_t n = g->block_raw_bytes - within;

        if (n > bytes)
            n = bytes;
        if (r->old_block != (int64_t)g->first_block_index + seq) {
            r->old_block = -1;
            if (!lode_reader_load_with(r->x->in, g->first_block_index + seq,
                                       &r->scratch, r->old_image,
                                       (size_t)r->old_image_bytes, err))
                return false;
            r->old_block = (int64_t)g->first_block_index + seq;
        }
        memcpy(dst, r->old_image + within, (size_t)n);
        dst += n;
        from += n;
        bytes -= n;
    }
    return true;
}

/* A new image, from stretches of the old one. */
static bool
read_changed(struct run *r, const struct cv_item *item, struct cv_slot *s,
             struct lode_error *err)
{
    const struct cv_new_group *n = &r->x->groups[item->group];
    const struct cv_cut *cuts = (const void *)n->cuts.data;
    uint64_t start = (uint64_t)item->seq * n->group.block_raw_bytes;
    uint64_t end = start + item->raw_bytes;

    if (n->text != NULL) {
        memcpy(s->image, n->text + start, item->raw_bytes);
        return true;
    }
    memset(s->image, 0, item->raw_bytes);
    for (size_t i = 0; i < n->cuts.used_bytes / sizeof(*cuts); i++) {
        uint64_t from = cuts[i].to > start ? cuts[i].to : start;
        uint64_t to = cuts[i].to + cuts[i].bytes;

        to = to < end ? to : end;
        if (from < to &&
            !read_old(r, n->old, cuts[i].from + (from - cuts[i].to),
                      s->image + (from - start), to - from, err))
            return false;
    }
    return true;
}

static bool
read_item(void *user, uint32_t i, struct cv_slot *s, struct lode_error *err)
{
    struct run *r = user;
    const struct cv_item *item = &r->x->items[i];

    if (item->how == CV_CHANGE)
        return read_changed(r, item, s, err);
    /* What is to be destroyed is looked at before. */
    if (item->how == CV_RECODE || r->x->opt.consume)
        return read_stored(r->x, item, s, err);
    return true;
}

/* ---- making ---- */

/* The parcel of a block that stays as it is; its sums are known. */
static void
fill_known(const struct cv_repack *x, const struct cv_item *item,
           struct cv_slot *s)
{
    const uint8_t *stored = x->stored != NULL ? x->stored : x->contents;
    struct lode_block b;

    lode_reader_block(x->in, item->old_block, &b);
    s->parcel = (struct lode_parcel){
        .stored = b.codec != LODE_CODEC_NONE ? s->packed : s->image,
        .stored_bytes = b.stored_bytes,
        .raw_bytes = b.raw_bytes,
        .codec = b.codec,
        .filters = b.filters,
        .seal = {.hash = b.hash}};
    memcpy(s->parcel.seal.content,
           x->contents + (size_t)item->old_block * LODE_DIGEST_BYTES,
           LODE_DIGEST_BYTES);
    /* Of raw blocks both digests are equal, also in a packed container. */
    memcpy(s->parcel.seal.stored,
           (b.codec != LODE_CODEC_NONE ? stored : x->contents) +
               (size_t)item->old_block * LODE_DIGEST_BYTES,
           LODE_DIGEST_BYTES);
}

/* After all the work the content must be what it was. */
static bool
check_content(const struct cv_repack *x, const struct cv_item *item,
              const struct cv_slot *s, struct lode_error *err)
{
    char name[256];

    if (memcmp(s->parcel.seal.content,
               x->contents + (size_t)item->old_block * LODE_DIGEST_BYTES,
               LODE_DIGEST_BYTES) == 0)
        return true;
    return lode_fail(
        err, LODE_E_CORRUPT,
        "%s: %s: the content digest is not that of the index",
        lode_reader_path(x->in),
        lode_reader_block_name(x->in, item->old_block, name, sizeof(name)));
}

static bool
make_item(void *user, uint32_t i, struct cv_slot *s, struct cv_worker *w,
          struct lode_error *err)
{
    const struct run *r = user;
    struct cv_repack *x = r->x;
    const struct cv_item *item = &x->items[i];
    const struct cv_new_group *n = &x->groups[item->group];
    struct cv_packing packing = {
        .min_gain = cv_choice_min_gain(&x->opt.choice),
        .align_bytes = UINT32_C(1) << x->opt.align_log2};
    struct lode_buf runs = {0};
    struct lode_block b;
    bool ok;

    if (item->how == CV_COPY) {
        fill_known(x, item, s);
        return true;
    }
    if (item->how == CV_RECODE) {
        lode_reader_block(x->in, item->old_block, &b);
        if (b.codec != LODE_CODEC_NONE &&
            !lode_reader_decode(x->in, item->old_block, &w->scratch, s->packed,
                                s->image, err))
            return false;
    }
    ok = cv_choice_runs(&x->opt.choice, &n->group, n->tensors, n->tensor_count,
                        item->seq, &runs, err);
    if (ok) {
        packing.runs = (const void *)runs.data;
        packing.run_count =
            (uint32_t)(runs.used_bytes / sizeof(struct lode_run));
        ok = cv_slot_seal_packed(s, item->raw_bytes, w, &packing, err);
    }
    lode_buf_fini(&runs);
    return ok && (item->how != CV_RECODE || check_content(x, item, s, err));
}

/* ---- writing ---- */

/* Everything written so far is durable: the old blocks may go. */
static bool
free_old(struct run *r, struct lode_error *err)
{
    struct cv_repack *x = r->x;

    if (!lode_writer_sync(x->w, err))
        return false;
    r->unsynced_bytes = 0;
    for (; r->freed_count < r->written_count; r->freed_count++) {
        const struct cv_item *item = &x->items[r->freed_count];
        struct lode_block b;

        if (item->how == CV_CHANGE)
            continue; /* parts of it may be wanted again */
        lode_reader_block(x->in, item->old_block, &b);
        if (!cv_consume_punch(lode_reader_volume(x->in, b.volume_index)->path,
                              b.offset, b.stored_bytes, err))
            return false;
    }
    return true;
}

static bool
write_item(void *user, uint32_t i, struct cv_slot *s, struct lode_error *err)
{
    struct run *r = user;
    struct cv_repack *x = r->x;
    const struct cv_item *item = &x->items[i];
    uint32_t block = new_block(x, item);
    struct lode_block b;
    bool ok;

    if (item->how == CV_COPY && !x->opt.consume) {
        lode_reader_block(x->in, item->old_block, &b);
        ok = lode_writer_copy(x->w, block, &s->parcel,
                              lode_reader_volume(x->in, b.volume_index)->fd,
                              b.offset, err);
        /* The file system cannot: through us, then. */
        if (!ok && err->code == LODE_E_UNSUPPORTED)
            ok = read_stored(x, item, s, err) &&
                 lode_writer_append(x->w, block, &s->parcel, err);
    } else {
        ok = lode_writer_append(x->w, block, &s->parcel, err);
    }
    if (!ok)
        return false;
    lode_progress_add(r->progress, item->raw_bytes);
    r->written_count = i + 1;
    r->unsynced_bytes += s->parcel.stored_bytes;
    return !x->opt.consume || r->unsynced_bytes < CV_CONSUME_BYTES ||
           free_old(r, err);
}

static bool
is_done(void *user, uint32_t i)
{
    const struct run *r = user;

    return lode_writer_done(r->x->w, new_block(r->x, &r->x->items[i]));
}

/* ---- the run ---- */

/* Digests of what a partial container leaves out, where they are known. */
static void
note_absent(const struct cv_repack *x)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    for (uint32_t i = 0; i < lode_reader_summary(x->in)->block_count; i++) {
        const uint8_t *digest = x->contents + (size_t)i * LODE_DIGEST_BYTES;
        struct lode_block b;
        uint32_t block;

        lode_reader_block(x->in, i, &b);
        block = lode_writer_block_index(x->w, x->groups[b.group_index].handle,
                                        b.object_index, b.seq);
        if (!lode_writer_done(x->w, block) &&
            memcmp(digest, zero, sizeof(zero)) != 0)
            lode_writer_absent(x->w, block, digest);
    }
}

/* Blocks that an earlier run has written are behind us. */
static void
skip_done(struct run *r)
{
    const struct cv_repack *x = r->x;

    while (r->written_count < x->item_count && is_done(r, r->written_count)) {
        lode_progress_add(r->progress, x->items[r->written_count].raw_bytes);
        r->written_count++;
    }
}

static bool
run(struct run *r, uint8_t root[LODE_DIGEST_BYTES], struct lode_error *err)
{
    struct cv_repack *x = r->x;
    const struct cv_job job = {.user = r,
                               .count = x->item_count,
                               .largest_bytes = x->largest_bytes,
                               .packing = x->packing ||
                                          lode_reader_summary(x->in)->packed,
                               .done = is_done,
                               .read = read_item,
                               .make = make_item,
                               .write = write_item};
    void *p = NULL;

    for (uint32_t i = 0; i < x->group_count; i++)
        if (x->groups[i].cuts.used_bytes != 0 &&
            x->groups[i].old->block_raw_bytes > r->old_image_bytes)
            r->old_image_bytes = x->groups[i].old->block_raw_bytes;
    if (!lode_alloc_aligned(r->old_image_bytes, "block", &p, err)) {
        r->old_image_bytes = 0;
        return false;
    }
    r->old_image = p;
    skip_done(r);
    if (x->opt.consume && r->written_count != 0 && !free_old(r, err))
        return false;
    if (!cv_flow_run(&job, x->jobs, err))
        return false;
    if (lode_reader_summary(x->in)->present_count !=
            lode_reader_summary(x->in)->block_count ||
        x->opt.layers)
        note_absent(x);
    return lode_writer_finish(x->w, root, err);
}

bool
cv_repack_run(struct cv_repack *x, struct lode_progress *progress,
              uint8_t root[LODE_DIGEST_BYTES], struct lode_error *err)
{
    struct run r = {.x = x, .progress = progress, .old_block = -1};
    bool ok = lode_writer_begin(x->w,
                                x->opt.ignore_space ? 1
                                                    : x->figures.needed_bytes,
                                err) &&
              run(&r, root, err);

    lode_scratch_fini(&r.scratch);
    lode_free_aligned(r.old_image, r.old_image_bytes);
    return ok;
}
