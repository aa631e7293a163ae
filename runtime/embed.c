/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/embed.h"

struct rows {
    const struct rt_tensor *tensor;
    uint64_t block_raw_bytes;
    uint64_t item_bytes;
};

static uint64_t
row_begin(const struct rows *r, uint32_t id)
{
    return r->tensor->offset + id * r->tensor->row_bytes;
}

static int64_t
block_of(const struct rows *r, uint64_t offset)
{
    return (int64_t)(offset / r->block_raw_bytes);
}

/* The lowest block behind `after` that any of the tokens needs, or -1. */
static int64_t
next_block(const struct rows *r, const uint32_t *ids, uint32_t tokens,
           int64_t after)
{
    int64_t next = -1;

    for (uint32_t t = 0; t < tokens; t++) {
        uint64_t begin = row_begin(r, ids[t]);
        int64_t first = block_of(r, begin);
        int64_t last = block_of(r, begin + r->tensor->row_bytes - 1);

        if (first <= after)
            first = after + 1;
        if (first <= last && (next < 0 || first < next))
            next = first;
    }
    return next;
}

static bool
load_block(struct rt_engine *e, int64_t seq, struct lode_error *err)
{
    const struct lode_group *g =
        lode_reader_group(e->model->reader, e->model->embedding_group_index);
    struct rt_request *q = &e->row_request;

    if (e->row_block_seq == seq)
        return true;
    e->row_block_seq = -1;
    q->block_index = g->first_block_index + (uint32_t)seq;
    q->dst = e->row_block;
    rt_fetch_submit(e->fetch, q, RT_DEMAND);
    if (!rt_fetch_wait(e->fetch, q, err))
        return false;
    e->row_block_seq = seq;
    return true;
}

/* Decode what the block in memory holds of one row. */
static void
decode_part(const struct rows *r, const struct rt_engine *e, uint32_t id,
            float *out)
{
    uint64_t block_begin = (uint64_t)e->row_block_seq * r->block_raw_bytes;
    uint64_t block_end = block_begin + r->block_raw_bytes;
    uint64_t begin = row_begin(r, id);
    uint64_t end = begin + r->tensor->row_bytes;
    uint64_t from = begin > block_begin ? begin : block_begin;
    uint64_t to = end < block_end ? end : block_end;

    /* Blocks end at multiples of 1 MiB, so no value straddles two. */
    if (from < to)
        lode_decode_plain(r->tensor->encoding,
                          e->row_block + (from - block_begin),
                          (size_t)((to - from) / r->item_bytes),
                          out + (from - begin) / r->item_bytes);
}

bool
rt_embed(struct rt_engine *e, const uint32_t *ids, uint32_t tokens,
         struct lode_error *err)
{
    const struct rt_model *m = e->model;
    const struct lode_group *g =
        lode_reader_group(m->reader, m->embedding_group_index);
    struct rows r;
    int64_t seq = -1;

    r.tensor = &m->embedding->by_role[LODE_ROLE_EMBEDDING];
    r.block_raw_bytes = g->blocks_per_object > 1 ? g->block_raw_bytes
                                                 : g->object_raw_bytes;
    r.item_bytes = r.tensor->encoding == LODE_ENC_F32 ? 4 : 2;
    while ((seq = next_block(&r, ids, tokens, seq)) >= 0) {
        if (!load_block(e, seq, err))
            return false;
        for (uint32_t t = 0; t < tokens; t++)
            decode_part(&r, e, ids[t],
                        e->work.x + (size_t)t * m->config.hidden_width);
    }
    return true;
}
