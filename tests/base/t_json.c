/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>

#include "base/json.h"
#include "tests/tap.h"

static bool
parse(const char *text, struct lode_error *err)
{
    json_t *root = NULL;
    bool good = lode_json_parse(text, strlen(text), &root, err);

    json_decref(root);
    return good;
}

static void
test_parse(void)
{
    struct lode_error err;

    ok(parse("{\"a\": [1, 2.5, \"x\", true, null]}", &err), "a document");
    fails_with(parse("{\"a\": 1, \"a\": 2}", &err), &err, LODE_E_CORRUPT,
               "duplicate", "the same key twice");
    fails_with(parse("{\"a\": }", &err), &err, LODE_E_CORRUPT,
               "JSON: line 1 column 7", "syntax: says where");
    fails_with(parse("{} x", &err), &err, LODE_E_CORRUPT, "JSON: line 1",
               "something behind it");
    fails_with(parse("", &err), &err, LODE_E_CORRUPT, "JSON: line 1",
               "nothing");
    fails_with(parse("[\"\\ud800\"]", &err), &err, LODE_E_CORRUPT,
               "JSON: ", "half a surrogate pair");
    fails_with(parse("[\"\xff\"]", &err), &err, LODE_E_CORRUPT,
               "JSON: ", "not UTF-8");
}

/* depth arrays around nothing */
static char *
nest(size_t depth)
{
    char *text = malloc(2 * depth + 1);

    if (text == NULL)
        exit(99);
    memset(text, '[', depth);
    memset(text + depth, ']', depth);
    text[2 * depth] = '\0';
    return text;
}

static void
test_limits(void)
{
    size_t n = LODE_JSON_STRING_BYTES_MAX;
    char *text = nest(LODE_JSON_DEPTH_MAX);
    struct lode_error err;

    ok(parse(text, &err), "nested to the limit");
    free(text);
    text = nest(LODE_JSON_DEPTH_MAX + 1);
    fails_with(parse(text, &err), &err, LODE_E_LIMIT,
               "nests deeper than the limit of 64 levels at byte 64",
               "one level deeper");
    free(text);
    text = nest(1000000);
    fails_with(parse(text, &err), &err, LODE_E_LIMIT, "nests deeper",
               "a million levels: no stack is used");
    free(text);
    ok(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
             "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
             "[[[[[[[[\\\"[[[[[[\"]",
             &err),
       "brackets in a string do not nest");
    text = malloc(n + 10);
    if (text == NULL)
        exit(99);
    memset(text, 'x', n + 10);
    memcpy(text, "[\"", 2);
    strcpy(text + n + 2, "\"]");
    fails_with(parse(text, &err), &err, LODE_E_LIMIT,
               "string longer than the limit of 1048576 bytes",
               "a string too long");
    strcpy(text + n + 1, "\"]");
    ok(parse(text, &err), "a string of the limit, its quote included");
    free(text);
}

static void
test_pieces(void)
{
    const char *text = "[\"a\\\"b\", [\"\\\\\", {}]]";
    struct lode_json_guard g;
    struct lode_error err;
    bool good = true;

    lode_json_guard_init(&g, 10);
    for (size_t i = 0; text[i] != '\0'; i++)
        good = good && lode_json_guard_feed(&g, text + i, 1, &err);
    ok(good && g.depth == 0 && !g.in_string && g.offset == strlen(text),
       "byte by byte");
}

static void
test_members(void)
{
    const char *text = "{\"n\": 7, \"x\": 1.5, \"t\": true, \"s\": \"abc\", "
                       "\"z\": null, \"neg\": -1}";
    struct lode_error err;
    const char *s;
    json_t *o;
    uint64_t n;
    double x;
    bool t;

    must(lode_json_parse(text, strlen(text), &o, &err), &err);
    must(lode_json_u64(o, "n", 7, 7, &n, &err), &err);
    is_u64(n, 7, "an integer");
    fails_with(lode_json_u64(o, "n", 8, 9, &n, &err), &err, LODE_E_CORRUPT,
               "\"n\": expected 8 to 9, found 7", "below");
    fails_with(lode_json_u64(o, "n", 0, 6, &n, &err), &err, LODE_E_CORRUPT,
               "\"n\": expected 0 to 6, found 7", "above");
    fails_with(lode_json_u64(o, "neg", 0, UINT64_MAX, &n, &err), &err,
               LODE_E_CORRUPT, "found -1", "negative");
    fails_with(lode_json_u64(o, "x", 0, 9, &n, &err), &err, LODE_E_CORRUPT,
               "\"x\": expected an integer, found a fraction", "a fraction");
    fails_with(lode_json_u64(o, "none", 0, 9, &n, &err), &err, LODE_E_CORRUPT,
               "\"none\": expected an integer, found nothing", "missing");
    must(lode_json_f64(o, "x", &x, &err), &err);
    ok(x == 1.5, "a fraction");
    must(lode_json_f64(o, "n", &x, &err), &err);
    ok(x == 7, "an integer as a number");
    fails_with(lode_json_f64(o, "s", &x, &err), &err, LODE_E_CORRUPT,
               "expected a number, found a string", "no number");
    must(lode_json_bool(o, "t", &t, &err), &err);
    ok(t, "true");
    fails_with(lode_json_bool(o, "n", &t, &err), &err, LODE_E_CORRUPT,
               "expected true or false, found an integer", "1 is not true");
    must(lode_json_string(o, "s", &s, &err), &err);
    is_str(s, "abc", "a string");
    fails_with(lode_json_string(o, "z", &s, &err), &err, LODE_E_CORRUPT,
               "expected a string, found null", "null");
    ok(lode_json_absent(o, "z") && lode_json_absent(o, "none") &&
           !lode_json_absent(o, "n"),
       "absent or null");
    json_decref(o);
}

/* Integers at and beyond the ends of 64 bits. */
static void
test_long_integers(void)
{
    static const struct {
        const char *text;
        const char *found; /* NULL: it is an integer of 64 bits */
    } rows[] = {
        {"9223372036854775807", NULL},
        {"9223372036854775808", "a number beyond 64 bits"},
        {"-9223372036854775808", NULL},
        {"-9223372036854775809", "a number beyond 64 bits"},
        {"9199999999999999999", NULL},
        {"10000000000000000000", "a number beyond 64 bits"},
        {"1000000000000000019884624838656", "a number beyond 64 bits"},
        {"1e30", "a number beyond 64 bits"},
        {"12345678901234567890.5", "a number beyond 64 bits"},
        {"0.12345678901234567890", "a fraction"},
    };
    struct lode_error err;
    char text[256];
    uint64_t n;
    json_t *o;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char want[64];

        (void)snprintf(text, sizeof(text),
                       "{\"s\": \"\\\"99999999999999999999\", \"x\": %s, "
                       "\"far\": [99999999999999999999], \"n\": 7}",
                       rows[i].text);
        must(lode_json_parse(text, strlen(text), &o, &err), &err);
        is_str(json_string_value(json_object_get(o, "s")),
               "\"99999999999999999999", "%s: texts stay", rows[i].text);
        must(lode_json_u64(o, "n", 7, 7, &n, &err), &err);
        (void)snprintf(want, sizeof(want), "\"x\": expected an integer, "
                       "found %s", rows[i].found);
        if (rows[i].found == NULL)
            ok(json_is_integer(json_object_get(o, "x")), "%s: an integer",
               rows[i].text);
        else
            fails_with(lode_json_u64(o, "x", 0, UINT64_MAX, &n, &err), &err,
                       LODE_E_CORRUPT, want, rows[i].text);
        json_decref(o);
    }
    fails_with(parse("{\"x\": 99999999999999999999, \"y\": 01}", &err), &err,
               LODE_E_CORRUPT, "JSON: line 1 column", "still checked");
    fails_with(parse("[000000000000000000000000000001]", &err), &err,
               LODE_E_CORRUPT, "JSON: line 1", "leading zeros");
    fails_with(parse("[99999999999999999999, 1e999]", &err), &err,
               LODE_E_CORRUPT, "real number overflow", "beyond a double");
}

static void
test_bound(void)
{
    const char *text = "{\"n\": 7, \"far\": 99999999999999999999, "
                       "\"real\": 1e30, \"x\": 1.5, \"neg\": -1e30}";
    struct lode_error err;
    uint64_t n = 0;
    json_t *o;

    must(lode_json_parse(text, strlen(text), &o, &err), &err);
    must(lode_json_bound(o, "n", 1, 9, &n, &err), &err);
    is_u64(n, 7, "a bound");
    must(lode_json_bound(o, "n", 1, 6, &n, &err), &err);
    is_u64(n, 6, "a bound above the highest");
    must(lode_json_bound(o, "far", 1, 9, &n, &err), &err);
    is_u64(n, 9, "a bound beyond 64 bits");
    must(lode_json_bound(o, "real", 1, 8, &n, &err), &err);
    is_u64(n, 8, "a bound of 1e30");
    fails_with(lode_json_bound(o, "n", 8, 9, &n, &err), &err, LODE_E_CORRUPT,
               "expected 8 to 9, found 7", "a bound too low");
    fails_with(lode_json_bound(o, "x", 1, 9, &n, &err), &err, LODE_E_CORRUPT,
               "\"x\": expected an integer, found a fraction",
               "a bound that is a fraction");
    fails_with(lode_json_bound(o, "neg", 1, 9, &n, &err), &err, LODE_E_CORRUPT,
               "found a number beyond 64 bits", "a bound far below zero");
    json_decref(o);
}

int
main(void)
{
    test_parse();
    test_limits();
    test_pieces();
    test_members();
    test_long_integers();
    test_bound();
    return done_testing();
}
