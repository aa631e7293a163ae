/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/budget.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "runtime/cache.h"
#include "runtime/fetch.h"
#include "runtime/trunk.h"
#include "runtime/work.h"

enum {
    THREAD_BYTES = 128 << 10, /* touched stack and bookkeeping of a thread */
    SLACK_BYTES = 1 << 20,    /* allocator, stdio, JSON of the report */
    RING_WANTED = 4,
    SLOTS_MIN = 2,
    SLOTS_WANTED = 4,
    CHUNK_TOKENS_MAX = 512,
    SAMPLER_ROW_BYTES = 9, /* candidate, weight, marks: sampler.c */
};

static uint64_t
status_bytes(const char *key)
{
    unsigned long long kib = 0;
    size_t key_bytes = strlen(key);
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");

    if (f == NULL)
        return 0;
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, key_bytes) == 0)
            kib = strtoull(line + key_bytes, NULL, 10);
    (void)fclose(f); /* read-only */
    return (uint64_t)kib * 1024;
}

uint64_t
rt_resident_bytes(void)
{
    return status_bytes("VmRSS:");
}

uint64_t
rt_peak_resident_bytes(void)
{
    return status_bytes("VmHWM:");
}

/* A number in a one-line file of the cgroup, or the fallback. */
static uint64_t
cgroup_bytes(const char *dir, const char *name, uint64_t fallback)
{
    unsigned long long value;
    char path[512];
    char line[64];
    FILE *f;

    if (snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dir, name) >=
        (int)sizeof(path))
        return fallback;
    f = fopen(path, "r");
    if (f == NULL)
        return fallback;
    if (fgets(line, sizeof(line), f) == NULL || line[0] < '0' || line[0] > '9')
        value = fallback;
    else
        value = strtoull(line, NULL, 10);
    (void)fclose(f); /* read-only */
    return (uint64_t)value;
}

/* What the cgroup (version 2) of this process leaves. */
static uint64_t
cgroup_left(void)
{
    uint64_t limit;
    uint64_t used;
    char line[256];
    char *dir = NULL;
    FILE *f = fopen("/proc/self/cgroup", "r");

    if (f == NULL)
        return UINT64_MAX;
    while (fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = '\0';
            dir = line + 3;
            break;
        }
    (void)fclose(f); /* read-only */
    if (dir == NULL)
        return UINT64_MAX;
    limit = cgroup_bytes(dir, "memory.max", UINT64_MAX);
    used = cgroup_bytes(dir, "memory.current", 0);
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    return limit > used ? limit - used : 0;
}

uint64_t
rt_budget_default(void)
{
    unsigned long long kib = 0;
    uint64_t available;
    uint64_t left = cgroup_left();
    uint64_t reserve;
    char line[256];
    FILE *f = fopen("/proc/meminfo", "r");

    if (f != NULL) {
        while (fgets(line, sizeof(line), f) != NULL)
            if (strncmp(line, "MemAvailable:", 13) == 0)
                kib = strtoull(line + 13, NULL, 10);
        (void)fclose(f); /* read-only */
    }
    available = (uint64_t)kib * 1024;
    if (available == 0)
        available = UINT64_C(1) << 30;
    if (left < available)
        available = left;
    /* A tenth, at least 512 MB, for everything else on the machine; but no
     * more than half of a small one. */
    reserve = available / 10;
    if (reserve < UINT64_C(512) << 20)
        reserve = UINT64_C(512) << 20;
    if (reserve > available / 2)
        reserve = available / 2;
    return available - reserve;
}

uint64_t
rt_state_bytes(const struct rt_config *c, uint64_t context_tokens)
{
    uint64_t kda = (uint64_t)c->kda_heads * c->kda_width;
    uint64_t floats = 0;

    for (uint32_t i = 0; i < c->layer_count; i++)
        floats += c->is_kda[i] != 0
                      ? kda * c->kda_width + 3 * (c->conv_taps - 1) * kda
                      : context_tokens * (c->kv_latent_width + c->rope_width);
    return floats * sizeof(float);
}

/* Everything but ring, pins and slots, for chunks of this many tokens. */
static void
plan_fixed(const struct rt_model *m, const struct rt_budget_options *opt,
           uint32_t chunk_tokens, struct rt_budget *b)
{
    struct rt_work_shape shape = {chunk_tokens, opt->context_tokens,
                                  opt->compute_threads, opt->all_logits};

    b->chunk_tokens = chunk_tokens;
    b->work_bytes = rt_work_bytes(&m->config, &shape);
    b->state_bytes = rt_state_bytes(&m->config, opt->context_tokens);
    b->fixed_bytes = m->max_row_bytes + m->max_row_block_bytes +
                     (uint64_t)m->config.vocab_rows * SAMPLER_ROW_BYTES +
                     opt->caller_bytes + b->decode_bytes;
    b->total_bytes = b->base_bytes + b->work_bytes + b->state_bytes +
                     b->fixed_bytes;
}

/* Experts' slots, with their tables; each slot also has a read request. */
static uint64_t
slots_bytes(const struct rt_model *m, uint32_t slots)
{
    uint32_t keys = m->config.layer_count * m->config.expert_count;

    if (m->moe_layer_count == 0)
        return 0;
    return (uint64_t)slots * (m->max_expert_room_bytes + 1024) +
           rt_cache_memory_bytes(keys, slots);
}

/* The longest chunk that an eighth of the room above the floor pays for. */
static uint32_t
choose_chunk(const struct rt_model *m, const struct rt_budget_options *opt,
             const struct rt_budget *least, uint64_t room)
{
    struct rt_budget b = *least;
    uint32_t limit = opt->max_chunk_tokens != 0 ? opt->max_chunk_tokens
                                                : CHUNK_TOKENS_MAX;
    uint32_t low = 1;

    if (limit > CHUNK_TOKENS_MAX)
        limit = CHUNK_TOKENS_MAX;
    if (limit > opt->context_tokens)
        limit = (uint32_t)opt->context_tokens;
    while (low < limit) {
        uint32_t mid = low + (limit - low + 1) / 2;

        plan_fixed(m, opt, mid, &b);
        if (b.work_bytes - least->work_bytes <= room / 8)
            low = mid;
        else
            limit = mid - 1;
    }
    return low;
}

static void
spend_on_trunk(const struct rt_model *m, struct rt_budget *b, uint64_t *room)
{
    uint64_t slot = m->max_trunk_room_bytes;

    /* All of it fits once the ring is given up: no ring is needed then. */
    if (m->trunk_room_bytes <= *room + b->ring_bytes) {
        *room = *room + b->ring_bytes - m->trunk_room_bytes;
        b->ring_bytes = 0;
        b->ring_count = 0;
        b->pinned_count = m->position_count;
        b->pinned_bytes = m->trunk_room_bytes;
        b->streamed_bytes = 0;
        return;
    }
    while (b->ring_count < RING_WANTED && *room >= slot) {
        b->ring_count++;
        b->ring_bytes += slot;
        *room -= slot;
    }
    while (b->pinned_count < m->position_count &&
           m->positions[b->pinned_count].room_bytes <= *room) {
        const struct rt_position *p = &m->positions[b->pinned_count++];

        b->pinned_bytes += p->room_bytes;
        b->streamed_bytes -= p->stored_bytes;
        *room -= p->room_bytes;
    }
}

static void
spend_on_slots(const struct rt_model *m, struct rt_budget *b, uint64_t *room)
{
    uint64_t each = slots_bytes(m, 2) - slots_bytes(m, 1);
    uint64_t more = each != 0 ? *room / each : 0;

    if (m->moe_layer_count == 0)
        return;
    if (more > m->expert_count - b->slot_count)
        more = m->expert_count - b->slot_count;
    b->slot_count += (uint32_t)more;
    b->cache_bytes = slots_bytes(m, b->slot_count);
    *room -= more * each;
}

static void
plan_floor(const struct rt_model *m, const struct rt_budget_options *opt,
           struct rt_budget *b)
{
    memset(b, 0, sizeof(*b));
    b->base_bytes = rt_resident_bytes() + SLACK_BYTES +
                    (uint64_t)THREAD_BYTES *
                        (opt->compute_threads + opt->reader_threads);
    b->decode_bytes = rt_fetch_decode_bytes(opt->reader_threads,
                                            m->packed_bytes);
    plan_fixed(m, opt, opt->chunk_tokens != 0 ? opt->chunk_tokens : 1, b);
    b->ring_count = RT_RING_MIN;
    b->ring_bytes = (uint64_t)RT_RING_MIN * m->max_trunk_room_bytes;
    if (m->trunk_room_bytes < b->ring_bytes) {
        b->ring_count = 0;
        b->ring_bytes = 0;
        b->pinned_count = m->position_count;
        b->pinned_bytes = m->trunk_room_bytes;
    }
    b->slot_count = 0;
    if (m->moe_layer_count != 0)
        b->slot_count =
            m->expert_count < SLOTS_MIN ? m->expert_count : SLOTS_MIN;
    b->cache_bytes = slots_bytes(m, b->slot_count);
    if (b->pinned_count == 0)
        b->streamed_bytes = m->trunk_stored_bytes;
    b->expert_bytes_per_token = m->expert_bytes_per_token;
    b->total_bytes += b->ring_bytes + b->pinned_bytes + b->cache_bytes;
    b->floor_bytes = b->total_bytes;
}

bool
rt_budget_plan(const struct rt_model *m, const struct rt_budget_options *opt,
               struct rt_budget *out, struct lode_error *err)
{
    struct rt_budget b;
    uint64_t room;
    char have[32];
    char need[32];

    plan_floor(m, opt, &b);
    b.memory_bytes =
        opt->memory_bytes != 0 ? opt->memory_bytes : rt_budget_default();
    *out = b;
    if (b.memory_bytes < b.floor_bytes)
        return lode_fail(
            err, LODE_E_NOMEM,
            "a memory budget of %s (%" PRIu64 " bytes) is below what this "
            "model needs at a context of %" PRIu64 " tokens: %s (%" PRIu64
            " bytes)",
            lode_format_bytes(b.memory_bytes, have, sizeof(have)),
            b.memory_bytes, opt->context_tokens,
            lode_format_bytes(b.floor_bytes, need, sizeof(need)),
            b.floor_bytes);
    room = b.memory_bytes - b.floor_bytes;
    if (opt->chunk_tokens == 0) {
        uint64_t before = b.work_bytes;

        plan_fixed(m, opt, choose_chunk(m, opt, &b, room), &b);
        room -= b.work_bytes - before;
    }
    while (b.slot_count < SLOTS_WANTED && b.slot_count < m->expert_count) {
        uint64_t more =
            slots_bytes(m, b.slot_count + 1) - slots_bytes(m, b.slot_count);

        if (more > room)
            break;
        b.slot_count++;
        b.cache_bytes += more;
        room -= more;
    }
    if (b.pinned_count < m->position_count)
        spend_on_trunk(m, &b, &room);
    spend_on_slots(m, &b, &room);
    b.total_bytes = b.base_bytes + b.work_bytes + b.state_bytes +
                    b.fixed_bytes + b.ring_bytes + b.pinned_bytes +
                    b.cache_bytes;
    *out = b;
    return true;
}
