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
#include "convert/cmd.h"
#include "convert/cmd_forecast.h"
#include "convert/consume.h"
#include "convert/flow.h"
#include "convert/leftover.h"
#include "convert/origin.h"
#include "convert/repack.h"

struct options {
    struct cv_repack_options repack;
    const char *in;
    const char *out;
    const char *codec;
    const char *split;
    const char *layers;
    const char *drop;
    const char *order;
    struct lode_opt_list trace;
    const char *expect_root;
    const char *files[LODE_OPT_LIST_MAX + 2]; /* traces */
    struct lode_opt_list dirs;
    uint64_t align;
    uint64_t jobs;
    bool archive;
    bool fast;
    bool join;
    bool dry_run;
    bool json;
    bool quiet;
    bool force;
};

struct work {
    struct options *opt;
    struct lode_reader *in;
    struct cv_repack *x;
    struct cv_forecast forecast;
    uint64_t free_bytes;
    double seconds;
    uint8_t root[LODE_DIGEST_BYTES];
    bool was_finished;
};

/* ---- options ---- */

static bool
parse_codec(struct options *o, struct lode_error *err)
{
    if ((o->codec != NULL) + o->archive + o->fast > 1)
        return lode_fail(err, LODE_E_USAGE,
                         "--codec, --archive and --fast exclude each other");
    o->repack.recode = o->codec != NULL || o->archive || o->fast;
    return !o->repack.recode ||
           cv_choice_parse(o->archive ? "archive"
                           : o->fast  ? "none"
                                      : o->codec,
                           &o->repack.choice, err);
}

static bool
parse_split(struct options *o, struct lode_error *err)
{
    if (o->split == NULL)
        return true;
    if (o->join)
        return lode_fail(err, LODE_E_USAGE,
                         "--split and --join exclude each other");
    if (strcmp(o->split, "layer") == 0) {
        o->repack.split = CV_SPLIT_LAYER;
        return true;
    }
    o->repack.split = CV_SPLIT_SIZE;
    return lode_parse_size(o->split, &o->repack.split_bytes, err) ||
           lode_fail(err, LODE_E_USAGE,
                     "--split: \"%.40s\" is neither \"layer\" nor a size",
                     o->split);
}

static bool
parse_layers(struct options *o, struct lode_error *err)
{
    char *end = NULL;
    long first;
    long last;

    if (o->layers == NULL)
        return true;
    first = last = strtol(o->layers, &end, 10);
    if (end != o->layers && *end == '-')
        last = strtol(end + 1, &end, 10);
    if (end == o->layers || *end != '\0' || first < 0 || last < first ||
        last >= (long)LODE_LAYERS_MAX)
        return lode_fail(err, LODE_E_USAGE,
                         "--layers: \"%.40s\" is not A-B, as in 0-11",
                         o->layers);
    o->repack.layers = true;
    o->repack.first_layer = (int32_t)first;
    o->repack.last_layer = (int32_t)last;
    return true;
}

/* A share below 1, or a file. */
static bool
parse_drop(struct options *o, struct lode_error *err)
{
    char *end = NULL;
    double share;

    if (o->drop == NULL)
        return true;
    share = strtod(o->drop, &end);
    if (end == o->drop || *end != '\0') {
        o->repack.drop_list = o->drop;
        return true;
    }
    if (!(share > 0 && share < 1))
        return lode_fail(err, LODE_E_USAGE,
                         "--drop-experts: %s is neither a share between 0 and "
                         "1 nor a file",
                         o->drop);
    if (o->trace.count == 0)
        return lode_fail(err, LODE_E_USAGE,
                         "--drop-experts %s needs --trace FILE, which tells "
                         "what experts are used (lode eval --routes --json)",
                         o->drop);
    o->repack.drop_share = share;
    return true;
}

static bool
check_options(struct options *o, struct lode_error *err)
{
    uint32_t n = 0;

    if (o->align != 0 && ((o->align & (o->align - 1)) != 0 ||
                          o->align < 1U << LODE_ALIGN_LOG2_MIN ||
                          o->align > 1U << LODE_ALIGN_LOG2_MAX))
        return lode_fail(err, LODE_E_USAGE,
                         "--align: %" PRIu64 " is not 4K, 8K, 16K, 32K or 64K",
                         o->align);
    while (o->align != 0 && UINT64_C(1) << o->repack.align_log2 < o->align)
        o->repack.align_log2++;
    if (o->jobs < 1 || o->jobs > CV_JOBS_MAX)
        return lode_fail(err, LODE_E_USAGE,
                         "--jobs: %" PRIu64 " is not between 1 and %d",
                         o->jobs, CV_JOBS_MAX);
    if (o->order != NULL)
        o->files[n++] = o->order;
    for (size_t i = 0; i < o->trace.count; i++)
        if (o->order == NULL || strcmp(o->trace.items[i], o->order) != 0)
            o->files[n++] = o->trace.items[i];
    o->repack.order = o->order != NULL;
    o->repack.traces = n != 0 ? o->files : NULL;
    return parse_codec(o, err) && parse_split(o, err) &&
           parse_layers(o, err) && parse_drop(o, err);
}

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"dry-run", 'n', LODE_OPT_FLAG, &o->dry_run, NULL,
         "say what would be written, and write nothing"},
        {"codec", 0, LODE_OPT_TEXT, &o->codec, "CODEC",
         "auto, none, zstd, zstd:LEVEL, archive; default: as it is"},
        {"archive", 0, LODE_OPT_FLAG, &o->archive, NULL,
         "as small as possible: --codec archive"},
        {"fast", 0, LODE_OPT_FLAG, &o->fast, NULL,
         "as fast to read as possible: --codec none"},
        {"align", 0, LODE_OPT_SIZE, &o->align, "SIZE",
         "alignment of blocks, 4K to 64K"},
        {"order", 0, LODE_OPT_TEXT, &o->order, "TRACE",
         "lay out experts so that those used together are neighbours"},
        {"split", 0, LODE_OPT_TEXT, &o->split, "layer|SIZE",
         "make a set: a volume a layer, or volumes of at most SIZE"},
        {"join", 0, LODE_OPT_FLAG, &o->join, NULL, "make a set one file"},
        {"layers", 0, LODE_OPT_TEXT, &o->layers, "A-B",
         "only these layers, and what belongs to none"},
        {"drop-experts", 0, LODE_OPT_TEXT, &o->drop, "FILE|SHARE",
         "leave out experts: those listed, or the least used"},
        {"trace", 0, LODE_OPT_LIST, &o->trace, "TRACE",
         "what lode eval --routes --json has printed; several times"},
        {"dir", 0, LODE_OPT_LIST, &o->dirs, "FOLDER",
         "where volumes of IN may lie, too; may be given several times"},
        {"consume", 0, LODE_OPT_FLAG, &o->repack.consume, NULL,
         "give up IN on the way: for drives without room for both"},
        {"ignore-space", 0, LODE_OPT_FLAG, &o->repack.ignore_space, NULL,
         "begin although the drive seems too small"},
        {"restart", 0, LODE_OPT_FLAG, &o->repack.restart, NULL,
         "throw away unfinished work instead of going on with it"},
        {"expect-root", 0, LODE_OPT_TEXT, &o->expect_root, "HEX",
         "refuse IN unless this is its content root"},
        {"jobs", 'j', LODE_OPT_U64, &o->jobs, "N", "threads for packing"},
        {"label", 0, LODE_OPT_TEXT, &o->repack.label, "TEXT",
         "a name that lode info shows; default: that of IN"},
        {"force", 'f', LODE_OPT_FLAG, &o->force, NULL,
         "replace OUT if it exists"},
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL,
         "print the plan and the result as JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL, "print errors only"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {table, "lode repack [OPTION]... IN OUT",
                                     "Make the container or set OUT from IN."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 2)
        return lode_fail(err, LODE_E_USAGE,
                         "expected a container and the name of the new one, "
                         "found %d arguments",
                         argc - first);
    o->in = argv[first];
    o->out = argv[first + 1];
    return check_options(o, err);
}

/* ---- checks ---- */

/* OUT must not be a file of IN, by whatever name. */
static bool
check_apart(const struct work *k, struct lode_error *err)
{
    uint32_t count = lode_reader_summary(k->in)->volume_count;
    struct stat out;
    struct stat in;

    if (stat(k->opt->out, &out) != 0)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        const struct lode_volume *v = lode_reader_volume(k->in, i);

        if (v->fd >= 0 && fstat(v->fd, &in) == 0 && in.st_ino == out.st_ino &&
            in.st_dev == out.st_dev)
            return lode_fail(err, LODE_E_USAGE,
                             "%s and %s are the same file: choose another name "
                             "and rename it afterwards",
                             k->opt->in, k->opt->out);
    }
    if (!k->opt->force && !k->was_finished)
        return lode_fail(err, LODE_E_USAGE,
                         "%s exists; --force replaces it once the new "
                         "container is complete",
                         k->opt->out);
    return true;
}

static bool
check_set(const struct work *k, struct lode_error *err)
{
    if (lode_reader_summary(k->in)->volume_count > 1 &&
        k->opt->repack.split == CV_SPLIT_NONE && !k->opt->join)
        return lode_fail(err, LODE_E_USAGE,
                         "%s is a set of %" PRIu32
                         " volumes: say --join or --split",
                         k->opt->in,
                         lode_reader_summary(k->in)->volume_count - 1);
    return true;
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

/* Was IN given up for this OUT, which is complete, by a run that did not come
 * to remove what is left of IN? */
static bool
is_leftover(const struct work *k)
{
    const uint8_t *root = lode_reader_summary(k->in)->content_root;
    char hex[2 * LODE_DIGEST_BYTES + 1];
    struct lode_reader *r = NULL;
    struct lode_error other;
    char *text = NULL;
    size_t bytes;
    bool leftover;
    bool begun;

    (void)begun_bytes(k->opt->out, &begun);
    if (begun ||
        !lode_reader_open(k->opt->out, &r, &other))
        return false;
    leftover = memcmp(lode_reader_summary(r)->content_root, root,
                       LODE_DIGEST_BYTES) == 0;
    /* A container without some experts names the one it was made from. */
    if (!leftover &&
        lode_reader_load_file(r, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME, 64 << 20,
                              &text, &bytes, &other) &&
        text != NULL)
        leftover = strstr(text, lode_hex(root, hex)) != NULL;
    free(text);
    lode_reader_close(r);
    return leftover;
}

/* What the same work would need with other options; 0: it cannot be done. */
static uint64_t
needed_otherwise(const struct work *k, bool consume)
{
    struct cv_repack_options opt = k->opt->repack;
    struct cv_estimate e = {0};
    struct cv_repack *x = NULL;
    struct lode_error ignored;
    uint64_t bytes = 0;

    opt.consume = consume;
    if (!consume) {
        opt.recode = true;
        opt.choice = (struct cv_choice){.codec = CV_CODEC_ZSTD};
    }
    if (cv_repack_plan(k->in, k->opt->out, &opt, (uint32_t)k->opt->jobs, &x,
                       &ignored) &&
        (consume || cv_estimate_repack(x, &e, &ignored)))
        bytes = cv_repack_figures(x)->needed_bytes;
    cv_estimate_fini(&e);
    cv_repack_free(x);
    return bytes;
}

static bool
check_space(const struct work *k, struct lode_error *err)
{
    const struct cv_repack_options *o = &k->opt->repack;
    struct cv_space space = {.path = k->opt->out, .consumed = "IN"};
    bool begun;

    space.needed_bytes = cv_repack_figures(k->x)->needed_bytes;
    if (k->free_bytes != 0)
        space.there_bytes = k->free_bytes + begun_bytes(k->opt->out, &begun);
    if (space.needed_bytes > space.there_bytes && !o->consume) {
        space.consume_bytes = needed_otherwise(k, true);
        if (!o->recode || o->choice.codec == CV_CODEC_NONE ||
            o->choice.codec == CV_CODEC_AUTO)
            space.zstd_bytes = needed_otherwise(k, false);
    }
    return cv_space_check(&space, err);
}

/* What is expected, and of a long job or a dry run also the time. */
static bool
forecast(struct work *k, struct lode_error *err)
{
    const struct options *o = k->opt;
    struct cv_forecast *f = &k->forecast;
    const char *path = lode_reader_path(k->in);
    uint64_t largest = 0;

    if (!cv_estimate_repack(k->x, &f->estimate, err))
        return false;
    if (!o->dry_run && (o->quiet || cv_repack_figures(k->x)->file_bytes <
                                        CV_MEASURE_BYTES))
        return true;
    for (uint32_t i = 0; i < lode_reader_summary(k->in)->volume_count; i++) {
        const struct lode_volume *v = lode_reader_volume(k->in, i);

        f->load.read_bytes += v->file_bytes;
        if (v->path != NULL && v->file_bytes > largest) {
            largest = v->file_bytes;
            path = v->path;
        }
    }
    f->load.digest_bytes = cv_repack_figures(k->x)->raw_bytes;
    f->load.jobs = (uint32_t)o->jobs;
    cv_forecast_measure(f, path, o->out);
    return true;
}

/* ---- output ---- */

static void
print_plan(const struct work *k)
{
    const struct cv_repack_figures *f = cv_repack_figures(k->x);
    char a[32];
    char b[32];

    printf("%s: %s in %" PRIu32 " blocks\n", k->opt->in,
           lode_format_bytes(lode_reader_summary(k->in)->file_bytes, a,
                             sizeof(a)),
           lode_reader_summary(k->in)->present_count);
    printf("  blocks     %" PRIu32 " copied as they are, %" PRIu32
           " recoded, %" PRIu32 " changed\n",
           f->copied_count, f->recoded_count, f->changed_count);
    if (f->dropped_count != 0)
        printf("  dropped    %" PRIu32
               " experts: the result is not lossless, its content root will "
               "be another\n",
               f->dropped_count);
    if (f->volume_count != 0)
        printf("  set        a head and %" PRIu32 " volumes\n",
               f->volume_count);
    printf("  container  %s at most, index %s\n",
           lode_format_bytes(f->file_bytes, a, sizeof(a)),
           lode_format_bytes(f->index_bytes, b, sizeof(b)));
    cv_forecast_print(&k->forecast, k->opt->dry_run);
    printf("  drive      %s needed%s, %s free\n",
           lode_format_bytes(f->needed_bytes, a, sizeof(a)),
           f->needed_bytes < f->file_bytes ? "" : " at most",
           lode_format_bytes(k->free_bytes, b, sizeof(b)));
    printf("  memory     %s\n",
           lode_format_bytes(f->memory_bytes, a, sizeof(a)));
    if (k->opt->repack.consume)
        printf("  CONSUME    %s is renamed to %s" CV_CONSUMED_SUFFIX
               ", loses its blocks as they are copied, and is removed at the "
               "end\n",
               k->opt->in, k->opt->in);
    (void)fflush(stdout); /* a long silence may follow */
}

static bool
set_int(json_t *o, const char *key, uint64_t value)
{
    return lode_json_set(o, key, json_integer((json_int_t)value));
}

static bool
print_json(const struct work *k, bool done, struct lode_error *err)
{
    const struct cv_repack_figures *f = cv_repack_figures(k->x);
    char hex[2 * LODE_DIGEST_BYTES + 1];
    json_t *o = json_object();
    bool ok;

    ok = lode_json_set(o, "input", json_string(k->opt->in)) &&
         lode_json_set(o, "output", json_string(k->opt->out)) &&
         set_int(o, "blocks", f->block_count) &&
         set_int(o, "copied_blocks", f->copied_count) &&
         set_int(o, "recoded_blocks", f->recoded_count) &&
         set_int(o, "changed_blocks", f->changed_count) &&
         set_int(o, "dropped_experts", f->dropped_count) &&
         set_int(o, "volumes", f->volume_count) &&
         set_int(o, "index_bytes", f->index_bytes) &&
         set_int(o, "file_bytes", f->file_bytes) &&
         set_int(o, "disk_peak_bytes", f->needed_bytes) &&
         set_int(o, "free_bytes", k->free_bytes) &&
         set_int(o, "memory_bytes", f->memory_bytes) &&
         cv_forecast_json(&k->forecast, o) &&
         lode_json_set(o, "lossless", json_boolean(f->lossless)) &&
         lode_json_set(o, "done", json_boolean(done));
    if (ok && done)
        ok = lode_json_set(o, "root", json_string(lode_hex(k->root, hex))) &&
             lode_json_set(o, "seconds", json_real(k->seconds));
    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

static void
print_result(const struct work *k)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];

    printf("%s: done in %.1f s\nroot %s%s\n", k->opt->out, k->seconds,
           lode_hex(k->root, hex),
           cv_repack_figures(k->x)->lossless ? ", as before" : "");
    if (k->opt->repack.layers)
        printf("Next: lode info %s\n", k->opt->out);
    else
        printf("Next: lode run %s \"...\"\n", k->opt->out);
}

/* ---- the work ---- */

/* IN, or what an unfinished run with --consume has left of it. */
static bool
open_input(struct work *k, const char **path, char **owned,
           struct lode_error *err)
{
    struct stat st;

    *path = k->opt->in;
    if (!cv_consume_name(k->opt->in, owned, err))
        return false;
    if (lstat(k->opt->in, &st) != 0 && errno == ENOENT &&
        lstat(*owned, &st) == 0) {
        if (!k->opt->repack.consume)
            return lode_fail(err, LODE_E_USAGE,
                             "%s was given up by an unfinished run; the same "
                             "command with --consume goes on",
                             k->opt->in);
        *path = *owned;
    }
    return lode_reader_open_in(*path,
                               k->opt->dirs.items,
                               &k->in, err) &&
           (k->opt->expect_root == NULL ||
            lode_reader_expect_root(k->in, k->opt->expect_root, err));
}

static bool
plan(struct work *k, struct lode_error *err)
{
    return cv_repack_plan(k->in, k->opt->out, &k->opt->repack,
                          (uint32_t)k->opt->jobs, &k->x, err);
}

/* Give IN its other name and look at it under that. */
static bool
claim(struct work *k, const char **path, char *consumed, struct lode_error *err)
{
    if (!k->opt->repack.consume || *path == consumed)
        return true;
    if (!cv_consume_possible(k->opt->in, err) ||
        !cv_consume_claim(k->opt->in, err))
        return false;
    cv_repack_free(k->x);
    k->x = NULL;
    lode_reader_close(k->in);
    k->in = NULL;
    *path = consumed;
    return lode_reader_open_in(consumed,
                               k->opt->dirs.items,
                               &k->in, err) &&
           plan(k, err);
}

/* The head of IN and, of a set, its volumes. */
static bool
remove_input(const struct work *k, struct lode_error *err)
{
    uint32_t count = lode_reader_summary(k->in)->volume_count;

    if (!k->opt->repack.consume)
        return true;
    for (uint32_t i = 1; i < count; i++) {
        const char *path = lode_reader_volume(k->in, i)->path;

        if (path != NULL && unlink(path) != 0 && errno != ENOENT)
            return lode_fail_errno(err, "%s", path);
    }
    return cv_consume_remove(k->opt->in, err);
}

static bool
write_container(struct work *k, struct lode_error *err)
{
    struct lode_progress progress;
    uint64_t start = lode_now_ns();
    bool ok;

    lode_cli_catch_signals();
    lode_progress_begin(&progress, k->opt->out,
                        cv_repack_figures(k->x)->raw_bytes,
                        k->opt->quiet || k->opt->json);
    ok = cv_repack_run(k->x, &progress, k->root, err);
    lode_progress_end(&progress);
    k->seconds = (double)(lode_now_ns() - start) / 1e9;
    return ok;
}

static bool
take_result(struct work *k, struct lode_error *err)
{
    struct lode_reader *r = NULL;

    if (!lode_reader_open(k->opt->out, &r, err))
        return false;
    memcpy(k->root, lode_reader_summary(r)->content_root, LODE_DIGEST_BYTES);
    lode_reader_close(r);
    return true;
}

static bool
repack(struct work *k, struct lode_error *err)
{
    const char *path;
    char *consumed = NULL;
    bool ok;

    ok = open_input(k, &path, &consumed, err);
    if (ok && path == consumed && is_leftover(k)) {
        free(consumed);
        /* Whoever renamed OUT may not have come to make that durable. */
        if (!lode_file_sync_directory(k->opt->out, err) ||
            !remove_input(k, err))
            return false;
        cv_leftover_remove_journal(k->opt->out);
        if (!k->opt->quiet)
            printf("%s: was complete; what was left of %s is removed\n",
                   k->opt->out, k->opt->in);
        return true;
    }
    ok = ok && check_set(k, err) && plan(k, err) &&
         lode_writer_was_finished(k->opt->out, cv_repack_plan_digest(k->x),
                                  &k->was_finished, err) &&
         check_apart(k, err);
    k->free_bytes = cv_space_free(k->opt->out);
    ok = ok && (k->was_finished || forecast(k, err));
    if (ok && !k->opt->quiet && !k->opt->json)
        print_plan(k);
    /* A plan that does not fit is shown all the same. */
    ok = ok && (!k->opt->dry_run || !k->opt->json || print_json(k, false, err));
    ok = ok && (k->was_finished || k->opt->repack.ignore_space ||
                check_space(k, err));
    if (ok && k->opt->dry_run) {
        free(consumed);
        return true;
    }
    ok = ok && (k->was_finished
                    ? take_result(k, err)
                    : claim(k, &path, consumed, err) &&
                          write_container(k, err));
    ok = ok && remove_input(k, err);
    free(consumed);
    if (!ok)
        return false;
    if (k->opt->json)
        return print_json(k, true, err);
    if (!k->opt->quiet)
        print_result(k);
    return true;
}

static uint64_t
default_jobs(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 8 ? 8 : (uint64_t)n;
}

int
cmd_repack(int argc, char **argv)
{
    struct options o = {.jobs = default_jobs()};
    struct lode_error err = {0};
    struct work k = {.opt = &o};
    bool begun = false;
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && repack(&k, &err);
    cv_forecast_fini(&k.forecast);
    cv_repack_free(k.x);
    lode_reader_close(k.in);
    if (ok)
        return 0;
    (void)lode_cli_report("lode repack", &err);
    if (o.out != NULL)
        (void)begun_bytes(o.out, &begun);
    if (begun)
        (void)fprintf(stderr,
                      "lode repack: %s.wip is kept: the same command goes on "
                      "with it, --restart begins anew\n",
                      o.out);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
