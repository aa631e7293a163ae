/* SPDX-License-Identifier: Apache-2.0
 *
 * The estimate of a conversion: samples come from the shards. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "convert/estimate.h"
#include "convert/origin.h"
#include "format/lode_write.h"

/* Large objects are looked at in windows smaller than their blocks, so that
 * each of a layer's matrices gets its share of the sample. */
enum { WINDOW_BYTES = 1 << 20 };

struct source {
    struct cv_plan p; /* borrowed, but for its groups, whose blocks are windows
                       */
    struct lode_buf pieces;
    uint8_t (*digests)[LODE_DIGEST_BYTES]; /* of about the right entropy */
};

/* The files of the origin hold digests, which do not pack: any will do. */
static bool
make_digests(struct source *s, struct lode_error *err)
{
    struct lode_sha256 *sha;
    void *p = NULL;

    if (!lode_alloc_array(s->p.c->source_count, LODE_DIGEST_BYTES, "digests",
                          &p, err))
        return false;
    s->digests = p;
    for (uint32_t i = 0; i < s->p.c->source_count; i++) {
        if (!lode_sha256_new(&sha, err))
            return false;
        lode_sha256_update(sha, &i, sizeof(i));
        lode_sha256_final(sha, s->digests[i]);
        lode_sha256_free(sha);
    }
    return true;
}

static bool
load_provenance(struct source *s, uint64_t at, struct cv_sample *out,
                struct lode_error *err)
{
    char *text = NULL;
    size_t bytes;

    if (!cv_provenance(s->p.c, (const void *)s->digests, &text, &bytes, err))
        return false;
    if (at + out->raw_bytes <= bytes) {
        memcpy(out->image, text + at, out->raw_bytes);
        out->state = CV_SAMPLE_IMAGE;
    }
    free(text);
    return true;
}

static bool
load(void *user, uint32_t group, uint32_t object, uint32_t seq,
     struct cv_sample *out, struct lode_error *err)
{
    struct source *s = user;
    const struct cv_plan *p = &s->p;
    const struct cv_block b = {.group = group,
                               .object = object,
                               .seq = seq,
                               .raw_bytes = out->raw_bytes};
    uint64_t at = (uint64_t)seq * p->groups[group].block_raw_bytes;
    const struct cv_piece *piece;

    if (group == p->group_count - 2)
        return load_provenance(s, at, out, err);
    out->state = CV_SAMPLE_IMAGE;
    if (group == p->group_count - 1)
        return cv_headers_fill(p->c, (const void *)s->digests, at, out->image,
                               out->raw_bytes, err);
    if (!cv_plan_pieces(p, &b, &s->pieces, err))
        return false;
    memset(out->image, 0, out->raw_bytes);
    piece = (const void *)s->pieces.data;
    for (size_t i = 0; i < s->pieces.used_bytes / sizeof(*piece); i++) {
        const struct cv_source *from = &p->c->sources[piece[i].source];

        if (!lode_file_read(from->fd, piece[i].source_offset,
                            out->image + piece[i].image_offset, piece[i].bytes,
                            err))
            return lode_fail_in(err, "%s/%s", p->c->path, from->name);
    }
    return true;
}

static void
describe(const struct cv_group *g, struct cv_estimate_group *out)
{
    out->group.kind = g->kind;
    out->group.layer = g->layer;
    out->group.object_count = g->object_count;
    out->group.object_raw_bytes = g->object_raw_bytes;
    out->group.block_raw_bytes = g->block_raw_bytes != 0
                                     ? g->block_raw_bytes
                                     : (uint32_t)g->object_raw_bytes;
    out->group.blocks_per_object = cv_blocks_per_object(g);
    out->tensors = g->tensors;
    out->tensor_count = g->tensor_count;
}

/* Groups to be written in groups, the same in windows in samples and s. */
static bool
describe_all(struct source *s, struct cv_estimate_group **groups,
             struct cv_estimate_group **samples, struct lode_error *err)
{
    uint32_t count = s->p.group_count;
    const struct cv_group *from = s->p.groups;
    void *p = NULL;

    s->p.groups = NULL;
    if (!lode_alloc_array(count, sizeof(**groups), "groups", &p, err))
        return false;
    *groups = p;
    if (!lode_alloc_array(count, sizeof(**samples), "groups", &p, err))
        return false;
    *samples = p;
    if (!lode_alloc_array(count, sizeof(*from), "groups", &p, err))
        return false;
    s->p.groups = p;
    for (uint32_t i = 0; i < count; i++) {
        s->p.groups[i] = from[i];
        describe(&from[i], &(*groups)[i]);
        if (cv_blocks_per_object(&from[i]) > 1)
            s->p.groups[i].block_raw_bytes = WINDOW_BYTES;
        describe(&s->p.groups[i], &(*samples)[i]);
    }
    return true;
}

bool
cv_estimate_plan(const struct cv_plan *p, const struct cv_choice *choice,
                 uint32_t align_bytes, uint64_t index_bytes, bool with_data,
                 struct cv_estimate *out, struct lode_error *err)
{
    struct source s = {.p = *p};
    struct cv_estimate_input in = {.group_count = p->group_count,
                                   .sample_count = p->group_count,
                                   .choice = *choice,
                                   .align_bytes = align_bytes,
                                   .index_bytes = index_bytes,
                                   .user = &s};
    struct cv_estimate_group *groups = NULL;
    struct cv_estimate_group *samples = NULL;
    bool ok = describe_all(&s, &groups, &samples, err);

    in.groups = groups;
    in.samples = samples;
    if (with_data && choice->codec != CV_CODEC_NONE)
        in.load = load;
    ok = ok && make_digests(&s, err) && cv_estimate_make(&in, out, err);
    free(s.p.groups);
    free(s.digests);
    lode_buf_fini(&s.pieces);
    free(groups);
    free(samples);
    return ok;
}
