/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/root.h"

#include <string.h>

#include "base/le.h"
#include "format/digest.h"

enum { OBJECT_RECORD_BYTES = 64, GROUP_RECORD_BYTES = 96 };

static void
add_u64(struct lode_digest_state *s, uint64_t v)
{
    uint8_t raw[8];

    lode_store_u64(raw, v);
    lode_digest_update(s, raw, sizeof(raw));
}

/* With the NUL, so that neighbours cannot trade bytes. */
static void
add_text(struct lode_digest_state *s, const char *text)
{
    lode_digest_update(s, text, strlen(text) + 1);
}

/* Spec 8.5. */
void
lode_root_schema(const struct lode_tensor *tensors, uint32_t tensor_count,
                 uint8_t out[LODE_DIGEST_BYTES])
{
    struct lode_digest_state s;

    lode_digest_begin(&s);
    for (uint32_t i = 0; i < tensor_count; i++) {
        const struct lode_tensor *t = &tensors[i];

        add_text(&s, t->name);
        add_text(&s, t->encoding);
        add_text(&s, t->dtype);
        add_u64(&s, t->role);
        add_u64(&s, t->dim_count);
        add_u64(&s, t->raw_offset);
        add_u64(&s, t->raw_bytes);
        add_u64(&s, t->flags);
        add_u64(&s, t->quant_group);
        for (uint32_t d = 0; d < LODE_DIMS_MAX; d++)
            add_u64(&s, t->dim[d]);
    }
    lode_digest_end(&s, out);
}

/* Spec 8.4: the leaf of a group's tree. */
static void
add_object(struct lode_tree *tree, const struct lode_group *g,
           uint32_t object_index, const uint8_t root[LODE_DIGEST_BYTES])
{
    uint8_t raw[OBJECT_RECORD_BYTES] = "LDO1";

    lode_store_u32(raw + 4, g->kind);
    lode_store_u32(raw + 8, (uint32_t)g->layer);
    lode_store_u32(raw + 12, object_index);
    lode_store_u64(raw + 16, g->object_raw_bytes);
    memcpy(raw + 32, root, LODE_DIGEST_BYTES);
    lode_tree_leaf(tree, raw, sizeof(raw));
}

/* Spec 8.4.  An object's blocks are full subtrees of its tree but for the last,
 * so their digests go in as leaves would. */
void
lode_root_group(const struct lode_group *g, const uint8_t *contents,
                uint32_t record_bytes, uint8_t out[LODE_DIGEST_BYTES])
{
    struct lode_tree objects;
    uint64_t block = 0;

    lode_tree_begin(&objects);
    for (uint32_t i = 0; i < g->object_count; i++) {
        uint8_t root[LODE_DIGEST_BYTES];
        struct lode_tree blocks;

        lode_tree_begin(&blocks);
        for (uint32_t k = 0; k < g->blocks_per_object; k++, block++)
            lode_tree_push(&blocks, contents + block * record_bytes);
        lode_tree_end(&blocks, root);
        add_object(&objects, g, i, root);
    }
    lode_tree_end(&objects, out);
}

/* Spec 8.6: the leaf of the container's tree. */
static void
add_group(struct lode_tree *tree, const struct lode_group *g)
{
    uint8_t raw[GROUP_RECORD_BYTES + LODE_NAME_BYTES_MAX] = "LDG1";
    size_t name_bytes = strnlen(g->name, LODE_NAME_BYTES_MAX);

    lode_store_u32(raw + 4, g->kind);
    lode_store_u32(raw + 8, (uint32_t)g->layer);
    lode_store_u32(raw + 12, g->object_count);
    lode_store_u64(raw + 16, g->object_raw_bytes);
    memcpy(raw + 32, g->schema_digest, LODE_DIGEST_BYTES);
    memcpy(raw + 64, g->root, LODE_DIGEST_BYTES);
    memcpy(raw + GROUP_RECORD_BYTES, g->name, name_bytes);
    lode_tree_leaf(tree, raw, GROUP_RECORD_BYTES + name_bytes);
}

void
lode_root_content(const struct lode_group *groups, uint32_t group_count,
                  uint8_t out[LODE_DIGEST_BYTES])
{
    static const char title[] = "lode content root v1";
    uint8_t raw[sizeof(title) + 4 + LODE_DIGEST_BYTES];
    struct lode_tree tree;

    lode_tree_begin(&tree);
    for (uint32_t i = 0; i < group_count; i++)
        if (groups[i].kind < LODE_KIND_VOLATILE)
            add_group(&tree, &groups[i]);
    memcpy(raw, title, sizeof(title));
    lode_store_u32(raw + sizeof(title), (uint32_t)tree.count);
    lode_tree_end(&tree, raw + sizeof(title) + 4);
    lode_digest(raw, sizeof(raw), out);
}

/* Spec 8.7. */
void
lode_root_index(const struct lode_superblock *sb,
                uint8_t out[LODE_DIGEST_BYTES])
{
    uint8_t raw[LODE_SECTIONS_MAX * LODE_SECTION_RECORD_BYTES];

    for (uint32_t i = 0; i < sb->section_count; i++)
        lode_section_encode(&sb->sections[i],
                            raw + i * LODE_SECTION_RECORD_BYTES);
    lode_digest(raw, (size_t)sb->section_count * LODE_SECTION_RECORD_BYTES,
                out);
}

/* The first 16 bytes of a digest as a UUID of version 8, variant 1 (RFC 9562
 * section 5.8). */
static void
make_uuid(struct lode_digest_state *s, uint8_t out[16])
{
    uint8_t digest[LODE_DIGEST_BYTES];

    lode_digest_end(s, digest);
    memcpy(out, digest, 16);
    out[6] = (out[6] & 0x0f) | 0x80;
    out[8] = (out[8] & 0x3f) | 0x80;
}

/* Spec 8.8. */
void
lode_root_uuids(const struct lode_superblock *sb, uint8_t set[16],
                uint8_t volume[16])
{
    struct lode_digest_state s;
    uint8_t number[2];

    lode_digest_begin(&s);
    lode_digest_update(&s, "lode set", 8);
    lode_digest_update(&s, sb->content_root, LODE_DIGEST_BYTES);
    make_uuid(&s, set);

    lode_store_u16(number, sb->volume_index);
    lode_digest_begin(&s);
    lode_digest_update(&s, "lode vol", 8);
    lode_digest_update(&s, set, 16);
    lode_digest_update(&s, number, sizeof(number));
    lode_digest_update(&s, sb->index_digest, LODE_DIGEST_BYTES);
    make_uuid(&s, volume);
}
