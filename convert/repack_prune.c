/* SPDX-License-Identifier: Apache-2.0
 *
 * Dropping experts: which, and what it changes.  The experts that stay are
 * numbered anew; the router's rows and the bias of those that go are cut out
 * of the trunk. */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "convert/origin.h"
#include "convert/repack_plan.h"
#include "format/role.h"

enum { CONFIG_BYTES_MAX = 16 << 20, PROVENANCE_BYTES_MAX = 64 << 20 };

/* ---- which ---- */

static bool
drop_share(struct cv_repack *x, const struct lode_group *g,
           struct lode_error *err)
{
    uint32_t count = (uint32_t)(x->opt.drop_share * g->object_count);
    uint32_t *order;
    void *p = NULL;
    bool ok;

    if (!lode_alloc_array(g->object_count, sizeof(*order), "order", &p, err))
        return false;
    order = p;
    ok = cv_trace_least_used(x->trace, g->layer, g->object_count, order, err);
    for (uint32_t i = 0; ok && i < count; i++)
        x->drop[g->first_block_index + order[i]] = 1;
    free(order);
    return ok;
}

/* How many experts a token takes, by the configuration; 0: it does not say. */
static bool
experts_per_token(const struct lode_reader *in, uint64_t *out,
                  struct lode_error *err)
{
    static const char *const keys[] = {"num_experts_per_tok",
                                       "num_experts_per_token",
                                       "moe_topk", "experts_per_token"};
    json_t *root = NULL;
    const json_t *config;
    char *text = NULL;
    size_t bytes;
    bool ok;

    *out = 0;
    if (!lode_reader_load_file(in, LODE_KIND_META, "config.json",
                               CONFIG_BYTES_MAX, &text, &bytes, err))
        return false;
    if (text == NULL)
        return true;
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (!ok)
        return lode_fail_in(err, "config.json");
    config = json_object_get(root, "text_config");
    config = json_is_object(config) ? config : root;
    for (size_t i = 0; ok && *out == 0 && i < sizeof(keys) / sizeof(keys[0]);
         i++)
        ok = lode_json_optional_u64(config, keys[i], 1, 1 << 20, 0, out, err);
    json_decref(root);
    return ok;
}

static bool
check_left(const struct lode_group *g, uint32_t left, uint64_t per_token,
           struct lode_error *err)
{
    if (left != 0 && left >= per_token)
        return true;
    return lode_fail(err, LODE_E_USAGE,
                     "layer %" PRId32 ": %" PRIu32 " of %" PRIu32
                     " experts would stay, a token takes %" PRIu64,
                     g->layer, left, g->object_count,
                     per_token != 0 ? per_token : 1);
}

/* ---- what it changes ---- */

static bool
keep_experts(const struct cv_repack *x, struct cv_new_group *n,
             uint64_t per_token, struct lode_error *err)
{
    uint32_t left = 0;
    void *p = NULL;

    if (!lode_alloc_array(n->old->object_count, sizeof(*n->kept), "experts", &p,
                          err))
        return false;
    n->kept = p;
    for (uint32_t e = 0; e < n->old->object_count; e++)
        if (x->drop[n->old->first_block_index + e] == 0)
            n->kept[left++] = e;
    n->group.object_count = left;
    return check_left(n->old, left, per_token, err);
}

static bool
add_cut(struct lode_buf *cuts, uint64_t from, uint64_t to, uint64_t bytes,
        struct lode_error *err)
{
    struct cv_cut cut = {from, to, bytes};
    struct cv_cut *last;

    if (cuts->used_bytes != 0) {
        last = (struct cv_cut *)(void *)(cuts->data + cuts->used_bytes) - 1;
        if (last->from + last->bytes == from && last->to + last->bytes == to) {
            last->bytes += bytes;
            return true;
        }
    }
    return bytes == 0 || lode_buf_append(cuts, &cut, sizeof(cut), err);
}

static bool
is_by_expert(const struct lode_tensor *t)
{
    return t->role == LODE_ROLE_ROUTER || t->role == LODE_ROLE_ROUTER_BIAS;
}

/* One tensor of a trunk, at its new place. */
static bool
cut_tensor(struct cv_new_group *n, struct lode_tensor *t,
           const struct cv_new_group *experts, uint64_t at,
           struct lode_error *err)
{
    uint64_t from = t->raw_offset;
    uint64_t row_bytes;

    t->raw_offset = at;
    if (!is_by_expert(t))
        return add_cut(&n->cuts, from, at, t->raw_bytes, err);
    if (t->dim_count == 0 || t->dim[0] != experts->old->object_count ||
        t->raw_bytes % t->dim[0] != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "tensor %s has no row for each of %" PRIu32
                         " experts",
                         t->name, experts->old->object_count);
    row_bytes = t->raw_bytes / t->dim[0];
    t->dim[0] = experts->group.object_count;
    t->raw_bytes = row_bytes * t->dim[0];
    for (uint32_t e = 0; e < experts->group.object_count; e++)
        if (!add_cut(&n->cuts, from + experts->kept[e] * row_bytes,
                     at + e * row_bytes, row_bytes, err))
            return false;
    return true;
}

/* The trunk of a layer whose experts become fewer. */
static bool
cut_trunk(struct cv_new_group *n, const struct cv_new_group *experts,
          struct lode_error *err)
{
    const uint64_t align = 64; /* spec 6.2 */
    uint64_t at = 0;
    bool found = false;

    for (uint32_t i = 0; i < n->tensor_count; i++) {
        found = found || n->tensors[i].role == LODE_ROLE_ROUTER;
        if (!cut_tensor(n, &n->tensors[i], experts, at, err))
            return false;
        at = (at + n->tensors[i].raw_bytes + align - 1) / align * align;
    }
    if (!found)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "layer %" PRId32 ": its trunk has no router",
                         n->old->layer);
    n->group.object_raw_bytes = at;
    if (n->old->blocks_per_object == 1 || at <= n->group.block_raw_bytes)
        n->group.block_raw_bytes = (uint32_t)at;
    n->group.blocks_per_object =
        (uint32_t)((at - 1) / n->group.block_raw_bytes + 1);
    return true;
}

static struct cv_new_group *
find(struct cv_repack *x, uint32_t kind, int32_t layer)
{
    for (uint32_t i = 0; i < x->group_count; i++)
        if (x->groups[i].old->kind == kind && x->groups[i].old->layer == layer)
            return &x->groups[i];
    return NULL;
}

static bool
choose(struct cv_repack *x, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(lode_reader_summary(x->in)->block_count, 1,
                          "experts", &p, err))
        return false;
    x->drop = p;
    if (x->opt.drop_list != NULL)
        return cv_trace_drop_list(x->opt.drop_list, x->in, x->drop, err);
    for (uint32_t i = 0; i < x->group_count; i++)
        if (x->groups[i].old->kind == LODE_KIND_EXPERT &&
            !drop_share(x, x->groups[i].old, err))
            return false;
    return true;
}

bool
cv_repack_prune(struct cv_repack *x, struct lode_error *err)
{
    uint64_t per_token;

    if (!choose(x, err) || !experts_per_token(x->in, &per_token, err))
        return false;
    for (uint32_t i = 0; i < x->group_count; i++) {
        struct cv_new_group *experts = &x->groups[i];
        struct cv_new_group *trunk;

        if (experts->old->kind != LODE_KIND_EXPERT)
            continue;
        if (!keep_experts(x, experts, per_token, err))
            return false;
        if (experts->group.object_count == experts->old->object_count)
            continue;
        x->figures.dropped_count +=
            experts->old->object_count - experts->group.object_count;
        trunk = find(x, LODE_KIND_TRUNK, experts->old->layer);
        if (trunk == NULL)
            return lode_fail(err, LODE_E_UNSUPPORTED,
                             "layer %" PRId32 " has experts and no trunk",
                             experts->old->layer);
        if (!cut_trunk(trunk, experts, err))
            return false;
    }
    if (x->figures.dropped_count == 0)
        return lode_fail(err, LODE_E_USAGE, "no expert would be dropped");
    return true;
}

/* ---- provenance ---- */

/* {"3": [17, 401], ...}: old numbers of the experts that went. */
static json_t *
dropped_json(const struct cv_repack *x)
{
    json_t *o = json_object();

    for (uint32_t i = 0; i < x->group_count; i++) {
        const struct lode_group *g = x->groups[i].old;
        char key[16];
        json_t *list;

        if (x->groups[i].kept == NULL ||
            x->groups[i].group.object_count == g->object_count)
            continue;
        list = json_array();
        for (uint32_t e = 0; e < g->object_count; e++)
            if (x->drop[g->first_block_index + e] != 0 &&
                !lode_json_push(list, json_integer((json_int_t)e))) {
                json_decref(o);
                json_decref(list);
                return NULL;
            }
        (void)snprintf(key, sizeof(key), "%" PRId32, g->layer);
        if (!lode_json_set(o, key, list)) {
            json_decref(o);
            return NULL;
        }
    }
    return o;
}

bool
cv_repack_provenance(const struct cv_repack *x, char **out, size_t *out_bytes,
                     struct lode_error *err)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    json_t *root = NULL;
    json_t *recipe;
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (!lode_reader_load_file(x->in, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                               PROVENANCE_BYTES_MAX, &text, &bytes, err))
        return false;
    if (text == NULL)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "has no %s, so that the change could not be recorded",
                         CV_PROVENANCE_NAME);
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (!ok)
        return lode_fail_in(err, CV_PROVENANCE_NAME);
    recipe = json_object_get(root, "recipe");
    (void)lode_hex(lode_reader_summary(x->in)->content_root, hex);
    ok = json_is_object(recipe) &&
         lode_json_set(recipe, "experts", json_string("pruned")) &&
         lode_json_set(recipe, "trunk",
                       json_string("router cut to the experts that stay")) &&
         lode_json_set(recipe, "dropped_experts", dropped_json(x)) &&
         lode_json_set(root, "lossless", json_false()) &&
         lode_json_set(root, "parent", json_string(hex));
    text = ok ? json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
    json_decref(root);
    if (text == NULL)
        return lode_fail(err, json_is_object(recipe) ? LODE_E_NOMEM
                                                     : LODE_E_CORRUPT,
                         CV_PROVENANCE_NAME ": has no recipe, or out of "
                                            "memory");
    *out = text;
    *out_bytes = strlen(text);
    return true;
}
