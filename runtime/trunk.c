/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/trunk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A block on its way: in a ring slot, or in its pinned place (slot -1). */
struct flight {
    struct rt_request *request;
    uint32_t position;
    int slot;
};

struct rt_trunk {
    const struct rt_model *model;
    struct rt_fetch *fetch;

    uint32_t pinned_count;
    uint8_t *pinned;
    uint64_t pinned_bytes;
    uint64_t *pinned_offset;
    uint8_t *resident; /* by pinned position: has been read */

    uint32_t ring_count;
    uint8_t *ring;
    uint64_t ring_bytes;
    struct rt_request requests[RT_RING_MAX];
    uint32_t free_slots; /* bit i: ring slot i is free */
    uint32_t free_pins;  /* bit i: pin_requests[i] is free */
    struct rt_request pin_requests[RT_RING_MAX];

    struct flight flights[2 * RT_RING_MAX]; /* FIFO in order of use */
    uint32_t flight_first;
    uint32_t flight_count;

    /* Reading ahead: the next position to issue, in this pass or the next. */
    uint32_t ahead_position;
    bool ahead_in_next_pass;
    uint32_t pass_end;
    uint32_t layers_end; /* positions of the layers' stages */
    bool more;

    /* Consuming. */
    const struct rt_stage *stage;
    uint32_t next_position;    /* the next to be acquired in this pass */
    const uint8_t *current;    /* block next_position - 1, or NULL */
    int current_slot;          /* its ring slot, or -1 */

    uint8_t *row; /* assembles a straddling row */
};

static uint8_t *
slot_memory(const struct rt_trunk *t, int slot)
{
    return t->ring + (uint64_t)slot * t->model->max_trunk_room_bytes;
}

static int
take_bit(uint32_t *bits)
{
    int i;

    if (*bits == 0)
        return -1;
    i = __builtin_ctz(*bits);
    *bits &= *bits - 1;
    return i;
}

static bool
allocate(struct rt_trunk *t, struct lode_error *err)
{
    const struct rt_model *m = t->model;
    void *p = NULL;

    if (!lode_alloc_array(t->pinned_count, sizeof(*t->pinned_offset), "trunk",
                          &p, err))
        return false;
    t->pinned_offset = p;
    if (!lode_alloc_array(t->pinned_count, 1, "trunk", &p, err))
        return false;
    t->resident = p;
    for (uint32_t i = 0; i < t->pinned_count; i++) {
        t->pinned_offset[i] = t->pinned_bytes;
        t->pinned_bytes += m->positions[i].room_bytes;
    }
    if (!lode_alloc_aligned(t->pinned_bytes, "pinned trunk", &p, err))
        return false;
    t->pinned = p;
    t->ring_bytes = (uint64_t)t->ring_count * m->max_trunk_room_bytes;
    if (!lode_alloc_aligned(t->ring_bytes, "trunk ring", &p, err))
        return false;
    t->ring = p;
    if (!lode_alloc_aligned(m->max_row_bytes, "row", &p, err))
        return false;
    t->row = p;
    return true;
}

bool
rt_trunk_new(const struct rt_model *m, struct rt_fetch *f,
             uint32_t pinned_count, uint32_t ring_count, struct rt_trunk **out,
             struct lode_error *err)
{
    struct rt_trunk *t;
    void *p;

    assert(pinned_count == m->position_count ||
           (ring_count >= RT_RING_MIN && ring_count <= RT_RING_MAX));
    if (!lode_alloc_array(1, sizeof(*t), "trunk", &p, err))
        return false;
    t = p;
    t->model = m;
    t->fetch = f;
    t->pinned_count = pinned_count;
    t->ring_count = ring_count;
    t->free_slots = ring_count != 0 ? (1U << ring_count) - 1 : 0;
    t->free_pins = (1U << RT_RING_MAX) - 1;
    t->current_slot = -1;
    t->layers_end = m->stages[m->config.layer_count].first_position;
    if (!allocate(t, err)) {
        rt_trunk_free(t);
        return false;
    }
    *out = t;
    return true;
}

void
rt_trunk_free(struct rt_trunk *t)
{
    if (t == NULL)
        return;
    lode_free_aligned(t->pinned, t->pinned_bytes);
    lode_free_aligned(t->ring, t->ring_bytes);
    lode_free_aligned(t->row, t->model->max_row_bytes);
    free(t->pinned_offset);
    free(t->resident);
    free(t);
}

/* Submit one block; false when no slot is free. */
static bool
launch(struct rt_trunk *t, uint32_t position)
{
    const struct rt_position *b = &t->model->positions[position];
    struct flight *fl;
    bool pin = position < t->pinned_count;
    int slot = take_bit(pin ? &t->free_pins : &t->free_slots);

    if (slot < 0)
        return false;
    fl = &t->flights[(t->flight_first + t->flight_count++) %
                     (2 * RT_RING_MAX)];
    fl->position = position;
    fl->slot = slot;
    fl->request = pin ? &t->pin_requests[slot] : &t->requests[slot];
    fl->request->block_index = b->block_index;
    fl->request->dst =
        pin ? t->pinned + t->pinned_offset[position] : slot_memory(t, slot);
    rt_fetch_submit(t->fetch, fl->request, RT_AHEAD);
    return true;
}

/* Read ahead as far as slots allow. */
static void
issue(struct rt_trunk *t)
{
    for (;;) {
        uint32_t end = t->ahead_in_next_pass ? t->layers_end : t->pass_end;

        if (t->ahead_position == end) {
            if (t->ahead_in_next_pass || !t->more)
                return;
            t->ahead_in_next_pass = true;
            t->ahead_position = 0;
            continue;
        }
        if (t->ahead_position < t->pinned_count &&
            t->resident[t->ahead_position] != 0) {
            t->ahead_position++;
            continue;
        }
        /* What is launched for this pass must not be launched again for the
         * next one before it has arrived. */
        if (t->ahead_in_next_pass && t->ahead_position < t->pinned_count)
            return;
        if (!launch(t, t->ahead_position))
            return;
        t->ahead_position++;
    }
}

static void
land(struct rt_trunk *t, const struct flight *fl)
{
    t->flight_first = (t->flight_first + 1) % (2 * RT_RING_MAX);
    t->flight_count--;
    if (fl->position < t->pinned_count)
        t->free_pins |= 1U << fl->slot;
}

static void
release_current(struct rt_trunk *t)
{
    if (t->current_slot >= 0)
        t->free_slots |= 1U << t->current_slot;
    t->current_slot = -1;
    t->current = NULL;
}

/* Wait for everything that was read ahead in vain, and forget it. */
static bool
flush(struct rt_trunk *t, struct lode_error *err)
{
    bool ok = true;

    while (t->flight_count > 0) {
        struct flight fl = t->flights[t->flight_first];

        if (!rt_fetch_wait(t->fetch, fl.request, err))
            ok = false;
        else if (fl.position < t->pinned_count)
            t->resident[fl.position] = 1;
        land(t, &fl);
        if (fl.position >= t->pinned_count)
            t->free_slots |= 1U << fl.slot;
    }
    return ok;
}

/* Make the block at next_position the current one. */
static bool
acquire(struct rt_trunk *t, struct lode_error *err)
{
    uint32_t position = t->next_position;
    struct flight fl;

    release_current(t);
    if (position < t->pinned_count && t->resident[position] != 0) {
        t->current = t->pinned + t->pinned_offset[position];
        t->next_position++;
        issue(t);
        return true;
    }
    if (t->flight_count == 0 ||
        t->flights[t->flight_first].position != position) {
        if (!flush(t, err))
            return false;
        t->ahead_position = position;
        t->ahead_in_next_pass = false;
    }
    issue(t);
    fl = t->flights[t->flight_first];
    assert(t->flight_count > 0 && fl.position == position);
    if (!rt_fetch_wait(t->fetch, fl.request, err))
        return false;
    land(t, &fl);
    if (position < t->pinned_count) {
        t->resident[position] = 1;
        t->current = t->pinned + t->pinned_offset[position];
    } else {
        t->current = slot_memory(t, fl.slot);
        t->current_slot = fl.slot;
    }
    t->next_position++;
    issue(t);
    return true;
}

bool
rt_trunk_begin_pass(struct rt_trunk *t, bool with_output, bool more,
                    struct lode_error *err)
{
    release_current(t);
    t->stage = NULL;
    t->next_position = 0;
    t->pass_end = with_output ? t->model->position_count : t->layers_end;
    t->more = more;
    if (!t->ahead_in_next_pass) {
        if (!flush(t, err))
            return false;
        t->ahead_position = 0;
    }
    t->ahead_in_next_pass = false;
    issue(t);
    return true;
}

bool
rt_trunk_begin_stage(struct rt_trunk *t, uint32_t stage_index,
                     struct lode_error *err)
{
    t->stage = &t->model->stages[stage_index];
    while (t->next_position < t->stage->first_position)
        if (!acquire(t, err))
            return false;
    return true;
}

/* The byte at an offset of the stage's image, and how many follow it in the
 * same block. */
static bool
at(struct rt_trunk *t, uint64_t offset, const uint8_t **out,
   uint64_t *available_bytes, struct lode_error *err)
{
    const struct rt_stage *s = t->stage;
    uint64_t seq = s->block_count > 1 ? offset / s->block_raw_bytes : 0;
    uint32_t position = s->first_position + (uint32_t)seq;
    uint64_t start = seq * s->block_raw_bytes;
    uint64_t end = s->view->object_raw_bytes;

    if (s->block_count > 1 && seq + 1 < s->block_count)
        end = start + s->block_raw_bytes;
    assert(position + 1 >= t->next_position); /* offsets only grow */
    while (t->next_position <= position)
        if (!acquire(t, err))
            return false;
    *out = t->current + (offset - start);
    *available_bytes = end - offset;
    return true;
}

bool
rt_trunk_vector(struct rt_trunk *t, const struct rt_tensor *tensor,
                uint64_t count, float *out, struct lode_error *err)
{
    uint64_t item_bytes = tensor->encoding == LODE_ENC_F32 ? 4 : 2;
    uint64_t offset = tensor->offset;

    /* Tensors start at multiples of 64 and blocks end at multiples of 1 MiB,
     * so no value straddles two blocks. */
    while (count > 0) {
        const uint8_t *p;
        uint64_t available_bytes;
        uint64_t n;

        if (!at(t, offset, &p, &available_bytes, err))
            return false;
        n = available_bytes / item_bytes;
        if (n > count)
            n = count;
        lode_decode_plain(tensor->encoding, p, (size_t)n, out);
        out += n;
        offset += n * item_bytes;
        count -= n;
    }
    return true;
}

bool
rt_trunk_slice(struct rt_trunk *t, const struct rt_tensor *tensor,
               uint32_t row_index, struct rt_slice *out,
               struct lode_error *err)
{
    uint64_t offset = tensor->offset + row_index * tensor->row_bytes;
    uint64_t available_bytes;
    uint64_t copied = 0;
    const uint8_t *p;

    if (!at(t, offset, &p, &available_bytes, err))
        return false;
    if (available_bytes >= tensor->row_bytes) {
        uint64_t n = available_bytes / tensor->row_bytes;
        uint64_t left = tensor->rows - row_index;

        out->rows = p;
        out->row_count = (uint32_t)(n < left ? n : left);
        return true;
    }
    while (copied < tensor->row_bytes) {
        uint64_t n = tensor->row_bytes - copied;

        if (!at(t, offset + copied, &p, &available_bytes, err))
            return false;
        if (n > available_bytes)
            n = available_bytes;
        memcpy(t->row + copied, p, (size_t)n);
        copied += n;
    }
    out->rows = t->row;
    out->row_count = 1;
    return true;
}
