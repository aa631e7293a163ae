/* SPDX-License-Identifier: Apache-2.0
 *
 * Which expert lies in which slot, and which slot to give up.  Pure policy: no
 * I/O, no threads, no clock.
 *
 * Policy: the least often used expert goes, counts being halved from time to
 * time, ties to the least recently used.  A scan over layers defeats plain LRU
 * below one token's working set (hit rate exactly 0), frequencies do not. */

#ifndef LODE_RUNTIME_CACHE_H
#define LODE_RUNTIME_CACHE_H

#include <stdint.h>

#include "base/error.h"

struct rt_cache;

enum { RT_CACHE_NONE = -1 };

/* keys 0 .. key_count - 1 (layer x experts + expert), slot_count >= 1 slots;
 * counts are halved every age_period lookups. */
LODE_MUST_CHECK
bool rt_cache_new(uint32_t key_count, uint32_t slot_count, uint64_t age_period,
                  struct rt_cache **out, struct lode_error *err);
void rt_cache_free(struct rt_cache *c); /* NULL is allowed */

/* What rt_cache_new() will allocate. */
uint64_t rt_cache_memory_bytes(uint32_t key_count, uint32_t slot_count);

/* Count a use of key; its slot, pinned once more, or RT_CACHE_NONE. */
int32_t rt_cache_get(struct rt_cache *c, uint32_t key);

/* Give key, which has no slot, the slot that is worth least, pinned once; or
 * RT_CACHE_NONE when all are pinned. */
int32_t rt_cache_put(struct rt_cache *c, uint32_t key);

void rt_cache_unpin(struct rt_cache *c, int32_t slot);

/* Forget what a slot holds (its read failed); it must be pinned once. */
void rt_cache_drop(struct rt_cache *c, int32_t slot);

struct rt_cache_stats {
    uint64_t hits;
    uint64_t misses;
};
void rt_cache_stats(const struct rt_cache *c, struct rt_cache_stats *out);

#endif
