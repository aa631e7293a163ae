/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <signal.h>

#include "base/cli.h"
#include "tests/tap.h"

struct values {
    bool quiet;
    const char *text;
    uint64_t size;
    uint64_t count;
    double ratio;
    struct lode_opt_list folders;
    int first;
    bool help;
};

/* Parse up to six words behind the program's name; moved is where argv ends up.
 */
static bool
parse(struct values *v, const char *const words[6], char **moved,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"quiet", 'q', LODE_OPT_FLAG, &v->quiet, NULL, "say nothing"},
        {"text", 0, LODE_OPT_TEXT, &v->text, "TEXT", "a text"},
        {"size", 's', LODE_OPT_SIZE, &v->size, "SIZE", "a size"},
        {"count", 'n', LODE_OPT_U64, &v->count, "N", "a number"},
        {"ratio", 0, LODE_OPT_F64, &v->ratio, "X", "a fraction"},
        {"dir", 0, LODE_OPT_LIST, &v->folders, "DIR", "a folder"},
        {0}};
    const struct lode_usage usage = {table, "prog [OPTION]... FILE", "Test."};
    static char program[] = "prog";
    int argc = 1;

    memset(v, 0, sizeof(*v));
    moved[0] = program;
    for (int i = 0; i < 6 && words[i] != NULL; i++)
        moved[argc++] = (char *)(uintptr_t)words[i];
    moved[argc] = NULL;
    return lode_cli_parse(argc, moved, &usage, &v->first, &v->help, err);
}

static void
test_good(void)
{
    struct lode_error err;
    struct values v;
    char *moved[8];

    must(parse(&v, (const char *[6]){"a", "--size=2K", "-q", "b", "-n", "7"},
               moved, &err),
         &err);
    ok(v.quiet && v.size == 2048 && v.count == 7, "options between arguments");
    is_u64((uint64_t)v.first, 5, "arguments are moved to the end");
    is_str(moved[5], "a", "in their order");
    is_str(moved[6], "b", "in their order");
    must(parse(&v, (const char *[6]){"--text", "-q", "--", "--size"}, moved,
               &err),
         &err);
    is_str(v.text, "-q", "a value that looks like an option");
    is_str(moved[v.first], "--size", "nothing is an option behind --");
    must(parse(&v, (const char *[6]){"--ratio=-0.5", "-s1.5M"}, moved, &err),
         &err);
    ok(v.ratio == -0.5 && v.size == 1536 << 10, "fractions");
    ok(!v.help, "no help was asked for");
    must(parse(&v, (const char *[6]){"--dir", "a", "b", "--dir=c"}, moved,
               &err),
         &err);
    is_u64(v.folders.count, 2, "an option given twice");
    is_str(v.folders.items[0], "a", "its first value");
    is_str(v.folders.items[1], "c", "its second value");
    ok(v.folders.items[2] == NULL, "the list is ended");
}

static void
test_long_list(void)
{
    struct lode_opt_list list = {{NULL}, 0};
    const struct lode_opt table[] = {
        {"dir", 'd', LODE_OPT_LIST, &list, "DIR", "a folder"}, {0}};
    static char word[] = "-dx";
    const struct lode_usage usage = {table, "", ""};
    char *argv[LODE_OPT_LIST_MAX + 3];
    struct lode_error err;
    bool help;
    int first;

    for (int i = 0; i < LODE_OPT_LIST_MAX + 2; i++)
        argv[i] = word;
    argv[LODE_OPT_LIST_MAX + 2] = NULL;
    must(lode_cli_parse(LODE_OPT_LIST_MAX + 1, argv, &usage, &first, &help,
                        &err),
         &err);
    is_u64(list.count, LODE_OPT_LIST_MAX, "a list that is full");
    list.count = 0;
    fails_with(lode_cli_parse(LODE_OPT_LIST_MAX + 2, argv, &usage, &first,
                              &help, &err),
               &err, LODE_E_USAGE, "--dir: given more than 64 times",
               "one more");
}

static void
test_bad(void)
{
    static const struct {
        const char *words[6];
        const char *message;
    } cases[] = {
        {{"--nope"}, "unknown option --nope"},
        {{"-x"}, "unknown option -x"},
        {{"--size"}, "option --size needs a value"},
        {{"--quiet=1"}, "--quiet"},
        {{"--size=big"}, "--size: \"big\" is not a size"},
        {{"--count=-1"}, "--count: \"-1\" is not a whole number"},
        {{"--count=1x"}, "--count: \"1x\" is not a whole number"},
        {{"--count="}, "--count: \"\" is not a whole number"},
        {{"--count=18446744073709551616"}, "is not a whole number"},
        {{"--ratio=nan"}, "--ratio: \"nan\" is not a number"},
        {{"--ratio=inf"}, "--ratio: \"inf\" is not a number"},
        {{"--ratio=1e999"}, "--ratio: \"1e999\" is not a number"},
        {{"--ratio=1,5"}, "--ratio: \"1,5\" is not a number"},
    };
    struct lode_error err;
    struct values v;
    char *moved[8];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fails_with(parse(&v, cases[i].words, moved, &err), &err, LODE_E_USAGE,
                   cases[i].message, cases[i].words[0]);
}

static void
test_sizes(void)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"0", 0},
                {"65536", 65536},
                {"512M", 512 << 20},
                {"8G", UINT64_C(8) << 30},
                {"8g", UINT64_C(8) << 30},
                {"8GiB", UINT64_C(8) << 30},
                {"8GB", UINT64_C(8) << 30},
                {"1.5T", UINT64_C(3) << 39},
                {".5K", 512}};
    static const char *const bad[] = {"",    "G",    "-1",      "+1",  " 1",
                                      "1 G", "1X",   "1GG",     "1Gi", "nan",
                                      "inf", "1e30", "9000000T"};
    struct lode_error err;
    uint64_t bytes;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        must(lode_parse_size(good[i].text, &bytes, &err), &err);
        is_u64(bytes, good[i].bytes, "size %s", good[i].text);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fails_with(lode_parse_size(bad[i], &bytes, &err), &err, LODE_E_USAGE,
                   "is not a size; write 512M", bad[i]);
}

static void
test_format(void)
{
    char out[32];

    is_str(lode_format_bytes(0, out, 32), "0 B", "0");
    is_str(lode_format_bytes(999, out, 32), "999 B", "999");
    is_str(lode_format_bytes(1000, out, 32), "1.00 KB", "1000");
    is_str(lode_format_bytes(17547264, out, 32), "17.5 MB", "17.5 MB");
    is_str(lode_format_bytes(999960, out, 32), "1.00 MB", "rounds up a unit");
    is_str(lode_format_bytes(UINT64_C(1560000000000), out, 32), "1.56 TB",
           "1.56 TB");
}

static void
test_signals(void)
{
    lode_cli_catch_signals();
    ok(lode_cancelled == 0, "nothing caught yet");
    ok(raise(SIGTERM) == 0 && lode_cancelled == SIGTERM, "caught");
}

int
main(void)
{
    test_good();
    test_long_list();
    test_bad();
    test_sizes();
    test_format();
    test_signals();
    return done_testing();
}
