/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/window.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { CACHED_BLOCKS = 3 };

struct cached {
    void *data;
    uint64_t room_bytes;
    uint64_t used; /* when, by the clock; 0: empty */
    uint32_t block_index;
};

struct cv_window {
    const struct lode_reader *r;
    struct lode_scratch scratch;
    struct cached cache[CACHED_BLOCKS];
    uint64_t clock;
};

bool
cv_window_open(const struct lode_reader *r, struct cv_window **out,
               struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(1, sizeof(**out), "blocks", &p, err))
        return false;
    *out = p;
    (*out)->r = r;
    return true;
}

void
cv_window_close(struct cv_window *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < CACHED_BLOCKS; i++)
        lode_free_aligned(w->cache[i].data, w->cache[i].room_bytes);
    lode_scratch_fini(&w->scratch);
    free(w);
}

const struct lode_reader *
cv_window_reader(const struct cv_window *w)
{
    return w->r;
}

static bool
load(struct cv_window *w, uint32_t block_index, const uint8_t **data,
     struct lode_error *err)
{
    struct cached *c = &w->cache[0];
    struct lode_block b;

    for (size_t i = 0; i < CACHED_BLOCKS; i++) {
        if (w->cache[i].used != 0 && w->cache[i].block_index == block_index) {
            w->cache[i].used = ++w->clock;
            *data = w->cache[i].data;
            return true;
        }
        if (w->cache[i].used < c->used)
            c = &w->cache[i];
    }
    lode_reader_block(w->r, block_index, &b);
    c->used = 0;
    if (c->room_bytes < b.raw_bytes) {
        lode_free_aligned(c->data, c->room_bytes);
        c->data = NULL;
        c->room_bytes = 0;
        if (!lode_alloc_aligned(b.raw_bytes, "block", &c->data, err))
            return false;
        c->room_bytes = b.raw_bytes;
    }
    if (!lode_reader_load_with(w->r, block_index, &w->scratch, c->data,
                               (size_t)c->room_bytes, err))
        return false;
    c->block_index = block_index;
    c->used = ++w->clock;
    *data = c->data;
    return true;
}

bool
cv_window_copy(struct cv_window *w, uint32_t group_index, uint32_t object_index,
               uint64_t offset, void *dst, uint64_t bytes,
               struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(w->r, group_index);
    uint8_t *to = dst;

    while (bytes != 0) {
        uint32_t seq = (uint32_t)(offset / g->block_raw_bytes);
        uint64_t within = offset % g->block_raw_bytes;
        uint64_t n = g->block_raw_bytes - within;
        const uint8_t *data;

        if (n > bytes)
            n = bytes;
        if (!load(w,
                  g->first_block_index + object_index * g->blocks_per_object +
                      seq,
                  &data, err))
            return false;
        memcpy(to, data + within, (size_t)n);
        to += n;
        offset += n;
        bytes -= n;
    }
    return true;
}
