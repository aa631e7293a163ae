/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: every source byte goes to exactly one place, blocks lie in the
 * order in which they are read, images keep their alignment. */
#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "convert/pipeline.h"
#include "convert/plan.h"
#include "tests/convert/build.h"
#include "tests/tap.h"

static const struct cv_pipeline_options two_jobs = {.jobs = 2};

static struct lode_error err;

/* Count how often each byte of each source is wanted. */
static uint8_t **
count_bytes(const struct cv_plan *p)
{
    uint8_t **seen = calloc(p->c->source_count, sizeof(*seen));
    struct lode_buf pieces = {0};
    uint64_t outside = 0;

    for (uint32_t i = 0; i < p->c->source_count; i++)
        seen[i] = calloc(p->c->sources[i].file_bytes + 1, 1);
    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct cv_piece *piece;
        uint32_t at = 0;

        must(cv_plan_pieces(p, &p->blocks[i], &pieces, &err), &err);
        piece = (const void *)pieces.data;
        for (size_t k = 0; k < pieces.used_bytes / sizeof(*piece); k++) {
            outside += piece[k].image_offset < at ||
                       piece[k].image_offset + piece[k].bytes >
                           p->blocks[i].raw_bytes ||
                       piece[k].source_offset + piece[k].bytes >
                           p->c->sources[piece[k].source].file_bytes;
            at = piece[k].image_offset + piece[k].bytes;
            for (uint32_t b = 0; b < piece[k].bytes; b++)
                seen[piece[k].source][piece[k].source_offset + b]++;
        }
    }
    is_u64(outside, 0, "pieces are in order and in their blocks");
    lode_buf_fini(&pieces);
    return seen;
}

static void
test_coverage(const struct cv_plan *p)
{
    uint8_t **seen = count_bytes(p);
    uint64_t wrong = 0;

    for (uint32_t i = 0; i < p->c->source_count; i++) {
        const struct cv_source *s = &p->c->sources[i];
        uint64_t data = i < p->c->shard_count ? 8 + s->header_bytes : 0;

        for (uint64_t b = 0; b < s->file_bytes; b++)
            wrong += seen[i][b] != (b >= data);
        free(seen[i]);
    }
    free(seen);
    is_u64(wrong, 0, "every byte behind the headers once, no other");
}

static void
test_order(const struct cv_plan *p)
{
    uint64_t unordered = 0;
    uint64_t apart = 0;
    uint64_t large = 0;

    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct cv_block *b = &p->blocks[i];
        const struct cv_group *g = &p->groups[b->group];

        large += b->raw_bytes > p->largest_block_bytes || b->raw_bytes == 0;
        apart += b->seq != 0 && (b[-1].group != b->group ||
                                 b[-1].object != b->object ||
                                 b[-1].seq + 1 != b->seq);
        unordered += i != 0 && (b[-1].first_source > b->first_source ||
                                (b[-1].first_source == b->first_source &&
                                 b[-1].first_offset > b->first_offset));
        large += g->block_raw_bytes != 0 &&
                 b->raw_bytes > g->block_raw_bytes;
    }
    is_u64(unordered, 0, "blocks follow the source");
    is_u64(apart, 0, "blocks of an object lie side by side");
    is_u64(large, 0, "no block is larger than said");
}

static void
test_images(const struct cv_plan *p)
{
    uint64_t unaligned = 0;
    uint64_t overlapping = 0;

    for (uint32_t i = 0; i < p->group_count; i++) {
        const struct cv_group *g = &p->groups[i];
        uint64_t at = 0;

        for (uint32_t k = 0; k < g->tensor_count; k++) {
            const struct lode_tensor *t = &g->tensors[k];

            unaligned += t->raw_offset % CV_IMAGE_ALIGN != 0;
            overlapping += t->raw_offset < at;
            at = t->raw_offset + t->raw_bytes;
        }
        overlapping += at > g->object_raw_bytes && g->sources != NULL;
    }
    is_u64(unaligned, 0, "tensors are aligned in their images");
    is_u64(overlapping, 0, "and apart from each other");
}

static const struct cv_group *
find_group(const struct cv_plan *p, uint32_t kind, int32_t layer)
{
    for (uint32_t i = 0; i < p->group_count; i++)
        if (p->groups[i].kind == kind && p->groups[i].layer == layer)
            return &p->groups[i];
    return NULL;
}

static void
test_experts(const struct cv_plan *p, uint32_t expert_count,
             const uint16_t *roles, uint32_t role_count)
{
    const struct cv_group *g = find_group(p, LODE_KIND_EXPERT, 1);

    ok(find_group(p, LODE_KIND_EXPERT, 0) == NULL, "layer 0 is dense");
    is_u64(g->object_count, expert_count, "experts of layer 1");
    is_u64(g->tensor_count, role_count, "tensors of an expert");
    for (uint32_t k = 0; k < role_count; k++) {
        is_u64(g->tensors[k].role, roles[k], "role of tensor %" PRIu32, k);
        is_u64(g->tensors[k].segment, k * 3 / role_count,
               "projection of tensor %" PRIu32, k);
    }
    is_u64(g->block_raw_bytes, 0, "an expert is one block");
    ok(strstr(g->tensors[0].name, ".{L}.") != NULL &&
           strstr(g->tensors[0].name, ".{E}.") != NULL,
       "one name for all: %s", g->tensors[0].name);
}

static void
test_fixture(const char *name, uint32_t expert_count, const uint16_t *roles,
             uint32_t role_count)
{
    json_t *config = NULL;
    struct cv_checkpoint *c = build_open_fixture(name, &config);
    struct cv_notes notes = {0};
    struct cv_model *m = NULL;
    struct cv_plan *p = NULL;

    must(cv_model_build(config, c, false, &m, &notes, &err), &err);
    must(cv_plan_build(c, m, &p, &err), &err);
    ok(true, "%s", name);
    test_coverage(p);
    test_order(p);
    test_images(p);
    test_experts(p, expert_count, roles, role_count);
    ok(cv_pipeline_bytes(p, &two_jobs) < 100 << 20,
       "memory for blocks is bounded");
    cv_plan_free(p);
    cv_model_free(m);
    cv_notes_fini(&notes);
    json_decref(config);
    cv_checkpoint_close(c);
}

/* Slots of the pipeline hold any block, also those of the origin files: the
 * headers of a checkpoint of many small experts are larger than any tensor. */
static void
test_largest(void)
{
    json_t *config = NULL;
    struct cv_checkpoint *c = build_open_fixture("kimi-k3-tiny-a", &config);
    struct cv_notes notes = {0};
    struct cv_model *m = NULL;
    struct cv_plan *p = NULL;
    const struct cv_group *g;

    must(cv_model_build(config, c, false, &m, &notes, &err), &err);
    c->sources[0].header_bytes += 8 << 20;
    must(cv_plan_build(c, m, &p, &err), &err);
    g = &p->groups[p->group_count - 1];
    is_u64(g->kind, LODE_KIND_ORIGIN, "the last group is the headers");
    is_u64(p->largest_block_bytes, g->object_raw_bytes,
           "it is the largest block");
    ok(cv_pipeline_bytes(p, &two_jobs) >= 3 * g->object_raw_bytes,
       "slots hold it");
    cv_plan_free(p);
    cv_model_free(m);
    cv_notes_fini(&notes);
    json_decref(config);
    cv_checkpoint_close(c);
}

int
main(void)
{
    static const uint16_t packed[] = {
        LODE_ROLE_GATE, LODE_ROLE_GATE_SCALE, LODE_ROLE_UP,
        LODE_ROLE_UP_SCALE, LODE_ROLE_DOWN, LODE_ROLE_DOWN_SCALE,
    };
    static const uint16_t plain[] = {LODE_ROLE_GATE, LODE_ROLE_UP,
                                     LODE_ROLE_DOWN};

    test_fixture("kimi-k3-tiny-a", 20, packed, 6);
    test_fixture("kimi-linear-tiny-a", 16, plain, 3);
    test_largest();
    return done_testing();
}
