/* SPDX-License-Identifier: Apache-2.0
 *
 * What both programs' command lines share: option tables (they drive
 * getopt_long and print the help, so help cannot drift), sizes with suffixes,
 * progress lines, and the signal flag.  This file and the cmd_*.c files are
 * the only ones that print. */

#ifndef LODE_BASE_CLI_H
#define LODE_BASE_CLI_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum lode_opt_type {
    LODE_OPT_FLAG,   /* bool *; set to true */
    LODE_OPT_TEXT,   /* const char **; borrowed from argv */
    LODE_OPT_SIZE,   /* uint64_t *; "8G": K M G T are powers of 1024 */
    LODE_OPT_U64,    /* uint64_t * */
    LODE_OPT_F64,    /* double *; finite */
    LODE_OPT_LIST,   /* struct lode_opt_list *; each use adds a text */
};

enum { LODE_OPT_LIST_MAX = 64 };

struct lode_opt_list {
    const char *items[LODE_OPT_LIST_MAX + 1]; /* borrowed; NULL ends it */
    size_t count;
};

struct lode_opt {
    const char *name; /* long name without dashes; NULL ends the table */
    char letter;      /* one-letter form, or 0 */
    enum lode_opt_type type;
    void *target;
    const char *argument; /* "SIZE"; NULL for flags */
    const char *help;
};

/* What a command takes, and what --help says about it. */
struct lode_usage {
    const struct lode_opt *options;
    const char *synopsis; /* "lode info [OPTION]... FILE" */
    const char *summary;
};

struct lode_command {
    const char *name; /* NULL ends a table of commands */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    const char *summary;
};

/* Parse argv[1..] by u's options.  Arguments that are no options are moved to
 * the end, and *first is the index of the first of them.  "--help" prints
 * usage (synopsis, options) to stdout and sets *help_shown.  Fails with
 * LODE_E_USAGE. */
LODE_MUST_CHECK
bool lode_cli_parse(int argc, char **argv, const struct lode_usage *u,
                    int *first, bool *help_shown, struct lode_error *err);

/* "8G", "512M", "1.5T", "65536" into bytes; LODE_E_USAGE otherwise. */
LODE_MUST_CHECK
bool lode_parse_size(const char *text, uint64_t *bytes, struct lode_error *err);

/* "17.5 MB" (powers of 1000) into out; returns out. */
const char *lode_format_bytes(uint64_t bytes, char *out, size_t out_bytes);

/* "program: text" to stderr; returns lode_exit_status(err->code). */
int lode_cli_report(const char *program, const struct lode_error *err);

/* For the end of main: status, or 1 with a message when it is 0 and the
 * standard output cannot be written to.  A command whose output did not arrive
 * has not succeeded. */
int lode_cli_flushed(const char *program, int status);

/* One line on stderr, redrawn at most five times a second, when stderr is a
 * terminal and quiet is false: what, bytes, percent, rate, time left. */
struct lode_progress {
    const char *what;
    uint64_t total_bytes;
    uint64_t done_bytes;
    uint64_t start_ns;
    uint64_t shown_ns;
    bool enabled;
};

void lode_progress_begin(struct lode_progress *p, const char *what,
                         uint64_t total_bytes, bool quiet);
void lode_progress_add(struct lode_progress *p, uint64_t bytes);
void lode_progress_end(struct lode_progress *p);

uint64_t lode_now_ns(void); /* CLOCK_MONOTONIC */

/* Set by SIGINT and SIGTERM once lode_cli_catch_signals() was called; loops
 * look at it and fail with LODE_E_CANCELLED. */
extern atomic_int lode_cancelled;
void lode_cli_catch_signals(void);

/* After cleaning up: die by the signal that was caught, as shells expect. */
void lode_cli_reraise(void);

#endif
