/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void
lode_json_guard_init(struct lode_json_guard *g, uint32_t string_max)
{
    memset(g, 0, sizeof(*g));
    g->string_max = string_max;
}

static bool
guard_structure(struct lode_json_guard *g, char c, struct lode_error *err)
{
    if (c == '"') {
        g->in_string = true;
        g->string_bytes = 0;
    } else if (c == '{' || c == '[') {
        if (++g->depth > LODE_JSON_DEPTH_MAX)
            return lode_fail(err, LODE_E_LIMIT,
                             "JSON nests deeper than the limit of %d levels at "
                             "byte %" PRIu64,
                             LODE_JSON_DEPTH_MAX, g->offset);
    } else if ((c == '}' || c == ']') && g->depth > 0) {
        g->depth--;
    }
    return true;
}

bool
lode_json_guard_feed(struct lode_json_guard *g, const char *text, size_t bytes,
                     struct lode_error *err)
{
    for (size_t i = 0; i < bytes; i++, g->offset++) {
        if (!g->in_string) {
            if (!guard_structure(g, text[i], err))
                return false;
            continue;
        }
        if (g->escaped)
            g->escaped = false;
        else if (text[i] == '\\')
            g->escaped = true;
        else if (text[i] == '"')
            g->in_string = false;
        if (++g->string_bytes > g->string_max)
            return lode_fail(err, LODE_E_LIMIT,
                             "JSON string longer than the limit of %" PRIu32
                             " bytes at byte %" PRIu64,
                             g->string_max, g->offset);
    }
    return true;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Is this number, with its sign, an integer beyond 64 bits? */
static bool
is_too_long(const char *number, size_t bytes)
{
    static const char last[] = "9223372036854775807"; /* of json_int_t */
    bool negative = number[0] == '-';
    const char *digits = number + negative;
    size_t count = bytes - negative;
    int order;

    for (size_t i = 0; i < count; i++)
        if (!is_digit(digits[i]))
            return false;
    if (count != sizeof(last) - 1)
        return count >= sizeof(last);
    order = memcmp(digits, last, count - 1);
    return order > 0 ||
           (order == 0 && digits[count - 1] > last[count - 1] + negative);
}

/* Turn integers beyond 64 bits into reals, in place: the last two digits
 * become an exponent.  They have no weight in a double. */
static void
shorten_integers(char *text)
{
    bool in_string = false;

    for (char *p = text; *p != '\0'; p++) {
        size_t bytes;

        if (in_string && *p == '\\' && p[1] != '\0') {
            p++;
            continue;
        }
        if (*p == '"')
            in_string = !in_string;
        if (in_string || (*p != '-' && !is_digit(*p)))
            continue;
        bytes = strspn(p, "+-.0123456789Ee");
        if (is_too_long(p, bytes)) {
            p[bytes - 2] = 'e';
            p[bytes - 1] = '2';
        }
        p += bytes - 1;
    }
}

static bool
parse_long_integers(const char *text, size_t bytes, json_t **root,
                    json_error_t *why, struct lode_error *err)
{
    char *copy = NULL;

    if (!lode_strndup(text, bytes, &copy, err))
        return false;
    shorten_integers(copy);
    *root = json_loadb(copy, bytes, JSON_REJECT_DUPLICATES, why);
    free(copy);
    return true;
}

bool
lode_json_parse(const char *text, size_t bytes, json_t **root,
                struct lode_error *err)
{
    struct lode_json_guard guard;
    json_error_t why;
    json_t *value;

    lode_json_guard_init(&guard, LODE_JSON_STRING_BYTES_MAX);
    if (!lode_json_guard_feed(&guard, text, bytes, err))
        return false;
    value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why);
    if (value == NULL &&
        json_error_code(&why) == json_error_numeric_overflow &&
        !parse_long_integers(text, bytes, &value, &why, err))
        return false;
    if (value == NULL) {
        if (json_error_code(&why) == json_error_out_of_memory)
            return lode_fail(err, LODE_E_NOMEM, "JSON: out of memory");
        return lode_fail(err, LODE_E_CORRUPT, "JSON: line %d column %d: %s",
                         why.line, why.column, why.text);
    }
    *root = value;
    return true;
}

const char *
lode_json_type_name(const json_t *value)
{
    if (value == NULL)
        return "nothing";
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return fabs(json_real_value(value)) >= 0x1p63
                   ? "a number beyond 64 bits"
                   : "a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    case JSON_NULL:
        return "null";
    }
    return "nothing";
}

static bool
expected(const json_t *value, const char *key, const char *what,
         struct lode_error *err)
{
    return lode_fail(err, LODE_E_CORRUPT, "\"%s\": expected %s, found %s", key,
                     what, lode_json_type_name(value));
}

bool
lode_json_u64(const json_t *obj, const char *key, uint64_t min, uint64_t max,
              uint64_t *out, struct lode_error *err)
{
    const json_t *value = json_object_get(obj, key);
    json_int_t n;

    if (!json_is_integer(value))
        return expected(value, key, "an integer", err);
    n = json_integer_value(value);
    if (n < 0 || (uint64_t)n < min || (uint64_t)n > max)
        return lode_fail(err, LODE_E_CORRUPT,
                         "\"%s\": expected %" PRIu64 " to %" PRIu64
                         ", found %" JSON_INTEGER_FORMAT,
                         key, min, max, n);
    *out = (uint64_t)n;
    return true;
}

bool
lode_json_bound(const json_t *obj, const char *key, uint64_t min, uint64_t max,
                uint64_t *out, struct lode_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_number(value) || !(json_number_value(value) > (double)max))
        return lode_json_u64(obj, key, min, max, out, err);
    *out = max;
    return true;
}

bool
lode_json_f64(const json_t *obj, const char *key, double *out,
              struct lode_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_number(value))
        return expected(value, key, "a number", err);
    *out = json_number_value(value);
    return true;
}

bool
lode_json_bool(const json_t *obj, const char *key, bool *out,
               struct lode_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_boolean(value))
        return expected(value, key, "true or false", err);
    *out = json_is_true(value);
    return true;
}

bool
lode_json_string(const json_t *obj, const char *key, const char **out,
                 struct lode_error *err)
{
    const json_t *value = json_object_get(obj, key);

    if (!json_is_string(value))
        return expected(value, key, "a string", err);
    *out = json_string_value(value);
    return true;
}

bool
lode_json_absent(const json_t *obj, const char *key)
{
    const json_t *value = json_object_get(obj, key);

    return value == NULL || json_is_null(value);
}

bool
lode_json_print(json_t *value, struct lode_error *err)
{
    bool ok;

    if (value == NULL)
        return lode_fail(err, LODE_E_NOMEM, "JSON: out of memory");
    ok = json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) ==
             0 &&
         fputc('\n', stdout) != EOF && fflush(stdout) == 0;
    json_decref(value);
    if (!ok)
        return lode_fail_errno(err, "writing JSON to standard output");
    return true;
}

bool
lode_json_set(json_t *obj, const char *key, json_t *value)
{
    return json_object_set_new(obj, key, value) == 0;
}

bool
lode_json_push(json_t *array, json_t *value)
{
    return json_array_append_new(array, value) == 0;
}

bool
lode_json_optional_u64(const json_t *obj, const char *key, uint64_t min,
                       uint64_t max, uint64_t otherwise, uint64_t *out,
                       struct lode_error *err)
{
    *out = otherwise;
    return lode_json_absent(obj, key) ||
           lode_json_u64(obj, key, min, max, out, err);
}

bool
lode_json_optional_bool(const json_t *obj, const char *key, bool *out,
                        struct lode_error *err)
{
    *out = false;
    return lode_json_absent(obj, key) || lode_json_bool(obj, key, out, err);
}
