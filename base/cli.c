/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OPTIONS_MAX = 48, FIRST_LONG_VALUE = 256 };

/* Other threads look at it, and an atomic int without a lock may be set by a
 * signal handler, too. */
atomic_int lode_cancelled;
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "an atomic int has no lock");

static void
on_signal(int number)
{
    lode_cancelled = number;
}

void
lode_cli_catch_signals(void)
{
    struct sigaction sa;

    memset(&sa, 0, sizeof(sa));
    sa.sa_handler = on_signal;
    sa.sa_flags = (int)SA_RESETHAND; /* a second signal ends us at once */
    (void)sigaction(SIGINT, &sa, NULL);  /* valid arguments: cannot fail */
    (void)sigaction(SIGTERM, &sa, NULL); /* likewise */
}

void
lode_cli_reraise(void)
{
    if (lode_cancelled != 0) {
        (void)signal(lode_cancelled, SIG_DFL); /* we are about to die of it */
        (void)raise(lode_cancelled);           /* likewise */
    }
}

uint64_t
lode_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts); /* always there on Linux */
    return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

bool
lode_parse_size(const char *text, uint64_t *bytes, struct lode_error *err)
{
    static const char suffixes[] = "KMGT";
    const char *found;
    double scale = 1;
    double value;
    char *end;

    errno = 0;
    value = strtod(text, &end);
    if (end == text || errno != 0 || !(value >= 0) || text[0] == '-' ||
        text[0] == '+' || text[0] == ' ')
        goto bad;
    if (*end != '\0') {
        char letter = *end;

        if (letter >= 'a' && letter <= 'z')
            letter = (char)(letter - 'a' + 'A');
        found = strchr(suffixes, letter);
        if (found == NULL)
            goto bad;
        for (const char *p = suffixes; p <= found; p++)
            scale *= 1024;
        end++;
        if (end[0] == 'i' && end[1] == 'B')
            end++;
        if (end[0] == 'B')
            end++;
        if (*end != '\0')
            goto bad;
    }
    value *= scale;
    if (!(value < 9.0e18))
        goto bad;
    *bytes = (uint64_t)value;
    return true;
bad:
    return lode_fail(err, LODE_E_USAGE,
                     "\"%s\" is not a size; write 512M, 8G, 1.5T or bytes",
                     text);
}

const char *
lode_format_bytes(uint64_t bytes, char *out, size_t out_bytes)
{
    static const char *const unit[] = {"B", "KB", "MB", "GB", "TB", "PB"};
    double value = (double)bytes;
    size_t i = 0;

    while (value >= 999.95 && i < sizeof(unit) / sizeof(unit[0]) - 1) {
        value /= 1000;
        i++;
    }
    if (i == 0)
        (void)snprintf(out, out_bytes, "%" PRIu64 " B", bytes);
    else
        (void)snprintf(out, out_bytes, "%.*f %s", value < 10 ? 2 : 1, value,
                       unit[i]);
    return out;
}

static void
print_help(const struct lode_usage *u)
{
    printf("Usage: %s\n%s\n\nOptions:\n", u->synopsis, u->summary);
    for (const struct lode_opt *o = u->options; o->name != NULL; o++) {
        char left[64];

        (void)snprintf(left, sizeof(left), "%s%c%s--%s%s%s",
                       o->letter != 0 ? "-" : " ",
                       o->letter != 0 ? o->letter : ' ',
                       o->letter != 0 ? ", " : "  ", o->name,
                       o->argument != NULL ? " " : "",
                       o->argument != NULL ? o->argument : "");
        printf("  %-28s %s\n", left, o->help);
    }
    printf("      %-24s %s\n", "--help", "print this and exit");
}

static bool
parse_u64(const char *text, uint64_t *out)
{
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0)
        return false;
    *out = value;
    return true;
}

static bool
add_to_list(const struct lode_opt *o, const char *value, struct lode_error *err)
{
    struct lode_opt_list *list = o->target;

    if (list->count == LODE_OPT_LIST_MAX)
        return lode_fail(err, LODE_E_USAGE, "--%s: given more than %d times",
                         o->name, LODE_OPT_LIST_MAX);
    list->items[list->count++] = value;
    return true;
}

static bool
store(const struct lode_opt *o, const char *value, struct lode_error *err)
{
    char *end;
    double number;

    switch (o->type) {
    case LODE_OPT_FLAG:
        *(bool *)o->target = true;
        return true;
    case LODE_OPT_TEXT:
        *(const char **)o->target = value;
        return true;
    case LODE_OPT_LIST:
        return add_to_list(o, value, err);
    case LODE_OPT_SIZE:
        if (!lode_parse_size(value, o->target, err))
            return lode_fail_in(err, "--%s", o->name);
        return true;
    case LODE_OPT_U64:
        if (parse_u64(value, o->target))
            return true;
        return lode_fail(err, LODE_E_USAGE,
                         "--%s: \"%s\" is not a whole number", o->name, value);
    case LODE_OPT_F64:
        number = strtod(value, &end);
        if (end != value && *end == '\0' && isfinite(number)) {
            *(double *)o->target = number;
            return true;
        }
        break;
    }
    return lode_fail(err, LODE_E_USAGE, "--%s: \"%s\" is not a number", o->name,
                     value);
}

bool
lode_cli_parse(int argc, char **argv, const struct lode_usage *u, int *first,
               bool *help_shown, struct lode_error *err)
{
    const struct lode_opt *table = u->options;
    struct option longs[OPTIONS_MAX + 2];
    char shorts[2 * OPTIONS_MAX + 2];
    size_t n = 0;
    size_t s = 0;
    int c;

    memset(longs, 0, sizeof(longs));
    shorts[s++] = ':';
    for (; table[n].name != NULL && n < OPTIONS_MAX; n++) {
        bool takes = table[n].type != LODE_OPT_FLAG;

        longs[n].name = table[n].name;
        longs[n].has_arg = takes ? required_argument : no_argument;
        longs[n].val = FIRST_LONG_VALUE + (int)n;
        if (table[n].letter != 0) {
            shorts[s++] = table[n].letter;
            if (takes)
                shorts[s++] = ':';
        }
    }
    shorts[s] = '\0';
    longs[n].name = "help";
    longs[n].val = FIRST_LONG_VALUE + (int)n;
    *help_shown = false;
    optind = 0; /* glibc: start afresh, also within one process */
    while ((c = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
        size_t i = 0;

        if (c == '?' || c == ':')
            return lode_fail(err, LODE_E_USAGE, c == ':'
                             ? "option %s needs a value"
                             : "unknown option %s (see --help)",
                             argv[optind - 1]);
        if (c == FIRST_LONG_VALUE + (int)n) {
            print_help(u);
            *help_shown = true;
            return true;
        }
        while (c < FIRST_LONG_VALUE ? table[i].letter != (char)c
                                    : (int)i != c - FIRST_LONG_VALUE)
            i++;
        if (!store(&table[i], optarg, err))
            return false;
    }
    *first = optind;
    return true;
}

int
lode_cli_report(const char *program, const struct lode_error *err)
{
    fprintf(stderr, "%s: %s\n", program, err->text);
    return lode_exit_status(err->code);
}

int
lode_cli_flushed(const char *program, int status)
{
    bool failed = fflush(stdout) != 0 || ferror(stdout) != 0;

    if (!failed || status != 0)
        return status;
    fprintf(stderr, "%s: standard output cannot be written to\n", program);
    return 1;
}

void
lode_progress_begin(struct lode_progress *p, const char *what,
                    uint64_t total_bytes, bool quiet)
{
    memset(p, 0, sizeof(*p));
    p->what = what;
    p->total_bytes = total_bytes;
    p->start_ns = lode_now_ns();
    p->enabled = !quiet && isatty(STDERR_FILENO) == 1;
}

static void
draw(struct lode_progress *p, uint64_t now)
{
    double seconds = (double)(now - p->start_ns) / 1e9;
    double rate = seconds > 0 ? (double)p->done_bytes / seconds : 0;
    uint64_t left_bytes =
        p->total_bytes > p->done_bytes ? p->total_bytes - p->done_bytes : 0;
    uint64_t left = rate > 0 ? (uint64_t)((double)left_bytes / rate) : 0;
    char done[32];
    char total[32];
    char speed[32];

    fprintf(stderr,
            "\r%s %s of %s (%d %%), %s/s, %" PRIu64 ":%02" PRIu64
            ":%02" PRIu64 " left \033[K",
            p->what, lode_format_bytes(p->done_bytes, done, sizeof(done)),
            lode_format_bytes(p->total_bytes, total, sizeof(total)),
            p->total_bytes != 0
                ? (int)((double)p->done_bytes / (double)p->total_bytes * 100)
                : 100,
            lode_format_bytes((uint64_t)rate, speed, sizeof(speed)),
            left / 3600, left / 60 % 60, left % 60);
    p->shown_ns = now;
}

void
lode_progress_add(struct lode_progress *p, uint64_t bytes)
{
    uint64_t now;

    p->done_bytes += bytes;
    if (!p->enabled)
        return;
    now = lode_now_ns();
    if (now - p->shown_ns > 200000000U)
        draw(p, now);
}

void
lode_progress_end(struct lode_progress *p)
{
    if (!p->enabled)
        return;
    draw(p, lode_now_ns());
    fputc('\n', stderr);
}
