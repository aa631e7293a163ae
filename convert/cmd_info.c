/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/cmd.h"
#include "convert/input.h"
#include "convert/origin.h"
#include "convert/summary.h"
#include "format/lode.h"
#include "format/role.h"

enum { CONFIG_BYTES_MAX = 16 << 20, PROVENANCE_BYTES_MAX = 64 << 20 };

struct options {
    const char *file;
    const char *expect_root;
    struct lode_opt_list folders;
    bool blocks;
    bool json;
};

struct facts {
    struct lode_reader *r;
    const struct lode_summary *sum;
    struct cv_summary parts;
    json_t *config;     /* NULL: none carried */
    json_t *provenance; /* likewise */
    const char *family;
    uint64_t file_count; /* of the source */
    uint64_t chosen;     /* experts a token, 0: not said */
    uint64_t active_count;
    uint32_t layer_count;
    uint32_t moe_count;
    uint32_t expert_count;
    uint32_t absent_count;
    bool lossless;
    bool pruned;
};

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"blocks", 'b', LODE_OPT_FLAG, &o->blocks, NULL, "list every block"},
        CV_OPT_DIR(&o->folders),
        CV_OPT_EXPECT(&o->expect_root),
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL, "print JSON"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode info [OPTION]... FILE",
        "Say what container FILE holds.  Reads its index and metadata, no "
        "weights."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 1)
        return lode_fail(err, LODE_E_USAGE,
                         "expected one container, found %d arguments",
                         argc - first);
    o->file = argv[first];
    return true;
}

static bool
load_json(struct lode_reader *r, uint32_t kind, const char *name,
          uint64_t max_bytes, json_t **out, struct lode_error *err)
{
    int64_t group = lode_reader_find(r, kind, -1, name);
    struct lode_block first;
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (group < 0 || lode_reader_group(r, (uint32_t)group)
                             ->blocks_per_object == 0)
        return true;
    lode_reader_block(
        r, lode_reader_group(r, (uint32_t)group)->first_block_index, &first);
    if (!lode_reader_here(r, &first)) /* only the index is here */
        return true;
    if (!lode_reader_load_file(r, kind, name, max_bytes, &text, &bytes, err))
        return false;
    if (text == NULL)
        return true;
    ok = lode_json_parse(text, bytes, out, err);
    free(text);
    return ok || lode_fail_in(err, "%s: %s", lode_reader_path(r), name);
}

static void
add_group(struct facts *f, const struct lode_group *g)
{
    const struct lode_tensor *tensors;
    uint32_t count;

    tensors = lode_reader_schema(f->r, g->schema_index, &count);
    cv_summary_add(&f->parts, g, tensors, count);
    if (g->kind == LODE_KIND_TRUNK && g->layer >= 0)
        f->layer_count++;
    if (g->kind != LODE_KIND_EXPERT)
        return;
    f->moe_count++;
    if (g->object_count > f->expert_count)
        f->expert_count = g->object_count;
}

/* Weights that one token is multiplied with: of the experts the chosen share,
 * of the embedding one row (all of it where it serves as head). */
static uint64_t
count_active(const struct facts *f)
{
    const struct cv_part *p = f->parts.parts;
    uint64_t active = p[CV_PART_TRUNK].parameter_count +
                      p[CV_PART_OUTPUT].parameter_count;
    int64_t output = lode_reader_find(f->r, LODE_KIND_TRUNK, -1, "output");
    bool has_head = false;

    if (f->expert_count != 0)
        active += p[CV_PART_EXPERTS].parameter_count / f->expert_count *
                  f->chosen;
    if (output >= 0) {
        const struct lode_tensor *t;
        uint32_t count;

        t = lode_reader_schema(
            f->r, lode_reader_group(f->r, (uint32_t)output)->schema_index,
            &count);
        for (uint32_t i = 0; i < count; i++)
            has_head = has_head || t[i].role == LODE_ROLE_HEAD;
    }
    return active +
           (has_head ? 0 : p[CV_PART_EMBEDDING].parameter_count);
}

/* A model type is a word; anything else is not put on a terminal. */
static const char *
family_of(const json_t *config)
{
    const char *name = json_string_value(json_object_get(config,
                                                         "model_type"));

    if (name == NULL)
        return NULL;
    for (const char *p = name; *p != '\0'; p++)
        if (*p <= 0x20 || *p >= 0x7f)
            return NULL;
    return name;
}

static bool
gather(struct facts *f, struct lode_error *err)
{
    const json_t *text;
    const json_t *source;
    const char *experts;

    f->sum = lode_reader_summary(f->r);
    cv_summary_init(&f->parts);
    for (uint32_t i = 0; i < f->sum->group_count; i++)
        add_group(f, lode_reader_group(f->r, i));
    f->absent_count = f->sum->block_count - f->sum->present_count;
    if (!load_json(f->r, LODE_KIND_META, "config.json", CONFIG_BYTES_MAX,
                   &f->config, err) ||
        !load_json(f->r, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                   PROVENANCE_BYTES_MAX, &f->provenance, err))
        return false;
    f->family = family_of(f->config);
    text = json_object_get(f->config, "text_config");
    if (!json_is_object(text))
        text = f->config;
    if (json_is_integer(json_object_get(text, "num_experts_per_token")) &&
        !lode_json_u64(text, "num_experts_per_token", 0, f->expert_count,
                       &f->chosen, err))
        return lode_fail_in(err, "%s: config.json", lode_reader_path(f->r));
    source = json_object_get(f->provenance, "source");
    f->file_count = json_array_size(json_object_get(source, "files"));
    f->lossless = json_is_true(json_object_get(f->provenance, "lossless"));
    experts = json_string_value(json_object_get(
        json_object_get(f->provenance, "recipe"), "experts"));
    f->pruned = experts != NULL && strcmp(experts, "pruned") == 0;
    f->active_count = count_active(f);
    return true;
}

/* "6.12 billion" is read faster than ten digits. */
static const char *
format_count(uint64_t n, char *out, size_t out_bytes)
{
    static const char *const unit[] = {"", " thousand", " million",
                                       " billion", " trillion"};
    double value = (double)n;
    size_t i = 0;

    while (value >= 999.95 && i < 4) {
        value /= 1000;
        i++;
    }
    (void)snprintf(out, out_bytes, "%.*f%s", i == 0 ? 0 : 2, value, unit[i]);
    return out;
}

static void
print_blocks(const struct facts *f)
{
    char name[256];

    printf("\n%8s %14s %12s %12s  %-16s  %s\n", "block", "offset", "stored",
           "raw", "xxh3", "what");
    for (uint32_t i = 0; i < f->sum->block_count; i++) {
        struct lode_block b;

        lode_reader_block(f->r, i, &b);
        printf("%8" PRIu32 " %14" PRIu64 " %12" PRIu32 " %12" PRIu32
               "  %016" PRIx64 "  %s%s", i, b.offset, b.stored_bytes,
               b.raw_bytes, b.hash,
               lode_reader_block_name(f->r, i, name, sizeof(name)),
               b.present ? "" : " (not in this file)");
        if (f->sum->volume_count > 1 && f->sum->volume_index == 0)
            printf(" in volume %u", b.volume_index);
        printf("\n");
    }
}

static void
print_needs(const struct facts *f)
{
    const struct cv_part *p = f->parts.parts;
    uint64_t always = p[CV_PART_TRUNK].raw_bytes + p[CV_PART_OUTPUT].raw_bytes;
    uint64_t experts = p[CV_PART_EXPERTS].raw_bytes;
    char a[32];
    char b[32];

    printf("  to run     %s in memory in all; from the drive at most %s a "
           "token\n             (lode plan FILE --memory SIZE says what a "
           "budget holds)\n",
           lode_format_bytes(always + experts + p[CV_PART_EMBEDDING].raw_bytes,
                             a, sizeof(a)),
           lode_format_bytes(
               always + (f->expert_count != 0
                             ? experts / f->expert_count * f->chosen
                             : 0), b, sizeof(b)));
}

/* Spec 7.4. */
static bool
root_known(const struct facts *f)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(f->sum->content_root, zero, sizeof(zero)) != 0;
}

/* Of the file, or of all files of a set. */
static uint64_t
set_bytes(const struct facts *f)
{
    uint64_t bytes = f->sum->file_bytes;

    for (uint32_t i = 1;
         f->sum->volume_index == 0 && i < f->sum->volume_count; i++)
        bytes += lode_reader_volume(f->r, i)->file_bytes;
    return bytes;
}

/* Decoded bytes of the blocks that are here. */
static uint64_t
present_raw_bytes(const struct facts *f)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < f->sum->block_count; i++) {
        struct lode_block b;

        lode_reader_block(f->r, i, &b);
        bytes += b.present ? b.raw_bytes : 0;
    }
    return bytes;
}

static void
print_volumes(const struct facts *f)
{
    uint32_t missing = 0;

    if (f->sum->volume_index != 0) {
        printf("  volume     %" PRIu32 " of a set of %" PRIu32 " files\n",
               f->sum->volume_index, f->sum->volume_count);
        return;
    }
    for (uint32_t i = 1; i < f->sum->volume_count; i++) {
        const struct lode_volume *v = lode_reader_volume(f->r, i);

        if (v->path == NULL)
            printf("  missing    volume %s\n", v->name);
        missing += v->path == NULL;
    }
    if (f->sum->volume_count > 1)
        printf("  set        %" PRIu32 " volumes, %" PRIu32 " of them here\n",
               f->sum->volume_count - 1, f->sum->volume_count - 1 - missing);
}

static void
print_text(const struct facts *f)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    char a[32];
    char b[32];

    printf("%s: %s, %s parameters, %s active per token\n",
           lode_reader_path(f->r),
           f->family != NULL ? f->family : "unknown family",
           format_count(f->parts.parameter_count, a, sizeof(a)),
           format_count(f->active_count, b, sizeof(b)));
    if (f->sum->label[0] != '\0')
        printf("  label      %s\n", f->sum->label);
    printf("  layers     %" PRIu32 ", %" PRIu32 " of them with %" PRIu32
           " experts, %" PRIu64 " chosen per token\n", f->layer_count,
           f->moe_count, f->expert_count, f->chosen);
    cv_summary_print(&f->parts);
    printf("  file       %s in %" PRIu32 " blocks aligned to %" PRIu32
           ", index %s\n",
           lode_format_bytes(set_bytes(f), a, sizeof(a)),
           f->sum->present_count, f->sum->align_bytes,
           lode_format_bytes(f->sum->index_bytes, b, sizeof(b)));
    if (f->sum->packed)
        printf("  packed     %s of blocks take %s (zstd)\n",
               lode_format_bytes(present_raw_bytes(f), a, sizeof(a)),
               lode_format_bytes(f->sum->stored_bytes, b, sizeof(b)));
    if (f->absent_count != 0)
        printf("  absent     %" PRIu32 " blocks are not in this file\n",
               f->absent_count);
    print_volumes(f);
    print_needs(f);
    printf("  origin     %" PRIu64 " files, %s\n", f->file_count,
           f->provenance == NULL ? "not recorded"
           : f->lossless         ? "all of them can be extracted bit for bit"
           : f->pruned           ? "experts were dropped, see the provenance"
                                 : "some tensors were left out");
    printf("  written by %s\n", f->sum->writer);
    printf("  root       %s\n", root_known(f)
                                     ? lode_hex(f->sum->content_root, hex)
                                     : "not known, weights are missing");
    printf("  index      %s\n", lode_hex(f->sum->index_digest, hex));
}

static bool
set_int(json_t *o, const char *key, uint64_t value)
{
    return lode_json_set(o, key, json_integer((json_int_t)value));
}

static json_t *
blocks_json(const struct facts *f)
{
    json_t *list = json_array();
    bool ok = true;

    for (uint32_t i = 0; ok && i < f->sum->block_count; i++) {
        json_t *o = json_object();
        struct lode_block b;
        char name[256];
        char hash[17];

        lode_reader_block(f->r, i, &b);
        (void)snprintf(hash, sizeof(hash), "%016" PRIx64, b.hash);
        ok = lode_json_set(o, "name",
                           json_string(lode_reader_block_name(
                               f->r, i, name, sizeof(name)))) &&
             set_int(o, "offset", b.offset) &&
             set_int(o, "stored_bytes", b.stored_bytes) &&
             set_int(o, "raw_bytes", b.raw_bytes) &&
             lode_json_set(o, "xxh3", json_string(hash)) &&
             lode_json_set(o, "present", json_boolean(b.present));
        ok = lode_json_push(list, o) && ok;
    }
    if (ok)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *
share(json_t *value)
{
    return value != NULL ? json_incref(value) : json_null();
}

static bool
print_json(const struct facts *f, bool blocks, struct lode_error *err)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    json_t *o = json_object();
    bool ok;

    ok = lode_json_set(o, "file", json_string(lode_reader_path(f->r))) &&
         lode_json_set(o, "family", f->family != NULL ? json_string(f->family)
                                                      : json_null()) &&
         lode_json_set(o, "label", json_string(f->sum->label)) &&
         set_int(o, "parameters", f->parts.parameter_count) &&
         set_int(o, "active_parameters", f->active_count) &&
         set_int(o, "layers", f->layer_count) &&
         set_int(o, "moe_layers", f->moe_count) &&
         set_int(o, "experts", f->expert_count) &&
         set_int(o, "experts_per_token", f->chosen) &&
         lode_json_set(o, "parts", cv_summary_json(&f->parts)) &&
         set_int(o, "file_bytes", set_bytes(f)) &&
         set_int(o, "stored_bytes", f->sum->stored_bytes) &&
         set_int(o, "volumes", f->sum->volume_count - 1) &&
         set_int(o, "index_bytes", f->sum->index_bytes) &&
         set_int(o, "align_bytes", f->sum->align_bytes) &&
         set_int(o, "blocks", f->sum->block_count) &&
         set_int(o, "absent_blocks", f->absent_count) &&
         lode_json_set(o, "lossless", json_boolean(f->lossless)) &&
         lode_json_set(o, "writer", json_string(f->sum->writer)) &&
         lode_json_set(o, "root",
                       json_string(lode_hex(f->sum->content_root, hex))) &&
         lode_json_set(o, "index_digest",
                       json_string(lode_hex(f->sum->index_digest, hex))) &&
         lode_json_set(o, "provenance", share(f->provenance));
    if (ok && blocks)
        ok = lode_json_set(o, "block_list", blocks_json(f));
    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

int
cmd_info(int argc, char **argv)
{
    struct options o = {0};
    struct facts f = {0};
    struct lode_error err = {0};
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && cv_input_open(o.file, &o.folders, o.expect_root, &f.r, &err) &&
         gather(&f, &err) &&
         (!o.json || print_json(&f, o.blocks, &err));
    if (ok && !o.json)
        print_text(&f);
    if (ok && !o.json && o.blocks)
        print_blocks(&f);
    json_decref(f.config);
    json_decref(f.provenance);
    lode_reader_close(f.r);
    return ok ? 0 : lode_cli_report("lode info", &err);
}
