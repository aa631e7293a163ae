/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/cmd.h"
#include "convert/cmd_diff.h"
#include "convert/input.h"
#include "format/lode_write.h"

enum { STATUS_DIFFERENT = 1 };

struct options {
    const char *files[2];
    const char *expect_root;
    struct lode_opt_list folders;
    bool json;
    bool quiet;
};

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        CV_OPT_DIR(&o->folders),
        {"expect-root", 0, LODE_OPT_TEXT, &o->expect_root, "HEX",
         "refuse A unless this is its content root"},
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL, "print JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL,
         "print nothing; the exit status tells"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode diff [OPTION]... A B",
        "Say what containers or sets A and B hold "
        "differently.\nExit status 0: the same, 1: not, or it "
        "could not be told."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 2)
        return lode_fail(err, LODE_E_USAGE,
                         "expected two containers, found %d arguments",
                         argc - first);
    o->files[0] = argv[first];
    o->files[1] = argv[first + 1];
    return true;
}

/* ---- one difference ---- */

const char *
cmd_diff_kind(const struct cv_difference *d)
{
    switch (d->kind) {
    case CV_DIFF_BLOCK:
        return "block";
    case CV_DIFF_TENSOR:
        return "tensor";
    case CV_DIFF_FILE:
        return "file";
    case CV_ONLY_IN_A:
        return "only in the first";
    case CV_ONLY_IN_B:
        return "only in the second";
    case CV_DIFF_UNKNOWN:
        return "not here";
    }
    return "";
}

void
cmd_diff_print(const struct cv_difference *d)
{
    char text[256];

    if (d->delta != NULL)
        printf("%s %s: %s\n", cmd_diff_kind(d), d->name,
               cv_delta_text(d->delta, text, sizeof(text)));
    else if (d->kind == CV_DIFF_BLOCK)
        printf("block of %s: another content digest\n", d->name);
    else
        printf("%s: %s\n", cmd_diff_kind(d), d->name);
}

bool
cmd_diff_push(json_t *list, const struct cv_difference *d)
{
    json_t *o = json_object();
    bool ok = lode_json_set(o, "kind", json_string(cmd_diff_kind(d))) &&
              lode_json_set(o, "name", json_string(d->name));

    if (ok && d->delta != NULL && d->delta->verdict == CV_DIFFERENT)
        ok = lode_json_set(
                 o, "different_values",
                 json_integer((json_int_t)d->delta->different_count)) &&
             lode_json_set(o, "first_element",
                           json_integer((json_int_t)d->delta->first_element)) &&
             lode_json_set(o, "relative_error",
                           isfinite(d->delta->relative)
                               ? json_real(d->delta->relative)
                               : json_null());
    else if (ok && d->delta != NULL && d->delta->verdict == CV_DIFFERENT_BYTES)
        ok = lode_json_set(o, "first_byte",
                           json_integer((json_int_t)d->delta->first_element));
    return lode_json_push(list, o) && ok;
}

/* ---- the whole ---- */

struct work {
    const struct options *opt;
    struct lode_reader *r[2];
    struct cv_diff d;
    json_t *list;
    bool no_memory;
    bool same;
    bool same_order;
};

static void
on_difference(void *user, const struct cv_difference *d)
{
    struct work *w = user;

    if (w->opt->json)
        w->no_memory = !cmd_diff_push(w->list, d) || w->no_memory;
    else if (!w->opt->quiet)
        cmd_diff_print(d);
}

static bool
root_known(const struct lode_reader *r)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(lode_reader_summary(r)->content_root, zero, sizeof(zero)) !=
           0;
}

static bool
compare_order(struct work *w, struct lode_error *err)
{
    uint32_t *order[2] = {NULL, NULL};
    uint32_t count[2];
    bool ok = true;

    for (int i = 0; ok && i < 2; i++)
        ok = lode_reader_order(w->r[i], &order[i], &count[i], err);
    w->same_order =
        ok && count[0] == count[1] &&
        memcmp(order[0], order[1], count[0] * sizeof(uint32_t)) == 0;
    free(order[0]);
    free(order[1]);
    return ok;
}

static bool
compare(struct work *w, struct lode_error *err)
{
    const struct lode_summary *a;
    const struct lode_summary *b;

    for (int i = 0; i < 2; i++)
        if (!cv_input_open(w->opt->files[i], &w->opt->folders,
                           i == 0 ? w->opt->expect_root : NULL, &w->r[i], err))
            return false;
    a = lode_reader_summary(w->r[0]);
    b = lode_reader_summary(w->r[1]);
    w->same = root_known(w->r[0]) &&
              memcmp(a->content_root, b->content_root, LODE_DIGEST_BYTES) == 0;
    if (w->same)
        return a->block_count != b->block_count || compare_order(w, err);
    w->d.tell = on_difference;
    w->d.user = w;
    if (!cv_diff_containers(&w->d, w->r[0], w->r[1], err))
        return false;
    w->same = w->d.difference_count == 0 && w->d.unknown_count == 0;
    return true;
}

static void
print_storage(const struct work *w)
{
    const struct lode_summary *a = lode_reader_summary(w->r[0]);
    const struct lode_summary *b = lode_reader_summary(w->r[1]);

    printf("same content%s\n",
           memcmp(a->index_digest, b->index_digest, LODE_DIGEST_BYTES) == 0
               ? ", same index"
               : "");
    if (a->stored_bytes != b->stored_bytes || a->packed != b->packed)
        printf("  stored bytes  %" PRIu64 " %s, %" PRIu64 " %s\n",
               a->stored_bytes, a->packed ? "packed" : "raw", b->stored_bytes,
               b->packed ? "packed" : "raw");
    if (a->align_bytes != b->align_bytes)
        printf("  alignment     %" PRIu32 ", %" PRIu32 "\n", a->align_bytes,
               b->align_bytes);
    if (a->volume_count != b->volume_count)
        printf("  files         %" PRIu32 ", %" PRIu32 "\n", a->volume_count,
               b->volume_count);
    if (a->present_count != b->present_count)
        printf("  blocks here   %" PRIu32 ", %" PRIu32 "\n", a->present_count,
               b->present_count);
    if (!w->same_order)
        printf("  order         differs\n");
    if (strcmp(a->label, b->label) != 0)
        printf("  label         \"%s\", \"%s\"\n", a->label, b->label);
}

static json_t *
storage_json(const struct lode_reader *r)
{
    const struct lode_summary *s = lode_reader_summary(r);
    char hex[2 * LODE_DIGEST_BYTES + 1];
    json_t *o = json_object();

    if (lode_json_set(o, "file", json_string(lode_reader_path(r))) &&
        lode_json_set(o, "root",
                      root_known(r)
                          ? json_string(lode_hex(s->content_root, hex))
                          : json_null()) &&
        lode_json_set(o, "index_digest",
                      json_string(lode_hex(s->index_digest, hex))) &&
        lode_json_set(o, "stored_bytes",
                      json_integer((json_int_t)s->stored_bytes)) &&
        lode_json_set(o, "packed", json_boolean(s->packed)) &&
        lode_json_set(o, "align_bytes", json_integer(s->align_bytes)) &&
        lode_json_set(o, "files", json_integer(s->volume_count)) &&
        lode_json_set(o, "blocks_here", json_integer(s->present_count)))
        return o;
    json_decref(o);
    return NULL;
}

static bool
print_json(struct work *w, struct lode_error *err)
{
    json_t *o = json_object();
    bool ok =
        !w->no_memory && lode_json_set(o, "same", json_boolean(w->same)) &&
        lode_json_set(o, "a", storage_json(w->r[0])) &&
        lode_json_set(o, "b", storage_json(w->r[1])) &&
        lode_json_set(o, "same_groups", json_integer(w->d.same_group_count)) &&
        lode_json_set(o, "difference_count",
                      json_integer((json_int_t)w->d.difference_count)) &&
        lode_json_set(o, "unknown_count",
                      json_integer((json_int_t)w->d.unknown_count)) &&
        lode_json_set(o, "differences", json_incref(w->list));

    if (!ok) {
        json_decref(o);
        o = NULL;
    }
    return lode_json_print(o, err);
}

int
cmd_diff(int argc, char **argv)
{
    struct options o = {0};
    struct work w = {.opt = &o};
    struct lode_error err = {0};
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    lode_cli_catch_signals();
    if (o.json)
        w.list = json_array();
    ok = ok && compare(&w, &err) && (!o.json || print_json(&w, &err));
    if (ok && !o.json && !o.quiet && w.same)
        print_storage(&w);
    else if (ok && !o.json && !o.quiet)
        printf("%" PRIu64 " differ, %" PRIu64 " could not be compared, %" PRIu32
               " groups are the same\n",
               w.d.difference_count, w.d.unknown_count, w.d.same_group_count);
    json_decref(w.list);
    lode_reader_close(w.r[0]);
    lode_reader_close(w.r[1]);
    if (ok)
        return w.same ? 0 : STATUS_DIFFERENT;
    (void)lode_cli_report("lode diff", &err);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
