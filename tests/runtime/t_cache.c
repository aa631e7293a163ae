/* SPDX-License-Identifier: Apache-2.0
 *
 * The expert cache: policy alone, no drive, no threads. */
#include "config.h"

#include "tests/tap.h"

#include "runtime/cache.h"

static struct rt_cache *
make(uint32_t keys, uint32_t slots, uint64_t age)
{
    struct rt_cache *c;
    struct lode_error err;

    must(rt_cache_new(keys, slots, age, &c, &err), &err);
    return c;
}

/* Look up and, on a miss, place; unpinned again.  True on a hit. */
static bool
touch(struct rt_cache *c, uint32_t key)
{
    int32_t slot = rt_cache_get(c, key);
    bool hit = slot != RT_CACHE_NONE;

    if (!hit)
        slot = rt_cache_put(c, key);
    if (slot == RT_CACHE_NONE)
        return false;
    rt_cache_unpin(c, slot);
    return hit;
}

static void
test_basic(void)
{
    struct rt_cache *c = make(8, 2, 1000);
    struct rt_cache_stats s;

    ok(!touch(c, 0) && touch(c, 0), "a miss, then a hit");
    ok(!touch(c, 1) && touch(c, 0) && touch(c, 1), "two fit");
    touch(c, 0);
    ok(!touch(c, 2), "a third misses");
    ok(touch(c, 0), "and does not drive out the one used most");
    ok(!touch(c, 1), "but the other");
    rt_cache_stats(c, &s);
    is_u64(s.hits + s.misses, 9, "each look-up is counted");
    rt_cache_free(c);
}

static void
test_pins(void)
{
    struct rt_cache *c = make(8, 2, 1000);
    int32_t a;
    int32_t b;

    (void)rt_cache_get(c, 0);
    a = rt_cache_put(c, 0);
    (void)rt_cache_get(c, 1);
    b = rt_cache_put(c, 1);
    ok(a != b && a >= 0 && b >= 0, "two slots");
    (void)rt_cache_get(c, 2);
    ok(rt_cache_put(c, 2) == RT_CACHE_NONE, "pinned slots are not given up");
    rt_cache_unpin(c, a);
    ok(rt_cache_put(c, 2) == a, "an unpinned one is");
    ok(rt_cache_get(c, 0) == RT_CACHE_NONE, "and what it held is gone");
    is_u64(rt_cache_get(c, 1), b, "what is pinned stays");
    rt_cache_unpin(c, b);
    rt_cache_unpin(c, b);
    rt_cache_drop(c, a);
    ok(rt_cache_get(c, 2) == RT_CACHE_NONE, "a dropped one is gone");
    ok(rt_cache_put(c, 2) == a, "and its slot is taken first");
    rt_cache_free(c);
}

/* Ten favourites among a scan over everything else, in fewer slots than lie
 * between two uses of a favourite: the least recently used one would always be
 * the one that is wanted next. */
static void
test_scan(void)
{
    struct rt_cache *c = make(1000, 15, 100000);
    unsigned hits = 0;

    for (uint32_t i = 0; i < 2000; i++) {
        touch(c, 10 + i % 990);
        hits += touch(c, i % 10);
    }
    ok(hits > 1800, "favourites outlast a scan: %u hits of 2000", hits);
    rt_cache_free(c);
}

static void
test_aging(void)
{
    struct rt_cache *c = make(4, 1, 8);

    for (unsigned i = 0; i < 200; i++)
        touch(c, 0);
    touch(c, 1); /* takes the only slot */
    for (unsigned i = 0; i < 200; i++)
        touch(c, 1);
    ok(touch(c, 1), "an old favourite does not stay for ever");
    rt_cache_free(c);
}

static void
test_memory(void)
{
    ok(rt_cache_memory_bytes(1000, 10) > rt_cache_memory_bytes(1000, 1) &&
           rt_cache_memory_bytes(1000, 10) > rt_cache_memory_bytes(10, 10),
       "memory grows with keys and slots");
}

int
main(void)
{
    test_basic();
    test_pins();
    test_scan();
    test_aging();
    test_memory();
    return done_testing();
}
