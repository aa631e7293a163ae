/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/cache.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

struct slot {
    uint64_t used_at; /* the lookup that used it last */
    int32_t key;      /* RT_CACHE_NONE: empty */
    uint32_t pins;
};

struct rt_cache {
    struct slot *slots;
    int32_t *slot_of;   /* by key */
    uint16_t *use_count; /* by key, also of experts that have no slot */
    uint32_t key_count;
    uint32_t slot_count;
    uint64_t age_period;
    uint64_t lookups;
    struct rt_cache_stats stats;
};

uint64_t
rt_cache_memory_bytes(uint32_t key_count, uint32_t slot_count)
{
    return (uint64_t)key_count * (sizeof(int32_t) + sizeof(uint16_t)) +
           (uint64_t)slot_count * sizeof(struct slot) + sizeof(struct rt_cache);
}

bool
rt_cache_new(uint32_t key_count, uint32_t slot_count, uint64_t age_period,
             struct rt_cache **out, struct lode_error *err)
{
    struct rt_cache *c;
    void *p = NULL;

    assert(slot_count >= 1 && age_period >= 1);
    if (!lode_alloc_array(1, sizeof(*c), "expert cache", &p, err))
        return false;
    c = p;
    c->key_count = key_count;
    c->slot_count = slot_count;
    c->age_period = age_period;
    if (!lode_alloc_array(slot_count, sizeof(*c->slots), "expert cache", &p,
                          err))
        goto fail;
    c->slots = p;
    if (!lode_alloc_array(key_count, sizeof(*c->slot_of), "expert cache", &p,
                          err))
        goto fail;
    c->slot_of = p;
    if (!lode_alloc_array(key_count, sizeof(*c->use_count), "expert cache", &p,
                          err))
        goto fail;
    c->use_count = p;
    for (uint32_t i = 0; i < slot_count; i++)
        c->slots[i].key = RT_CACHE_NONE;
    for (uint32_t i = 0; i < key_count; i++)
        c->slot_of[i] = RT_CACHE_NONE;
    *out = c;
    return true;
fail:
    rt_cache_free(c);
    return false;
}

void
rt_cache_free(struct rt_cache *c)
{
    if (c == NULL)
        return;
    free(c->slots);
    free(c->slot_of);
    free(c->use_count);
    free(c);
}

int32_t
rt_cache_get(struct rt_cache *c, uint32_t key)
{
    int32_t slot;

    assert(key < c->key_count);
    if (++c->lookups % c->age_period == 0)
        for (uint32_t i = 0; i < c->key_count; i++)
            c->use_count[i] /= 2;
    if (c->use_count[key] < UINT16_MAX)
        c->use_count[key]++;
    slot = c->slot_of[key];
    if (slot == RT_CACHE_NONE) {
        c->stats.misses++;
        return RT_CACHE_NONE;
    }
    c->stats.hits++;
    c->slots[slot].used_at = c->lookups;
    c->slots[slot].pins++;
    return slot;
}

/* Is a worth less than b?  Empty slots are worth nothing. */
static bool
worth_less(const struct rt_cache *c, const struct slot *a, const struct slot *b)
{
    if (a->key == RT_CACHE_NONE || b->key == RT_CACHE_NONE)
        return a->key == RT_CACHE_NONE && b->key != RT_CACHE_NONE;
    if (c->use_count[a->key] != c->use_count[b->key])
        return c->use_count[a->key] < c->use_count[b->key];
    return a->used_at < b->used_at;
}

int32_t
rt_cache_put(struct rt_cache *c, uint32_t key)
{
    int32_t best = RT_CACHE_NONE;
    struct slot *s;

    assert(key < c->key_count && c->slot_of[key] == RT_CACHE_NONE);
    for (uint32_t i = 0; i < c->slot_count; i++)
        if (c->slots[i].pins == 0 &&
            (best == RT_CACHE_NONE ||
             worth_less(c, &c->slots[i], &c->slots[best])))
            best = (int32_t)i;
    if (best == RT_CACHE_NONE)
        return RT_CACHE_NONE;
    s = &c->slots[best];
    if (s->key != RT_CACHE_NONE)
        c->slot_of[s->key] = RT_CACHE_NONE;
    s->key = (int32_t)key;
    s->pins = 1;
    s->used_at = c->lookups;
    c->slot_of[key] = best;
    return best;
}

void
rt_cache_unpin(struct rt_cache *c, int32_t slot)
{
    assert(c->slots[slot].pins > 0);
    c->slots[slot].pins--;
}

void
rt_cache_drop(struct rt_cache *c, int32_t slot)
{
    struct slot *s = &c->slots[slot];

    assert(s->pins == 1 && s->key != RT_CACHE_NONE);
    c->slot_of[s->key] = RT_CACHE_NONE;
    s->key = RT_CACHE_NONE;
    s->pins = 0;
}

void
rt_cache_stats(const struct rt_cache *c, struct rt_cache_stats *out)
{
    *out = c->stats;
}
