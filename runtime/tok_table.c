/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/tok.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"

/* Eight bytes a step: most tokens are shorter than that. */
static uint64_t
hash_of(const char *text, size_t bytes)
{
    static const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    const uint8_t *p = (const uint8_t *)text;
    uint64_t h = bytes * odd;
    uint64_t last = 0;

    for (; bytes >= 8; bytes -= 8, p += 8) {
        h = (h ^ lode_load_u64(p)) * odd;
        h ^= h >> 32;
    }
    for (size_t i = 0; i < bytes; i++)
        last |= (uint64_t)p[i] << (8 * i);
    h = (h ^ last) * odd;
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

bool
rt_tok_table_init(struct rt_tok_table *table, uint64_t item_count,
                  struct lode_error *err)
{
    size_t slot_count = 16;
    void *slots;

    while (slot_count < item_count + item_count / 2)
        slot_count *= 2; /* item_count <= RT_TOK_ROWS_MAX */
    if (!lode_alloc_array(slot_count, sizeof(*table->slot), "token table",
                          &slots, err))
        return false;
    table->slot = slots;
    table->slot_count = slot_count;
    return true;
}

/* The slot where text is or would be; NULL after too many probes.  Nothing is
 * ever put further away than that, so a search may end there, too. */
static uint32_t *
find_slot(const struct rt_tokenizer *t, const struct rt_tok_table *table,
          const char *text, size_t bytes)
{
    size_t mask = table->slot_count - 1;
    size_t at = (size_t)hash_of(text, bytes) & mask;

    for (int probe = 0; probe < RT_TOK_PROBES_MAX; probe++) {
        uint32_t *slot = &table->slot[at];
        const uint32_t *o;

        if (*slot == 0)
            return slot;
        o = &t->offset[*slot - 1];
        if (o[1] - o[0] == bytes && memcmp(t->arena + o[0], text, bytes) == 0)
            return slot;
        at = (at + 1) & mask;
    }
    return NULL;
}

bool
rt_tok_table_put(const struct rt_tokenizer *t, struct rt_tok_table *table,
                 uint32_t id, struct lode_error *err)
{
    const uint32_t *o = &t->offset[id];
    uint32_t *slot =
        find_slot(t, table, t->arena + o[0], (size_t)o[1] - o[0]);

    if (slot == NULL)
        return lode_fail(err, LODE_E_LIMIT,
                         "token %" PRIu32 " collides with %d others", id,
                         RT_TOK_PROBES_MAX);
    if (*slot != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tokens %" PRIu32 " and %" PRIu32
                         " have the same bytes",
                         *slot - 1, id);
    *slot = id + 1;
    return true;
}

bool
rt_tok_table_find(const struct rt_tokenizer *t,
                  const struct rt_tok_table *table, const char *text,
                  size_t bytes, uint32_t *id)
{
    const uint32_t *slot = find_slot(t, table, text, bytes);

    if (slot == NULL || *slot == 0)
        return false;
    *id = *slot - 1;
    return true;
}

void
rt_tok_table_fini(struct rt_tok_table *table)
{
    free(table->slot);
    table->slot = NULL;
}
