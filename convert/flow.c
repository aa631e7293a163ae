/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/flow.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 96 << 20,
    SLOTS_MIN = 3,
    SLOTS_MAX = 64,
};

struct flow {
    const struct cv_job *job;
    struct cv_slot slots[SLOTS_MAX];
    uint32_t slot_count;
    uint8_t *done; /* by block: was there nothing to do when we began? */
    pthread_mutex_t lock; /* guards what follows, and made of each slot */
    pthread_cond_t changed;
    uint32_t read_count; /* blocks: the first read_count were read */
    uint32_t fed_count;
    uint32_t taken_count; /* given to a worker */
    uint32_t written_count;
    bool stopped;
    struct lode_error error; /* the first, when stopped */
};

/* ---- slots ---- */

static uint64_t
room_bytes(uint32_t largest_bytes)
{
    uint64_t align = UINT64_C(1) << LODE_ALIGN_LOG2_MAX;

    return ((uint64_t)largest_bytes + align - 1) / align * align + align;
}

bool
cv_slot_init(struct cv_slot *s, uint32_t largest_bytes, bool packing,
             struct lode_error *err)
{
    void *p = NULL;

    memset(s, 0, sizeof(*s));
    if (!lode_alloc_aligned(room_bytes(largest_bytes), "block", &p, err))
        return false;
    s->image = p;
    if (packing &&
        !lode_alloc_aligned(room_bytes(largest_bytes), "packed block", &p, err))
        return false;
    if (packing)
        s->packed = p;
    return true;
}

void
cv_slot_fini(struct cv_slot *s, uint32_t largest_bytes)
{
    lode_free_aligned(s->image, room_bytes(largest_bytes));
    lode_free_aligned(s->packed, room_bytes(largest_bytes));
    lode_buf_fini(&s->pieces);
}

void
cv_slot_seal_raw(struct cv_slot *s, uint32_t raw_bytes)
{
    s->parcel = (struct lode_parcel){.stored = s->image,
                                     .image = s->image,
                                     .stored_bytes = raw_bytes,
                                     .raw_bytes = raw_bytes};
    lode_seal(&s->parcel);
}

bool
cv_slot_seal_packed(struct cv_slot *s, uint32_t raw_bytes, struct cv_worker *w,
                    const struct cv_packing *p, struct lode_error *err)
{
    uint32_t stored_bytes = 0;
    uint8_t filters = 0;

    if (p->run_count != 0 &&
        !lode_pack(w->packer, s->image, raw_bytes, p->runs, p->run_count,
                   p->min_gain, s->packed, &stored_bytes, &filters, err))
        return false;
    if (stored_bytes == 0 || (stored_bytes - 1) / p->align_bytes ==
                                 (raw_bytes - 1) / p->align_bytes) {
        cv_slot_seal_raw(s, raw_bytes);
        return true;
    }
    s->parcel = (struct lode_parcel){.stored = s->packed,
                                     .image = s->image,
                                     .stored_bytes = stored_bytes,
                                     .raw_bytes = raw_bytes,
                                     .codec = LODE_CODEC_ZSTD,
                                     .filters = filters};
    lode_seal(&s->parcel);
    return true;
}

static uint32_t
slot_count(uint32_t largest_bytes, bool packing)
{
    uint64_t n = RING_BYTES / (room_bytes(largest_bytes) * (packing ? 2 : 1));

    return n < SLOTS_MIN ? SLOTS_MIN : n > SLOTS_MAX ? SLOTS_MAX : (uint32_t)n;
}

uint64_t
cv_flow_bytes(uint32_t largest_bytes, bool packing, uint32_t jobs)
{
    uint64_t bytes = room_bytes(largest_bytes) * (packing ? 2 : 1) *
                     slot_count(largest_bytes, packing);

    if (packing)
        bytes += jobs * (lode_packer_bytes() + lode_unpacker_bytes());
    return bytes;
}

static struct cv_slot *
slot_of(struct flow *f, uint32_t i)
{
    return &f->slots[i % f->slot_count];
}

/* ---- between the threads ---- */

/* The first failure counts; everybody stops. */
static void
stop(struct flow *f, const struct lode_error *err)
{
    pthread_mutex_lock(&f->lock);
    if (!f->stopped)
        f->error = *err;
    f->stopped = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static void
count_up(struct flow *f, uint32_t *counter)
{
    pthread_mutex_lock(&f->lock);
    ++*counter;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static bool
is_done(const struct flow *f, uint32_t i)
{
    return f->done[i] != 0;
}

static void *
reader(void *user)
{
    struct flow *f = user;
    struct lode_error err = {0};

    for (uint32_t i = 0; i < f->job->count; i++) {
        bool go;

        pthread_mutex_lock(&f->lock);
        while (!f->stopped && (i >= f->fed_count + f->slot_count ||
                               i >= f->written_count + f->slot_count))
            pthread_cond_wait(&f->changed, &f->lock);
        go = !f->stopped;
        pthread_mutex_unlock(&f->lock);
        if (!go)
            break;
        if (lode_cancelled != 0) {
            lode_fail(&err, LODE_E_CANCELLED, "cancelled");
            stop(f, &err);
            break;
        }
        if (!is_done(f, i) &&
            !f->job->read(f->job->user, i, slot_of(f, i), &err)) {
            stop(f, &err);
            break;
        }
        count_up(f, &f->read_count);
    }
    return NULL;
}

static void *
feeder(void *user)
{
    struct flow *f = user;
    struct lode_error err = {0};

    for (uint32_t i = 0; i < f->job->count; i++) {
        bool go;

        pthread_mutex_lock(&f->lock);
        while (!f->stopped && i >= f->read_count)
            pthread_cond_wait(&f->changed, &f->lock);
        go = !f->stopped;
        pthread_mutex_unlock(&f->lock);
        if (!go)
            break;
        if (f->job->feed != NULL && !is_done(f, i) &&
            !f->job->feed(f->job->user, i, slot_of(f, i), &err)) {
            stop(f, &err);
            break;
        }
        count_up(f, &f->fed_count);
    }
    return NULL;
}

/* The next block for a worker; false at the end. */
static bool
take(struct flow *f, uint32_t *i)
{
    bool go;

    pthread_mutex_lock(&f->lock);
    while (!f->stopped && f->taken_count < f->job->count &&
           f->taken_count >= f->read_count)
        pthread_cond_wait(&f->changed, &f->lock);
    go = !f->stopped && f->taken_count < f->job->count;
    if (go)
        *i = f->taken_count++;
    pthread_mutex_unlock(&f->lock);
    return go;
}

static void *
worker(void *user)
{
    struct flow *f = user;
    struct cv_worker w = {0};
    struct lode_error err = {0};
    uint32_t i;

    if (f->job->packing && !lode_packer_new(&w.packer, &err))
        stop(f, &err);
    while (take(f, &i)) {
        struct cv_slot *s = slot_of(f, i);

        if (f->job->make != NULL && !is_done(f, i) &&
            !f->job->make(f->job->user, i, s, &w, &err)) {
            stop(f, &err);
            break;
        }
        pthread_mutex_lock(&f->lock);
        s->made = true;
        pthread_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
    }
    lode_packer_free(w.packer);
    lode_scratch_fini(&w.scratch);
    return NULL;
}

static void
write_blocks(struct flow *f)
{
    struct lode_error err = {0};

    for (uint32_t i = 0; i < f->job->count; i++) {
        struct cv_slot *s = slot_of(f, i);
        bool go;

        pthread_mutex_lock(&f->lock);
        while (!f->stopped && (!s->made || i >= f->fed_count))
            pthread_cond_wait(&f->changed, &f->lock);
        go = !f->stopped;
        s->made = false;
        pthread_mutex_unlock(&f->lock);
        if (!go)
            return;
        if (!is_done(f, i) && !f->job->write(f->job->user, i, s, &err)) {
            stop(f, &err);
            return;
        }
        count_up(f, &f->written_count);
    }
}

/* ---- the run ---- */

/* Start the threads, write, and wait for them. */
static void
run_threads(struct flow *f, uint32_t jobs)
{
    pthread_t threads[CV_JOBS_MAX + 2];
    uint32_t count = 0;

    for (uint32_t i = 0; i < jobs + 2; i++) {
        void *(*work)(void *) = i == 0 ? reader : i == 1 ? feeder : worker;
        int code = pthread_create(&threads[count], NULL, work, f);

        if (code != 0) {
            struct lode_error e = {0};

            lode_fail(&e, LODE_E_IO, "cannot start a thread: %s",
                      strerror(code));
            stop(f, &e);
            break;
        }
        count++;
    }
    write_blocks(f);
    while (count > 0)
        (void)pthread_join(threads[--count], NULL); /* ours, joined once */
}

/* What is done is asked before anything is written: later the answer would
 * depend on who asks when. */
static bool
look_up_done(struct flow *f, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(f->job->count, 1, "blocks", &p, err))
        return false;
    f->done = p;
    for (uint32_t i = 0; f->job->done != NULL && i < f->job->count; i++)
        f->done[i] = f->job->done(f->job->user, i);
    return true;
}

bool
cv_flow_run(const struct cv_job *job, uint32_t jobs, struct lode_error *err)
{
    uint32_t wanted = slot_count(job->largest_bytes, job->packing);
    struct flow *f;
    void *p = NULL;
    bool ok;

    assert(jobs >= 1 && jobs <= CV_JOBS_MAX);
    if (!lode_alloc_array(1, sizeof(*f), "pipeline", &p, err))
        return false;
    f = p;
    f->job = job;
    /* Default attributes: these cannot fail on Linux. */
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->changed, NULL);
    ok = look_up_done(f, err);
    while (ok && f->slot_count < wanted)
        ok = cv_slot_init(&f->slots[f->slot_count++], job->largest_bytes,
                          job->packing, err);
    if (ok) {
        run_threads(f, jobs);
        ok = !f->stopped;
        if (!ok)
            *err = f->error;
    }
    for (uint32_t i = 0; i < f->slot_count; i++)
        cv_slot_fini(&f->slots[i], job->largest_bytes);
    free(f->done);
    (void)pthread_cond_destroy(&f->changed); /* nobody waits any more */
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
    return ok;
}
