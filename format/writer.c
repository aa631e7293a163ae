/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/lode_write.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "format/hash.h"
#include "format/root.h"
#include "format/rules.h"
#include "format/writer_state.h"

struct lode_declared_schema *
lode_writer_schema_at(const struct lode_writer *w, uint32_t i)
{
    return (struct lode_declared_schema *)(void *)w->schemas.data + i;
}

struct lode_declared_group *
lode_writer_group_at(const struct lode_writer *w, uint32_t i)
{
    return (struct lode_declared_group *)(void *)w->groups.data + i;
}

uint64_t
lode_writer_padded_bytes(const struct lode_writer *w, uint32_t bytes)
{
    uint64_t mask = (UINT64_C(1) << w->align_log2) - 1;

    return (bytes + mask) & ~mask;
}

/* ---- 1. declare ---- */

/* One more file that is to be written. */
static bool
add_file(struct lode_writer *w, const char *path, struct lode_error *err)
{
    struct lode_writer_file *files =
        realloc(w->files, (w->file_count + 1U) * sizeof(*files));

    if (files == NULL)
        return lode_fail(err, LODE_E_NOMEM, "out of memory for %s", path);
    w->files = files;
    memset(&files[w->file_count], 0, sizeof(*files));
    if (!lode_output_init(&files[w->file_count].output, path, err))
        return false;
    w->file_count++;
    return true;
}

bool
lode_writer_new(const char *path, const struct lode_writer_options *opt,
                struct lode_writer **out, struct lode_error *err)
{
    const char *label = opt->label != NULL ? opt->label : "";
    struct lode_writer *w;
    void *p = NULL;

    if (opt->align_log2 < LODE_ALIGN_LOG2_MIN ||
        opt->align_log2 > LODE_ALIGN_LOG2_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "alignment 2^%" PRIu32 ", the limits are 2^%u and "
                         "2^%u",
                         opt->align_log2, LODE_ALIGN_LOG2_MIN,
                         LODE_ALIGN_LOG2_MAX);
    if (strlen(label) >= LODE_LABEL_TEXT_BYTES)
        return lode_fail(err, LODE_E_LIMIT,
                         "label of %zu bytes, the limit is %d", strlen(label),
                         LODE_LABEL_TEXT_BYTES - 1);
    if (!lode_rules_text(label, strlen(label), "label", err) ||
        !lode_alloc_array(1, sizeof(*w), "writer", &p, err))
        return false;
    w = p;
    w->journal.fd = -1;
    memcpy(w->label, label, strlen(label));
    w->align_log2 = opt->align_log2;
    w->partial = opt->partial;
    w->packed = opt->packed;
    w->restart = opt->restart;
    w->journaled = opt->plan != NULL;
    if (opt->plan != NULL)
        memcpy(w->plan, opt->plan, LODE_DIGEST_BYTES);
    if (!lode_strndup(path, strlen(path), &w->path, err) ||
        !lode_strings_init(&w->strings, err) || !add_file(w, path, err)) {
        lode_writer_free(w);
        return false;
    }
    *out = w;
    return true;
}

/* Unfinished work is kept where a journal tells what it is worth. */
void
lode_writer_free(struct lode_writer *w)
{
    bool keep;

    if (w == NULL)
        return;
    keep = w->keep || (w->journaled && w->written_count != 0);
    /* First, so that it never tells of files that are gone. */
    lode_journal_close(&w->journal, !keep);
    for (uint32_t i = 0; i < w->file_count; i++) {
        w->files[i].output.keep = keep;
        lode_output_fini(&w->files[i].output);
    }
    free(w->files);
    lode_strings_fini(&w->strings);
    lode_buf_fini(&w->schemas);
    lode_buf_fini(&w->tensor_records);
    lode_buf_fini(&w->groups);
    lode_buf_fini(&w->notes);
    free(w->sorted);
    free(w->records);
    free(w->contents);
    free(w->stored);
    free(w->volume_of);
    free(w->order);
    free(w->path);
    free(w);
}

/* The schema that is equal to s, or -1. */
static int64_t
find_schema(const struct lode_writer *w, const struct lode_declared_schema *s,
            const uint8_t *records)
{
    size_t bytes = (size_t)s->schema.tensor_count * LODE_TENSOR_RECORD_BYTES;

    for (uint32_t i = 0; i < w->schema_count; i++) {
        const struct lode_declared_schema *d = lode_writer_schema_at(w, i);

        if (d->hash == s->hash &&
            d->schema.object_raw_bytes == s->schema.object_raw_bytes &&
            d->schema.tensor_count == s->schema.tensor_count &&
            (bytes == 0 || memcmp(w->tensor_records.data +
                                      (size_t)d->schema.first_tensor_index *
                                          LODE_TENSOR_RECORD_BYTES,
                                  records, bytes) == 0))
            return i;
    }
    return -1;
}

/* Append the records of tensors to b. */
static bool
encode_tensors(struct lode_writer *w, const struct lode_tensor *tensors,
               uint32_t tensor_count, struct lode_buf *b,
               struct lode_error *err)
{
    for (uint32_t i = 0; i < tensor_count; i++) {
        struct lode_tensor_record r = {.tensor = tensors[i]};
        uint8_t raw[LODE_TENSOR_RECORD_BYTES];

        if (!lode_strings_add(&w->strings, tensors[i].name, &r.name_ref, err) ||
            !lode_strings_add(&w->strings, tensors[i].encoding, &r.encoding_ref,
                              err) ||
            !lode_strings_add(&w->strings, tensors[i].dtype, &r.dtype_ref, err))
            return lode_fail_in(err, "tensor %" PRIu32, i);
        lode_tensor_encode(&r, raw);
        if (!lode_buf_append(b, raw, sizeof(raw), err))
            return false;
    }
    return true;
}

static bool
add_schema(struct lode_writer *w, const struct lode_declared_schema *s,
           const struct lode_buf *records, struct lode_error *err)
{
    struct lode_declared_schema d = *s;

    if (w->schema_count == LODE_SCHEMAS_MAX ||
        d.schema.tensor_count > LODE_TENSORS_MAX - w->tensor_count)
        return lode_fail(err, LODE_E_LIMIT,
                         "more than %u schemas or %u tensors", LODE_SCHEMAS_MAX,
                         LODE_TENSORS_MAX);
    d.schema.first_tensor_index = w->tensor_count;
    if (!lode_buf_append(&w->tensor_records, records->data, records->used_bytes,
                         err) ||
        !lode_buf_append(&w->schemas, &d, sizeof(d), err))
        return false;
    w->schema_count++;
    w->tensor_count += d.schema.tensor_count;
    return true;
}

bool
lode_writer_schema(struct lode_writer *w, const struct lode_tensor *tensors,
                   uint32_t tensor_count, uint64_t object_raw_bytes,
                   uint32_t *schema_index, struct lode_error *err)
{
    struct lode_declared_schema s = {
        .schema = {.object_raw_bytes = object_raw_bytes,
                   .tensor_count = tensor_count,
                   .segment_count = 1}};
    struct lode_buf records = {0};
    int64_t found;
    bool good = false;

    assert(!w->numbered);
    if (tensor_count > 0)
        s.schema.segment_count = tensors[tensor_count - 1].segment + 1U;
    if (!lode_rules_schema(tensors, tensor_count, object_raw_bytes,
                           s.schema.segment_count, err) ||
        !encode_tensors(w, tensors, tensor_count, &records, err))
        goto out;
    s.hash = lode_hash(records.data != NULL ? records.data : (uint8_t *)"",
                       records.used_bytes);
    lode_root_schema(tensors, tensor_count, s.digest);
    found = find_schema(w, &s, records.data);
    good = found >= 0 || add_schema(w, &s, &records, err);
    if (good)
        *schema_index = found >= 0 ? (uint32_t)found : w->schema_count - 1;
out:
    lode_buf_fini(&records);
    return good;
}

bool
lode_writer_fail_in_group(const struct lode_group *g, struct lode_error *err)
{
    return lode_fail_in(
        err, "group \"%.100s\" (kind %" PRIu32 ", layer %" PRId32 ")", g->name,
        g->kind, g->layer);
}

/* How an object is cut into blocks. */
static bool
cut_object(struct lode_group *g, const struct lode_group_spec *spec,
           struct lode_error *err)
{
    uint64_t blocks = spec->object_raw_bytes != 0;

    if (spec->block_raw_bytes != 0 &&
        spec->object_raw_bytes > spec->block_raw_bytes)
        blocks = (spec->object_raw_bytes - 1) / spec->block_raw_bytes + 1;
    else if (spec->object_raw_bytes > LODE_BLOCK_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "group \"%.100s\": block of %" PRIu64
                         " bytes, the limit is %" PRIu64,
                         spec->name, spec->object_raw_bytes,
                         LODE_BLOCK_BYTES_MAX);
    /* One spelling: an object of one block has blocks of its own size. */
    g->block_raw_bytes =
        blocks > 1 ? spec->block_raw_bytes : (uint32_t)spec->object_raw_bytes;
    g->blocks_per_object = blocks > UINT32_MAX ? UINT32_MAX : (uint32_t)blocks;
    return true;
}

bool
lode_writer_group(struct lode_writer *w, const struct lode_group_spec *spec,
                  uint32_t *handle, struct lode_error *err)
{
    struct lode_declared_group d = {0};
    struct lode_group *g = &d.record.group;
    const struct lode_declared_schema *c;

    assert(!w->numbered && spec->schema_index < w->schema_count);
    c = lode_writer_schema_at(w, spec->schema_index);
    g->kind = spec->kind;
    g->layer = spec->layer;
    g->name = spec->name;
    g->object_count = spec->object_count;
    g->schema_index = spec->schema_index;
    g->object_raw_bytes = spec->object_raw_bytes;
    if (!cut_object(g, spec, err))
        return false;
    if (w->group_count == LODE_GROUPS_MAX)
        return lode_fail(err, LODE_E_LIMIT, "more than %u groups",
                         LODE_GROUPS_MAX);
    if (!lode_rules_group(g, err) ||
        !lode_strings_add(&w->strings, g->name, &d.record.name_ref, err))
        return lode_writer_fail_in_group(g, err);
    if (g->object_raw_bytes != c->schema.object_raw_bytes) {
        lode_fail(err, LODE_E_CORRUPT,
                  "objects of %" PRIu64 " bytes, its schema has %" PRIu64,
                  g->object_raw_bytes, c->schema.object_raw_bytes);
        return lode_writer_fail_in_group(g, err);
    }
    memcpy(g->schema_digest, c->digest, LODE_DIGEST_BYTES);
    if (!lode_buf_append(&w->groups, &d, sizeof(d), err))
        return false;
    *handle = w->group_count++;
    return true;
}

/* ---- the layout that follows from what was declared ---- */

static int
compare_groups(const void *a, const void *b)
{
    return lode_rules_group_order(
        &(*(struct lode_declared_group *const *)a)->record.group,
        &(*(struct lode_declared_group *const *)b)->record.group);
}

/* Number groups and blocks in file order (spec 5.3). */
static bool
number_groups(struct lode_writer *w, struct lode_declared_group **order,
              struct lode_error *err)
{
    uint64_t block_count = 0;

    for (uint32_t i = 0; i < w->group_count; i++) {
        order[i] = lode_writer_group_at(w, i);
        order[i]->record.group.name =
            lode_strings_at(&w->strings, order[i]->record.name_ref);
    }
    qsort(order, w->group_count, sizeof(*order), compare_groups);
    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_group *g = &order[i]->record.group;

        if (i > 0 && lode_rules_group_order(&w->sorted[i - 1], g) == 0) {
            lode_fail(err, LODE_E_CORRUPT, "is declared twice");
            return lode_writer_fail_in_group(g, err);
        }
        g->first_block_index = (uint32_t)block_count;
        block_count += (uint64_t)g->object_count * g->blocks_per_object;
        if (block_count > LODE_BLOCKS_MAX)
            return lode_fail(err, LODE_E_LIMIT, "more than %u blocks",
                             LODE_BLOCKS_MAX);
        order[i]->position = i;
        w->sorted[i] = *g;
    }
    w->block_count = (uint32_t)block_count;
    return lode_rules_distinct_paths(w->sorted, w->group_count, err);
}

static bool
sort_groups(struct lode_writer *w, struct lode_error *err)
{
    void *order = NULL;
    void *sorted = NULL;
    bool good = false;

    if (lode_alloc_array(w->group_count, sizeof(struct lode_declared_group *),
                         "group order", &order, err) &&
        lode_alloc_array(w->group_count, sizeof(*w->sorted), "groups", &sorted,
                         err)) {
        free(w->sorted);
        w->sorted = sorted;
        good = number_groups(w, order, err);
    }
    free(order);
    return good;
}

/* ---- one spelling ---- */

/* Add the schema of a group to the tables of w, with texts from old. */
static bool
respell_schema(struct lode_writer *w, const struct lode_writer *old,
               uint32_t old_index, uint32_t *new_index, struct lode_error *err)
{
    struct lode_declared_schema d = *lode_writer_schema_at(old, old_index);
    const uint8_t *records =
        old->tensor_records.data +
        (size_t)d.schema.first_tensor_index * LODE_TENSOR_RECORD_BYTES;

    d.schema.first_tensor_index = w->tensor_count;
    for (uint32_t i = 0; i < d.schema.tensor_count; i++) {
        uint8_t raw[LODE_TENSOR_RECORD_BYTES];
        struct lode_tensor_record r;

        lode_tensor_decode(records + (size_t)i * LODE_TENSOR_RECORD_BYTES, &r);
        if (!lode_strings_add(&w->strings,
                              lode_strings_at(&old->strings, r.name_ref),
                              &r.name_ref, err) ||
            !lode_strings_add(&w->strings,
                              lode_strings_at(&old->strings, r.encoding_ref),
                              &r.encoding_ref, err) ||
            !lode_strings_add(&w->strings,
                              lode_strings_at(&old->strings, r.dtype_ref),
                              &r.dtype_ref, err))
            return false;
        lode_tensor_encode(&r, raw);
        if (!lode_buf_append(&w->tensor_records, raw, sizeof(raw), err))
            return false;
    }
    if (!lode_buf_append(&w->schemas, &d, sizeof(d), err))
        return false;
    w->tensor_count += d.schema.tensor_count;
    *new_index = w->schema_count++;
    return true;
}

/* Schemas and texts in the order in which sorted groups want them, so that the
 * file does not depend on the order of declarations: whoever declares the same
 * groups gets the same index. */
static bool
respell_all(struct lode_writer *w, const struct lode_writer *old,
            uint32_t *new_index, struct lode_error *err)
{
    uint32_t ref;

    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_group *g = &w->sorted[i];
        uint32_t *known = &new_index[g->schema_index];

        if (*known == UINT32_MAX &&
            !respell_schema(w, old, g->schema_index, known, err))
            return false;
        g->schema_index = *known;
    }
    for (uint32_t i = 0; i < w->group_count; i++)
        if (!lode_strings_add(&w->strings, w->sorted[i].name, &ref, err))
            return false;
    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_declared_group *d = lode_writer_group_at(w, i);

        d->record.group.schema_index = w->sorted[d->position].schema_index;
        if (!lode_strings_add(&w->strings, w->sorted[d->position].name,
                              &d->record.name_ref, err))
            return false; /* found, not added */
    }
    return true;
}

/* Group names point into STRINGS, which may have moved. */
static void
point_names(struct lode_writer *w)
{
    for (uint32_t i = 0; i < w->group_count; i++) {
        struct lode_declared_group *d = lode_writer_group_at(w, i);

        d->record.group.name = lode_strings_at(&w->strings, d->record.name_ref);
        w->sorted[d->position].name = d->record.group.name;
    }
}

static bool
respell(struct lode_writer *w, struct lode_error *err)
{
    struct lode_writer old = *w; /* only its tables are used */
    void *p = NULL;
    bool good;

    if (!lode_alloc_array(w->schema_count, sizeof(uint32_t), "schemas", &p,
                          err))
        return false;
    memset(p, 0xff, w->schema_count * sizeof(uint32_t));
    memset(&w->schemas, 0, sizeof(w->schemas));
    memset(&w->tensor_records, 0, sizeof(w->tensor_records));
    memset(&w->strings, 0, sizeof(w->strings));
    w->schema_count = w->tensor_count = 0;
    good = lode_strings_init(&w->strings, err) &&
           respell_all(w, &old, p, err);
    free(p);
    if (good)
        point_names(w);
    lode_strings_fini(&old.strings);
    lode_buf_fini(&old.schemas);
    lode_buf_fini(&old.tensor_records);
    return good;
}

/* What is remembered of each block. */
static bool
make_tables(struct lode_writer *w, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(w->block_count, LODE_BLOCK_RECORD_BYTES, "index", &p,
                          err))
        return false;
    w->records = p;
    if (!lode_alloc_array(w->block_count, LODE_DIGEST_BYTES, "digests", &p,
                          err))
        return false;
    w->contents = p;
    if (!lode_alloc_array(w->block_count, LODE_DIGEST_BYTES, "digests", &p,
                          err))
        return false;
    w->stored = p;
    if (!lode_alloc_array(w->block_count, sizeof(*w->order), "order", &p, err))
        return false;
    w->order = p;
    return true;
}

bool
lode_writer_number(struct lode_writer *w, uint32_t *block_count,
                   struct lode_error *err)
{
    assert(!w->numbered);
    if (!sort_groups(w, err) || !respell(w, err))
        return false;
    if (w->block_count > LODE_INDEX_BYTES_MAX /
                             (LODE_BLOCK_RECORD_BYTES + LODE_DIGEST_BYTES))
        return lode_fail(err, LODE_E_LIMIT,
                         "index of %" PRIu32 " blocks, the limit is %" PRIu64
                         " bytes",
                         w->block_count, LODE_INDEX_BYTES_MAX);
    if (!make_tables(w, err))
        return false;
    w->numbered = true;
    w->files[0].record_count = w->block_count;
    *block_count = w->block_count;
    return true;
}

uint32_t
lode_writer_block_index(const struct lode_writer *w, uint32_t handle,
                        uint32_t object_index, uint32_t seq)
{
    const struct lode_group *g =
        &lode_writer_group_at(w, handle)->record.group;

    assert(w->numbered && handle < w->group_count &&
           object_index < g->object_count && seq < g->blocks_per_object);
    return g->first_block_index + object_index * g->blocks_per_object + seq;
}

/* The last group whose first block is not behind it.  Groups without blocks
 * precede the one they share a number with. */
uint32_t
lode_writer_group_of(const struct lode_writer *w, uint32_t block_index)
{
    uint32_t low = 0;
    uint32_t high = w->group_count;

    assert(w->numbered && block_index < w->block_count);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (w->sorted[middle].first_block_index <= block_index)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t
lode_writer_block_raw_bytes(const struct lode_writer *w, uint32_t block_index)
{
    const struct lode_group *g =
        &w->sorted[lode_writer_group_of(w, block_index)];

    return lode_rules_block_raw_bytes(g, (block_index - g->first_block_index) %
                                             g->blocks_per_object);
}

/* ---- sets ---- */

bool
lode_writer_volume(struct lode_writer *w, const char *name,
                   uint32_t *volume_index, struct lode_error *err)
{
    const char *slash = strrchr(w->path, '/');
    size_t folder_bytes = slash != NULL ? (size_t)(slash - w->path) + 1 : 0;
    uint32_t ref = 0;
    void *p = NULL;
    bool ok;

    assert(w->numbered && !w->begun);
    if (w->file_count > LODE_VOLUMES_MAX)
        return lode_fail(err, LODE_E_LIMIT, "more than %u volumes",
                         LODE_VOLUMES_MAX);
    if (!lode_rules_volume_name(name, err) ||
        !lode_strings_add(&w->strings, name, &ref, err) ||
        !lode_alloc_array(folder_bytes + strlen(name) + 1, 1, "path", &p, err))
        return false;
    memcpy(p, w->path, folder_bytes);
    memcpy((char *)p + folder_bytes, name, strlen(name) + 1);
    for (uint32_t i = 0; i < w->file_count; i++)
        if (strcmp(w->files[i].output.path, p) == 0) {
            free(p);
            return lode_fail(err, LODE_E_USAGE,
                             "two files of the set are called %s", name);
        }
    ok = add_file(w, p, err);
    free(p);
    if (!ok || (w->volume_of == NULL &&
                !lode_alloc_array(w->block_count, sizeof(*w->volume_of),
                                  "volumes", &p, err)))
        return false;
    if (w->volume_of == NULL)
        w->volume_of = p;
    point_names(w);
    w->files[w->file_count - 1].name_ref = ref;
    *volume_index = w->file_count - 1;
    return true;
}

void
lode_writer_place(struct lode_writer *w, uint32_t block_index,
                  uint32_t volume_index)
{
    assert(w->volume_of != NULL && !w->begun &&
           volume_index < w->file_count && block_index < w->block_count);
    /* The head lists all blocks, wherever they are. */
    if (w->volume_of[block_index] != 0)
        w->files[w->volume_of[block_index]].record_count--;
    if (volume_index != 0)
        w->files[volume_index].record_count++;
    w->volume_of[block_index] = (uint16_t)volume_index;
}

/* ---- sizes ---- */

static uint64_t
align_up(uint64_t offset, uint64_t align)
{
    return (offset + align - 1) & ~(align - 1); /* far below 2^64 */
}

/* Spec 4.1: sections in the order of their types, the cold ones last. */
bool
lode_writer_place_sections(const struct lode_writer *w,
                           struct lode_writer_file *f, struct lode_error *err)
{
    bool head = w->file_count > 1 && f == w->files;
    const struct {
        uint32_t type;
        uint32_t count;
        uint32_t record_bytes;
        uint32_t flags;
        bool wanted;
    } plan[] = {
        {LODE_SECTION_VOLUMES, w->file_count - 1, LODE_VOLUME_RECORD_BYTES,
         LODE_SECTION_CRITICAL, head},
        {LODE_SECTION_GROUPS, w->group_count, LODE_GROUP_RECORD_BYTES,
         LODE_SECTION_CRITICAL, true},
        {LODE_SECTION_SCHEMAS, w->schema_count, LODE_SCHEMA_RECORD_BYTES,
         LODE_SECTION_CRITICAL, true},
        {LODE_SECTION_TENSORS, w->tensor_count, LODE_TENSOR_RECORD_BYTES,
         LODE_SECTION_CRITICAL, true},
        {LODE_SECTION_STRINGS, (uint32_t)w->strings.bytes.used_bytes, 1,
         LODE_SECTION_CRITICAL, true},
        {LODE_SECTION_BLOCKS, f->record_count, LODE_BLOCK_RECORD_BYTES,
         LODE_SECTION_CRITICAL, true},
        {LODE_SECTION_CONTENT_DIGESTS, f->record_count, LODE_DIGEST_BYTES,
         LODE_SECTION_COLD, true},
        {LODE_SECTION_STORED_DIGESTS, f->record_count, LODE_DIGEST_BYTES,
         LODE_SECTION_COLD, w->packed},
        {LODE_SECTION_ORDER, f->record_count, LODE_ORDER_RECORD_BYTES,
         LODE_SECTION_COLD, head && !w->partial},
    };
    struct lode_superblock *sb = &f->sb;
    uint64_t at = LODE_INDEX_OFFSET;

    sb->section_count = 0;
    sb->hot_offset = at;
    for (size_t i = 0; i < sizeof(plan) / sizeof(plan[0]); i++) {
        struct lode_section *s = &sb->sections[sb->section_count];
        bool cold = (plan[i].flags & LODE_SECTION_COLD) != 0;

        if (!plan[i].wanted)
            continue;
        sb->section_count++;
        at = align_up(at,
                      cold ? LODE_COLD_ALIGN_BYTES : LODE_SECTION_ALIGN_BYTES);
        s->type = plan[i].type;
        s->flags = plan[i].flags;
        s->offset = at;
        s->count = plan[i].count;
        s->record_bytes = plan[i].record_bytes;
        s->bytes = (uint64_t)s->count * s->record_bytes;
        at += s->bytes;
        if (!cold)
            sb->hot_bytes = at - sb->hot_offset;
    }
    sb->data_offset = align_up(at, LODE_DATA_ALIGN_BYTES);
    if (sb->data_offset - LODE_INDEX_OFFSET > LODE_INDEX_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "index of %" PRIu64 " bytes, the limit is %" PRIu64,
                         sb->data_offset - LODE_INDEX_OFFSET,
                         LODE_INDEX_BYTES_MAX);
    return true;
}

bool
lode_writer_sizes(struct lode_writer *w, uint64_t *index_bytes,
                  uint64_t *file_bytes, struct lode_error *err)
{
    assert(w->numbered);
    *index_bytes = 0;
    for (uint32_t i = 0; i < w->file_count; i++) {
        if (!lode_writer_place_sections(w, &w->files[i], err))
            return false;
        *index_bytes += w->files[i].sb.data_offset;
    }
    *file_bytes = *index_bytes;
    for (uint32_t i = 0; i < w->group_count; i++) {
        const struct lode_group *g = &w->sorted[i];
        uint64_t object = 0;

        if (g->blocks_per_object == 0)
            continue;
        object = (g->blocks_per_object - 1) *
                     lode_writer_padded_bytes(w, g->block_raw_bytes) +
                 lode_writer_padded_bytes(w, lode_rules_block_raw_bytes(
                                                 g, g->blocks_per_object - 1));
        *file_bytes += object * g->object_count; /* at most 2^24 x 2^30 */
    }
    return true;
}
