/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads: rt_team_new() starts thread_count - 1 workers; the caller of
 * rt_team_run() is thread 0.  Between jobs a worker spins for at most SPIN_NS,
 * because the next job of a token usually comes within microseconds, and then
 * sleeps on `wake`.  It spins not at all when there are more threads than
 * processors.
 *
 * Ownership: the job's fields belong to the caller while the job is closed and
 * are read-only while it is open.  A worker that wants to take part first
 * raises `active`, then looks whether the job is open; the caller first closes
 * the job, then waits until `active` is zero.  Both orders are sequentially
 * consistent, so either the worker sees a closed job and leaves the fields
 * alone, or the caller sees the worker and waits for it.  A worker that wakes
 * late is therefore never waited for: the caller does its share.
 *
 * Pieces are handed out by one counter, so each is done exactly once.  What fn
 * wrote is visible to the caller through the worker's last decrement of
 * `active`.
 *
 * Stopping: rt_team_free() sets `stop`, wakes and joins everyone.  A job cannot
 * fail; fn keeps errors in what user points to. */
#include "config.h"

#include "runtime/team.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { SPIN_NS = 30 * 1000 };

struct worker {
    struct rt_team *team;
    pthread_t thread;
    unsigned index; /* 1 .. thread_count - 1 */
};

struct rt_team {
    unsigned thread_count;
    unsigned started_count; /* workers to join */
    uint64_t spin_ns;
    struct worker *workers; /* thread_count - 1 */

    /* The job; see above. */
    size_t items;
    size_t grain;
    size_t piece_count;
    void (*fn)(void *user, size_t begin, size_t end, unsigned thread);
    void *user;

    atomic_bool open;
    atomic_uint active;     /* workers that may read the job */
    atomic_size_t next;     /* the next piece to hand out */
    atomic_uint generation; /* counts jobs */
    atomic_bool stop;

    pthread_mutex_t lock;   /* for the two sleeps; guards no field */
    pthread_cond_t wake;    /* workers: generation or stop changed */
    pthread_cond_t idle;    /* the caller: active became zero */
    atomic_uint sleeping;   /* workers in wake, or about to be */
    atomic_bool waiting;    /* the caller is in idle, or about to be */
};

static uint64_t
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void
pause_briefly(void)
{
    for (int i = 0; i < 16; i++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* Take pieces until none is left. */
static void
work(struct rt_team *t, unsigned thread)
{
    size_t piece;

    while ((piece = atomic_fetch_add(&t->next, 1)) < t->piece_count) {
        size_t begin = piece * t->grain;
        size_t left = t->items - begin;

        t->fn(t->user, begin, begin + (left < t->grain ? left : t->grain),
              thread);
    }
}

/* Wait for a job newer than seen; false when the team stops. */
static bool
await_job(struct rt_team *t, unsigned seen)
{
    uint64_t start_ns = t->spin_ns > 0 ? now_ns() : 0;

    while (t->spin_ns > 0 && now_ns() - start_ns < t->spin_ns) {
        if (atomic_load(&t->stop))
            return false;
        if (atomic_load(&t->generation) != seen)
            return true;
        pause_briefly();
    }
    (void)pthread_mutex_lock(&t->lock); /* fails only on misuse */
    atomic_fetch_add(&t->sleeping, 1);
    while (!atomic_load(&t->stop) && atomic_load(&t->generation) == seen)
        (void)pthread_cond_wait(&t->wake, &t->lock);
    atomic_fetch_sub(&t->sleeping, 1);
    (void)pthread_mutex_unlock(&t->lock);
    return !atomic_load(&t->stop);
}

static void *
worker_main(void *arg)
{
    const struct worker *w = arg;
    struct rt_team *t = w->team;
    unsigned seen = 0;

    while (await_job(t, seen)) {
        seen = atomic_load(&t->generation);
        atomic_fetch_add(&t->active, 1);
        if (atomic_load(&t->open))
            work(t, w->index);
        if (atomic_fetch_sub(&t->active, 1) == 1 && atomic_load(&t->waiting)) {
            (void)pthread_mutex_lock(&t->lock);
            (void)pthread_cond_signal(&t->idle);
            (void)pthread_mutex_unlock(&t->lock);
        }
    }
    return NULL;
}

/* The processors this process may use. */
static unsigned
processor_count(void)
{
    long count;
#ifdef __linux__
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        return (unsigned)CPU_COUNT(&set);
#endif
    count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (unsigned)count : 1;
}

/* Workers take no signals: those are for the program's own thread. */
static bool
start_workers(struct rt_team *t, struct lode_error *err)
{
    sigset_t all, old;
    int rc = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old); /* fails only on misuse */
    for (unsigned i = 0; i + 1 < t->thread_count && rc == 0; i++) {
        struct worker *w = &t->workers[i];

        w->team = t;
        w->index = i + 1;
        rc = pthread_create(&w->thread, NULL, worker_main, w);
        if (rc == 0)
            t->started_count++;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc == 0)
        return true;
    errno = rc;
    return lode_fail_errno(err, "cannot start compute thread %u of %u",
                           t->started_count + 2, t->thread_count);
}

bool
rt_team_new(unsigned thread_count, struct rt_team **out, struct lode_error *err)
{
    struct rt_team *t = NULL;
    void *p;

    assert(thread_count >= 1);
    if (!lode_alloc_array(1, sizeof(*t), "compute team", &p, err))
        return false;
    t = p;
    t->thread_count = thread_count;
    t->spin_ns = thread_count <= processor_count() ? SPIN_NS : 0;
    /* With default attributes these cannot fail here. */
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->wake, NULL);
    (void)pthread_cond_init(&t->idle, NULL);
    if (!lode_alloc_array(thread_count - 1, sizeof(*t->workers),
                          "compute threads", &p, err))
        goto fail;
    t->workers = p;
    if (!start_workers(t, err))
        goto fail;
    *out = t;
    return true;

fail:
    rt_team_free(t);
    return false;
}

void
rt_team_free(struct rt_team *t)
{
    if (t == NULL)
        return;
    (void)pthread_mutex_lock(&t->lock);
    atomic_store(&t->stop, true);
    (void)pthread_cond_broadcast(&t->wake);
    (void)pthread_mutex_unlock(&t->lock);
    for (unsigned i = 0; i < t->started_count; i++)
        (void)pthread_join(t->workers[i].thread, NULL); /* ours, joinable */
    (void)pthread_cond_destroy(&t->idle);
    (void)pthread_cond_destroy(&t->wake);
    (void)pthread_mutex_destroy(&t->lock);
    free(t->workers);
    free(t);
}

unsigned
rt_team_threads(const struct rt_team *t)
{
    return t->thread_count;
}

/* Announce the job, waking those who sleep. */
static void
open_job(struct rt_team *t)
{
    atomic_store(&t->next, 0);
    atomic_store(&t->open, true);
    atomic_fetch_add(&t->generation, 1);
    if (atomic_load(&t->sleeping) == 0)
        return;
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_cond_broadcast(&t->wake);
    (void)pthread_mutex_unlock(&t->lock);
}

/* No worker joins any more; wait for those that did. */
static void
close_job(struct rt_team *t)
{
    uint64_t start_ns;

    atomic_store(&t->open, false);
    if (atomic_load(&t->active) == 0)
        return;
    start_ns = t->spin_ns > 0 ? now_ns() : 0;
    while (t->spin_ns > 0 && now_ns() - start_ns < t->spin_ns) {
        if (atomic_load(&t->active) == 0)
            return;
        pause_briefly();
    }
    (void)pthread_mutex_lock(&t->lock);
    atomic_store(&t->waiting, true);
    while (atomic_load(&t->active) != 0)
        (void)pthread_cond_wait(&t->idle, &t->lock);
    atomic_store(&t->waiting, false);
    (void)pthread_mutex_unlock(&t->lock);
}

void
rt_team_run(struct rt_team *t, size_t items, size_t grain,
            void (*fn)(void *user, size_t begin, size_t end, unsigned thread),
            void *user)
{
    assert(grain >= 1);
    t->items = items;
    t->grain = grain;
    t->piece_count = items / grain + (items % grain != 0);
    t->fn = fn;
    t->user = user;
    if (t->thread_count == 1 || t->piece_count <= 1) {
        atomic_store(&t->next, 0);
        work(t, 0);
        return;
    }
    open_job(t);
    work(t, 0);
    close_job(t);
}
