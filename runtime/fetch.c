/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: thread_count readers, started by rt_fetch_new() and joined by
 * rt_fetch_free().  One lock guards the two queues, the states and the
 * statistics; no I/O happens under it.  A reader takes the oldest demand, or
 * else the oldest request ahead, reads it, checks its hash, marks it and wakes
 * whoever waits.  An error stays in its request, so it gets out through the
 * one who wants the block.  To stop, the flag is set and all are woken;
 * requests still queued are left as they are. */
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

enum { IDLE, QUEUED, DONE, FAILED };
enum { PROBE_BYTES = 4096 };

struct queue {
    struct rt_request *first;
    struct rt_request *last;
};

struct rt_fetch {
    const struct lode_reader *reader;
    pthread_t *threads;
    unsigned thread_count;
    int fd;
    bool direct;

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t work;
    pthread_cond_t done;
    struct queue queue[2]; /* by enum rt_priority */
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

static bool
read_block(struct rt_fetch *f, struct rt_request *q)
{
    struct lode_block b;
    char name[128];

    lode_reader_block(f->reader, q->block_index, &b);
    if (!lode_file_read(f->fd, b.offset, q->dst, q->padded_bytes, &q->error)) {
        lode_fail_in(&q->error, "%s: %s", lode_reader_path(f->reader),
                     lode_reader_block_name(f->reader, q->block_index, name,
                                            sizeof(name)));
        return false;
    }
    return lode_reader_check(f->reader, q->block_index, q->dst, &q->error);
}

static void *
reader_main(void *user)
{
    struct rt_fetch *f = user;
    struct rt_request *q;
    bool ok;

    (void)pthread_mutex_lock(&f->lock); /* cannot fail: ours, initialised */
    for (;;) {
        q = pop(f);
        if (f->stop)
            break;
        if (q == NULL) {
            (void)pthread_cond_wait(&f->work, &f->lock); /* likewise */
            continue;
        }
        (void)pthread_mutex_unlock(&f->lock); /* likewise */
        ok = read_block(f, q);
        (void)pthread_mutex_lock(&f->lock); /* likewise */
        f->stats.reads++;
        f->stats.bytes_read += q->padded_bytes;
        atomic_store_explicit(&q->state, ok ? DONE : FAILED,
                              memory_order_release);
        (void)pthread_cond_broadcast(&f->done); /* likewise */
    }
    (void)pthread_mutex_unlock(&f->lock); /* likewise */
    return NULL;
}

/* Open the container a second time for direct reads, and try one: some file
 * systems accept the flag and then refuse every transfer. */
static bool
open_direct(struct rt_fetch *f, struct lode_error *err)
{
    const struct lode_summary *s = lode_reader_summary(f->reader);
    void *probe = NULL;
    bool ok;
    int fd;

    fd = open(lode_reader_path(f->reader), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0)
        return lode_fail_errno(err, "direct I/O");
    if (s->block_count == 0) {
        f->fd = fd;
        f->direct = true;
        return true;
    }
    ok = lode_alloc_aligned(PROBE_BYTES, "probe", &probe, err) &&
         lode_file_read(fd, s->data_offset, probe, PROBE_BYTES, err);
    lode_free_aligned(probe, PROBE_BYTES);
    if (!ok) {
        (void)close(fd); /* read-only */
        return lode_fail_in(err, "direct I/O");
    }
    f->fd = fd;
    f->direct = true;
    return true;
}

static bool
start_threads(struct rt_fetch *f, unsigned count, struct lode_error *err)
{
    void *p;

    if (!lode_alloc_array(count, sizeof(*f->threads), "threads", &p, err))
        return false;
    f->threads = p;
    for (unsigned i = 0; i < count; i++) {
        int rc = pthread_create(&f->threads[i], NULL, reader_main, f);

        if (rc != 0) {
            errno = rc;
            return lode_fail_errno(err, "reader thread");
        }
        f->thread_count++;
    }
    return true;
}

bool
rt_fetch_new(const struct lode_reader *r, unsigned thread_count, enum rt_io io,
             char *note, size_t note_bytes, struct rt_fetch **out,
             struct lode_error *err)
{
    struct lode_error why;
    struct rt_fetch *f;
    void *p;

    note[0] = '\0';
    if (!lode_alloc_array(1, sizeof(*f), "fetch", &p, err))
        return false;
    f = p;
    f->reader = r;
    f->fd = lode_reader_fd(r);
    (void)pthread_mutex_init(&f->lock, NULL); /* cannot fail on Linux */
    (void)pthread_cond_init(&f->work, NULL);  /* likewise */
    (void)pthread_cond_init(&f->done, NULL);  /* likewise */
    if (io != RT_IO_BUFFERED && !open_direct(f, &why)) {
        if (io == RT_IO_DIRECT) {
            *err = why;
            lode_fail_in(err, "%s", lode_reader_path(r));
            goto fail;
        }
        (void)snprintf(note, note_bytes, "reading through the page cache (%s)",
                       why.text); /* may be cut */
    }
    if (!start_threads(f, thread_count, err))
        goto fail;
    *out = f;
    return true;
fail:
    rt_fetch_free(f);
    return false;
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
    for (unsigned i = 0; i < f->thread_count; i++)
        (void)pthread_join(f->threads[i], NULL); /* started by us */
    (void)pthread_mutex_destroy(&f->lock); /* unused by now */
    (void)pthread_cond_destroy(&f->work);  /* likewise */
    (void)pthread_cond_destroy(&f->done);  /* likewise */
    if (f->direct)
        (void)close(f->fd); /* read-only */
    free(f->threads);
    free(f);
}

bool
rt_fetch_is_direct(const struct rt_fetch *f)
{
    return f->direct;
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
