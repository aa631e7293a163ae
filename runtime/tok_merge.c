/* SPDX-License-Identifier: Apache-2.0
 *
 * Byte-pair merging: of all neighbours whose concatenation is a token, the
 * pair of the lowest rank is merged, the leftmost of equal ones, until none is
 * left.  A heap of pairs over a linked list takes n log n steps, so that long
 * runs without a space cost no more than text. */
#include "config.h"

#include "runtime/tok.h"

#include <stdlib.h>

#include "base/mem.h"

enum { NONE = UINT32_MAX };

/* A token in the making, named by the offset of its first byte. */
struct rt_tok_node {
    uint32_t previous;
    uint32_t next;
    uint32_t bytes; /* 0: merged into the one before */
    uint32_t id;
};

/* A merge that was possible when it was put in.  It still is when left and its
 * neighbour together have as many bytes as then: equal bytes, equal rank. */
struct rt_tok_pair {
    uint64_t order; /* rank, then left: the heap's smallest goes first */
    uint32_t bytes;
};

static bool
reserve(struct rt_tok_merger *m, size_t count, struct lode_error *err)
{
    size_t room = m->room > 0 ? m->room : 64;
    void *nodes;
    void *pairs;

    if (count <= m->room)
        return true;
    while (room < count)
        room *= 2;
    rt_tok_merger_fini(m);
    if (!lode_alloc_array(room, sizeof(*m->node), "token merging", &nodes,
                          err))
        return false;
    m->node = nodes;
    if (!lode_alloc_array(3 * (uint64_t)room, sizeof(*m->heap),
                          "token merging", &pairs, err))
        return false;
    m->heap = pairs;
    m->room = room;
    return true;
}

static void
push(struct rt_tok_merger *m, struct rt_tok_pair pair)
{
    size_t at = m->heap_count++;

    while (at > 0 && m->heap[(at - 1) / 2].order > pair.order) {
        m->heap[at] = m->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    m->heap[at] = pair;
}

static struct rt_tok_pair
pop(struct rt_tok_merger *m)
{
    struct rt_tok_pair first = m->heap[0];
    struct rt_tok_pair last = m->heap[--m->heap_count];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= m->heap_count)
            break;
        if (child + 1 < m->heap_count &&
            m->heap[child + 1].order < m->heap[child].order)
            child++;
        if (m->heap[child].order >= last.order)
            break;
        m->heap[at] = m->heap[child];
        at = child;
    }
    m->heap[at] = last;
    return first;
}

/* Offer the merge of left with its neighbour, if it makes a token. */
static void
offer(struct rt_tok_merger *m, const struct rt_tokenizer *t, const char *piece,
      uint32_t left)
{
    uint32_t right = m->node[left].next;
    struct rt_tok_pair pair;
    uint32_t id;

    if (right == NONE)
        return;
    pair.bytes = m->node[left].bytes + m->node[right].bytes;
    if (pair.bytes > t->ordinary_bytes_max ||
        !rt_tok_table_find(t, &t->ordinary, piece + left, pair.bytes, &id))
        return;
    pair.order = (uint64_t)id << 32 | left;
    push(m, pair);
}

static void
begin(struct rt_tok_merger *m, const struct rt_tokenizer *t, const char *piece,
      uint32_t bytes)
{
    for (uint32_t i = 0; i < bytes; i++) {
        m->node[i].previous = i > 0 ? i - 1 : NONE;
        m->node[i].next = i + 1 < bytes ? i + 1 : NONE;
        m->node[i].bytes = 1;
        m->node[i].id = t->byte_id[(uint8_t)piece[i]];
    }
    m->heap_count = 0;
    for (uint32_t i = 0; i + 1 < bytes; i++)
        offer(m, t, piece, i);
}

static void
merge_all(struct rt_tok_merger *m, const struct rt_tokenizer *t,
          const char *piece)
{
    while (m->heap_count > 0) {
        struct rt_tok_pair pair = pop(m);
        uint32_t left = (uint32_t)pair.order;
        struct rt_tok_node *a = &m->node[left];
        struct rt_tok_node *b;

        if (a->bytes == 0 || a->next == NONE)
            continue;
        b = &m->node[a->next];
        if (a->bytes + b->bytes != pair.bytes)
            continue;
        a->bytes = pair.bytes;
        a->id = (uint32_t)(pair.order >> 32);
        a->next = b->next;
        b->bytes = 0;
        if (a->next != NONE)
            m->node[a->next].previous = left;
        offer(m, t, piece, left);
        if (a->previous != NONE)
            offer(m, t, piece, a->previous);
    }
}

bool
rt_tok_merge(struct rt_tok_merger *m, const struct rt_tokenizer *t,
             const char *piece, size_t bytes, struct rt_ids *ids,
             struct lode_error *err)
{
    uint32_t id;

    if (bytes == 1)
        return rt_ids_append(ids, t->byte_id[(uint8_t)piece[0]], err);
    if (bytes <= t->ordinary_bytes_max &&
        rt_tok_table_find(t, &t->ordinary, piece, bytes, &id))
        return rt_ids_append(ids, id, err);
    /* Pieces are bounded by the cuts before splitting: far below 2^32. */
    if (!reserve(m, bytes, err))
        return false;
    begin(m, t, piece, (uint32_t)bytes);
    merge_all(m, t, piece);
    for (uint32_t i = 0; i != NONE; i = m->node[i].next)
        if (!rt_ids_append(ids, m->node[i].id, err))
            return false;
    return true;
}

void
rt_tok_merger_fini(struct rt_tok_merger *m)
{
    free(m->node);
    free(m->heap);
    m->node = NULL;
    m->heap = NULL;
    m->room = 0;
}
