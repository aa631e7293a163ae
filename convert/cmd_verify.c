/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/check.h"
#include "convert/cmd.h"
#include "convert/cmd_diff.h"
#include "convert/flow.h"
#include "convert/input.h"
#include "format/lode_write.h"

struct options {
    const char *file;
    const char *expect_root;
    const char *against;
    struct lode_opt_list folders;
    uint64_t jobs;
    bool fast;
    bool strict;
    bool json;
    bool quiet;
};

struct report {
    const struct options *opt;
    struct lode_progress progress;
    json_t *faults;
    bool no_memory;
};

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"fast", 0, LODE_OPT_FLAG, &o->fast, NULL,
         "compare checksums alone, no digests"},
        {"strict", 0, LODE_OPT_FLAG, &o->strict, NULL,
         "account for every byte, padding too"},
        {"jobs", 'j', LODE_OPT_U64, &o->jobs, "N", "threads that check"},
        {"against", 0, LODE_OPT_TEXT, &o->against, "DIR",
         "compare every tensor with the checkpoint in DIR instead"},
        CV_OPT_DIR(&o->folders),
        CV_OPT_EXPECT(&o->expect_root),
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL, "print the faults as JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL,
         "print nothing; the exit status tells"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode verify [OPTION]... FILE",
        "Check container or set FILE and list all faults.\n"
        "Exit status 3 if there are any."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 1)
        return lode_fail(err, LODE_E_USAGE,
                         "expected one container, found %d arguments",
                         argc - first);
    if (o->jobs < 1 || o->jobs > CV_JOBS_MAX)
        return lode_fail(err, LODE_E_USAGE, "--jobs: expected 1 to %d",
                         CV_JOBS_MAX);
    if (o->against != NULL && (o->fast || o->strict))
        return lode_fail(err, LODE_E_USAGE,
                         "--against compares tensors; --fast and --strict are "
                         "of the check without it");
    if (o->fast && o->strict)
        return lode_fail(err, LODE_E_USAGE,
                         "--fast and --strict exclude each other");
    o->file = argv[first];
    return true;
}

static void
on_fault(void *user, const struct lode_fault *f)
{
    struct report *r = user;
    json_t *o;

    if (!r->opt->json) {
        if (!r->opt->quiet)
            printf("%s: %s: %s\n", r->opt->file, f->where, f->what);
        return;
    }
    o = json_object();
    if (!lode_json_set(o, "where", json_string(f->where)) ||
        !lode_json_set(o, "what", json_string(f->what)) ||
        !lode_json_push(r->faults, json_incref(o)))
        r->no_memory = true;
    json_decref(o);
}

static bool
on_progress(void *user, uint64_t bytes)
{
    struct report *r = user;

    lode_progress_add(&r->progress, bytes);
    return lode_cancelled == 0;
}

static bool
print_json(struct report *r, uint64_t fault_count, uint32_t absent_count,
           struct lode_error *err)
{
    json_t *o = json_object();
    bool ok = !r->no_memory;

    ok = lode_json_set(o, "file", json_string(r->opt->file)) && ok;
    ok = lode_json_set(o, "ok", json_boolean(fault_count == 0)) && ok;
    ok = lode_json_set(o, "fault_count",
                       json_integer((json_int_t)fault_count)) && ok;
    ok = lode_json_set(o, "absent_blocks", json_integer(absent_count)) && ok;
    ok = lode_json_set(o, "faults", json_incref(r->faults)) && ok;
    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

/* Of a set: its files that are there. */
static uint64_t
total_bytes(const struct options *o)
{
    struct lode_reader *r = NULL;
    struct lode_error ignored; /* the check will say what is wrong */
    struct stat st;
    uint64_t bytes = stat(o->file, &st) == 0 ? (uint64_t)st.st_size : 0;

    if (!lode_reader_open_in(o->file, o->folders.items, &r, &ignored))
        return bytes;
    for (uint32_t i = 1; lode_reader_summary(r)->volume_index == 0 &&
                         i < lode_reader_summary(r)->volume_count;
         i++)
        if (lode_reader_volume(r, i)->path != NULL)
            bytes += lode_reader_volume(r, i)->file_bytes;
    lode_reader_close(r);
    return bytes;
}

/* A container that cannot be opened has faults already. */
static void
check_root(struct report *rep, uint64_t *fault_count)
{
    const struct options *o = rep->opt;
    struct lode_reader *r = NULL;
    struct lode_error err;

    if (o->expect_root == NULL ||
        !lode_reader_open_in(o->file, o->folders.items, &r, &err))
        return;
    if (!lode_reader_expect_root(r, o->expect_root, &err)) {
        const struct lode_fault f = {.where = "content root",
                                     .what = err.text,
                                     .block_index = LODE_NO_INDEX};

        ++*fault_count;
        on_fault(rep, &f);
    }
    lode_reader_close(r);
}

static void
print_end(const struct report *r, uint64_t fault_count, uint32_t absent_count)
{
    const char *file = r->opt->file;

    if (fault_count == 0 && absent_count != 0)
        printf("%s: no fault, but %" PRIu32 " blocks are not in this file\n",
               file, absent_count);
    else if (fault_count == 0)
        printf("%s: no fault in %" PRIu64 " bytes\n", file,
               r->progress.total_bytes);
    else
        printf("%s: %" PRIu64 " fault%s\n", file, fault_count,
               fault_count == 1 ? "" : "s");
}

/* True when the check could be made or its faults were told. */
static bool
verify(const struct options *o, uint64_t *fault_count, struct lode_error *err)
{
    struct report r = {.opt = o};
    uint32_t absent = 0;
    struct lode_verify_options v = {.fault = on_fault,
                                    .progress = on_progress,
                                    .absent_count = &absent,
                                    .folders = o->folders.items,
                                    .level = o->fast     ? LODE_VERIFY_FAST
                                             : o->strict ? LODE_VERIFY_STRICT
                                                         : LODE_VERIFY_TREE,
                                    .user = &r};
    struct stat st;
    bool done;

    if (stat(o->file, &st) != 0)
        return lode_fail_errno(err, "%s", o->file);
    if (o->json)
        r.faults = json_array();
    lode_cli_catch_signals();
    lode_progress_begin(&r.progress, o->file, total_bytes(o),
                        o->quiet || o->json);
    done = cv_check(o->file, &v, (uint32_t)o->jobs, fault_count, err);
    lode_progress_end(&r.progress);
    if (!done && err->code == LODE_E_CORRUPT && *fault_count != 0)
        done = true; /* it was told as a fault */
    if (done)
        check_root(&r, fault_count);
    if (done && o->json)
        done = print_json(&r, *fault_count, absent, err);
    else if (done && !o->quiet)
        print_end(&r, *fault_count, absent);
    json_decref(r.faults);
    return done;
}

/* ---- against a checkpoint ---- */

static void
on_difference(void *user, const struct cv_difference *d)
{
    struct report *r = user;

    if (r->opt->json)
        r->no_memory = !cmd_diff_push(r->faults, d) || r->no_memory;
    else if (!r->opt->quiet)
        cmd_diff_print(d);
}

static bool
print_comparison(struct report *r, const struct cv_diff *d, bool lossless,
                 struct lode_error *err)
{
    json_t *o;
    bool ok;

    if (!r->opt->json) {
        if (!r->opt->quiet)
            printf("%s: %" PRIu64 " differences from %s, %" PRIu64
                   " tensors not here\n",
                   r->opt->file, d->difference_count, r->opt->against,
                   d->unknown_count);
        return true;
    }
    o = json_object();
    ok = !r->no_memory &&
         lode_json_set(o, "file", json_string(r->opt->file)) &&
         lode_json_set(o, "against", json_string(r->opt->against)) &&
         lode_json_set(o, "lossless", json_boolean(lossless)) &&
         lode_json_set(o, "difference_count",
                       json_integer((json_int_t)d->difference_count)) &&
         lode_json_set(o, "unknown_count",
                       json_integer((json_int_t)d->unknown_count)) &&
         lode_json_set(o, "differences", json_incref(r->faults));
    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

/* Of a container that does not claim to give its source back, tensors in other
 * encodings and tensors left out are what it says of itself. */
static bool
compare(const struct options *o, uint64_t *fault_count, struct lode_error *err)
{
    const struct cv_checkpoint_options opt = {.follow_symlinks = true,
                                              .include_unindexed = true};
    struct report rep = {.opt = o};
    struct cv_diff d = {.tell = on_difference, .user = &rep};
    struct cv_checkpoint *c = NULL;
    struct lode_reader *r = NULL;
    struct cv_notes notes = {0};
    bool lossless = false;
    bool ok;

    if (o->json)
        rep.faults = json_array();
    lode_cli_catch_signals();
    ok = cv_input_open(o->file, &o->folders, o->expect_root, &r, err) &&
         cv_input_lossless(r, &lossless, err) &&
         cv_checkpoint_open(o->against, &opt, &c, &notes, err) &&
         cv_diff_checkpoint(&d, r, c, err) &&
         print_comparison(&rep, &d, lossless, err);
    *fault_count = lossless ? d.difference_count
                            : d.difference_count - d.allowed_count;
    cv_notes_fini(&notes);
    cv_checkpoint_close(c);
    lode_reader_close(r);
    json_decref(rep.faults);
    return ok;
}

int
cmd_verify(int argc, char **argv)
{
    struct options o = {.jobs = cv_default_jobs()};
    struct lode_error err = {0};
    uint64_t fault_count = 0;
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    if (ok && o.against != NULL)
        ok = compare(&o, &fault_count, &err);
    else
        ok = ok && verify(&o, &fault_count, &err);
    if (ok)
        return fault_count != 0 ? lode_exit_status(LODE_E_CORRUPT) : 0;
    (void)lode_cli_report("lode verify", &err);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
