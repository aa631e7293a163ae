/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON from files we do not trust, parsed by Jansson behind a guard.
 *
 * Jansson bounds neither the length of a string nor its own memory, so every
 * text passes lode_json_guard() first: one pass without allocation that
 * refuses deep nesting and long strings.  Duplicate keys are always refused. */

#ifndef LODE_BASE_JSON_H
#define LODE_BASE_JSON_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LODE_JSON_DEPTH_MAX = 64,
    LODE_JSON_STRING_BYTES_MAX = 1 << 20, /* longest chat templates: 100 KB */
};

/* The state of a guard that is fed a text in pieces. */
struct lode_json_guard {
    uint64_t offset;       /* bytes seen so far */
    uint32_t depth;
    uint32_t string_bytes; /* length so far of the string we are in */
    uint32_t string_max;
    bool in_string;
    bool escaped;
};

void lode_json_guard_init(struct lode_json_guard *g, uint32_t string_max);

/* Fails with LODE_E_LIMIT and the limit's name. */
LODE_MUST_CHECK
bool lode_json_guard_feed(struct lode_json_guard *g, const char *text,
                          size_t bytes, struct lode_error *err);

/* Guard and parse one text.  An integer that does not fit 64 bits (tokenizer
 * files say "model_max_length": 10^30) becomes a real, so that lode_json_u64()
 * refuses it if it is asked for, and the rest can be read.
 * *root is the caller's, for json_decref().  Fails with LODE_E_LIMIT (guard),
 * LODE_E_CORRUPT (syntax, duplicate key: named). */
LODE_MUST_CHECK
bool lode_json_parse(const char *text, size_t bytes, json_t **root,
                     struct lode_error *err);

/* Typed members.  Missing or of another type: LODE_E_CORRUPT naming the key,
 * what was expected and what was found.  Strings are borrowed from obj. */
LODE_MUST_CHECK
bool lode_json_u64(const json_t *obj, const char *key, uint64_t min,
                   uint64_t max, uint64_t *out, struct lode_error *err);
LODE_MUST_CHECK
bool lode_json_f64(const json_t *obj, const char *key, double *out,
                   struct lode_error *err);
LODE_MUST_CHECK
bool lode_json_bool(const json_t *obj, const char *key, bool *out,
                    struct lode_error *err);
LODE_MUST_CHECK
bool lode_json_string(const json_t *obj, const char *key, const char **out,
                      struct lode_error *err);

/* The same for members that may be absent or null: then *out is otherwise, or
 * false. */
LODE_MUST_CHECK
bool lode_json_optional_u64(const json_t *obj, const char *key, uint64_t min,
                            uint64_t max, uint64_t otherwise, uint64_t *out,
                            struct lode_error *err);
LODE_MUST_CHECK
bool lode_json_optional_bool(const json_t *obj, const char *key, bool *out,
                             struct lode_error *err);

/* A bound that writers put at 10^30 to say that there is none: as
 * lode_json_u64(), but what is above max is max. */
LODE_MUST_CHECK
bool lode_json_bound(const json_t *obj, const char *key, uint64_t min,
                     uint64_t max, uint64_t *out, struct lode_error *err);

/* Is the key absent or null? */
bool lode_json_absent(const json_t *obj, const char *key);

/* What a value is, for messages: "a string", "an object", ... */
const char *lode_json_type_name(const json_t *value);

/* Print value and a newline to stdout, keys in insertion order, two spaces of
 * indent; steals the reference. */
LODE_MUST_CHECK
bool lode_json_print(json_t *value, struct lode_error *err);

/* Jansson reports lack of memory as NULL or -1 from every constructor.  This
 * sets a member and steals value, which may be NULL; false once anything has
 * failed, so that a document can be built first and checked once. */
bool lode_json_set(json_t *obj, const char *key, json_t *value);
bool lode_json_push(json_t *array, json_t *value);

#endif
