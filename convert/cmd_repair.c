/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/cmd.h"
#include "convert/flow.h"
#include "convert/input.h"
#include "convert/repair.h"

struct options {
    const char *file;
    const char *source;
    const char *expect_root;
    struct lode_opt_list folders;
    uint64_t jobs;
    bool dry_run;
    bool json;
    bool quiet;
};

struct report {
    const struct options *opt;
    json_t *done;
    json_t *left;
    bool no_memory;
};

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"from", 0, LODE_OPT_TEXT, &o->source, "SOURCE",
         "a checkpoint's folder, or a container with this content"},
        {"dry-run", 'n', LODE_OPT_FLAG, &o->dry_run, NULL,
         "say what would be repaired, and write nothing"},
        {"jobs", 'j', LODE_OPT_U64, &o->jobs, "N", "threads that check"},
        CV_OPT_DIR(&o->folders),
        CV_OPT_EXPECT(&o->expect_root),
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL, "print JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL, "print errors only"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode repair [OPTION]... FILE --from SOURCE",
        "Write what is damaged in container or set FILE again, "
        "from SOURCE.\nExit status 0 only when a check of all "
        "finds nothing any more."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 1)
        return lode_fail(err, LODE_E_USAGE,
                         "expected one container, found %d arguments",
                         argc - first);
    if (o->source == NULL)
        return lode_fail(err, LODE_E_USAGE, "--from SOURCE is missing");
    if (o->jobs < 1 || o->jobs > CV_JOBS_MAX)
        return lode_fail(err, LODE_E_USAGE, "--jobs: expected 1 to %d",
                         CV_JOBS_MAX);
    o->file = argv[first];
    return true;
}

static void
on_line(void *user, bool good, const char *line)
{
    struct report *r = user;

    if (r->opt->json)
        r->no_memory =
            !lode_json_push(good ? r->done : r->left, json_string(line)) ||
            r->no_memory;
    else if (!good || !r->opt->quiet)
        printf("%s\n", line);
}

static bool
print_json(struct report *r, const struct cv_repair_figures *f,
           struct lode_error *err)
{
    json_t *o = json_object();
    bool ok =
        !r->no_memory && lode_json_set(o, "file", json_string(r->opt->file)) &&
        lode_json_set(o, "dry_run", json_boolean(r->opt->dry_run)) &&
        lode_json_set(o, "ok", json_boolean(f->left_count == 0)) &&
        lode_json_set(o, "faults", json_integer((json_int_t)f->fault_count)) &&
        lode_json_set(o, "faults_left",
                      json_integer((json_int_t)f->left_count)) &&
        lode_json_set(o, "damaged_blocks", json_integer(f->block_count)) &&
        lode_json_set(o, "repaired_blocks", json_integer(f->repaired_count)) &&
        lode_json_set(o, "sections", json_integer(f->section_count)) &&
        lode_json_set(o, "superblocks", json_integer(f->slot_count)) &&
        lode_json_set(o, "zeroed_bytes",
                      json_integer((json_int_t)f->zeroed_bytes)) &&
        lode_json_set(o, "done", json_incref(r->done)) &&
        lode_json_set(o, "left", json_incref(r->left));

    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

static void
print_end(const struct options *o, const struct cv_repair_figures *f)
{
    if (f->fault_count == 0)
        printf("%s: no fault, nothing to repair\n", o->file);
    else if (o->dry_run)
        printf("%s: %" PRIu32 " of %" PRIu32
               " damaged blocks would be repaired\n",
               o->file, f->repaired_count, f->block_count);
    else
        printf("%s: %" PRIu32 " of %" PRIu32
               " damaged blocks repaired, %" PRIu64 " faults left\n",
               o->file, f->repaired_count, f->block_count, f->left_count);
}

/* What is damaged beyond opening is refused later, with its reason. */
static bool
check_root(const struct options *o, struct lode_error *err)
{
    struct lode_error ignored;
    struct lode_reader *r;
    bool ok;

    if (o->expect_root == NULL ||
        !lode_reader_open_in(o->file, o->folders.items, &r, &ignored))
        return true;
    ok = lode_reader_expect_root(r, o->expect_root, err);
    lode_reader_close(r);
    return ok;
}

int
cmd_repair(int argc, char **argv)
{
    struct options o = {.jobs = cv_default_jobs()};
    struct report r = {.opt = &o};
    struct cv_repair_figures f = {0};
    struct cv_repair_options opt = {
        .folders = &o.folders, .tell = on_line, .user = &r};
    struct lode_error err = {0};
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    lode_cli_catch_signals();
    if (o.json) {
        r.done = json_array();
        r.left = json_array();
    }
    opt.source = o.source;
    opt.jobs = (uint32_t)o.jobs;
    opt.dry_run = o.dry_run;
    ok = ok && check_root(&o, &err) && cv_repair(o.file, &opt, &f, &err) &&
         (!o.json || print_json(&r, &f, &err));
    if (ok && !o.json && !o.quiet)
        print_end(&o, &f);
    json_decref(r.done);
    json_decref(r.left);
    if (ok)
        return f.left_count == 0 ? 0 : lode_exit_status(LODE_E_CORRUPT);
    (void)lode_cli_report("lode repair", &err);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
