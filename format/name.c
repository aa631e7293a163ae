/* SPDX-License-Identifier: Apache-2.0
 *
 * What messages call a block. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "format/index.h"

/* "trunk of layer 3", "trunk final": one object that no number tells apart. */
static void
name_object(const struct lode_group *g, const char *what, char *out,
            size_t out_bytes)
{
    if (g->layer < 0)
        (void)snprintf(out, out_bytes, "%s %.128s", what, g->name);
    else
        (void)snprintf(out, out_bytes, "%.128s of layer %" PRId32, what,
                       g->layer);
}

static void
name_group(const struct lode_group *g, char *out, size_t out_bytes)
{
    const char *name = g->name[0] != '\0' ? g->name : "unnamed group";

    if (g->layer < 0)
        (void)snprintf(out, out_bytes, "%.128s", name);
    else
        name_object(g, name, out, out_bytes);
}

const char *
lode_index_block_name(const struct lode_index *x, uint32_t block_index,
                      char *out, size_t out_bytes)
{
    const struct lode_group *g =
        &x->groups[lode_index_group_of(x, block_index)];
    uint32_t within = block_index - g->first_block_index;
    uint32_t object_index = within / g->blocks_per_object;
    uint32_t seq = within % g->blocks_per_object;
    char object[192];

    switch (g->kind) {
    case LODE_KIND_EXPERT:
        (void)snprintf(object, sizeof(object),
                       "expert %" PRIu32 " of layer %" PRId32, object_index,
                       g->layer);
        break;
    case LODE_KIND_TRUNK:
        name_object(g, "trunk", object, sizeof(object));
        break;
    case LODE_KIND_META:
        (void)snprintf(object, sizeof(object), "file %.128s", g->name);
        break;
    case LODE_KIND_ORIGIN:
        (void)snprintf(object, sizeof(object), "origin %.128s", g->name);
        break;
    default:
        name_group(g, object, sizeof(object));
        break;
    }
    if (g->object_count > 1 && g->kind != LODE_KIND_EXPERT)
        (void)snprintf(out, out_bytes,
                       "%s, object %" PRIu32 ", block %" PRIu32 " of %" PRIu32,
                       object, object_index, seq + 1, g->blocks_per_object);
    else if (g->blocks_per_object > 1)
        (void)snprintf(out, out_bytes, "%s, block %" PRIu32 " of %" PRIu32,
                       object, seq + 1, g->blocks_per_object);
    else
        (void)snprintf(out, out_bytes, "%s", object);
    return out;
}
