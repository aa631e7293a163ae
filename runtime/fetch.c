/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: thread_count readers, started by rt_fetch_new() and joined by
 * rt_fetch_free().  One lock guards the queues, the states, the open tasks and
 * the statistics; neither I/O nor decoding happens under it.  A reader takes
 * the oldest demand, or else the oldest request ahead, reads it, checks its
 * hash, decodes it, marks it and wakes whoever waits.  Readers with nothing to
 * read decode frames of blocks that others have read.  An error stays in its
 * request, so it gets out through the one who wants the block.  To stop, the
 * flag is set and all are woken; requests still queued are left as they are. */
#include "config.h"

#include "runtime/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/pack.h"

enum { IDLE, QUEUED, DONE, FAILED };
enum { PAGE_BYTES = 4096 };

struct queue {
    struct rt_request *first;
    struct rt_request *last;
};

/* A packed block on its way into an image, frame by frame. */
struct task {
    struct lode_frames frames; /* constant while the task is open */
    void *image;               /* likewise */
    struct task *after;        /* in the list of open tasks */
    uint32_t next_frame_index;
    uint32_t phase;
    uint32_t busy_count; /* frames being decoded */
    bool failed;
    struct lode_error error;
};

struct worker {
    struct rt_fetch *fetch;
    pthread_t thread;
    uint8_t *stored; /* a packed block, as read */
    struct lode_unpacker *unpacker;
    struct task task;
};

struct file {
    int fd; /* -1: a missing volume */
    bool direct;
};

struct rt_fetch {
    const struct lode_reader *reader;
    struct file *files; /* by volume */
    uint32_t file_count;
    struct worker *workers;
    unsigned worker_count;  /* with memory */
    unsigned started_count; /* with a thread */
    uint64_t packed_bytes;

    pthread_mutex_t lock; /* guards everything below, and open tasks */
    pthread_cond_t work;
    pthread_cond_t done;
    pthread_cond_t decoded; /* no frame of some task is busy any more */
    struct queue queue[2];  /* by enum rt_priority */
    struct task *tasks;
    struct rt_fetch_stats stats;
    bool stop;
};

static struct rt_request *
pop(struct rt_fetch *f)
{
    for (int i = 0; i < 2; i++) {
        struct rt_request *q = f->queue[i].first;

        if (q != NULL) {
            f->queue[i].first = q->next;
            if (q->next == NULL)
                f->queue[i].last = NULL;
            return q;
        }
    }
    return NULL;
}

/* ---- decoding; with the lock held ---- */

/* The next frame of this phase that nobody has taken. */
static bool
claim(struct task *t, uint32_t *frame_index)
{
    struct lode_frame_place place;

    while (!t->failed && t->next_frame_index < t->frames.count) {
        *frame_index = t->next_frame_index++;
        lode_frames_place(&t->frames, *frame_index, &place);
        if (place.phase == t->phase) {
            t->busy_count++;
            return true;
        }
    }
    return false;
}

/* Gives the lock up meanwhile. */
static void
decode_frame(struct worker *w, struct task *t, uint32_t frame_index)
{
    struct rt_fetch *f = w->fetch;
    struct lode_error error;
    bool ok;

    (void)pthread_mutex_unlock(&f->lock); /* cannot fail: ours, initialised */
    ok = lode_unpack_frame(w->unpacker, &t->frames, frame_index, t->image,
                           &error);
    (void)pthread_mutex_lock(&f->lock); /* likewise */
    if (!ok && !t->failed) {
        t->failed = true;
        t->error = error;
    }
    if (--t->busy_count == 0)
        (void)pthread_cond_broadcast(&f->decoded); /* likewise */
}

/* Decode one frame of somebody's block; false when there is none. */
static bool
help(struct worker *w)
{
    uint32_t frame_index = 0;

    for (struct task *t = w->fetch->tasks; t != NULL; t = t->after)
        if (claim(t, &frame_index)) {
            decode_frame(w, t, frame_index);
            return true;
        }
    return false;
}

static void
close_task(struct rt_fetch *f, const struct task *t)
{
    struct task **p = &f->tasks;

    while (*p != t)
        p = &(*p)->after;
    *p = t->after;
}

/* All frames of phase 0, then those of phase 1. */
static void
finish_task(struct worker *w)
{
    struct rt_fetch *f = w->fetch;
    struct task *t = &w->task;
    uint32_t frame_index = 0;

    for (;;) {
        if (t->frames.count > 1)
            (void)pthread_cond_broadcast(&f->work); /* cannot fail: ours */
        while (claim(t, &frame_index))
            decode_frame(w, t, frame_index);
        while (t->busy_count > 0)
            (void)pthread_cond_wait(&f->decoded, &f->lock); /* likewise */
        if (t->failed || !t->frames.second_phase || t->phase == 1)
            return;
        t->next_frame_index = 0;
        t->phase = 1;
    }
}

/* ---- reading ---- */

static bool
fail_in_block(const struct rt_fetch *f, struct rt_request *q)
{
    char name[128];

    return lode_fail_in(&q->error, "%s: %s", lode_reader_path(f->reader),
                        lode_reader_block_name(f->reader, q->block_index, name,
                                               sizeof(name)));
}

static bool
decode_block(struct worker *w, const struct lode_block *b,
             struct rt_request *q)
{
    struct rt_fetch *f = w->fetch;
    struct task *t = &w->task;

    memset(t, 0, sizeof(*t));
    if (!lode_frames_open(w->stored, b->stored_bytes, b->raw_bytes, b->filters,
                          &t->frames, &q->error))
        return fail_in_block(f, q);
    t->image = q->dst;
    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    t->after = f->tasks;
    f->tasks = t;
    finish_task(w);
    close_task(f, t);
    (void)pthread_mutex_unlock(&f->lock); /* likewise */
    if (!t->failed)
        return true;
    q->error = t->error;
    return fail_in_block(f, q);
}

static bool
read_block(struct worker *w, struct rt_request *q, uint64_t *padded_bytes)
{
    struct rt_fetch *f = w->fetch;
    struct lode_block b;
    void *stored = q->dst;

    lode_reader_block(f->reader, q->block_index, &b);
    *padded_bytes = 0;
    if (!b.present) /* says so */
        return lode_reader_check(f->reader, q->block_index, NULL, &q->error);
    *padded_bytes = lode_reader_padded_bytes(f->reader, &b);
    if (b.codec != LODE_CODEC_NONE)
        stored = w->stored;
    if (!lode_file_read(f->files[b.volume_index].fd, b.offset, stored,
                        (size_t)*padded_bytes, &q->error)) {
        if (b.volume_index != 0)
            lode_fail_in(
                &q->error, "volume %s",
                lode_reader_volume(f->reader, b.volume_index)->name);
        return fail_in_block(f, q);
    }
    return lode_reader_check(f->reader, q->block_index, stored, &q->error) &&
           (b.codec == LODE_CODEC_NONE || decode_block(w, &b, q));
}

static void *
worker_main(void *user)
{
    struct worker *w = user;
    struct rt_fetch *f = w->fetch;

    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    while (!f->stop) {
        struct rt_request *q = pop(f);
        uint64_t padded_bytes;
        bool ok;

        if (q == NULL) {
            if (!help(w))
                (void)pthread_cond_wait(&f->work, &f->lock); /* likewise */
            continue;
        }
        (void)pthread_mutex_unlock(&f->lock); /* likewise */
        ok = read_block(w, q, &padded_bytes);
        (void)pthread_mutex_lock(&f->lock); /* likewise */
        f->stats.reads++;
        f->stats.bytes_read += padded_bytes;
        atomic_store_explicit(&q->state, ok ? DONE : FAILED,
                              memory_order_release);
        (void)pthread_cond_broadcast(&f->done); /* likewise */
    }
    (void)pthread_mutex_unlock(&f->lock); /* likewise */
    return NULL;
}

/* ---- opening ---- */

/* Open a file a second time for direct reads, and try one at its start: some
 * file systems accept the flag and then refuse every transfer. */
static bool
open_direct(const char *path, struct file *out, struct lode_error *err)
{
    void *probe = NULL;
    bool ok;
    int fd;

    fd = open(path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0)
        return lode_fail_errno(err, "direct I/O");
    ok = lode_alloc_aligned(PAGE_BYTES, "probe", &probe, err) &&
         lode_file_read(fd, 0, probe, PAGE_BYTES, err);
    lode_free_aligned(probe, PAGE_BYTES);
    if (!ok) {
        (void)close(fd); /* read-only */
        return lode_fail_in(err, "direct I/O");
    }
    out->fd = fd;
    out->direct = true;
    return true;
}

/* The first file that direct reads do not work for, and how many others. */
static void
write_note(const struct rt_fetch_options *opt, const char *name,
           const struct lode_error *why, uint32_t more_count)
{
    char more[40] = "";

    if (more_count != 0)
        (void)snprintf(more, sizeof(more), " and %u more", more_count);
    (void)snprintf(opt->note, opt->note_bytes,
                   "reading %s%s%sthrough the page cache (%s)", name, more,
                   name[0] != '\0' ? " " : "", why->text); /* may be cut */
}

static bool
open_files(struct rt_fetch *f, const struct rt_fetch_options *opt,
           struct lode_error *err)
{
    uint32_t buffered_count = 0;
    struct lode_error first;
    struct lode_error why;
    const char *name = "";
    void *p;

    if (!lode_alloc_array(lode_reader_summary(f->reader)->volume_count,
                          sizeof(*f->files), "files", &p, err))
        return false;
    f->files = p;
    f->file_count = lode_reader_summary(f->reader)->volume_count;
    for (uint32_t i = 0; i < f->file_count; i++) {
        const struct lode_volume *v = lode_reader_volume(f->reader, i);

        f->files[i].fd = v->fd;
        if (v->fd < 0 || opt->io == RT_IO_BUFFERED ||
            open_direct(v->path, &f->files[i], &why))
            continue;
        if (opt->io == RT_IO_DIRECT) {
            *err = why;
            return lode_fail_in(err, "%s", v->path);
        }
        if (buffered_count++ == 0) {
            first = why;
            name = f->file_count == 1 ? ""
                   : i == 0           ? "the head"
                                      : v->name;
        }
    }
    if (buffered_count != 0)
        write_note(opt, name, &first, buffered_count - 1);
    return true;
}

static bool
make_workers(struct rt_fetch *f, const struct rt_fetch_options *opt,
             struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(opt->thread_count, sizeof(*f->workers), "threads",
                          &p, err))
        return false;
    f->workers = p;
    f->worker_count = opt->thread_count;
    f->packed_bytes = opt->packed_bytes;
    for (unsigned i = 0; i < f->worker_count; i++) {
        struct worker *w = &f->workers[i];

        w->fetch = f;
        if (f->packed_bytes == 0)
            continue;
        if (!lode_alloc_aligned(f->packed_bytes, "packed blocks", &p, err))
            return false;
        w->stored = p;
        if (!lode_unpacker_new(&w->unpacker, err))
            return false;
    }
    for (; f->started_count < f->worker_count; f->started_count++) {
        int rc = pthread_create(&f->workers[f->started_count].thread, NULL,
                                worker_main, &f->workers[f->started_count]);

        if (rc != 0) {
            errno = rc;
            return lode_fail_errno(err, "reader thread");
        }
    }
    return true;
}

bool
rt_fetch_new(const struct lode_reader *r, const struct rt_fetch_options *opt,
             struct rt_fetch **out, struct lode_error *err)
{
    struct rt_fetch *f;
    void *p;

    opt->note[0] = '\0';
    if (!lode_alloc_array(1, sizeof(*f), "fetch", &p, err))
        return false;
    f = p;
    f->reader = r;
    (void)pthread_mutex_init(&f->lock, NULL);   /* cannot fail on Linux */
    (void)pthread_cond_init(&f->work, NULL);    /* likewise */
    (void)pthread_cond_init(&f->done, NULL);    /* likewise */
    (void)pthread_cond_init(&f->decoded, NULL); /* likewise */
    if (!open_files(f, opt, err) || !make_workers(f, opt, err)) {
        rt_fetch_free(f);
        return false;
    }
    *out = f;
    return true;
}

void
rt_fetch_free(struct rt_fetch *f)
{
    if (f == NULL)
        return;
    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    f->stop = true;
    (void)pthread_cond_broadcast(&f->work); /* likewise */
    (void)pthread_mutex_unlock(&f->lock);   /* likewise */
    for (unsigned i = 0; i < f->started_count; i++)
        (void)pthread_join(f->workers[i].thread, NULL); /* started by us */
    for (unsigned i = 0; f->workers != NULL && i < f->worker_count; i++) {
        lode_free_aligned(f->workers[i].stored, f->packed_bytes);
        lode_unpacker_free(f->workers[i].unpacker);
    }
    (void)pthread_mutex_destroy(&f->lock);   /* unused by now */
    (void)pthread_cond_destroy(&f->work);    /* likewise */
    (void)pthread_cond_destroy(&f->done);    /* likewise */
    (void)pthread_cond_destroy(&f->decoded); /* likewise */
    for (uint32_t i = 0; i < f->file_count; i++)
        if (f->files[i].direct)
            (void)close(f->files[i].fd); /* read-only */
    free(f->files);
    free(f->workers);
    free(f);
}

uint64_t
rt_fetch_room_bytes(const struct lode_reader *r, const struct lode_block *b)
{
    if (b->codec == LODE_CODEC_NONE)
        return lode_reader_padded_bytes(r, b);
    return ((uint64_t)b->raw_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

uint64_t
rt_fetch_decode_bytes(unsigned thread_count, uint64_t packed_bytes)
{
    return packed_bytes != 0
               ? thread_count * (packed_bytes + lode_unpacker_bytes())
               : 0;
}

bool
rt_fetch_is_direct(const struct rt_fetch *f)
{
    for (uint32_t i = 0; i < f->file_count; i++)
        if (!f->files[i].direct)
            return false;
    return true;
}

void
rt_fetch_submit(struct rt_fetch *f, struct rt_request *q,
                enum rt_priority priority)
{
    struct queue *u = &f->queue[priority];

    q->next = NULL;
    atomic_store_explicit(&q->state, QUEUED, memory_order_relaxed);
    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    if (u->last != NULL)
        u->last->next = q;
    else
        u->first = q;
    u->last = q;
    (void)pthread_cond_signal(&f->work);  /* likewise */
    (void)pthread_mutex_unlock(&f->lock); /* likewise */
}

bool
rt_fetch_ready(const struct rt_request *q)
{
    int state = atomic_load_explicit(&q->state, memory_order_acquire);

    return state == DONE || state == FAILED;
}

bool
rt_fetch_wait(struct rt_fetch *f, struct rt_request *q, struct lode_error *err)
{
    if (!rt_fetch_ready(q)) {
        uint64_t start_ns = lode_now_ns();

        (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours */
        while (!rt_fetch_ready(q))
            (void)pthread_cond_wait(&f->done, &f->lock); /* likewise */
        f->stats.stall_ns += lode_now_ns() - start_ns;
        (void)pthread_mutex_unlock(&f->lock); /* likewise */
    }
    if (atomic_load_explicit(&q->state, memory_order_acquire) == DONE)
        return true;
    *err = q->error;
    return false;
}

void
rt_fetch_stats(struct rt_fetch *f, struct rt_fetch_stats *out)
{
    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    *out = f->stats;
    (void)pthread_mutex_unlock(&f->lock); /* likewise */
}
