/* SPDX-License-Identifier: Apache-2.0
 *
 * The text that a publisher signs with a tool of theirs.  It follows from the
 * container and the options alone: no clock is read. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cli.h"
#include "convert/cmd.h"
#include "convert/input.h"
#include "format/lode.h"

struct options {
    const char *file;
    const char *expect_root;
    const char *date;
    const char *release;
    const char *source;
    struct lode_opt_list folders;
};

/* A value is one line of printable ASCII. */
static bool
check_value(const char *option, const char *value, const char *allowed,
            struct lode_error *err)
{
    if (value == NULL)
        return true;
    for (const char *p = value; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' ||
            (allowed != NULL && strchr(allowed, *p) == NULL))
            return lode_fail(err, LODE_E_USAGE,
                             "--%s: byte 0x%02x has no place there", option,
                             (unsigned)(unsigned char)*p);
    return value[0] != '\0' ||
           lode_fail(err, LODE_E_USAGE, "--%s: is empty", option);
}

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"release", 0, LODE_OPT_TEXT, &o->release, "N",
         "a number that grows with each release"},
        {"date", 0, LODE_OPT_TEXT, &o->date, "DATE",
         "of the release, as 2026-12-01"},
        {"source", 0, LODE_OPT_TEXT, &o->source, "NAME",
         "where the checkpoint is published, as org/model@revision"},
        CV_OPT_DIR(&o->folders),
        CV_OPT_EXPECT(&o->expect_root),
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode statement [OPTION]... FILE",
        "Print what there is to sign of container or set FILE."};
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
    return check_value("release", o->release, "0123456789", err) &&
           check_value("date", o->date, "0123456789-:TZ+.", err) &&
           check_value("source", o->source, NULL, err);
}

static bool
check_root(const struct lode_reader *r, struct lode_error *err)
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(lode_reader_summary(r)->content_root, zero, sizeof(zero)) !=
               0 ||
           lode_fail(err, LODE_E_UNSUPPORTED,
                     "%s: its content root is not known, there is nothing to "
                     "sign",
                     lode_reader_path(r));
}

/* The files' own names are their owner's choice and not said. */
static void
print_files(const struct lode_reader *r)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];

    for (uint32_t i = 0; i < lode_reader_summary(r)->volume_count; i++) {
        const struct lode_volume *v = lode_reader_volume(r, i);

        printf("volume %s %" PRIu64 " %s\n", i == 0 ? "-" : v->name,
               v->file_bytes, lode_hex(v->index_digest, hex));
    }
}

static bool
print_statement(const struct options *o, const struct lode_reader *r,
                struct lode_error *err)
{
    char hex[2 * LODE_DIGEST_BYTES + 1];
    bool lossless;

    if (!check_root(r, err) || !cv_input_lossless(r, &lossless, err))
        return false;
    puts("lode-statement 1");
    printf("content-root %s\n",
           lode_hex(lode_reader_summary(r)->content_root, hex));
    if (o->release != NULL)
        printf("release %s\n", o->release);
    if (o->date != NULL)
        printf("date %s\n", o->date);
    if (o->source != NULL)
        printf("source %s\n", o->source);
    printf("lossless %s\n", lossless ? "yes" : "no");
    print_files(r);
    return true;
}

int
cmd_statement(int argc, char **argv)
{
    struct options o = {0};
    struct lode_reader *r = NULL;
    struct lode_error err = {0};
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && cv_input_open(o.file, &o.folders, o.expect_root, &r, &err) &&
         print_statement(&o, r, &err);
    lode_reader_close(r);
    return ok ? 0 : lode_cli_report("lode statement", &err);
}
