/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of a repack: new groups, the order of blocks, and volumes. */
#include "config.h"

#include "convert/repack.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "convert/origin.h"
#include "convert/repack_plan.h"
#include "format/limits.h"

static uint64_t
padded(const struct cv_repack *x, uint64_t bytes)
{
    uint64_t mask = (UINT64_C(1) << x->opt.align_log2) - 1;

    return (bytes + mask) & ~mask;
}

/* ---- groups ---- */

static bool
copy_groups(struct cv_repack *x, struct lode_error *err)
{
    uint32_t count = lode_reader_summary(x->in)->group_count;
    void *p = NULL;

    if (!lode_alloc_array(count, sizeof(*x->groups), "groups", &p, err))
        return false;
    x->groups = p;
    x->group_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct cv_new_group *n = &x->groups[i];
        const struct lode_tensor *tensors;

        n->old = lode_reader_group(x->in, i);
        n->group = *n->old;
        tensors = lode_reader_schema(x->in, n->old->schema_index,
                                     &n->tensor_count);
        if (!lode_alloc_array(n->tensor_count, sizeof(*tensors), "tensors", &p,
                              err))
            return false;
        n->tensors = p;
        if (n->tensor_count != 0)
            memcpy(p, tensors, n->tensor_count * sizeof(*tensors));
    }
    return true;
}

/* The file that tells the origin says what was changed. */
static bool
change_provenance(struct cv_repack *x, struct lode_error *err)
{
    size_t bytes;

    for (uint32_t i = 0; i < x->group_count; i++) {
        struct cv_new_group *n = &x->groups[i];

        if (n->old->kind != LODE_KIND_ORIGIN ||
            strcmp(n->old->name, CV_PROVENANCE_NAME) != 0)
            continue;
        if (!cv_repack_provenance(x, &n->text, &bytes, err))
            return false;
        n->group.object_raw_bytes = bytes;
        n->group.block_raw_bytes = (uint32_t)bytes;
        n->group.blocks_per_object = 1;
        return bytes <= LODE_BLOCK_BYTES_MAX ||
               lode_fail(err, LODE_E_LIMIT, CV_PROVENANCE_NAME ": too long");
    }
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "has no " CV_PROVENANCE_NAME
                     ", so that the change could not be recorded");
}

static bool
is_changed(const struct cv_new_group *n)
{
    return n->text != NULL || n->cuts.used_bytes != 0;
}

static bool
is_wanted(const struct cv_repack *x, const struct lode_group *g)
{
    return !x->opt.layers || g->layer < 0 ||
           (g->layer >= x->opt.first_layer && g->layer <= x->opt.last_layer);
}

static bool
declare(struct cv_repack *x, struct lode_error *err)
{
    uint32_t count;

    for (uint32_t i = 0; i < x->group_count; i++) {
        struct cv_new_group *n = &x->groups[i];
        struct lode_group_spec spec = {
            .name = n->group.name,
            .object_raw_bytes = n->group.object_raw_bytes,
            .kind = n->group.kind,
            .layer = n->group.layer,
            .object_count = n->group.object_count,
            .block_raw_bytes = n->group.block_raw_bytes};

        if (!lode_writer_schema(x->w, n->tensors, n->tensor_count,
                                n->group.object_raw_bytes, &spec.schema_index,
                                err) ||
            !lode_writer_group(x->w, &spec, &n->handle, err))
            return false;
    }
    return lode_writer_number(x->w, &count, err);
}

/* ---- blocks, in the order of writing ---- */

static enum cv_how
how_of(const struct cv_repack *x, const struct lode_block *b)
{
    if (!x->opt.recode)
        return CV_COPY;
    if (b->codec == LODE_CODEC_NONE &&
        (x->opt.choice.codec == CV_CODEC_NONE ||
         lode_reader_group(x->in, b->group_index)->kind == LODE_KIND_ROWS))
        return CV_COPY;
    return CV_RECODE;
}

/* The new number of an old object, or -1 when it goes. */
static int64_t
new_object(const struct cv_new_group *n, uint32_t object)
{
    if (n->kept == NULL)
        return object;
    for (uint32_t lo = 0, hi = n->group.object_count; lo < hi;) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (n->kept[mid] == object)
            return mid;
        if (n->kept[mid] < object)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}

static void
add_item(struct cv_repack *x, const struct cv_item *item)
{
    struct cv_repack_figures *f = &x->figures;

    x->items[x->item_count++] = *item;
    f->raw_bytes += item->raw_bytes;
    f->block_count++;
    f->copied_count += item->how == CV_COPY;
    f->recoded_count += item->how == CV_RECODE;
    f->changed_count += item->how == CV_CHANGE;
    if (item->raw_bytes > x->largest_bytes)
        x->largest_bytes = item->raw_bytes;
}

/* All blocks of a group whose images are new. */
static void
add_changed(struct cv_repack *x, uint32_t group)
{
    const struct lode_group *g = &x->groups[group].group;

    for (uint32_t i = 0; i < g->blocks_per_object; i++) {
        uint64_t at = (uint64_t)i * g->block_raw_bytes;
        struct cv_item item = {.old_block =
                                   x->groups[group].old->first_block_index,
                               .group = group,
                               .seq = i,
                               .raw_bytes = g->block_raw_bytes,
                               .how = CV_CHANGE};

        if (g->object_raw_bytes - at < item.raw_bytes)
            item.raw_bytes = (uint32_t)(g->object_raw_bytes - at);
        add_item(x, &item);
    }
}

static void
add_block(struct cv_repack *x, uint32_t block_index)
{
    struct lode_block b;
    struct cv_new_group *n;
    int64_t object;

    lode_reader_block(x->in, block_index, &b);
    n = &x->groups[b.group_index];
    if (!is_wanted(x, n->old))
        return;
    if (is_changed(n)) {
        if (block_index == n->old->first_block_index)
            add_changed(x, b.group_index);
        return;
    }
    object = new_object(n, b.object_index);
    if (object >= 0)
        add_item(x, &(struct cv_item){.old_block = block_index,
                                      .group = b.group_index,
                                      .object = (uint32_t)object,
                                      .seq = b.seq,
                                      .raw_bytes = b.raw_bytes,
                                      .how = (uint8_t)how_of(x, &b)});
}

static bool
list_blocks(struct cv_repack *x, struct lode_error *err)
{
    uint32_t room = 0;
    uint32_t *order;
    uint32_t count;
    void *p = NULL;

    if (!lode_reader_order(x->in, &order, &count, err))
        return false;
    for (uint32_t i = 0; i < x->group_count; i++)
        room += x->groups[i].group.object_count *
                x->groups[i].group.blocks_per_object;
    if (!lode_alloc_array((uint64_t)room + count, sizeof(*x->items), "blocks",
                          &p, err)) {
        free(order);
        return false;
    }
    x->items = p;
    for (uint32_t i = 0; i < count; i++)
        add_block(x, order[i]);
    free(order);
    return true;
}

/* The places of a layer's experts stay; who takes which follows the trace. */
static bool
order_group(struct cv_repack *x, uint32_t group, struct lode_error *err)
{
    const struct cv_new_group *n = &x->groups[group];
    uint32_t old_count = n->old->object_count;
    struct cv_item *by_object;
    uint32_t *order = NULL;
    uint32_t at = 0;
    void *p = NULL;
    bool ok;

    if (!lode_alloc_array(n->group.object_count, sizeof(*by_object), "order",
                          &p, err))
        return false;
    by_object = p;
    for (uint32_t i = 0; i < x->item_count; i++)
        if (x->items[i].group == group)
            by_object[x->items[i].object] = x->items[i];
    ok = lode_alloc_array(old_count, sizeof(*order), "order", &p, err);
    if (ok) {
        order = p;
        ok = cv_trace_order(x->trace, n->old->layer, old_count, order, err);
    }
    for (uint32_t i = 0; ok && i < x->item_count; i++) {
        int64_t object;

        if (x->items[i].group != group)
            continue;
        do /* as many stay as there are places */
            object = new_object(n, order[at++]);
        while (object < 0);
        x->items[i] = by_object[object];
    }
    free(by_object);
    free(order);
    return ok;
}

static bool
order_experts(struct cv_repack *x, struct lode_error *err)
{
    for (uint32_t i = 0; i < x->group_count; i++) {
        const struct lode_group *g = x->groups[i].old;

        if (g->kind == LODE_KIND_EXPERT && is_wanted(x, g) &&
            lode_reader_summary(x->in)->present_count ==
                lode_reader_summary(x->in)->block_count &&
            !order_group(x, i, err))
            return false;
    }
    return true;
}

/* ---- volumes ---- */

/* "OUT-L037.lode" for OUT.lode. */
static bool
add_volume(struct cv_repack *x, const char *out_path, const char *what,
           uint32_t *volume, struct lode_error *err)
{
    const char *slash = strrchr(out_path, '/');
    const char *name = slash != NULL ? slash + 1 : out_path;
    size_t bytes = strlen(name);
    char text[LODE_NAME_BYTES_MAX];

    if (bytes > 5 && strcmp(name + bytes - 5, ".lode") == 0)
        bytes -= 5;
    if (bytes > sizeof(text) - 64)
        return lode_fail(err, LODE_E_LIMIT, "%s: name is too long", out_path);
    (void)snprintf(text, sizeof(text), "%.*s-%s.lode", (int)bytes, name, what);
    x->figures.volume_count++;
    return lode_writer_volume(x->w, text, volume, err);
}

static uint32_t
new_block(const struct cv_repack *x, const struct cv_item *item)
{
    return lode_writer_block_index(x->w, x->groups[item->group].handle,
                                   item->object, item->seq);
}

/* Files that everybody wants stay in the head. */
static bool
goes_out(const struct cv_repack *x, const struct cv_item *item)
{
    uint32_t kind = x->groups[item->group].group.kind;

    return kind != LODE_KIND_META && kind != LODE_KIND_ORIGIN;
}

static bool
split_by_layer(struct cv_repack *x, const char *out_path,
               struct lode_error *err)
{
    uint32_t *volumes; /* by layer + 1; 0: none yet */
    void *p = NULL;
    bool ok = true;

    if (!lode_alloc_array(LODE_LAYERS_MAX + 1, sizeof(*volumes), "volumes", &p,
                          err))
        return false;
    volumes = p;
    for (uint32_t i = 0; ok && i < x->item_count; i++) {
        int32_t layer = x->groups[x->items[i].group].group.layer;
        char what[16] = "rest";

        if (!goes_out(x, &x->items[i]))
            continue;
        if (layer >= 0)
            (void)snprintf(what, sizeof(what), "L%03" PRId32, layer);
        if (volumes[layer + 1] == 0)
            ok = add_volume(x, out_path, what, &volumes[layer + 1], err);
        if (ok)
            lode_writer_place(x->w, new_block(x, &x->items[i]),
                              volumes[layer + 1]);
    }
    free(volumes);
    return ok;
}

/* What a block takes in its volume, at most: its extent, record and digests. */
static uint64_t
share_bytes(const struct cv_repack *x, const struct cv_item *item)
{
    const uint64_t index_bytes = 64 + 2 * LODE_DIGEST_BYTES;
    struct lode_block b;

    if (item->how != CV_COPY)
        return padded(x, item->raw_bytes) + index_bytes;
    lode_reader_block(x->in, item->old_block, &b);
    return padded(x, b.stored_bytes) + index_bytes;
}

static bool
split_by_size(struct cv_repack *x, const char *out_path, struct lode_error *err)
{
    const uint64_t rounding = (1 << 17) + (1 << 16); /* superblocks, ends */
    const uint64_t volume_bytes = 128 + 64;          /* in VOLUMES, STRINGS */
    uint64_t left = 0;
    uint64_t index_bytes;
    uint64_t file_bytes;
    uint64_t shared;
    uint32_t volume = 0;

    if (!lode_writer_sizes(x->w, &index_bytes, &file_bytes, err))
        return false;
    shared = index_bytes + rounding -
             (uint64_t)x->item_count * (64 + LODE_DIGEST_BYTES) +
             (file_bytes / x->opt.split_bytes + 2) * volume_bytes;
    for (uint32_t i = 0; i < x->item_count; i++) {
        uint64_t bytes = share_bytes(x, &x->items[i]);
        char what[16];

        if (!goes_out(x, &x->items[i]))
            continue;
        if (shared + bytes > x->opt.split_bytes)
            return lode_fail(err, LODE_E_USAGE,
                             "--split: a volume of %" PRIu64
                             " bytes has no room for index and one block, "
                             "which take %" PRIu64,
                             x->opt.split_bytes, shared + bytes);
        if (volume == 0 || bytes > left) {
            (void)snprintf(what, sizeof(what), "%04" PRIu32,
                           x->figures.volume_count + 1);
            if (!add_volume(x, out_path, what, &volume, err))
                return false;
            left = x->opt.split_bytes - shared;
        }
        left -= bytes;
        lode_writer_place(x->w, new_block(x, &x->items[i]), volume);
    }
    return true;
}

/* ---- the plan as a whole ---- */

static void
feed(struct lode_sha256 *s, const void *data, size_t bytes)
{
    lode_sha256_update(s, data, bytes);
}

/* Everything that the new file depends on. */
static bool
digest_plan(struct cv_repack *x, struct lode_error *err)
{
    const struct cv_repack_options *o = &x->opt;
    const struct lode_summary *s = lode_reader_summary(x->in);
    struct lode_sha256 *sha = NULL;
    uint8_t trace[LODE_DIGEST_BYTES] = {0};
    char choice[32];
    char text[512];

    if (!lode_sha256_new(&sha, err))
        return false;
    if (x->trace != NULL)
        cv_trace_digest(x->trace, trace);
    (void)snprintf(text, sizeof(text),
                   "repack %s, zstd %s, codec %s align %" PRIu32
                   " order %d split %d %" PRIu64 " layers %d %" PRId32
                   " %" PRId32 " share %a consume %d",
                   PACKAGE_STRING, lode_pack_version(),
                   o->recode ? cv_choice_name(&o->choice, choice,
                                              sizeof(choice))
                             : "kept",
                   o->align_log2, o->order, o->split, o->split_bytes,
                   o->layers, o->first_layer, o->last_layer, o->drop_share,
                   o->consume);
    feed(sha, text, strlen(text) + 1);
    feed(sha, o->label, strlen(o->label) + 1);
    feed(sha, s->index_digest, LODE_DIGEST_BYTES);
    feed(sha, trace, LODE_DIGEST_BYTES);
    if (x->drop != NULL)
        feed(sha, x->drop, s->block_count);
    lode_sha256_final(sha, x->plan);
    lode_sha256_free(sha);
    return true;
}

/* Free space that is wanted at the worst moment. */
static uint64_t
disk_peak(const struct cv_repack *x)
{
    uint64_t grown = x->figures.index_bytes;
    uint64_t freed = 0;
    uint64_t peak;

    if (!x->opt.consume)
        return x->figures.file_bytes;
    peak = grown;
    for (uint32_t i = 0; i < x->item_count; i++) {
        struct lode_block b;

        grown += share_bytes(x, &x->items[i]);
        if (grown - freed > peak)
            peak = grown - freed;
        lode_reader_block(x->in, x->items[i].old_block, &b);
        if (x->items[i].how != CV_CHANGE)
            freed += b.stored_bytes / 4096U * 4096U;
        if (freed > grown)
            freed = grown;
    }
    /* Blocks are freed in groups. */
    return peak + CV_CONSUME_BYTES;
}

static bool
check_input(const struct cv_repack *x, struct lode_error *err)
{
    const struct lode_summary *s = lode_reader_summary(x->in);

    if (s->volume_index != 0)
        return lode_fail(err, LODE_E_USAGE,
                         "is volume %" PRIu32 " of a set: name its head",
                         s->volume_index);
    if (s->present_count != s->block_count &&
        (x->opt.drop_list != NULL || x->opt.drop_share > 0))
        return lode_fail(err, LODE_E_USAGE,
                         "is partial: experts are dropped from whole "
                         "containers");
    return lode_reader_whole(x->in, err);
}

static bool
build(struct cv_repack *x, const char *out_path, struct lode_error *err)
{
    const struct lode_summary *s = lode_reader_summary(x->in);
    bool prune = x->opt.drop_list != NULL || x->opt.drop_share > 0;
    struct lode_writer_options wo = {
        .align_log2 = x->opt.align_log2,
        .label = x->opt.label,
        .partial = x->opt.layers || s->present_count != s->block_count,
        .packed = x->packing,
        .plan = x->plan,
        .restart = x->opt.restart};

    if ((x->opt.traces != NULL &&
         !cv_trace_load(x->opt.traces, x->in, &x->trace, err)) ||
        !copy_groups(x, err) || (prune && !cv_repack_prune(x, err)) ||
        (prune && !change_provenance(x, err)) || !list_blocks(x, err) ||
        (x->opt.order && !order_experts(x, err)) || !digest_plan(x, err) ||
        !lode_writer_new(out_path, &wo, &x->w, err) || !declare(x, err))
        return false;
    if ((x->opt.split == CV_SPLIT_LAYER && !split_by_layer(x, out_path, err)) ||
        (x->opt.split == CV_SPLIT_SIZE && !split_by_size(x, out_path, err)) ||
        !lode_writer_sizes(x->w, &x->figures.index_bytes,
                           &x->figures.file_bytes, err))
        return false;
    x->figures.file_bytes = x->figures.index_bytes;
    for (uint32_t i = 0; i < x->item_count; i++)
        x->figures.file_bytes += share_bytes(x, &x->items[i]);
    x->figures.needed_bytes = disk_peak(x);
    x->figures.memory_bytes =
        cv_flow_bytes(x->largest_bytes, x->packing, x->jobs) +
        2 * x->figures.index_bytes +
        (uint64_t)x->item_count * sizeof(*x->items) + (8 << 20);
    x->figures.lossless = !prune;
    return true;
}

bool
cv_repack_plan(const struct lode_reader *in, const char *out_path,
               const struct cv_repack_options *opt, uint32_t jobs,
               struct cv_repack **out, struct lode_error *err)
{
    const struct lode_summary *s = lode_reader_summary(in);
    struct cv_repack *x;
    void *p = NULL;

    if (!lode_alloc_array(1, sizeof(*x), "plan", &p, err))
        return false;
    x = p;
    x->in = in;
    x->opt = *opt;
    x->jobs = jobs;
    if (x->opt.label == NULL)
        x->opt.label = s->label;
    if (x->opt.align_log2 == 0)
        x->opt.align_log2 = (uint32_t)__builtin_ctz(s->align_bytes);
    if (!check_input(x, err) ||
        !lode_reader_digests(in, &x->contents, &x->stored, err))
        goto fail;
    x->packing = opt->recode ? opt->choice.codec != CV_CODEC_NONE
                             : x->stored != NULL;
    /* New images in a packed container are packed, too. */
    if (!opt->recode && x->packing)
        x->opt.choice.codec = CV_CODEC_AUTO;
    if (!build(x, out_path, err))
        goto fail;
    *out = x;
    return true;
fail:
    cv_repack_free(x);
    return lode_fail_in(err, "%s", lode_reader_path(in));
}

void
cv_repack_free(struct cv_repack *x)
{
    if (x == NULL)
        return;
    lode_writer_free(x->w);
    for (uint32_t i = 0; i < x->group_count; i++) {
        free(x->groups[i].tensors);
        free(x->groups[i].kept);
        free(x->groups[i].text);
        lode_buf_fini(&x->groups[i].cuts);
    }
    cv_trace_free(x->trace);
    free(x->groups);
    free(x->items);
    free(x->drop);
    free(x->contents);
    free(x->stored);
    free(x);
}

const struct cv_repack_figures *
cv_repack_figures(const struct cv_repack *x)
{
    return &x->figures;
}

const uint8_t *
cv_repack_plan_digest(const struct cv_repack *x)
{
    return x->plan;
}
