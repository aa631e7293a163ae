/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "runtime/fetch.h"
#include "runtime/layer_order.h"

enum {
    CONFIG_BYTES_MAX = 16 << 20,
    TOKENIZER_BYTES_MAX = 256 << 20,
    PROVENANCE_BYTES_MAX = 64 << 20,
};

static uint64_t
product(const struct lode_tensor *t, uint32_t from)
{
    uint64_t n = 1;

    /* The reader has checked that dimensions fit raw_bytes. */
    for (uint32_t i = from; i < t->dim_count; i++)
        n *= t->dim[i];
    return n;
}

/* Fill in one tensor from the schema.  A matrix has its leading dimension as
 * rows; anything of one dimension is one row. */
static bool
resolve_tensor(const struct lode_tensor *t, struct rt_tensor *out,
               struct lode_error *err)
{
    uint64_t rows = t->dim_count >= 2 ? t->dim[0] : 1;
    uint64_t cols = product(t, t->dim_count >= 2 ? 1 : 0);

    out->encoding = lode_encoding_find(t->encoding);
    if (out->encoding == LODE_ENC_MXFP4)
        cols *= 2; /* two columns a byte */
    if (rows == 0 || cols == 0 || rows > UINT32_MAX || cols > UINT32_MAX)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensor %s: %" PRIu64 " x %" PRIu64 " values", t->name,
                         rows, cols);
    out->offset = t->raw_offset;
    out->rows = (uint32_t)rows;
    out->cols = (uint32_t)cols;
    out->row_bytes = t->raw_bytes / rows;
    out->present = true;
    return true;
}

static bool
attach_scale(const struct lode_tensor *t, struct rt_tensor *weight,
             struct lode_error *err)
{
    if (!weight->present || weight->encoding != LODE_ENC_MXFP4 ||
        lode_encoding_find(t->encoding) != LODE_ENC_E8M0_G32)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "tensor %s: scales of encoding %s without an MXFP4 "
                         "weight before them",
                         t->name, t->encoding);
    if (weight->cols % 32 != 0 || t->dim_count != 2 ||
        t->dim[0] != weight->rows || t->dim[1] != weight->cols / 32)
        return lode_fail(err, LODE_E_CORRUPT,
                         "tensor %s: %" PRIu64 " x %" PRIu64
                         " scales, expected %u x %u",
                         t->name, t->dim[0], t->dim_count > 1 ? t->dim[1] : 0,
                         weight->rows, weight->cols / 32);
    weight->scale_offset = t->raw_offset;
    weight->scale_row_bytes = weight->cols / 32;
    return true;
}

static bool
is_scale(uint16_t role)
{
    return role == LODE_ROLE_GATE_SCALE || role == LODE_ROLE_UP_SCALE ||
           role == LODE_ROLE_DOWN_SCALE;
}

static bool
fill_view(const struct rt_model *m, const struct lode_group *g,
          struct rt_view *v, struct lode_error *err)
{
    uint32_t count;
    const struct lode_tensor *t =
        lode_reader_schema(m->reader, g->schema_index, &count);

    v->schema_index = g->schema_index;
    v->object_raw_bytes = g->object_raw_bytes;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t role = t[i].role;

        if (role == LODE_ROLE_NONE || role >= RT_ROLES)
            continue; /* carried for others */
        if (is_scale(role)) {
            if (!attach_scale(&t[i], &v->by_role[role - 1], err))
                return false;
            continue;
        }
        if (v->by_role[role].present)
            return lode_fail(err, LODE_E_CORRUPT,
                             "tensor %s: a second \"%s\" in one object",
                             t[i].name, lode_role_name(role));
        if (!resolve_tensor(&t[i], &v->by_role[role], err))
            return false;
    }
    for (uint32_t r = 0; r < RT_ROLES; r++)
        if (v->by_role[r].present &&
            v->by_role[r].encoding == LODE_ENC_MXFP4 &&
            v->by_role[r].scale_row_bytes == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"%s\": MXFP4 without scales",
                             lode_role_name((uint16_t)r));
    return true;
}

/* The view of a group's schema, shared by all groups that have it. */
static bool
view_of(struct rt_model *m, const struct lode_group *g,
        const struct rt_view **out, struct lode_error *err)
{
    struct rt_view *v;
    void *p;

    for (uint32_t i = 0; i < m->view_count; i++)
        if (m->views[i]->schema_index == g->schema_index) {
            *out = m->views[i];
            return true;
        }
    if (!lode_alloc_array(1, sizeof(*v), "schema", &p, err))
        return false;
    v = p;
    if (!fill_view(m, g, v, err)) {
        free(v);
        return false;
    }
    m->views[m->view_count++] = v; /* room for every schema */
    *out = v;
    return true;
}

static bool
find_group(const struct rt_model *m, uint32_t kind, int32_t layer,
           const char *what, uint32_t *out, struct lode_error *err)
{
    int64_t index = lode_reader_find(m->reader, kind, layer, NULL);

    if (index == LODE_NO_INDEX)
        return lode_fail(err, LODE_E_CORRUPT,
                         "config.json asks for %s %d, which is not there", what,
                         layer);
    *out = (uint32_t)index;
    return true;
}

/* Count a group's blocks in: the room that the largest takes, what all are to
 * read, what is missing. */
static void
count_blocks(struct rt_model *m, const struct lode_group *g,
             uint32_t *max_room_bytes, uint64_t *stored_bytes)
{
    uint32_t count = g->object_count * g->blocks_per_object;

    *stored_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct lode_block b;
        uint64_t padded_bytes;
        uint64_t room_bytes;

        lode_reader_block(m->reader, g->first_block_index + i, &b);
        padded_bytes = lode_reader_padded_bytes(m->reader, &b);
        room_bytes = rt_fetch_room_bytes(m->reader, &b); /* at most 1 GiB */
        if (room_bytes > *max_room_bytes)
            *max_room_bytes = (uint32_t)room_bytes;
        if (b.codec != LODE_CODEC_NONE && padded_bytes > m->packed_bytes)
            m->packed_bytes = padded_bytes;
        if (!b.present && m->absent_count++ == 0)
            m->first_absent_block_index = g->first_block_index + i;
        *stored_bytes += padded_bytes;
    }
    m->needed_count += count;
}

static bool
add_stage(struct rt_model *m, uint32_t group_index, struct rt_stage *s,
          struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(m->reader, group_index);
    uint64_t stored_bytes;
    struct lode_block b;

    if (g->object_count != 1)
        return lode_fail(err, LODE_E_CORRUPT, "group %s has %u objects, not 1",
                         g->name, g->object_count);
    s->group_index = group_index;
    s->first_position = m->position_count;
    s->block_count = g->blocks_per_object;
    s->block_raw_bytes = g->block_raw_bytes;
    if (!view_of(m, g, &s->view, err))
        return false;
    count_blocks(m, g, &m->max_trunk_room_bytes, &stored_bytes);
    m->trunk_stored_bytes += stored_bytes;
    for (uint32_t i = 0; i < g->blocks_per_object; i++) {
        struct rt_position *p = &m->positions[m->position_count++];

        p->block_index = g->first_block_index + i;
        lode_reader_block(m->reader, p->block_index, &b);
        p->room_bytes = (uint32_t)rt_fetch_room_bytes(m->reader, &b);
        p->stored_bytes = (uint32_t)lode_reader_padded_bytes(m->reader, &b);
        m->trunk_room_bytes += p->room_bytes;
    }
    for (uint32_t r = 0; r < RT_ROLES; r++)
        if (s->view->by_role[r].present &&
            s->view->by_role[r].row_bytes > m->max_row_bytes)
            m->max_row_bytes = s->view->by_role[r].row_bytes;
    return true;
}

/* Does the container say itself that experts were left out? */
static bool
says_pruned(const struct rt_model *m, bool *out, struct lode_error *err)
{
    json_t *root = NULL;
    const json_t *recipe;
    const char *experts;
    char *text = NULL;
    size_t bytes;
    bool ok;

    *out = false;
    if (!lode_reader_load_file(m->reader, LODE_KIND_ORIGIN, "provenance.json",
                               PROVENANCE_BYTES_MAX, &text, &bytes, err))
        return false;
    if (text == NULL)
        return true;
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (!ok)
        return lode_fail_in(err, "provenance.json");
    recipe = json_object_get(root, "recipe");
    experts = json_string_value(json_object_get(recipe, "experts"));
    *out = experts != NULL && strcmp(experts, "pruned") == 0;
    json_decref(root);
    return true;
}

/* The container's number of experts, which is config.json's unless some were
 * left out on purpose. */
static bool
check_expert_count(const struct rt_model *m, uint32_t layer, uint32_t count,
                   struct lode_error *err)
{
    const struct rt_config *c = &m->config;
    bool pruned = false;

    if (count == c->expert_count)
        return true;
    if (count < c->expert_count && !says_pruned(m, &pruned, err))
        return false;
    if (!pruned)
        return lode_fail(err, LODE_E_CORRUPT,
                         "layer %u has %u experts, config.json says %u", layer,
                         count, c->expert_count);
    if (count < c->chosen_count)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "layer %u has %u experts left, a token chooses %u",
                         layer, count, c->chosen_count);
    if (c->group_count > c->group_chosen_count)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "layer %u: experts were left out, which is not "
                         "defined where routing goes by groups",
                         layer);
    return true;
}

static bool
open_bank(struct rt_model *m, uint32_t layer, struct rt_bank *bank,
          struct lode_error *err)
{
    const struct lode_group *g;
    uint64_t stored_bytes;
    uint32_t index = 0;

    if (!find_group(m, LODE_KIND_EXPERT, (int32_t)layer, "experts of layer",
                    &index, err))
        return false;
    g = lode_reader_group(m->reader, index);
    if (!check_expert_count(m, layer, g->object_count, err))
        return false;
    if (g->blocks_per_object != 1)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "layer %u: an expert of %u blocks", layer,
                         g->blocks_per_object);
    bank->group_index = index;
    bank->first_block_index = g->first_block_index;
    bank->expert_count = g->object_count;
    if (!view_of(m, g, &bank->view, err) ||
        !rt_layer_check_expert(&m->config, bank->view, err))
        return lode_fail_in(err, "layer %u", layer);
    count_blocks(m, g, &m->max_expert_room_bytes, &stored_bytes);
    m->moe_layer_count++;
    m->expert_count += g->object_count;
    m->expert_bytes_per_token +=
        (uint64_t)((double)stored_bytes / g->object_count *
                   m->config.chosen_count);
    return true;
}

static bool
open_banks(struct rt_model *m, struct lode_error *err)
{
    for (uint32_t i = 0; i < m->config.layer_count; i++) {
        m->banks[i].group_index = LODE_NO_INDEX;
        if (rt_config_is_moe(&m->config, i) &&
            !open_bank(m, i, &m->banks[i], err))
            return false;
    }
    return true;
}

static bool
open_stages(struct rt_model *m, struct lode_error *err)
{
    const struct rt_config *c = &m->config;
    struct rt_stage *output;
    uint32_t index = 0;

    for (uint32_t i = 0; i < c->layer_count; i++) {
        if (!find_group(m, LODE_KIND_TRUNK, (int32_t)i, "trunk of layer",
                        &index, err))
            return false;
        if (!add_stage(m, index, &m->stages[i], err) ||
            !rt_layer_check_trunk(c, i, m->banks[i].expert_count,
                                  m->stages[i].view, err))
            return lode_fail_in(err, "trunk of layer %u", i);
    }
    output = &m->stages[c->layer_count];
    m->stage_count = c->layer_count + 1;
    if (!find_group(m, LODE_KIND_TRUNK, -1, "output trunk", &index, err))
        return false;
    if (!add_stage(m, index, output, err))
        return lode_fail_in(err, "output trunk");
    m->head_stage = c->layer_count;
    if (!output->view->by_role[LODE_ROLE_HEAD].present) {
        if (!c->tied_head)
            return lode_fail(err, LODE_E_CORRUPT,
                             "no output head, and \"tie_word_embeddings\" is "
                             "not true");
        m->head_stage = m->stage_count;
        if (!add_stage(m, m->embedding_group_index,
                       &m->stages[m->stage_count++], err))
            return lode_fail_in(err, "tied head");
    }
    return rt_layer_check_output(c, output->view,
                                 m->stages[m->head_stage].view, err);
}

static bool
open_embedding(struct rt_model *m, struct lode_error *err)
{
    const struct rt_config *c = &m->config;
    const struct lode_group *g;
    const struct rt_tensor *t;
    uint64_t stored_bytes;

    if (!find_group(m, LODE_KIND_ROWS, -1, "embedding",
                    &m->embedding_group_index, err))
        return false;
    g = lode_reader_group(m->reader, m->embedding_group_index);
    if (!view_of(m, g, &m->embedding, err))
        return lode_fail_in(err, "embedding");
    count_blocks(m, g, &m->max_row_block_bytes, &stored_bytes);
    t = &m->embedding->by_role[LODE_ROLE_EMBEDDING];
    return rt_layer_check_shape("embedding", t, c->vocab_rows, c->hidden_width,
                                err);
}

static bool
load_config(struct rt_model *m, struct lode_error *err)
{
    char *text = NULL;
    size_t bytes;
    bool ok = false;

    if (!lode_reader_load_file(m->reader, LODE_KIND_META, "config.json",
                               CONFIG_BYTES_MAX, &text, &bytes, err))
        return false;
    if (text == NULL)
        return lode_fail(err, LODE_E_CORRUPT, "no config.json inside");
    if (!rt_config_parse(text, bytes, &m->config, err)) {
        lode_fail_in(err, "config.json");
        goto out;
    }
    free(text);
    text = NULL;
    if (!lode_reader_load_file(m->reader, LODE_KIND_META,
                               "generation_config.json", CONFIG_BYTES_MAX,
                               &text, &bytes, err))
        goto out;
    if (text != NULL &&
        !rt_config_add_generation(&m->config, text, bytes, err)) {
        lode_fail_in(err, "generation_config.json");
        goto out;
    }
    ok = true;
out:
    free(text);
    return ok;
}

/* Special tokens that end an answer beside eos_token_id (Kimi K3: 163585 is a
 * document's end). */
static bool
add_named_stops(struct rt_model *m, struct lode_error *err)
{
    static const char *const names[] = {"[EOS]", "[EOT]", "<|end_of_msg|>",
                                        "<|im_end|>"};
    uint32_t id;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (rt_tokenizer_special(m->tokenizer, names[i], &id) &&
            !rt_config_add_stop(&m->config, id, err))
            return false;
    return true;
}

static bool
load_tokenizer(struct rt_model *m, struct lode_error *err)
{
    char *model = NULL;
    char *config = NULL;
    size_t model_bytes;
    size_t config_bytes;
    bool ok = false;

    if (!lode_reader_load_file(m->reader, LODE_KIND_META, "tiktoken.model",
                               TOKENIZER_BYTES_MAX, &model, &model_bytes,
                               err) ||
        !lode_reader_load_file(m->reader, LODE_KIND_META,
                               "tokenizer_config.json", TOKENIZER_BYTES_MAX,
                               &config, &config_bytes, err))
        goto out;
    if (model == NULL || config == NULL) {
        ok = true; /* --ids still works; text asks for it later */
        goto out;
    }
    ok = rt_tokenizer_new_tiktoken(model, model_bytes, config, config_bytes,
                                   m->config.vocab_rows, &m->tokenizer, err) &&
         add_named_stops(m, err);
out:
    free(model);
    free(config);
    return ok;
}

static bool
allocate(struct rt_model *m, struct lode_error *err)
{
    const struct lode_summary *s = lode_reader_summary(m->reader);
    uint64_t layers = m->config.layer_count;
    uint64_t positions = 0;
    void *views = NULL;
    void *stages = NULL;
    void *banks = NULL;
    void *order = NULL;
    bool ok;

    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct lode_group *g = lode_reader_group(m->reader, i);

        if (g->kind == LODE_KIND_TRUNK || g->kind == LODE_KIND_ROWS)
            positions += (uint64_t)g->object_count * g->blocks_per_object;
    }
    ok = lode_alloc_array(s->schema_count, sizeof(*m->views), "schemas", &views,
                          err) &&
         lode_alloc_array(layers + 2, sizeof(*m->stages), "stages", &stages,
                          err) &&
         lode_alloc_array(layers, sizeof(*m->banks), "banks", &banks, err) &&
         lode_alloc_array(positions, sizeof(*m->positions), "trunk blocks",
                          &order, err);
    m->views = views;
    m->stages = stages;
    m->banks = banks;
    m->positions = order;
    m->memory_bytes = s->index_bytes + positions * sizeof(*m->positions);
    return ok;
}

bool
rt_model_open(const char *path, const char *const *folders,
              struct rt_model **out, struct lode_error *err)
{
    struct rt_model *m;
    uint32_t volume_index;
    void *p;

    if (!lode_alloc_array(1, sizeof(*m), "model", &p, err))
        return false;
    m = p;
    if (!lode_reader_open_in(path, folders, &m->reader, err))
        goto fail;
    volume_index = lode_reader_summary(m->reader)->volume_index;
    if (volume_index != 0) {
        lode_fail(err, LODE_E_USAGE,
                  "%s: this is volume %" PRIu32 " of a set; open its head",
                  path, volume_index);
        goto fail;
    }
    if (!load_config(m, err) || !allocate(m, err) || !open_embedding(m, err) ||
        !open_banks(m, err) || !open_stages(m, err) ||
        !load_tokenizer(m, err)) {
        lode_fail_in(err, "%s", path);
        goto fail;
    }
    *out = m;
    return true;
fail:
    rt_model_close(m);
    return false;
}

bool
rt_model_whole(const struct rt_model *m, struct lode_error *err)
{
    char name[128];

    if (!lode_reader_whole(m->reader, err))
        return false;
    if (m->absent_count == 0)
        return true;
    return lode_fail(err, LODE_E_IO,
                     "%s: %s: not in this file; %" PRIu32 " of %" PRIu32
                     " blocks that a run needs are missing",
                     lode_reader_path(m->reader),
                     lode_reader_block_name(m->reader,
                                            m->first_absent_block_index, name,
                                            sizeof(name)),
                     m->absent_count, m->needed_count);
}

void
rt_model_close(struct rt_model *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->view_count; i++)
        free(m->views[i]);
    free(m->views);
    free(m->stages);
    free(m->banks);
    free(m->positions);
    rt_tokenizer_free(m->tokenizer);
    lode_reader_close(m->reader);
    free(m);
}
