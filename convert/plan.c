/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/origin.h"
#include "format/encoding.h"

enum { NAME_BYTES = 512, AUX_KEY_BYTES_MAX = 512 };

uint64_t
cv_tensor_parameters(const struct lode_tensor *t)
{
    uint64_t n = 1;

    switch (lode_encoding_find(t->encoding)) {
    case LODE_ENC_MXFP4:
        return t->raw_bytes * 2;
    case LODE_ENC_F32:
    case LODE_ENC_F16:
    case LODE_ENC_BF16:
        break;
    case LODE_ENC_OPAQUE:
        if (t->dtype[0] == 'F' && strcmp(t->dtype, "F8_E8M0") != 0)
            break;
        return 0;
    default:
        return 0;
    }
    for (size_t i = 0; i < t->dim_count; i++)
        n *= t->dim[i]; /* bounded by raw_bytes */
    return n;
}

static uint64_t
align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1) / align * align; /* sizes of files: far below 2^63 */
}

static void
describe(struct lode_tensor *out, const struct cv_tensor *t, const char *name,
         const struct cv_rule *r)
{
    memset(out, 0, sizeof(*out));
    out->name = name;
    out->dtype = t->dtype;
    out->encoding = lode_dtype_encoding(t->dtype);
    out->raw_bytes = t->raw_bytes;
    out->dim_count = t->dim_count;
    memcpy(out->dim, t->dim, sizeof(out->dim));
    if (r == NULL)
        return;
    out->role = r->role;
    if (r->form == CV_PACKED)
        out->encoding = "mxfp4.e2m1.lo";
    else if (r->form == CV_SCALE)
        out->encoding = "e8m0.g32";
    if (r->form == CV_PACKED || r->form == CV_SCALE)
        out->quant_group = 32;
}

static bool
new_group(struct lode_buf *list, uint32_t kind, int32_t layer,
          const char *name, struct cv_group *g, struct lode_error *err)
{
    if (list->used_bytes / sizeof(*g) >= LODE_GROUPS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "more groups than the limit of %u", LODE_GROUPS_MAX);
    memset(g, 0, sizeof(*g));
    g->kind = kind;
    g->layer = layer;
    g->name = name;
    g->object_count = 1;
    return true;
}

static void
free_group(struct cv_group *g)
{
    free(g->tensors);
    free(g->sources);
    free(g->owned_name);
}

/* Hand g over to the list; on failure it is freed. */
static bool
keep_group(struct lode_buf *list, struct cv_group *g, struct lode_error *err)
{
    if (lode_buf_append(list, g, sizeof(*g), err))
        return true;
    free_group(g);
    return false;
}

static bool
room_for(struct cv_group *g, uint32_t tensor_count, struct lode_error *err)
{
    void *p;

    if (!lode_alloc_array(tensor_count, sizeof(g->tensors[0]), "schema", &p,
                          err))
        return false;
    g->tensors = p;
    if (!lode_alloc_array((uint64_t)tensor_count * g->object_count,
                          sizeof(g->sources[0]), "tensors of a group", &p,
                          err)) {
        free(g->tensors);
        g->tensors = NULL;
        return false;
    }
    g->sources = p;
    return true;
}

/* Put the tensors one behind the other, and cut a large object into blocks. */
static void
lay_out(struct cv_group *g, uint32_t block_bytes)
{
    uint64_t at = 0;

    for (uint32_t i = 0; i < g->tensor_count; i++) {
        g->tensors[i].raw_offset = at;
        at = align_up(at + g->tensors[i].raw_bytes, CV_IMAGE_ALIGN);
    }
    g->object_raw_bytes = at != 0 ? at : CV_IMAGE_ALIGN; /* never empty */
    g->block_raw_bytes = g->object_raw_bytes > block_bytes ? block_bytes : 0;
}

/* A trunk-like group from one tensor number a rule. */
static bool
add_rules_group(struct cv_plan *p, struct lode_buf *list, struct cv_group *g,
                const int32_t *tensor_of_rule, enum cv_scope scope,
                struct lode_error *err)
{
    const struct cv_family *f = p->m->family;
    uint32_t block_bytes = g->kind == LODE_KIND_ROWS ? CV_ROWS_BLOCK_BYTES
                                                     : CV_TRUNK_BLOCK_BYTES;

    if (!room_for(g, f->rule_count, err))
        return false;
    for (uint32_t i = 0; i < f->rule_count; i++) {
        int32_t t = tensor_of_rule[i];

        if (f->rules[i].scope != scope || t == CV_NO_TENSOR)
            continue;
        describe(&g->tensors[g->tensor_count], &p->c->tensors[t],
                 p->rule_names[i], &f->rules[i]);
        g->sources[g->tensor_count++] = (uint32_t)t;
    }
    lay_out(g, block_bytes);
    return keep_group(list, g, err);
}

static const struct cv_rule *
slot_rule(const struct cv_model *m, uint32_t layer, uint32_t slot,
          uint32_t *index)
{
    for (uint32_t i = 0; i < m->family->rule_count; i++) {
        const struct cv_rule *r = &m->family->rules[i];

        if (r->scope == CV_IN_EXPERT && cv_expert_slot(r->role) == slot &&
            (r->needs & ~m->switches[layer]) == 0) {
            *index = i;
            return r;
        }
    }
    return NULL;
}

/* Image order gate, up, down, each with its scale behind it; a projection of a
 * page or more starts on a page, so that it can be read alone. */
static void
lay_out_expert(struct cv_group *g)
{
    uint64_t bytes[3] = {0, 0, 0};
    uint64_t at = 0;

    for (uint32_t i = 0; i < g->tensor_count; i++)
        bytes[g->tensors[i].segment] += g->tensors[i].raw_bytes;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        struct lode_tensor *t = &g->tensors[i];
        bool first = i == 0 || t[-1].segment != t->segment;

        at = align_up(at, first && bytes[t->segment] >= CV_PROJECTION_ALIGN
                              ? CV_PROJECTION_ALIGN
                              : CV_IMAGE_ALIGN);
        t->raw_offset = at;
        at += t->raw_bytes;
    }
    g->object_raw_bytes = align_up(at, CV_IMAGE_ALIGN);
}

static bool
add_experts(struct cv_plan *p, struct lode_buf *list, uint32_t layer,
            struct lode_error *err)
{
    const struct cv_model *m = p->m;
    const int32_t *table = m->experts + (uint64_t)layer * m->expert_count *
                                            CV_EXPERT_SLOTS;
    uint32_t slots[CV_EXPERT_SLOTS];
    struct cv_group g;

    if (!new_group(list, LODE_KIND_EXPERT, (int32_t)layer, "experts", &g, err))
        return false;
    g.object_count = m->expert_count;
    if (!room_for(&g, CV_EXPERT_SLOTS, err))
        return false;
    for (uint32_t s = 0; s < CV_EXPERT_SLOTS; s++) {
        uint32_t i = 0;
        const struct cv_rule *r = slot_rule(m, layer, s, &i);

        if (r == NULL)
            continue;
        describe(&g.tensors[g.tensor_count], &p->c->tensors[table[s]],
                 p->rule_names[i], r);
        g.tensors[g.tensor_count].segment = (uint8_t)(s / 2);
        slots[g.tensor_count++] = s;
    }
    for (uint32_t e = 0; e < g.object_count; e++)
        for (uint32_t k = 0; k < g.tensor_count; k++)
            g.sources[e * g.tensor_count + k] =
                (uint32_t)table[e * CV_EXPERT_SLOTS + slots[k]];
    lay_out_expert(&g);
    return keep_group(list, &g, err);
}

static bool
add_layer(struct cv_plan *p, struct lode_buf *list, uint32_t layer,
          struct lode_error *err)
{
    const int32_t *trunk =
        p->m->trunk + (uint64_t)layer * p->m->family->rule_count;
    struct cv_group g;

    return new_group(list, LODE_KIND_TRUNK, (int32_t)layer, "trunk", &g,
                     err) &&
           add_rules_group(p, list, &g, trunk, CV_IN_TRUNK, err) &&
           ((p->m->switches[layer] & CV_SWITCH_MOE) == 0 ||
            add_experts(p, list, layer, err));
}

/* A carried tensor's group: its name up to the first number, or its first
 * part, so that each block of a vision tower is one object. */
static size_t
aux_key_bytes(const char *name)
{
    const char *dot = strchr(name, '.');
    const char *part = name;

    for (;;) {
        size_t n = strcspn(part, ".");

        if (n != 0 && strspn(part, "0123456789") == n)
            return (size_t)(part - name) + n;
        if (part[n] == '\0')
            break;
        part += n + 1;
    }
    return dot != NULL && dot != name ? (size_t)(dot - name) : strlen(name);
}

struct aux_item {
    const struct cv_tensor *t;
    size_t key_bytes;
    uint32_t number;
};

static bool
same_key(const struct aux_item *a, const struct aux_item *b)
{
    return a->key_bytes == b->key_bytes &&
           memcmp(a->t->name, b->t->name, a->key_bytes) == 0;
}

static int
by_key_and_place(const void *x, const void *y)
{
    const struct aux_item *a = x;
    const struct aux_item *b = y;
    size_t n = a->key_bytes < b->key_bytes ? a->key_bytes : b->key_bytes;
    int order = memcmp(a->t->name, b->t->name, n);

    if (order != 0)
        return order;
    if (a->key_bytes != b->key_bytes)
        return a->key_bytes < b->key_bytes ? -1 : 1;
    if (a->t->source != b->t->source)
        return a->t->source < b->t->source ? -1 : 1;
    if (a->t->offset != b->t->offset)
        return a->t->offset < b->t->offset ? -1 : 1;
    return strcmp(a->t->name, b->t->name);
}

static bool
add_aux_group(struct lode_buf *list, const struct aux_item *items,
              uint32_t count, struct lode_error *err)
{
    struct cv_group g;

    if (!new_group(list, LODE_KIND_AUX, -1, NULL, &g, err) ||
        !lode_strndup(items->t->name,
                      items->key_bytes < AUX_KEY_BYTES_MAX ? items->key_bytes
                                                           : AUX_KEY_BYTES_MAX,
                      &g.owned_name, err))
        return false;
    g.name = g.owned_name;
    if (!room_for(&g, count, err)) {
        free_group(&g);
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        describe(&g.tensors[i], items[i].t, items[i].t->name, NULL);
        g.sources[i] = items[i].number;
    }
    g.tensor_count = count;
    lay_out(&g, CV_TRUNK_BLOCK_BYTES);
    return keep_group(list, &g, err);
}

static bool
add_aux(struct cv_plan *p, struct lode_buf *list, struct lode_error *err)
{
    uint32_t count = p->m->aux_count;
    struct aux_item *items;
    uint32_t first = 0;
    void *memory;
    bool ok = true;

    if (!lode_alloc_array(count, sizeof(*items), "carried tensors", &memory,
                          err))
        return false;
    items = memory;
    for (uint32_t i = 0; i < count; i++) {
        items[i].number = p->m->aux[i];
        items[i].t = &p->c->tensors[p->m->aux[i]];
        items[i].key_bytes = aux_key_bytes(items[i].t->name);
    }
    qsort(items, count, sizeof(*items), by_key_and_place);
    while (ok && first < count) {
        uint32_t n = 1;

        while (first + n < count && same_key(&items[first], &items[first + n]))
            n++;
        ok = add_aux_group(list, &items[first], n, err);
        first += n;
    }
    free(memory);
    return ok;
}

static bool
add_file(struct lode_buf *list, uint32_t kind, const char *name,
         uint64_t file_bytes, uint32_t source, struct lode_error *err)
{
    struct cv_group g;

    if (!new_group(list, kind, -1, name, &g, err))
        return false;
    g.file = source;
    g.object_raw_bytes = file_bytes;
    g.block_raw_bytes =
        file_bytes > CV_TRUNK_BLOCK_BYTES ? CV_TRUNK_BLOCK_BYTES : 0;
    return keep_group(list, &g, err);
}

static bool
add_files(struct cv_plan *p, struct lode_buf *list, struct lode_error *err)
{
    const struct cv_checkpoint *c = p->c;
    size_t provenance_bytes;
    char *text;

    for (uint32_t i = c->shard_count; i < c->source_count; i++)
        if (!add_file(list, LODE_KIND_META, c->sources[i].name,
                      c->sources[i].file_bytes, i, err))
            return false;
    if (!cv_provenance(c, NULL, &text, &provenance_bytes, err))
        return false;
    free(text);
    return add_file(list, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                    provenance_bytes, 0, err) &&
           add_file(list, LODE_KIND_ORIGIN, CV_HEADERS_NAME,
                    cv_headers_bytes(c), 0, err);
}

static bool
make_names(struct cv_plan *p, struct lode_error *err)
{
    char name[NAME_BYTES];

    for (uint32_t i = 0; i < p->m->family->rule_count; i++)
        if (!cv_rule_name(p->m, &p->m->family->rules[i], name, sizeof(name),
                          err) ||
            !lode_strndup(name, strlen(name), &p->rule_names[i], err))
            return false;
    return true;
}

static bool
add_groups(struct cv_plan *p, struct lode_buf *list, struct lode_error *err)
{
    struct cv_group g;

    for (uint32_t l = 0; l < p->m->layer_count; l++)
        if (!add_layer(p, list, l, err))
            return false;
    if (!new_group(list, LODE_KIND_TRUNK, -1, "output", &g, err) ||
        !add_rules_group(p, list, &g, p->m->single, CV_IN_OUTPUT, err) ||
        !new_group(list, LODE_KIND_ROWS, -1, "embedding", &g, err) ||
        !add_rules_group(p, list, &g, p->m->single, CV_IN_EMBEDDING, err))
        return false;
    return add_aux(p, list, err) && add_files(p, list, err);
}

uint32_t
cv_blocks_per_object(const struct cv_group *g)
{
    if (g->object_raw_bytes == 0)
        return 0;
    if (g->block_raw_bytes == 0)
        return 1;
    return (uint32_t)((g->object_raw_bytes - 1) / g->block_raw_bytes + 1);
}

/* ---- pieces ---- */

static bool
add_piece(struct lode_buf *out, uint64_t source_offset, uint32_t source,
          uint64_t image_offset, uint64_t bytes, struct lode_error *err)
{
    struct cv_piece piece;

    memset(&piece, 0, sizeof(piece));
    piece.source_offset = source_offset;
    piece.source = source;
    piece.image_offset = (uint32_t)image_offset; /* blocks have 1 GiB at most */
    piece.bytes = (uint32_t)bytes;
    return lode_buf_append(out, &piece, sizeof(piece), err);
}

bool
cv_plan_pieces(const struct cv_plan *p, const struct cv_block *b,
               struct lode_buf *out, struct lode_error *err)
{
    const struct cv_group *g = &p->groups[b->group];
    uint64_t start = (uint64_t)b->seq * g->block_raw_bytes;
    uint64_t end = start + b->raw_bytes;

    out->used_bytes = 0;
    if (g->sources == NULL)
        return add_piece(out, start, g->file, 0, b->raw_bytes, err);
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct lode_tensor *t = &g->tensors[i];
        const struct cv_tensor *from =
            &p->c->tensors[g->sources[b->object * g->tensor_count + i]];
        uint64_t first = t->raw_offset > start ? t->raw_offset : start;
        uint64_t last = t->raw_offset + t->raw_bytes;

        if (t->raw_offset >= end)
            break;
        if (last > end)
            last = end;
        if (first < last &&
            !add_piece(out, from->offset + (first - t->raw_offset),
                       from->source, first - start, last - first, err))
            return false;
    }
    return true;
}

/* ---- blocks ---- */

/* Objects in the order of their first source bytes, the blocks of an object
 * side by side: the source is read nearly in sequence, and whoever streams a
 * layer's trunk reads one run. */
static int
by_source(const void *x, const void *y)
{
    const struct cv_block *a = x;
    const struct cv_block *b = y;

    if (a->first_source != b->first_source)
        return a->first_source < b->first_source ? -1 : 1;
    if (a->first_offset != b->first_offset)
        return a->first_offset < b->first_offset ? -1 : 1;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->object != b->object)
        return a->object < b->object ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

/* Where the first byte of an object of g comes from. */
static void
find_first(const struct cv_plan *p, const struct cv_group *g, uint32_t object,
           struct cv_block *b)
{
    b->first_source = g->file;
    for (uint32_t i = 0; i < g->tensor_count; i++) {
        const struct cv_tensor *t =
            &p->c->tensors[g->sources[object * g->tensor_count + i]];

        if (i == 0 || t->source < b->first_source ||
            (t->source == b->first_source && t->offset < b->first_offset)) {
            b->first_source = t->source;
            b->first_offset = t->offset;
        }
    }
}

static void
fill_blocks(struct cv_plan *p)
{
    struct cv_block *b = p->blocks;

    for (uint32_t i = 0; i < p->group_count - 2; i++) {
        const struct cv_group *g = &p->groups[i];
        uint32_t each = cv_blocks_per_object(g);

        for (uint32_t k = 0; k < g->object_count * each; k++, b++) {
            uint64_t at = (uint64_t)(k % each) * g->block_raw_bytes;
            uint64_t left = g->object_raw_bytes - at;

            b->group = i;
            b->object = k / each;
            b->seq = k % each;
            b->raw_bytes = g->block_raw_bytes != 0 && left > g->block_raw_bytes
                               ? g->block_raw_bytes
                               : (uint32_t)left;
            p->raw_bytes += b->raw_bytes;
            if (b->seq == 0)
                find_first(p, g, b->object, b);
            else {
                b->first_source = b[-1].first_source;
                b->first_offset = b[-1].first_offset;
            }
        }
    }
}

/* Those of the origin files count, too: they pass through the same memory. */
static void
note_largest(struct cv_plan *p, const struct cv_group *g)
{
    uint64_t bytes = g->block_raw_bytes != 0 ? g->block_raw_bytes
                                             : g->object_raw_bytes;

    if (bytes > p->largest_block_bytes)
        p->largest_block_bytes = (uint32_t)bytes; /* at most 1 GiB */
}

static bool
make_blocks(struct cv_plan *p, struct lode_error *err)
{
    uint64_t count = 0;
    void *memory;

    for (uint32_t i = 0; i < p->group_count - 2; i++) {
        const struct cv_group *g = &p->groups[i];

        if (g->block_raw_bytes == 0 &&
            g->object_raw_bytes > LODE_BLOCK_BYTES_MAX)
            return lode_fail(err, LODE_E_LIMIT,
                             "an expert of %" PRIu64
                             " bytes, the limit of a block is %" PRIu64,
                             g->object_raw_bytes, LODE_BLOCK_BYTES_MAX);
        count += (uint64_t)g->object_count * cv_blocks_per_object(g);
    }
    for (uint32_t i = 0; i < p->group_count; i++)
        note_largest(p, &p->groups[i]);
    if (count > LODE_BLOCKS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu64 " blocks, the limit is %u", count,
                         LODE_BLOCKS_MAX);
    if (!lode_alloc_array(count, sizeof(p->blocks[0]), "blocks", &memory, err))
        return false;
    p->blocks = memory;
    p->block_count = (uint32_t)count;
    fill_blocks(p);
    qsort(p->blocks, p->block_count, sizeof(p->blocks[0]), by_source);
    return true;
}

static void
count_parameters(struct cv_plan *p)
{
    for (uint32_t i = 0; i < p->group_count; i++)
        for (uint32_t k = 0; k < p->groups[i].tensor_count; k++)
            p->parameter_count +=
                p->groups[i].object_count *
                cv_tensor_parameters(&p->groups[i].tensors[k]);
}

bool
cv_plan_build(struct cv_checkpoint *c, const struct cv_model *m,
              struct cv_plan **out, struct lode_error *err)
{
    struct lode_buf list = {NULL, 0, 0};
    struct cv_plan *p;
    void *memory;
    bool ok;

    if (!lode_alloc_array(1, sizeof(*p), "plan", &memory, err))
        return false;
    p = memory;
    p->c = c;
    p->m = m;
    ok = make_names(p, err) && add_groups(p, &list, err);
    p->groups = (void *)list.data;
    p->group_count = (uint32_t)(list.used_bytes / sizeof(p->groups[0]));
    if (!ok || !make_blocks(p, err)) {
        cv_plan_free(p);
        return lode_fail_in(err, "%s", c->path);
    }
    count_parameters(p);
    *out = p;
    return true;
}

void
cv_plan_free(struct cv_plan *p)
{
    if (p == NULL)
        return;
    for (uint32_t i = 0; i < p->group_count; i++)
        free_group(&p->groups[i]);
    for (size_t i = 0; i < CV_RULES_MAX; i++)
        free(p->rule_names[i]);
    free(p->groups);
    free(p->blocks);
    free(p);
}

bool
cv_plan_declare(struct cv_plan *p, struct lode_writer *w,
                struct lode_error *err)
{
    uint32_t block_count;

    for (uint32_t i = 0; i < p->group_count; i++) {
        struct cv_group *g = &p->groups[i];
        struct lode_group_spec spec = {.name = g->name,
                                       .object_raw_bytes = g->object_raw_bytes,
                                       .kind = g->kind,
                                       .layer = g->layer,
                                       .object_count = g->object_count,
                                       .block_raw_bytes = g->block_raw_bytes};

        if (!lode_writer_schema(w, g->tensors, g->tensor_count,
                                g->object_raw_bytes, &spec.schema_index, err) ||
            !lode_writer_group(w, &spec, &g->handle, err))
            return lode_fail_in(err, "group %s", g->name);
    }
    return lode_writer_number(w, &block_count, err);
}
