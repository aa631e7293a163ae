/* SPDX-License-Identifier: Apache-2.0
 *
 * Compute threads: a parallel for with a barrier.  The caller is one of the
 * team.  Results never depend on the number of threads, because items are
 * independent and each is done by exactly one thread. */

#ifndef LODE_RUNTIME_TEAM_H
#define LODE_RUNTIME_TEAM_H

#include <stddef.h>

#include "base/error.h"

struct rt_team;

/* thread_count >= 1, the caller included. */
LODE_MUST_CHECK
bool rt_team_new(unsigned thread_count, struct rt_team **out,
                 struct lode_error *err);
void rt_team_free(struct rt_team *t); /* NULL is allowed; joins the threads */

unsigned rt_team_threads(const struct rt_team *t);

/* Call fn(user, begin, end, thread) over [0, items) cut into pieces of grain
 * items (the last shorter), by all threads; returns when all are done.  thread
 * is 0 .. thread_count - 1, for per-thread scratch.  Not re-entrant; only the
 * thread that made the team calls it.  Allocates nothing. */
void rt_team_run(struct rt_team *t, size_t items, size_t grain,
                 void (*fn)(void *user, size_t begin, size_t end,
                            unsigned thread),
                 void *user);

#endif
