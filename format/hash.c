/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/hash.h"

#define XXH_STATIC_LINKING_ONLY /* for the size of XXH3_state_t */
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct lode_hash_state),
               "lode_hash_state has room for XXH3_state_t");

/* Spec 8.1. */
uint64_t
lode_hash(const void *data, size_t bytes)
{
    return XXH3_64bits(data, bytes);
}

void
lode_hash_begin(struct lode_hash_state *s)
{
    /* Fails only for NULL, as does the update. */
    (void)XXH3_64bits_reset((XXH3_state_t *)(void *)s->opaque);
}

void
lode_hash_update(struct lode_hash_state *s, const void *data, size_t bytes)
{
    (void)XXH3_64bits_update((XXH3_state_t *)(void *)s->opaque, data, bytes);
}

uint64_t
lode_hash_end(const struct lode_hash_state *s)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)s->opaque);
}
