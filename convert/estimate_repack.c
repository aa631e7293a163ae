/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimate of a repack: blocks that are kept have a known size, and samples
 * of the others come from the old container. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "convert/estimate.h"
#include "convert/repack_plan.h"

struct source {
    const struct cv_repack *x;
    struct lode_scratch scratch;
    struct cv_estimate_group *samples; /* by old group */
    struct cv_estimate_group *groups;  /* those of the new container */
    uint32_t *group_of;                /* by old group; UINT32_MAX: none */
    uint32_t group_count;
};

/* A block, as it is stored or decoded. */
static bool
load_block(struct source *s, bool stored, uint32_t block, struct cv_sample *out,
           struct lode_error *err)
{
    const struct lode_reader *in = s->x->in;
    const struct lode_volume *v;
    struct lode_block b;

    lode_reader_block(in, block, &b);
    if (!stored || b.codec == LODE_CODEC_NONE) {
        out->state = CV_SAMPLE_IMAGE;
        return lode_reader_load_with(in, block, &s->scratch, out->image,
                                     out->raw_bytes, err);
    }
    v = lode_reader_volume(in, b.volume_index);
    out->state = CV_SAMPLE_PACKED;
    out->stored_bytes = b.stored_bytes;
    out->filters = b.filters;
    if (!lode_file_read(v->fd, b.offset, out->packed, b.stored_bytes, err))
        return lode_fail_in(err, "%s", v->path);
    return lode_reader_check(in, block, out->packed, err);
}

static bool
load(void *user, uint32_t group, uint32_t object, uint32_t seq,
     struct cv_sample *out, struct lode_error *err)
{
    struct source *s = user;
    const struct lode_group *g = &s->samples[group].group;
    bool kept = s->samples[group].kept;
    uint32_t block = g->first_block_index + object * g->blocks_per_object + seq;
    struct lode_block b;

    lode_reader_block(s->x->in, block, &b);
    if (!lode_reader_here(s->x->in, &b) || load_block(s, kept, block, out, err))
        return true;
    /* An earlier run may have given it up; and a copy is no check. */
    out->state = CV_SAMPLE_ABSENT;
    return err->code == LODE_E_CORRUPT && (kept || s->x->opt.consume);
}

static bool
allocate(struct source *s, struct lode_error *err)
{
    uint32_t count = s->x->group_count;
    void *p = NULL;

    if (!lode_alloc_array(count, sizeof(*s->samples), "groups", &p, err))
        return false;
    s->samples = p;
    if (!lode_alloc_array(count, sizeof(*s->groups), "groups", &p, err))
        return false;
    s->groups = p;
    if (!lode_alloc_array(count, sizeof(*s->group_of), "groups", &p, err))
        return false;
    s->group_of = p;
    return true;
}

/* Groups that have blocks to write. */
static void
list_groups(struct source *s)
{
    const struct cv_repack *x = s->x;
    uint64_t align = UINT64_C(1) << x->opt.align_log2;

    for (uint32_t i = 0; i < x->group_count; i++) {
        s->samples[i].group = *x->groups[i].old;
        s->samples[i].tensors = lode_reader_schema(
            x->in, x->groups[i].old->schema_index, &s->samples[i].tensor_count);
        s->samples[i].kept = true;
        s->group_of[i] = UINT32_MAX;
    }
    for (uint32_t i = 0; i < x->item_count; i++) {
        const struct cv_item *item = &x->items[i];
        const struct cv_new_group *n = &x->groups[item->group];
        struct cv_estimate_group *g;
        struct lode_block b;

        if (s->group_of[item->group] == UINT32_MAX) {
            s->group_of[item->group] = s->group_count;
            g = &s->groups[s->group_count++];
            g->group = n->group;
            g->tensors = n->tensors;
            g->tensor_count = n->tensor_count;
            g->group.object_count = 0; /* those that are here */
            g->kept = true;
        }
        g = &s->groups[s->group_of[item->group]];
        g->group.object_count += item->seq == 0;
        if (item->how != CV_COPY) {
            g->kept = false;
            s->samples[item->group].kept = false;
            continue;
        }
        lode_reader_block(x->in, item->old_block, &b);
        g->known_stored_bytes += b.stored_bytes;
        g->known_extent_bytes += (b.stored_bytes + align - 1) / align * align;
    }
}

/* Groups that go, or are not here, are no samples. */
static void
drop_others(struct source *s)
{
    for (uint32_t i = 0; i < s->x->group_count; i++)
        if (s->group_of[i] == UINT32_MAX)
            s->samples[i].group.blocks_per_object = 0;
}

bool
cv_estimate_repack(struct cv_repack *x, struct cv_estimate *out,
                   struct lode_error *err)
{
    struct source s = {.x = x};
    struct cv_estimate_input in = {.sample_count = x->group_count,
                                   .choice = x->opt.choice,
                                   .align_bytes = UINT32_C(1)
                                                  << x->opt.align_log2,
                                   .index_bytes = x->figures.index_bytes,
                                   .user = &s};
    bool ok = allocate(&s, err);

    if (ok) {
        list_groups(&s);
        drop_others(&s);
        in.groups = s.groups;
        in.group_count = s.group_count;
        in.samples = s.samples;
        if (x->packing)
            in.load = load;
        ok = cv_estimate_make(&in, out, err);
    }
    if (ok && !x->opt.consume)
        x->figures.needed_bytes =
            cv_estimate_needed(out, x->figures.needed_bytes);
    lode_scratch_fini(&s.scratch);
    free(s.samples);
    free(s.groups);
    free(s.group_of);
    return ok;
}
