/* SPDX-License-Identifier: Apache-2.0
 *
 * What the head of a set and its volumes say of each other (spec 4.3). */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "format/rules.h"
#include "format/verify_state.h"

/* Sections that are equal byte by byte have equal sums, which were checked. */
static void
compare_sections(struct lode_look *l, const struct lode_verify_file *head)
{
    static const uint32_t types[] = {LODE_SECTION_SCHEMAS, LODE_SECTION_TENSORS,
                                     LODE_SECTION_STRINGS};

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        const struct lode_section *a = lode_rules_section(&head->sb, types[i]);
        const struct lode_section *b = lode_rules_section(&l->f->sb, types[i]);

        if (a->bytes != b->bytes ||
            memcmp(a->digest, b->digest, LODE_DIGEST_BYTES) != 0)
            lode_look_report(l, lode_rules_section_name(types[i]),
                             "is not that of the head");
    }
}

/* All but roots; of those what both know. */
static void
compare_groups(struct lode_look *l, const struct lode_verify_file *head)
{
    const struct lode_index *x = &head->index;
    const struct lode_index *y = &l->f->index;

    if (x->summary.group_count != y->summary.group_count) {
        lode_look_report(l, "GROUPS",
                         "%" PRIu32 " groups, the head has %" PRIu32,
                         y->summary.group_count, x->summary.group_count);
        return;
    }
    for (uint32_t i = 0; i < x->summary.group_count; i++) {
        const struct lode_group *g = &x->groups[i];
        const struct lode_group *h = &y->groups[i];

        if (lode_rules_group_order(g, h) != 0 ||
            g->object_count != h->object_count ||
            g->object_raw_bytes != h->object_raw_bytes ||
            g->block_raw_bytes != h->block_raw_bytes ||
            g->schema_index != h->schema_index ||
            (!lode_look_is_zero(h->root, LODE_DIGEST_BYTES) &&
             memcmp(g->root, h->root, LODE_DIGEST_BYTES) != 0))
            lode_look_report(l, "GROUPS",
                             "group %" PRIu32 " is not that of the head", i);
    }
}

static bool
same_digest(const struct lode_verify_file *head,
            const struct lode_verify_file *f, uint32_t type,
            uint32_t block_index)
{
    const uint8_t *a =
        type == LODE_SECTION_STORED_DIGESTS ? head->stored : head->contents;
    const uint8_t *b =
        type == LODE_SECTION_STORED_DIGESTS ? f->stored : f->contents;

    return a == NULL || b == NULL ||
           memcmp(lode_verify_digest(head, a, type, block_index),
                  lode_verify_digest(f, b, type, block_index),
                  LODE_DIGEST_BYTES) == 0;
}

/* The head lists exactly the blocks that the volume has. */
static void
compare_blocks(struct lode_look *l, const struct lode_verify_file *head,
               uint32_t volume_index)
{
    const struct lode_index *x = &head->index;
    const struct lode_index *y = &l->f->index;

    for (uint32_t i = 0; i < x->summary.block_count; i++) {
        const uint8_t *ours = x->blocks + (uint64_t)i * x->block_record_bytes;
        int64_t at = lode_index_record(y, i);
        bool placed = lode_load_u16(ours + 42) == volume_index;
        char name[256];

        if (!placed && at == LODE_NO_INDEX)
            continue;
        if (placed && at != LODE_NO_INDEX &&
            memcmp(ours, y->blocks + (uint64_t)at * y->block_record_bytes,
                   LODE_BLOCK_RECORD_BYTES) == 0 &&
            same_digest(head, l->f, LODE_SECTION_CONTENT_DIGESTS, i) &&
            same_digest(head, l->f, LODE_SECTION_STORED_DIGESTS, i))
            continue;
        l->block_index = i;
        lode_look_report(l, lode_index_block_name(x, i, name, sizeof(name)),
                         "head and volume do not agree");
        l->block_index = LODE_NO_INDEX;
    }
}

void
lode_verify_volume(struct lode_look *l, const struct lode_verify_file *head,
                   uint32_t volume_index, bool *same_file)
{
    const struct lode_superblock *sb = &l->f->sb;
    struct lode_volume_record v;
    const char *name;

    lode_index_volume(&head->index, volume_index, &v, &name);
    *same_file =
        sb->volume_index == volume_index && sb->file_bytes == v.file_bytes &&
        memcmp(sb->volume_uuid, v.uuid, sizeof(v.uuid)) == 0 &&
        memcmp(sb->index_digest, v.index_digest, LODE_DIGEST_BYTES) == 0;
    if (!*same_file) {
        lode_look_report(l, "file",
                         "is another file than volume %" PRIu32 " of this set",
                         volume_index);
        return;
    }
    if (sb->volume_count != head->sb.volume_count)
        lode_look_report(l, "superblock", "volume of %u files, the set has %u",
                         sb->volume_count, head->sb.volume_count);
    if (!l->f->index_good)
        return;
    compare_sections(l, head);
    compare_groups(l, head);
    compare_blocks(l, head, volume_index);
}
