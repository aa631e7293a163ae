/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/file.h"
#include "convert/places.h"
#include "format/lode_write.h"

struct side {
    const struct lode_reader *r;
    struct cv_window *w;
    struct cv_places *places;
    uint8_t *contents; /* digests */
    uint8_t *stored;
};

struct diff {
    struct cv_diff *d;
    struct side a;
    struct side b;
};

static void
tell(struct cv_diff *d, enum cv_diff_kind kind, const char *name,
     const struct cv_delta *delta, bool same_encoding)
{
    const struct cv_difference x = {.kind = kind,
                                    .name = name,
                                    .delta = delta,
                                    .same_encoding = same_encoding};

    if (kind == CV_DIFF_UNKNOWN)
        d->unknown_count++;
    else if (kind != CV_DIFF_BLOCK)
        d->difference_count++;
    if (!same_encoding || kind == CV_ONLY_IN_A || kind == CV_ONLY_IN_B)
        d->allowed_count++;
    d->tell(d->user, &x);
}

/* Compare two sides and tell, unless they are equal. */
static bool
compare(struct cv_diff *d, enum cv_diff_kind kind, const char *name,
        const struct cv_side *a, const struct cv_side *b,
        struct lode_error *err)
{
    bool same_encoding = strcmp(a->encoding, b->encoding) == 0;
    struct cv_delta delta;

    if (!cv_values_compare(a, b, &delta, err))
        return false;
    if (delta.verdict != CV_SAME)
        tell(d, kind, name, &delta, same_encoding);
    return true;
}

/* ---- objects ---- */

static bool
is_zero(const uint8_t *digest)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(digest, zero, sizeof(zero)) == 0;
}

static uint32_t
first_block(const struct lode_group *g, uint32_t object_index)
{
    return g->first_block_index + object_index * g->blocks_per_object;
}

static bool
object_here(const struct side *s, const struct lode_group *g,
            uint32_t object_index)
{
    for (uint32_t i = 0; i < g->blocks_per_object; i++) {
        struct lode_block b;

        lode_reader_block(s->r, first_block(g, object_index) + i, &b);
        if (!lode_reader_here(s->r, &b))
            return false;
    }
    return true;
}

/* Do digests say that both objects are the same?  Tells blocks that are not,
 * where both are cut alike. */
static bool
same_by_digest(struct diff *x, const struct lode_group *g,
               const struct lode_group *h, uint32_t object_index)
{
    bool same = true;

    if (h == NULL || object_index >= h->object_count ||
        g->object_raw_bytes != h->object_raw_bytes ||
        g->block_raw_bytes != h->block_raw_bytes ||
        memcmp(g->schema_digest, h->schema_digest, LODE_DIGEST_BYTES) != 0)
        return false;
    for (uint32_t i = 0; i < g->blocks_per_object; i++) {
        uint32_t m = first_block(g, object_index) + i;
        uint32_t n = first_block(h, object_index) + i;
        const uint8_t *a = x->a.contents + (size_t)m * LODE_DIGEST_BYTES;
        const uint8_t *b = x->b.contents + (size_t)n * LODE_DIGEST_BYTES;
        char name[256];

        if (is_zero(a) || is_zero(b)) {
            same = false;
        } else if (memcmp(a, b, LODE_DIGEST_BYTES) != 0) {
            tell(x->d, CV_DIFF_BLOCK,
                 lode_reader_block_name(x->a.r, m, name, sizeof(name)), NULL,
                 true);
            same = false;
        }
    }
    return same;
}

/* The tensor with this role in the object of the same place. */
static bool
find_by_role(const struct side *s, const struct lode_group *h,
             uint32_t object_index, uint16_t role, struct cv_place *out)
{
    const struct lode_tensor *tensors;
    uint32_t found = 0;
    uint32_t count;

    if (h == NULL || role == 0 || object_index >= h->object_count)
        return false;
    tensors = lode_reader_schema(s->r, h->schema_index, &count);
    for (uint32_t i = 0; i < count; i++)
        if (tensors[i].role == role) {
            out->tensor_index = i;
            found++;
        }
    out->group_index =
        (uint32_t)lode_reader_find(s->r, h->kind, h->layer, h->name);
    out->object_index = object_index;
    return found == 1;
}

static bool
find_place(const struct side *s, const char *name, const struct lode_group *h,
           uint32_t object_index, uint16_t role, struct cv_place *out)
{
    const struct cv_place *p = cv_places_find(s->places, name);

    if (p == NULL)
        return find_by_role(s, h, object_index, role, out);
    *out = *p;
    return true;
}

static bool
compare_tensor(struct diff *x, uint32_t group_index, uint32_t object_index,
               uint32_t tensor_index, const struct lode_group *h,
               struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(x->a.r, group_index);
    char name[LODE_NAME_BYTES_MAX + 32];
    const struct lode_tensor *t;
    struct cv_place place;
    struct cv_side a;
    struct cv_side b;
    uint32_t count;

    t = lode_reader_schema(x->a.r, g->schema_index, &count) + tensor_index;
    if (!lode_tensor_name(t, g->layer, object_index, name, sizeof(name), err))
        return false;
    if (!find_place(&x->b, name, h, object_index, t->role, &place)) {
        tell(x->d, CV_ONLY_IN_A, name, NULL, true);
        return true;
    }
    if (!object_here(&x->b, lode_reader_group(x->b.r, place.group_index),
                     place.object_index)) {
        tell(x->d, CV_DIFF_UNKNOWN, name, NULL, true);
        return true;
    }
    if (!cv_side_of(x->a.w, group_index, object_index, tensor_index, &a) ||
        !cv_side_of(x->b.w, place.group_index, place.object_index,
                    place.tensor_index, &b)) {
        tell(x->d, CV_DIFF_TENSOR, name, NULL, true); /* absurd shapes */
        return true;
    }
    return compare(x->d, CV_DIFF_TENSOR, name, &a, &b, err);
}

/* An object without tensors, as bytes. */
static void
side_of_object(const struct side *s, const struct lode_group *g,
               uint32_t object_index, struct cv_side *out)
{
    memset(out, 0, sizeof(*out));
    out->data.w = s->w;
    out->data.group_index =
        (uint32_t)lode_reader_find(s->r, g->kind, g->layer, g->name);
    out->data.object_index = object_index;
    out->encoding = "";
    out->dtype = "";
    out->raw_bytes = g->object_raw_bytes;
}

static bool
compare_plain(struct diff *x, const struct lode_group *g,
              const struct lode_group *h, uint32_t object_index,
              struct lode_error *err)
{
    char name[LODE_NAME_BYTES_MAX + 32];
    struct cv_side a;
    struct cv_side b;

    if (g->object_count == 1)
        (void)snprintf(name, sizeof(name), "%s", g->name);
    else
        (void)snprintf(name, sizeof(name), "%s, object %" PRIu32, g->name,
                       object_index);
    if (h == NULL || object_index >= h->object_count) {
        tell(x->d, CV_ONLY_IN_A, name, NULL, true);
        return true;
    }
    if (!object_here(&x->b, h, object_index)) {
        tell(x->d, CV_DIFF_UNKNOWN, name, NULL, true);
        return true;
    }
    side_of_object(&x->a, g, object_index, &a);
    side_of_object(&x->b, h, object_index, &b);
    return compare(x->d, CV_DIFF_FILE, name, &a, &b, err);
}

static const struct lode_group *
counterpart(const struct lode_reader *r, const struct lode_group *g)
{
    int64_t i = lode_reader_find(r, g->kind, g->layer, g->name);

    return i < 0 ? NULL : lode_reader_group(r, (uint32_t)i);
}

static bool
same_group(const struct lode_group *g, const struct lode_group *h)
{
    return h != NULL && !is_zero(g->root) &&
           memcmp(g->root, h->root, LODE_DIGEST_BYTES) == 0 &&
           memcmp(g->schema_digest, h->schema_digest, LODE_DIGEST_BYTES) == 0;
}

static bool
compare_object(struct diff *x, uint32_t group_index, uint32_t object_index,
               const struct lode_group *h, struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(x->a.r, group_index);
    char name[256];
    uint32_t count;
    bool ok = true;

    (void)lode_reader_schema(x->a.r, g->schema_index, &count);
    if (same_by_digest(x, g, h, object_index))
        return true;
    if (!object_here(&x->a, g, object_index)) {
        tell(x->d, CV_DIFF_UNKNOWN,
             lode_reader_block_name(x->a.r, first_block(g, object_index), name,
                                    sizeof(name)),
             NULL, true);
        return true;
    }
    if (count == 0)
        return compare_plain(x, g, h, object_index, err);
    for (uint32_t i = 0; ok && i < count; i++)
        ok = compare_tensor(x, group_index, object_index, i, h, err);
    return ok;
}

/* What of a group of b has no counterpart in a. */
static bool
find_only_in_b(struct diff *x, const struct lode_group *h,
               struct lode_error *err)
{
    const struct lode_group *g = counterpart(x->a.r, h);
    const struct lode_tensor *tensors;
    uint32_t count;

    tensors = lode_reader_schema(x->b.r, h->schema_index, &count);
    if (count == 0 && (g == NULL || g->object_count < h->object_count))
        tell(x->d, CV_ONLY_IN_B, h->name, NULL, true);
    for (uint32_t o = 0; count != 0 && o < h->object_count; o++)
        for (uint32_t i = 0; i < count; i++) {
            char name[LODE_NAME_BYTES_MAX + 32];
            struct cv_place place;

            if (!lode_tensor_name(&tensors[i], h->layer, o, name, sizeof(name),
                                  err))
                return false;
            if (!find_place(&x->a, name, g, o, tensors[i].role, &place))
                tell(x->d, CV_ONLY_IN_B, name, NULL, true);
        }
    return true;
}

static bool
compare_all(struct diff *x, struct lode_error *err)
{
    bool ok = true;

    for (uint32_t i = 0; ok && i < lode_reader_summary(x->a.r)->group_count;
         i++) {
        const struct lode_group *g = lode_reader_group(x->a.r, i);
        const struct lode_group *h = counterpart(x->b.r, g);

        if (same_group(g, h)) {
            x->d->same_group_count++;
            continue;
        }
        for (uint32_t o = 0; ok && o < g->object_count; o++)
            ok = compare_object(x, i, o, h, err);
    }
    for (uint32_t i = 0; ok && i < lode_reader_summary(x->b.r)->group_count;
         i++) {
        const struct lode_group *h = lode_reader_group(x->b.r, i);
        const struct lode_group *g = counterpart(x->a.r, h);

        if (!same_group(h, g))
            ok = find_only_in_b(x, h, err);
    }
    return ok;
}

static bool
open_side(struct side *s, const struct lode_reader *r, struct lode_error *err)
{
    s->r = r;
    return cv_window_open(r, &s->w, err) &&
           cv_places_build(r, &s->places, err) &&
           lode_reader_digests(r, &s->contents, &s->stored, err);
}

static void
close_side(struct side *s)
{
    cv_window_close(s->w);
    cv_places_free(s->places);
    free(s->contents);
    free(s->stored);
}

bool
cv_diff_containers(struct cv_diff *d, const struct lode_reader *a,
                   const struct lode_reader *b, struct lode_error *err)
{
    struct diff x = {.d = d};
    bool ok = open_side(&x.a, a, err) && open_side(&x.b, b, err) &&
              compare_all(&x, err);

    close_side(&x.a);
    close_side(&x.b);
    return ok;
}

/* ---- against a checkpoint ---- */

static bool
compare_source(struct diff *x, const struct cv_checkpoint *c,
               const struct cv_tensor *t, struct lode_error *err)
{
    const struct cv_place *p = cv_places_find(x->a.places, t->name);
    uint32_t dim_count = t->dim_count;
    struct cv_side a;
    struct cv_side b;

    if (p == NULL) {
        tell(x->d, CV_ONLY_IN_B, t->name, NULL, true);
        return true;
    }
    if (!object_here(&x->a, lode_reader_group(x->a.r, p->group_index),
                     p->object_index)) {
        tell(x->d, CV_DIFF_UNKNOWN, t->name, NULL, true);
        return true;
    }
    cv_side_of_file(c->sources[t->source].fd, t->offset, t->raw_bytes, t->dtype,
                    t->dim, dim_count, &b);
    if (!cv_side_of(x->a.w, p->group_index, p->object_index, p->tensor_index,
                    &a)) {
        tell(x->d, CV_DIFF_TENSOR, t->name, NULL, true);
        return true;
    }
    /* A checkpoint has only its dtype's word; what our encoding reads into
     * bytes of that dtype is the same on both sides. */
    if (strcmp(a.dtype, t->dtype) == 0 && a.raw_bytes == b.raw_bytes)
        b.encoding = a.encoding;
    return compare(x->d, CV_DIFF_TENSOR, t->name, &a, &b, err) ||
           lode_fail_in(err, "%s", t->name);
}

static int
by_name(const void *key, const void *tensor)
{
    return strcmp(key, ((const struct cv_tensor *)tensor)->name);
}

static bool
find_only_in_a(struct diff *x, const struct cv_checkpoint *c,
               struct lode_error *err)
{
    for (uint32_t i = 0; i < lode_reader_summary(x->a.r)->group_count; i++) {
        const struct lode_group *g = lode_reader_group(x->a.r, i);
        const struct lode_tensor *tensors;
        uint32_t count;

        tensors = lode_reader_schema(x->a.r, g->schema_index, &count);
        for (uint64_t k = 0; k < (uint64_t)count * g->object_count; k++) {
            const struct lode_tensor *t = &tensors[k % count];
            char name[LODE_NAME_BYTES_MAX + 32];

            if ((t->flags & LODE_TENSOR_SYNTHETIC) != 0)
                continue;
            if (!lode_tensor_name(t, g->layer, (uint32_t)(k / count), name,
                                  sizeof(name), err))
                return false;
            if (c->tensor_count == 0 ||
                bsearch(name, c->tensors, c->tensor_count,
                        sizeof(c->tensors[0]), by_name) == NULL)
                tell(x->d, CV_ONLY_IN_A, name, NULL, true);
        }
    }
    return true;
}

/* A META file against the folder's. */
static bool
compare_file(struct diff *x, const struct cv_checkpoint *c,
             const struct lode_group *g, struct lode_error *err)
{
    struct cv_side b = {.encoding = "", .dtype = ""};
    struct lode_error ignored;
    char *path = NULL;
    struct cv_side a;
    int fd = -1;
    bool ok = true;

    if (!lode_path_join(c->path, g->name, &path, err))
        return false;
    if (!lode_file_open(path, &fd, &b.raw_bytes, &ignored)) {
        tell(x->d, CV_ONLY_IN_A, g->name, NULL, true);
    } else if (!object_here(&x->a, g, 0)) {
        tell(x->d, CV_DIFF_UNKNOWN, g->name, NULL, true);
    } else {
        b.data.fd = fd;
        side_of_object(&x->a, g, 0, &a);
        ok = compare(x->d, CV_DIFF_FILE, g->name, &a, &b, err);
    }
    if (fd >= 0)
        (void)close(fd); /* nothing was written */
    free(path);
    return ok;
}

bool
cv_diff_checkpoint(struct cv_diff *d, const struct lode_reader *a,
                   const struct cv_checkpoint *b, struct lode_error *err)
{
    struct diff x = {.d = d};
    bool ok = open_side(&x.a, a, err);

    for (uint32_t i = 0; ok && i < b->tensor_count; i++)
        ok = compare_source(&x, b, &b->tensors[i], err);
    ok = ok && find_only_in_a(&x, b, err);
    for (uint32_t i = 0; ok && i < lode_reader_summary(a)->group_count; i++)
        if (lode_reader_group(a, i)->kind == LODE_KIND_META)
            ok = compare_file(&x, b, lode_reader_group(a, i), err);
    close_side(&x.a);
    return ok;
}
