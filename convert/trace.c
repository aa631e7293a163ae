/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "format/lode_write.h"

enum { RECENT = 8 }; /* experts that the next one is to go with */

/* One layer: how often each expert was chosen, and each pair. */
struct layer {
    uint32_t expert_count;
    uint64_t *uses;
    uint32_t *pairs; /* [expert][expert] */
};

struct cv_trace {
    struct layer *layers; /* by layer number */
    uint32_t layer_count;
    struct lode_sha256 *sha;
    uint8_t digest[LODE_DIGEST_BYTES];
};

static bool
make_layers(struct cv_trace *t, const struct lode_reader *r,
            struct lode_error *err)
{
    void *p = NULL;

    for (uint32_t i = 0; i < lode_reader_summary(r)->group_count; i++) {
        const struct lode_group *g = lode_reader_group(r, i);

        if (g->kind == LODE_KIND_EXPERT && (uint32_t)g->layer >= t->layer_count)
            t->layer_count = (uint32_t)g->layer + 1;
    }
    if (!lode_alloc_array(t->layer_count, sizeof(*t->layers), "trace", &p, err))
        return false;
    t->layers = p;
    for (uint32_t i = 0; i < lode_reader_summary(r)->group_count; i++) {
        const struct lode_group *g = lode_reader_group(r, i);
        struct layer *l;

        if (g->kind != LODE_KIND_EXPERT)
            continue;
        l = &t->layers[g->layer];
        l->expert_count = g->object_count;
        if (!lode_alloc_array(g->object_count, sizeof(*l->uses), "trace", &p,
                              err))
            return false;
        l->uses = p;
        if (!lode_alloc_array((uint64_t)g->object_count * g->object_count,
                              sizeof(*l->pairs), "trace", &p, err))
            return false;
        l->pairs = p;
    }
    return true;
}

/* The experts that one position chose in a layer. */
static bool
add_choice(struct layer *l, const json_t *ids, struct lode_error *err)
{
    size_t n = json_array_size(ids);

    for (size_t i = 0; i < n; i++) {
        const json_t *id = json_array_get(ids, i);

        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= (json_int_t)l->expert_count)
            return lode_fail(err, LODE_E_CORRUPT,
                             "expert %" JSON_INTEGER_FORMAT
                             ", the container has %" PRIu32,
                             json_is_integer(id) ? json_integer_value(id) : -1,
                             l->expert_count);
    }
    for (size_t i = 0; i < n; i++) {
        size_t a = (size_t)json_integer_value(json_array_get(ids, i));

        l->uses[a]++;
        for (size_t k = 0; k < n; k++)
            if (k != i)
                l->pairs[a * l->expert_count +
                         (size_t)json_integer_value(json_array_get(ids, k))]++;
    }
    return true;
}

static bool
add_route(struct cv_trace *t, const json_t *route, struct lode_error *err)
{
    const json_t *positions = json_object_get(route, "ids");
    const json_t *ids;
    uint64_t layer;
    size_t i;

    if (!lode_json_u64(route, "layer", 0, LODE_LAYERS_MAX, &layer, err))
        return false;
    if (layer >= t->layer_count || t->layers[layer].expert_count == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "layer %" PRIu64 " has no experts in the container",
                         layer);
    if (!json_is_array(positions))
        return lode_fail(err, LODE_E_CORRUPT, "layer %" PRIu64 ": no \"ids\"",
                         layer);
    json_array_foreach(positions, i, ids)
        if (!json_is_array(ids) ||
            !add_choice(&t->layers[layer], ids, err))
            return lode_fail_in(err, "layer %" PRIu64 ", position %zu", layer,
                                i);
    return true;
}

static bool
add_file(struct cv_trace *t, const char *path, struct lode_error *err)
{
    json_t *root = NULL;
    const json_t *route;
    char *text = NULL;
    size_t bytes;
    size_t i;
    bool ok;

    if (!lode_file_slurp(path, CV_TRACE_BYTES_MAX, &text, &bytes, err))
        return false;
    lode_sha256_update(t->sha, text, bytes);
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (ok && json_array_size(json_object_get(root, "routes")) == 0)
        ok = lode_fail(err, LODE_E_CORRUPT,
                       "has no \"routes\": expected the output of lode eval "
                       "--routes --json");
    json_array_foreach(json_object_get(root, "routes"), i, route)
        ok = ok && add_route(t, route, err);
    json_decref(root);
    return ok || lode_fail_in(err, "%s", path);
}

bool
cv_trace_load(const char *const *paths, const struct lode_reader *r,
              struct cv_trace **out, struct lode_error *err)
{
    struct cv_trace *t;
    void *p = NULL;
    bool ok;

    if (!lode_alloc_array(1, sizeof(*t), "trace", &p, err))
        return false;
    t = p;
    ok = lode_sha256_new(&t->sha, err) && make_layers(t, r, err);
    for (; ok && *paths != NULL; paths++)
        ok = add_file(t, *paths, err);
    if (!ok) {
        cv_trace_free(t);
        return false;
    }
    lode_sha256_final(t->sha, t->digest);
    *out = t;
    return true;
}

void
cv_trace_free(struct cv_trace *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; t->layers != NULL && i < t->layer_count; i++) {
        free(t->layers[i].uses);
        free(t->layers[i].pairs);
    }
    free(t->layers);
    lode_sha256_free(t->sha);
    free(t);
}

void
cv_trace_digest(const struct cv_trace *t, uint8_t out[LODE_DIGEST_BYTES])
{
    memcpy(out, t->digest, LODE_DIGEST_BYTES);
}

uint64_t
cv_trace_uses(const struct cv_trace *t, int32_t layer, uint32_t expert)
{
    const struct layer *l = &t->layers[layer];

    return l->uses != NULL ? l->uses[expert] : 0;
}

/* How often e went with the last experts of a sequence. */
static uint64_t
affinity(const struct layer *l, const uint32_t *order, uint32_t count,
         uint32_t e)
{
    uint32_t first = count > RECENT ? count - RECENT : 0;
    uint64_t sum = 0;

    for (uint32_t i = first; i < count; i++)
        sum += l->pairs[(size_t)order[i] * l->expert_count + e];
    return sum;
}

bool
cv_trace_order(const struct cv_trace *t, int32_t layer, uint32_t expert_count,
               uint32_t *order, struct lode_error *err)
{
    const struct layer *l = &t->layers[layer];
    uint8_t *placed;
    void *p = NULL;

    if (!lode_alloc_array(expert_count, 1, "order", &p, err))
        return false;
    placed = p;
    for (uint32_t i = 0; i < expert_count; i++) {
        uint64_t best_affinity = 0;
        uint32_t best = UINT32_MAX;

        for (uint32_t e = 0; e < expert_count; e++) {
            uint64_t a;

            if (placed[e] != 0)
                continue;
            a = affinity(l, order, i, e);
            if (best == UINT32_MAX || a > best_affinity ||
                (a == best_affinity && l->uses[e] > l->uses[best])) {
                best = e;
                best_affinity = a;
            }
        }
        order[i] = best;
        placed[best] = 1;
    }
    free(placed);
    return true;
}

struct use {
    uint64_t uses;
    uint32_t expert;
};

static int
by_use(const void *a, const void *b)
{
    const struct use *x = a;
    const struct use *y = b;

    if (x->uses != y->uses)
        return x->uses < y->uses ? -1 : 1;
    return x->expert > y->expert ? -1 : x->expert < y->expert;
}

bool
cv_trace_least_used(const struct cv_trace *t, int32_t layer,
                    uint32_t expert_count, uint32_t *order,
                    struct lode_error *err)
{
    struct use *list;
    void *p = NULL;

    if (!lode_alloc_array(expert_count, sizeof(*list), "order", &p, err))
        return false;
    list = p;
    for (uint32_t i = 0; i < expert_count; i++)
        list[i] = (struct use){cv_trace_uses(t, layer, i), i};
    qsort(list, expert_count, sizeof(*list), by_use);
    for (uint32_t i = 0; i < expert_count; i++)
        order[i] = list[i].expert;
    free(list);
    return true;
}

/* ---- lists of experts ---- */

/* A number below limit at *text, which moves behind it. */
static bool
number(char **text, uint32_t limit, const char *what, uint32_t *out,
       struct lode_error *err)
{
    size_t digits = strspn(*text, "0123456789");
    unsigned long value = digits != 0 && digits <= 9 ? strtoul(*text, NULL, 10)
                                                     : limit;

    if (value >= limit)
        return lode_fail(err, LODE_E_CORRUPT,
                         "expected %s below %" PRIu32 ", found \"%.20s\"", what,
                         limit, *text);
    *out = (uint32_t)value;
    *text += digits;
    return true;
}

static bool
drop_line(char *line, const struct lode_reader *r, uint8_t *drop,
          struct lode_error *err)
{
    const struct lode_group *g;
    uint32_t layer;
    uint32_t e;
    int64_t i;

    line[strcspn(line, "#")] = '\0';
    line += strspn(line, " \t\r");
    if (*line == '\0')
        return true;
    if (!number(&line, LODE_LAYERS_MAX, "a layer", &layer, err))
        return false;
    if (*line++ != ':')
        return lode_fail(err, LODE_E_CORRUPT,
                         "expected \"LAYER: EXPERT EXPERT ...\"");
    i = lode_reader_find(r, LODE_KIND_EXPERT, (int32_t)layer, NULL);
    if (i == LODE_NO_INDEX)
        return lode_fail(err, LODE_E_CORRUPT,
                         "layer %" PRIu32 " has no experts in the container",
                         layer);
    g = lode_reader_group(r, (uint32_t)i);
    for (line += strspn(line, " \t\r,"); *line != '\0';
         line += strspn(line, " \t\r,")) {
        if (!number(&line, g->object_count, "an expert", &e, err))
            return false;
        drop[g->first_block_index + e] = 1;
    }
    return true;
}

bool
cv_trace_drop_list(const char *path, const struct lode_reader *r, uint8_t *drop,
                   struct lode_error *err)
{
    uint32_t line_number = 0;
    char *text = NULL;
    size_t bytes;
    char *next;
    bool ok = true;

    if (!lode_file_slurp(path, 64 << 20, &text, &bytes, err))
        return false;
    for (char *line = text; ok && line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        line_number++;
        ok = drop_line(line, r, drop, err) ||
             lode_fail_in(err, "%s: line %" PRIu32, path, line_number);
    }
    free(text);
    return ok;
}
