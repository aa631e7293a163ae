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

int
main(void)
{
    test_parse();
    test_limits();
    test_pieces();
    test_members();
    return done_testing();
}
