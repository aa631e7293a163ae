/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/file.h"
#include "convert/cmd.h"

#ifndef LODE_BINDIR
#define LODE_BINDIR "/usr/local/bin"
#endif

static const struct lode_command commands[] = {
    {"convert", cmd_convert, "turn a published checkpoint into a container"},
    {"info", cmd_info, "say what a container holds"},
    {"verify", cmd_verify, "check every byte of a container"},
    {"repack", cmd_repack, "recompress, reorder, split, join, prune"},
    {"extract", cmd_extract, "give the original files back"},
    {"repair", cmd_repair, "make a damaged container whole again"},
    {"diff", cmd_diff, "say what two containers hold differently"},
    {"statement", cmd_statement, "print what there is to sign"},
    {NULL, NULL, NULL},
};

/* These are the other program's. */
static const struct lode_command run_commands[] = {
    {"run", NULL, "generate text"},
    {"eval", NULL, "score tokens: logits, choices of experts, perplexity"},
    {"plan", NULL, "say what a memory budget would hold"},
    {NULL, NULL, NULL},
};

static void
print_commands(FILE *f, const struct lode_command *table)
{
    for (; table->name != NULL; table++)
        fprintf(f, "  %-9s %s\n", table->name, table->summary);
}

static void
print_usage(FILE *f)
{
    fputs("Usage: lode COMMAND [OPTION]... FILE...\n"
          "Keep a mixture-of-experts model in one expert-aligned file, and run "
          "it.\n\nCommands:\n", f);
    print_commands(f, commands);
    print_commands(f, run_commands);
    fputs("\n\"lode COMMAND --help\" lists the options of a command.\n"
          "Exit status: 0 done, 1 failed, 2 wrong usage, 3 the input is "
          "damaged,\n4 the input needs a newer program.\n", f);
}

static const struct lode_command *
find(const struct lode_command *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

/* Letters to change, put in or leave out to make one word of the other. */
static size_t
distance(const char *a, const char *b)
{
    enum { WORD_MAX = 24 };
    size_t row[WORD_MAX + 1];
    size_t n = strlen(a);

    if (n > WORD_MAX || strlen(b) > WORD_MAX)
        return WORD_MAX;
    for (size_t i = 0; i <= n; i++)
        row[i] = i;
    for (size_t j = 1; b[j - 1] != '\0'; j++) {
        size_t corner = row[0];

        row[0] = j;
        for (size_t i = 1; i <= n; i++) {
            size_t best = corner + (a[i - 1] != b[j - 1]);

            corner = row[i];
            if (row[i] + 1 < best)
                best = row[i] + 1;
            if (row[i - 1] + 1 < best)
                best = row[i - 1] + 1;
            row[i] = best;
        }
    }
    return row[n];
}

static void
nearest(const struct lode_command *table, const char *name, size_t *best,
        const char **found)
{
    for (; table->name != NULL; table++) {
        size_t d = distance(table->name, name);

        if (d < *best) {
            *best = d;
            *found = table->name;
        }
    }
}

static int
unknown_command(const char *name)
{
    const char *found = NULL;
    size_t best = 3; /* farther is no typing error */

    nearest(commands, name, &best, &found);
    nearest(run_commands, name, &best, &found);
    fprintf(stderr, "lode: unknown command \"%s\"", name);
    if (found != NULL)
        fprintf(stderr, "; did you mean \"%s\"?\n", found);
    else
        fputs("; see lode --help\n", stderr);
    return lode_exit_status(LODE_E_USAGE);
}

/* lode-run lies beside this program, or where it was installed. */
static bool
find_runtime(char *out, size_t out_bytes)
{
    ssize_t n = readlink("/proc/self/exe", out, out_bytes - 1);
    char *slash;

    if (n > 0) {
        out[n] = '\0';
        slash = strrchr(out, '/');
        if (slash != NULL &&
            (size_t)(slash - out) + sizeof("/lode-run") <= out_bytes) {
            strcpy(slash, "/lode-run");
            if (access(out, X_OK) == 0)
                return true;
        }
    }
    (void)snprintf(out, out_bytes, "%s/lode-run", LODE_BINDIR);
    return access(out, X_OK) == 0;
}

static int
exec_runtime(int argc, char **argv)
{
    char path[4096];
    char **args;

    if (!find_runtime(path, sizeof(path))) {
        fprintf(stderr,
                "lode: %s needs the program lode-run, which is neither beside "
                "lode nor in %s\n", argv[1], LODE_BINDIR);
        return 1;
    }
    args = calloc((size_t)argc + 1, sizeof(*args));
    if (args == NULL) {
        fputs("lode: out of memory\n", stderr);
        return 1;
    }
    args[0] = path;
    for (int i = 1; i < argc; i++)
        args[i] = argv[i];
    (void)execv(path, args); /* returns only when it failed */
    fprintf(stderr, "lode: %s: %s\n", path, strerror(errno));
    free(args);
    return 1;
}

int
main(int argc, char **argv)
{
    const struct lode_command *c;

    if (argc < 2) {
        print_usage(stderr);
        return lode_exit_status(LODE_E_USAGE);
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return lode_cli_flushed("lode", 0);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts(PACKAGE_STRING);
        return lode_cli_flushed("lode", 0);
    }
    c = find(commands, argv[1]);
    if (c != NULL)
        return lode_cli_flushed("lode", c->run(argc - 1, argv + 1));
    if (find(run_commands, argv[1]) != NULL)
        return exec_runtime(argc, argv);
    return unknown_command(argv[1]);
}
