/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/cmd.h"
#include "format/lode_write.h"

struct options {
    const char *file;
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
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL, "print the faults as JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL,
         "print nothing; the exit status tells"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode verify [OPTION]... FILE",
        "Check every byte of container FILE and list all faults.\n"
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
    return true;
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

/* True when the check could be made or its faults were told. */
static bool
verify(const struct options *o, uint64_t *fault_count, struct lode_error *err)
{
    struct report r = {.opt = o};
    uint32_t absent = 0;
    struct lode_verify_options v = {.fault = on_fault,
                                    .progress = on_progress,
                                    .absent_count = &absent,
                                    .user = &r};
    struct stat st;
    uint64_t bytes;
    bool done;

    if (stat(o->file, &st) != 0)
        return lode_fail_errno(err, "%s", o->file);
    bytes = (uint64_t)st.st_size;
    if (o->json)
        r.faults = json_array();
    lode_progress_begin(&r.progress, o->file, bytes, o->quiet || o->json);
    done = lode_verify(o->file, &v, fault_count, err);
    lode_progress_end(&r.progress);
    if (!done && err->code == LODE_E_CORRUPT && *fault_count != 0)
        done = true; /* it was told as a fault */
    if (done && o->json)
        done = print_json(&r, *fault_count, absent, err);
    else if (done && !o->quiet && *fault_count == 0 && absent != 0)
        printf("%s: no fault, but %" PRIu32 " blocks are not in this file\n",
               o->file, absent);
    else if (done && !o->quiet && *fault_count == 0)
        printf("%s: no fault in %" PRIu64 " bytes\n", o->file, bytes);
    else if (done && !o->quiet)
        printf("%s: %" PRIu64 " fault%s\n", o->file, *fault_count,
               *fault_count == 1 ? "" : "s");
    json_decref(r.faults);
    return done;
}

int
cmd_verify(int argc, char **argv)
{
    struct options o = {0};
    struct lode_error err = {0};
    uint64_t fault_count = 0;
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && verify(&o, &fault_count, &err);
    if (ok)
        return fault_count != 0 ? lode_exit_status(LODE_E_CORRUPT) : 0;
    return lode_cli_report("lode verify", &err);
}
