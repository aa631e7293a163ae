/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "convert/checkpoint.h"
#include "convert/cmd.h"
#include "convert/cmd_forecast.h"
#include "convert/consume.h"
#include "convert/identity.h"
#include "convert/leftover.h"
#include "convert/naming.h"
#include "convert/notes.h"
#include "convert/pipeline.h"
#include "convert/plan.h"
#include "convert/summary.h"
#include "convert/vocabulary.h"
#include "format/lode_write.h"

#define DEFAULT_CODEC "auto"

enum { CONFIG_BYTES_MAX = 16 << 20 };

struct options {
    struct cv_checkpoint_options checkpoint;
    const char *source;
    const char *out;
    const char *label;
    const char *codec;
    struct cv_pipeline_options pipeline;
    uint64_t align;
    uint64_t jobs;
    bool archive;
    bool fast;
    bool restart;
    bool ignore_space;
    bool dry_run;
    bool json;
    bool text_only;
    bool keep_unknown;
    bool quiet;
    bool force;
};

/* Everything that is known before a byte is written. */
struct work {
    const struct options *opt;
    struct cv_notes notes;
    json_t *config;
    struct cv_checkpoint *c;
    struct cv_model *m;
    struct cv_plan *plan;
    struct lode_writer *w;
    struct cv_summary summary;
    struct cv_forecast forecast;
    uint64_t index_bytes;
    uint64_t file_bytes;
    uint64_t needed_bytes; /* of the drive, at most */
    uint64_t free_bytes; /* of the drive that OUT lies on */
    uint64_t memory_bytes;
    uint32_t block_count;
    uint64_t consume_bytes; /* the same with --consume */
    double seconds;
    bool was_finished;
    uint32_t done_count; /* blocks that an earlier run has written */
    uint8_t plan_digest[LODE_DIGEST_BYTES];
    uint8_t root[LODE_DIGEST_BYTES];
};

static bool
check_codec(struct options *o, struct lode_error *err)
{
    if ((o->codec != NULL) + o->archive + o->fast > 1)
        return lode_fail(err, LODE_E_USAGE,
                         "--codec, --archive and --fast exclude each other");
    return cv_choice_parse(o->archive         ? "archive"
                           : o->fast          ? "none"
                           : o->codec != NULL ? o->codec
                                              : DEFAULT_CODEC,
                           &o->pipeline.choice, err);
}

static bool
check_options(struct options *o, struct lode_error *err)
{
    if (o->checkpoint.include_unindexed && o->checkpoint.skip_unindexed)
        return lode_fail(err, LODE_E_USAGE,
                         "--include-unindexed and --skip-unindexed exclude "
                         "each other");
    if (o->align == 0 || (o->align & (o->align - 1)) != 0 ||
        o->align < 1U << LODE_ALIGN_LOG2_MIN ||
        o->align > 1U << LODE_ALIGN_LOG2_MAX)
        return lode_fail(err, LODE_E_USAGE,
                         "--align: %" PRIu64 " is not 4K, 8K, 16K, 32K or 64K",
                         o->align);
    if (o->jobs < 1 || o->jobs > CV_JOBS_MAX)
        return lode_fail(err, LODE_E_USAGE,
                         "--jobs: %" PRIu64 " is not between 1 and %d",
                         o->jobs, CV_JOBS_MAX);
    if (o->pipeline.consume && o->checkpoint.headers_only)
        return lode_fail(err, LODE_E_USAGE,
                         "--consume and --index-only exclude each other");
    if (o->pipeline.consume && o->text_only)
        return lode_fail(err, LODE_E_USAGE,
                         "--consume and --text-only exclude each other: what "
                         "is left out would be lost");
    o->pipeline.jobs = (uint32_t)o->jobs;
    o->pipeline.align_bytes = (uint32_t)o->align;
    o->pipeline.journal = !o->checkpoint.headers_only;
    o->checkpoint.take_consumed = o->pipeline.consume;
    return check_codec(o, err);
}

/* Two threads for digests saturate what a drive delivers; more is allowed. */
static uint64_t
default_jobs(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 8 ? 8 : (uint64_t)n;
}

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"dry-run", 'n', LODE_OPT_FLAG, &o->dry_run, NULL,
         "say what would be written, and write nothing"},
        {"text-only", 0, LODE_OPT_FLAG, &o->text_only, NULL,
         "leave out vision tensors"},
        {"keep-unknown", 0, LODE_OPT_FLAG, &o->keep_unknown, NULL,
         "carry tensors that no rule of the family names"},
        {"align", 0, LODE_OPT_SIZE, &o->align, "SIZE",
         "alignment of blocks, 4K (default) to 64K"},
        {"include-unindexed", 0, LODE_OPT_FLAG,
         &o->checkpoint.include_unindexed, NULL,
         "take tensors that the index does not name"},
        {"skip-unindexed", 0, LODE_OPT_FLAG, &o->checkpoint.skip_unindexed,
         NULL, "leave them out"},
        {"rebuild-index", 0, LODE_OPT_FLAG, &o->checkpoint.rebuild_index, NULL,
         "go by the headers of the shards, not by the index"},
        {"follow-symlinks", 0, LODE_OPT_FLAG, &o->checkpoint.follow_symlinks,
         NULL, "allow links that leave the folder"},
        {"codec", 0, LODE_OPT_TEXT, &o->codec, "CODEC",
         "auto, none, zstd, zstd:LEVEL or archive"},
        {"archive", 0, LODE_OPT_FLAG, &o->archive, NULL,
         "as small as possible: --codec archive"},
        {"fast", 0, LODE_OPT_FLAG, &o->fast, NULL,
         "as fast to read as possible: --codec none"},
        {"consume", 0, LODE_OPT_FLAG, &o->pipeline.consume, NULL,
         "give up the shards on the way: for drives without room for both"},
        {"ignore-space", 0, LODE_OPT_FLAG, &o->ignore_space, NULL,
         "begin although the drive seems too small"},
        {"restart", 0, LODE_OPT_FLAG, &o->restart, NULL,
         "throw away unfinished work instead of going on with it"},
        {"jobs", 'j', LODE_OPT_U64, &o->jobs, "N",
         "threads for packing and digests"},
        {"label", 0, LODE_OPT_TEXT, &o->label, "TEXT",
         "a name that lode info shows"},
        {"index-only", 0, LODE_OPT_FLAG, &o->checkpoint.headers_only, NULL,
         "write no weights; their data may be missing"},
        {"force", 'f', LODE_OPT_FLAG, &o->force, NULL,
         "replace OUT if it exists"},
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL,
         "print the plan and the result as JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL,
         "print errors only"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode convert [OPTION]... SRC OUT",
        "Turn the checkpoint in folder SRC into the container OUT."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 2)
        return lode_fail(err, LODE_E_USAGE,
                         "expected the folder of a checkpoint and the name of "
                         "the container, found %d arguments", argc - first);
    o->source = argv[first];
    o->out = argv[first + 1];
    return check_options(o, err);
}

static bool
read_config(struct work *k, struct lode_error *err)
{
    char *path = NULL;
    char *text = NULL;
    size_t bytes;
    struct stat st;
    bool ok = false;

    if (stat(k->opt->source, &st) != 0)
        return lode_fail_errno(err, "%s", k->opt->source);
    if (!S_ISDIR(st.st_mode))
        return lode_fail(err, LODE_E_USAGE,
                         "%s: expected the folder of a checkpoint, found a "
                         "file", k->opt->source);
    if (!lode_path_join(k->opt->source, "config.json", &path, err))
        return false;
    if (lode_file_slurp(path, CONFIG_BYTES_MAX, &text, &bytes, err)) {
        ok = lode_json_parse(text, bytes, &k->config, err);
        if (!ok)
            lode_fail_in(err, "%s", path);
    }
    free(text);
    free(path);
    return ok;
}

static bool
open_checkpoint(struct work *k, struct lode_error *err)
{
    struct cv_checkpoint_options opt = k->opt->checkpoint;
    const struct cv_family *family;

    if (!read_config(k, err))
        return false;
    if (!cv_family_find(k->config, &family, err))
        return lode_fail_in(err, "%s/config.json", k->opt->source);
    if (k->opt->text_only)
        opt.skip_prefixes = family->aux_prefixes;
    if (!cv_checkpoint_open(k->opt->source, &opt, &k->c, &k->notes, err))
        return false;
    if (k->c->skipped_count != 0 &&
        !cv_notes_add(&k->notes, err,
                      "left out: %" PRIu32 " vision tensors; their shards "
                      "cannot be extracted again", k->c->skipped_count))
        return false;
    if (k->c->unaligned_count != 0 &&
        !cv_notes_add(&k->notes, err,
                      "%" PRIu32 " tensors are not aligned in their shards; in "
                      "the container they are", k->c->unaligned_count))
        return false;
    return cv_model_build(k->config, k->c, k->opt->keep_unknown, &k->m,
                          &k->notes, err) &&
           cv_vocabulary_check(k->opt->source, k->m->dim[CV_DIM_VOCABULARY],
                               err);
}

/* The catalogue, the plan, the index and the blocks in flight. */
static uint64_t
memory_needed(const struct work *k)
{
    const uint64_t rest = 8 << 20;

    return k->c->tensor_count * (sizeof(struct cv_tensor) + 72) +
           k->plan->block_count * sizeof(struct cv_block) + k->index_bytes +
           cv_pipeline_bytes(k->plan, &k->opt->pipeline) + rest;
}

/* What stands for this conversion in a journal. */
static bool
identify(struct work *k, struct lode_error *err)
{
    const struct options *o = k->opt;
    char codec[32];
    char text[512];

    (void)snprintf(text, sizeof(text),
                   "convert %s, zstd %s, codec %s align %" PRIu64
                   " text-only %d keep-unknown %d unindexed %d %d rebuild %d "
                   "label %s",
                   PACKAGE_STRING,
                   o->pipeline.choice.codec != CV_CODEC_NONE
                       ? lode_pack_version()
                       : "raw",
                   cv_choice_name(&o->pipeline.choice, codec, sizeof(codec)),
                   o->align, o->text_only, o->keep_unknown,
                   o->checkpoint.include_unindexed,
                   o->checkpoint.skip_unindexed, o->checkpoint.rebuild_index,
                   o->label != NULL ? o->label : "");
    return cv_identity(k->c, text, k->plan_digest, err);
}

static bool
estimate(const struct work *k, const struct cv_choice *choice,
         struct cv_estimate *out, struct lode_error *err)
{
    return cv_estimate_plan(k->plan, choice, (uint32_t)k->opt->align,
                            k->index_bytes, !k->opt->checkpoint.headers_only,
                            out, err);
}

static bool
make_plan(struct work *k, struct lode_error *err)
{
    struct lode_writer_options wo = {
        .label = k->opt->label,
        .partial = k->opt->checkpoint.headers_only,
        .packed = k->opt->pipeline.choice.codec != CV_CODEC_NONE,
        .plan = k->opt->pipeline.journal ? k->plan_digest : NULL,
        .restart = k->opt->restart};

    while (UINT64_C(1) << wo.align_log2 < k->opt->align)
        wo.align_log2++;
    if (!identify(k, err) || !cv_plan_build(k->c, k->m, &k->plan, err) ||
        !lode_writer_new(k->opt->out, &wo, &k->w, err) ||
        !cv_plan_declare(k->plan, k->w, err) ||
        !lode_writer_sizes(k->w, &k->index_bytes, &k->file_bytes, err))
        return false;
    cv_summary_init(&k->summary);
    for (uint32_t i = 0; i < k->plan->group_count; i++) {
        const struct cv_group *g = &k->plan->groups[i];
        struct lode_group group = {0};

        group.kind = g->kind;
        group.layer = g->layer;
        group.object_count = g->object_count;
        group.object_raw_bytes = g->object_raw_bytes;
        group.blocks_per_object = cv_blocks_per_object(g);
        k->block_count += g->object_count * group.blocks_per_object;
        cv_summary_add(&k->summary, &group, g->tensors, g->tensor_count);
    }
    k->needed_bytes =
        !wo.partial ? k->file_bytes
                       : k->index_bytes +
                             k->summary.parts[CV_PART_FILES].raw_bytes;
    k->free_bytes = cv_space_free(k->opt->out);
    k->memory_bytes = memory_needed(k);
    if (!cv_pipeline_consume_peak(k->plan, k->index_bytes, k->opt->align,
                                  &k->consume_bytes, err))
        return false;
    if (k->opt->pipeline.consume)
        k->needed_bytes = k->consume_bytes;
    return estimate(k, &k->opt->pipeline.choice, &k->forecast.estimate, err);
}

/* Expected sizes, which may be less than the plan's, and time. */
static void
forecast(struct work *k)
{
    const struct options *o = k->opt;
    const struct cv_source *largest = &k->c->sources[0];
    struct lode_error ignored;
    char *path = NULL;

    if (!o->checkpoint.headers_only && !o->pipeline.consume)
        k->needed_bytes =
            cv_estimate_needed(&k->forecast.estimate, k->file_bytes);
    if (o->checkpoint.headers_only ||
        (!o->dry_run && (o->quiet || k->file_bytes < CV_MEASURE_BYTES)))
        return;
    for (uint32_t i = 0; i < k->c->source_count; i++) {
        const struct cv_source *s = &k->c->sources[i];

        k->forecast.load.read_bytes += s->file_bytes;
        if (s->file_bytes > largest->file_bytes)
            largest = s;
    }
    k->forecast.load.sha256_bytes = k->forecast.load.read_bytes;
    k->forecast.load.digest_bytes = k->plan->raw_bytes;
    k->forecast.load.jobs = o->pipeline.jobs;
    if (lode_path_join(k->c->path, largest->name, &path, &ignored))
        cv_forecast_measure(&k->forecast, path, o->out);
    free(path);
}

static void
print_plan(const struct work *k)
{
    char a[32];
    char b[32];

    printf("%s: %s, %" PRIu64 " parameters in %" PRIu32 " tensors of %" PRIu32
           " shards\n", k->opt->source, k->m->family->name,
           k->summary.parameter_count, k->c->tensor_count, k->c->shard_count);
    cv_summary_print(&k->summary);
    printf("  container  %s at most in %" PRIu32 " blocks, index %s\n",
           lode_format_bytes(k->file_bytes, a, sizeof(a)), k->block_count,
           lode_format_bytes(k->index_bytes, b, sizeof(b)));
    cv_forecast_print(&k->forecast, k->opt->dry_run);
    printf("  drive      %s needed%s, %s free\n",
           lode_format_bytes(k->needed_bytes, a, sizeof(a)),
           k->needed_bytes < k->file_bytes ? "" : " at most",
           lode_format_bytes(k->free_bytes, b, sizeof(b)));
    printf("  memory     %s\n", lode_format_bytes(k->memory_bytes, a,
                                                  sizeof(a)));
    if (k->opt->pipeline.consume)
        printf("  CONSUME    each shard is renamed to NAME" CV_CONSUMED_SUFFIX
               " and loses its data once that is durable in the container; "
               "all are removed at the end\n");
    for (const char *line = cv_notes_next(&k->notes, NULL); line != NULL;
         line = cv_notes_next(&k->notes, line))
        printf("  note       %s\n", line);
    (void)fflush(stdout); /* a long silence may follow */
}

static bool
set_int(json_t *o, const char *key, uint64_t value)
{
    return lode_json_set(o, key, json_integer((json_int_t)value));
}

static json_t *
notes_json(const struct work *k)
{
    json_t *list = json_array();

    for (const char *line = cv_notes_next(&k->notes, NULL); line != NULL;
         line = cv_notes_next(&k->notes, line))
        if (!lode_json_push(list, json_string(line))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static bool
print_json(const struct work *k, bool done, struct lode_error *err)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    json_t *o = json_object();
    bool ok;

    ok = lode_json_set(o, "source", json_string(k->opt->source)) &&
         lode_json_set(o, "output", json_string(k->opt->out)) &&
         lode_json_set(o, "family", json_string(k->m->family->name)) &&
         set_int(o, "parameters", k->summary.parameter_count) &&
         set_int(o, "tensors", k->c->tensor_count) &&
         set_int(o, "shards", k->c->shard_count) &&
         set_int(o, "unaligned_tensors", k->c->unaligned_count) &&
         lode_json_set(o, "parts", cv_summary_json(&k->summary)) &&
         set_int(o, "blocks", k->block_count) &&
         set_int(o, "index_bytes", k->index_bytes) &&
         set_int(o, "file_bytes", k->file_bytes) &&
         set_int(o, "disk_peak_bytes", k->needed_bytes) &&
         set_int(o, "disk_peak_consume_bytes", k->consume_bytes) &&
         set_int(o, "free_bytes", k->free_bytes) &&
         set_int(o, "memory_bytes", k->memory_bytes) &&
         cv_forecast_json(&k->forecast, o) &&
         lode_json_set(o, "notes", notes_json(k)) &&
         lode_json_set(o, "done", json_boolean(done));
    if (ok && done && !k->opt->checkpoint.headers_only)
        ok = lode_json_set(o, "root", json_string(lode_hex(k->root, hex))) &&
             lode_json_set(o, "seconds", json_real(k->seconds));
    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

/* What unfinished work occupies needs no new space. */
static uint64_t
begun_bytes(const char *out, bool *begun)
{
    struct lode_error ignored;
    struct stat st;
    uint64_t bytes = 0;
    void *path = NULL;

    *begun = false;
    if (!lode_alloc_array(strlen(out) + 5, 1, "path", &path, &ignored))
        return 0;
    (void)snprintf(path, strlen(out) + 5, "%s.wip", out);
    if (stat(path, &st) == 0) {
        bytes = (uint64_t)st.st_blocks * 512;
        *begun = true;
    }
    free(path);
    return bytes;
}

static bool
check_space(const struct work *k, struct lode_error *err)
{
    static const struct cv_choice zstd = {.codec = CV_CODEC_ZSTD};
    const struct cv_pipeline_options *o = &k->opt->pipeline;
    struct cv_space space = {.path = k->opt->out, .consumed = "the shards"};
    struct cv_estimate smaller = {0};
    bool begun;
    bool ok = true;

    space.needed_bytes = k->needed_bytes;
    if (k->free_bytes != 0)
        space.there_bytes = k->free_bytes + begun_bytes(k->opt->out, &begun);
    if (!o->consume && !k->opt->checkpoint.headers_only)
        space.consume_bytes = k->consume_bytes;
    if (space.needed_bytes > space.there_bytes &&
        space.consume_bytes != 0 && o->choice.codec != CV_CODEC_ZSTD &&
        o->choice.codec != CV_CODEC_ARCHIVE) {
        ok = estimate(k, &zstd, &smaller, err);
        space.zstd_bytes = cv_estimate_needed(&smaller, k->file_bytes);
        cv_estimate_fini(&smaller);
    }
    return ok && cv_space_check(&space, err);
}

/* Is giving up possible at all?  Said before the first byte is written. */
static bool
check_consume(const struct work *k, struct lode_error *err)
{
    if (!k->opt->pipeline.consume)
        return true;
    if (!k->c->complete)
        return lode_fail(err, LODE_E_USAGE,
                         "%s: --consume is only for checkpoints that are "
                         "carried as a whole: what is left out would be lost",
                         k->opt->source);
    for (uint32_t i = 0; i < k->c->shard_count; i++) {
        char *path = NULL;
        bool ok;

        if (k->c->sources[i].consumed)
            continue;
        if (!lode_path_join(k->c->path, k->c->sources[i].name, &path, err))
            return false;
        ok = cv_consume_claimable(path, err) &&
             (i != 0 || cv_consume_possible(path, err));
        free(path);
        if (!ok)
            return false;
    }
    return true;
}

static bool
write_container(struct work *k, struct lode_error *err)
{
    struct lode_progress progress;
    uint64_t start = lode_now_ns();
    uint64_t bytes;
    bool ok;

    lode_cli_catch_signals(); /* from here on there is a file */
    if (!lode_writer_begin(k->w, k->opt->ignore_space ? 1 : k->needed_bytes,
                           err))
        return false;
    if (k->opt->checkpoint.headers_only)
        return cv_pipeline_run_files(k->plan, k->w, err) &&
               lode_writer_finish(k->w, k->root, err);
    k->done_count = lode_writer_written(k->w, &bytes);
    if (k->done_count != 0 && !k->opt->quiet && !k->opt->json) {
        printf("  continuing %" PRIu32 " of %" PRIu32 " blocks are done\n",
               k->done_count, k->block_count);
        (void)fflush(stdout);
    }
    lode_progress_begin(&progress, k->opt->out, k->plan->raw_bytes,
                        k->opt->quiet || k->opt->json);
    ok = cv_pipeline_run(k->plan, k->w, &k->opt->pipeline, &progress, err);
    lode_progress_end(&progress);
    if (!ok || !lode_writer_finish(k->w, k->root, err) ||
        (k->opt->pipeline.consume && !cv_pipeline_remove_shards(k->c, err)))
        return false;
    k->seconds = (double)(lode_now_ns() - start) / 1e9;
    return true;
}

static void
print_result(const struct work *k)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    char a[32];
    char b[32];

    if (k->opt->checkpoint.headers_only) {
        printf("%s: the index of %s, without weights\n"
               "Next: lode plan %s --memory SIZE\n", k->opt->out,
               lode_format_bytes(k->file_bytes, a, sizeof(a)), k->opt->out);
        return;
    }
    printf("%s: %s in %.1f s (%s/s), verified\n", k->opt->out,
           lode_format_bytes(k->file_bytes, a, sizeof(a)), k->seconds,
           lode_format_bytes(k->seconds > 0
                                 ? (uint64_t)((double)k->file_bytes /
                                              k->seconds)
                                 : 0, b, sizeof(b)));
    printf("root %s\n", lode_hex(k->root, hex));
    printf("Next: lode run %s \"...\"\n", k->opt->out);
}

/* Whatever --force says, a checkpoint is not replaced by its container. */
static bool
check_apart(const struct work *k, struct lode_error *err)
{
    struct stat out;
    struct stat in;

    if (stat(k->opt->out, &out) != 0)
        return true; /* not there yet */
    for (uint32_t i = 0; i < k->c->source_count; i++)
        if (fstat(k->c->sources[i].fd, &in) == 0 && in.st_ino == out.st_ino &&
            in.st_dev == out.st_dev)
            return lode_fail(err, LODE_E_USAGE,
                             "%s is a file of the checkpoint itself",
                             k->opt->out);
    return true;
}

/* OUT is there: an earlier run of this very conversion may have made it and
 * not come to its end. */
static bool
check_existing(struct work *k, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    struct stat st;

    if (k->opt->pipeline.journal &&
        !lode_writer_was_finished(k->opt->out, k->plan_digest,
                                  &k->was_finished, err))
        return false;
    if (k->was_finished) {
        if (!lode_reader_open(k->opt->out, &r, err))
            return false;
        memcpy(k->root, lode_reader_summary(r)->content_root,
               LODE_DIGEST_BYTES);
        lode_reader_close(r);
        return true;
    }
    if (!k->opt->force && lstat(k->opt->out, &st) == 0 && S_ISREG(st.st_mode))
        return lode_fail(err, LODE_E_USAGE,
                         "%s exists; --force replaces it once the new "
                         "container is complete",
                         k->opt->out);
    return true;
}

static bool
convert(struct work *k, struct lode_error *err)
{
    const struct options *o = k->opt;
    bool removed = false;

    if (o->pipeline.consume &&
        !cv_leftover_remove(o->source, o->out, &removed, err))
        return false;
    if (removed) {
        if (!o->quiet)
            printf("%s: was complete; what was left of the shards is "
                   "removed\n", o->out);
        return true;
    }
    if (!open_checkpoint(k, err) || !check_apart(k, err) ||
        !make_plan(k, err) || !check_existing(k, err))
        return false;
    forecast(k);
    if (!o->json && !o->quiet)
        print_plan(k);
    /* A plan that does not fit is shown all the same. */
    if (o->dry_run && o->json && !print_json(k, false, err))
        return false;
    if (!k->was_finished && (!check_consume(k, err) ||
                             (!o->ignore_space && !check_space(k, err))))
        return false;
    if (o->dry_run)
        return true;
    if (k->was_finished ? o->pipeline.consume &&
                              !cv_pipeline_remove_shards(k->c, err)
                        : !write_container(k, err))
        return false;
    if (o->json)
        return print_json(k, true, err);
    if (!o->quiet)
        print_result(k);
    return true;
}

int
cmd_convert(int argc, char **argv)
{
    struct options o = {.align = 1U << LODE_ALIGN_LOG2_MIN,
                        .jobs = default_jobs()};
    struct lode_error err = {0};
    struct work k = {.opt = &o};
    bool begun = false;
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && convert(&k, &err);
    lode_writer_free(k.w);
    cv_plan_free(k.plan);
    cv_model_free(k.m);
    cv_checkpoint_close(k.c);
    json_decref(k.config);
    cv_notes_fini(&k.notes);
    cv_forecast_fini(&k.forecast);
    if (ok)
        return 0;
    (void)lode_cli_report("lode convert", &err);
    if (o.out != NULL)
        (void)begun_bytes(o.out, &begun);
    if (begun)
        (void)fprintf(stderr,
                      "lode convert: %s.wip is kept: the same command goes on "
                      "with it, --restart begins anew\n",
                      o.out);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
