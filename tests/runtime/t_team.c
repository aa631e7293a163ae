/* SPDX-License-Identifier: Apache-2.0
 *
 * Every item exactly once, whatever the number of threads, items and grain; all
 * of it visible to the caller when the call returns. */
#include "config.h"

#include <stdatomic.h>
#include <time.h>

#include "runtime/team.h"
#include "tests/tap.h"

enum { MOST_ITEMS = 400, MOST_THREADS = 5 };

/* Plain memory: the team itself must order the writes of a worker before the
 * caller's reads. */
struct job {
    unsigned visits[MOST_ITEMS];
    size_t grain;
    size_t items;
    unsigned thread_count;
    atomic_bool wrong; /* a piece that is not one of the promised */
    bool sleepy;
};

static void
doze(long ns)
{
    struct timespec t = {0, ns};

    (void)nanosleep(&t, NULL); /* its length does not matter */
}

static void
visit(void *user, size_t begin, size_t end, unsigned thread)
{
    struct job *j = user;
    size_t length = end - begin;

    if (thread >= j->thread_count || begin % j->grain != 0 || end > j->items ||
        length == 0 || length > j->grain ||
        (length < j->grain && end != j->items)) {
        atomic_store(&j->wrong, true);
        return;
    }
    for (size_t i = begin; i < end; i++)
        j->visits[i]++;
    if (j->sleepy)
        doze(20000);
}

static bool
visits_all(struct rt_team *t, size_t items, size_t grain, bool sleepy)
{
    struct job j = {.items = items, .grain = grain, .sleepy = sleepy,
                    .thread_count = rt_team_threads(t)};
    bool good;

    rt_team_run(t, items, grain, visit, &j);
    good = !atomic_load(&j.wrong);
    for (size_t i = 0; i < MOST_ITEMS; i++)
        good &= j.visits[i] == (i < items ? 1U : 0U);
    return good;
}

static void
test_coverage(unsigned thread_count)
{
    static const size_t grains[] = {1, 2, 3, 7, 64, 400, 1000};
    struct rt_team *t;
    struct lode_error err;
    bool good = true;

    must(rt_team_new(thread_count, &t, &err), &err);
    is_u64(rt_team_threads(t), thread_count, "%u threads", thread_count);
    for (size_t g = 0; g < sizeof(grains) / sizeof(*grains); g++)
        for (size_t items = 0; items <= MOST_ITEMS; items += 1 + items / 7)
            good &= visits_all(t, items, grains[g], false);
    ok(good, "%u threads: every item once", thread_count);
    good = true;
    /* Long enough for workers to take part, and pauses in which they sleep. */
    for (int i = 0; i < 20; i++) {
        good &= visits_all(t, 40, 1, true);
        doze(i % 2 == 0 ? 200000 : 1000);
    }
    ok(good, "%u threads: every item once by slow work", thread_count);
    rt_team_free(t);
}

/* A sum that a lost or doubled job would change. */
static void
count_up(void *user, size_t begin, size_t end, unsigned thread)
{
    uint64_t *counts = user;

    (void)thread;
    for (size_t i = begin; i < end; i++)
        counts[i]++;
}

static void
test_many_jobs(void)
{
    enum { JOBS = 20000, ITEMS = 8 };
    uint64_t counts[ITEMS] = {0};
    struct rt_team *t;
    struct lode_error err;
    bool good = true;

    must(rt_team_new(3, &t, &err), &err);
    for (uint64_t i = 1; i <= JOBS; i++) {
        rt_team_run(t, ITEMS, 1, count_up, counts);
        for (size_t j = 0; j < ITEMS; j++)
            good &= counts[j] == i;
    }
    ok(good, "%d short jobs in a row", JOBS);
    rt_team_free(t);
}

struct nested {
    struct rt_team *inner;
    uint64_t counts[16];
};

static void
run_inner(void *user, size_t begin, size_t end, unsigned thread)
{
    struct nested *n = user;

    (void)thread;
    for (size_t i = begin; i < end; i++)
        rt_team_run(n->inner, 16, 1, count_up, n->counts);
}

/* Teams are independent: one is made, used and ended while another waits, and
 * one runs within a job of another (which has one thread, so that the maker of
 * the inner team is its caller). */
static void
test_two_teams(void)
{
    struct rt_team *outer, *one;
    struct nested n = {0};
    struct lode_error err;
    bool good = true;

    must(rt_team_new(4, &outer, &err), &err);
    for (int i = 0; i < 50; i++) {
        must(rt_team_new(1 + (unsigned)i % MOST_THREADS, &n.inner, &err), &err);
        good &= visits_all(n.inner, 33, 2, false);
        good &= visits_all(outer, 33, 2, false);
        rt_team_free(n.inner);
    }
    ok(good, "teams come and go beside another");
    must(rt_team_new(1, &one, &err), &err);
    must(rt_team_new(3, &n.inner, &err), &err);
    rt_team_run(one, 25, 2, run_inner, &n);
    for (size_t i = 0; i < 16; i++)
        good &= n.counts[i] == 25;
    ok(good, "a team within a job of another");
    rt_team_free(one);
    rt_team_free(n.inner);
    rt_team_free(outer);
}

/* Nobody is left waiting when a team ends before its first job. */
static void
test_idle_end(void)
{
    struct rt_team *t;
    struct lode_error err;

    for (int i = 0; i < 100; i++) {
        must(rt_team_new(1 + (unsigned)i % MOST_THREADS, &t, &err), &err);
        if (i % 3 == 0)
            doze(100000);
        rt_team_free(t);
    }
    rt_team_free(NULL);
    ok(true, "teams end without a job");
}

/* Both threads are there at once: each waits for the other. */
struct meeting {
    atomic_uint here;
    bool met[2];
};

static void
meet(void *user, size_t begin, size_t end, unsigned thread)
{
    struct meeting *m = user;

    (void)end;
    (void)thread;
    atomic_fetch_add(&m->here, 1);
    for (int i = 0; i < 5000 && atomic_load(&m->here) < 2; i++)
        doze(1000000);
    m->met[begin] = atomic_load(&m->here) == 2;
}

static void
test_at_once(void)
{
    struct meeting m = {0};
    struct rt_team *t;
    struct lode_error err;

    must(rt_team_new(2, &t, &err), &err);
    rt_team_run(t, 2, 1, meet, &m);
    ok(m.met[0] && m.met[1], "two threads work at once");
    rt_team_free(t);
}

int
main(void)
{
    for (unsigned n = 1; n <= MOST_THREADS; n++)
        test_coverage(n);
    test_many_jobs();
    test_two_teams();
    test_idle_end();
    test_at_once();
    return done_testing();
}
