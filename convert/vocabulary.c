/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"

enum { TOKENIZER_BYTES_MAX = 64 << 20 };

/* Decimal digits up to end; false for anything else. */
static bool
parse_id(const char *p, const char *end, uint64_t *out)
{
    uint64_t value = 0;

    if (p == end || end - p > 18)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        value = value * 10 + (uint64_t)(*p - '0');
    }
    *out = value;
    return true;
}

/* Lines of "base64 SPACE rank". */
static bool
check_tiktoken(const char *text, size_t bytes, uint64_t row_count,
               struct lode_error *err)
{
    const char *stop = text + bytes;
    uint64_t line = 0;

    while (text < stop) {
        const char *end = memchr(text, '\n', (size_t)(stop - text));
        const char *space;
        uint64_t id;

        line++;
        if (end == NULL)
            end = stop;
        space = memchr(text, ' ', (size_t)(end - text));
        if (text != end && (space == NULL || !parse_id(space + 1, end, &id)))
            return lode_fail(err, LODE_E_CORRUPT,
                             "line %" PRIu64 ": expected a token in base64, a "
                             "space and a number",
                             line);
        if (text != end && id >= row_count)
            return lode_fail(err, LODE_E_CORRUPT,
                             "line %" PRIu64 ": token %" PRIu64
                             " (%.*s) has no row in the embedding, which has "
                             "%" PRIu64,
                             line, id, (int)(space - text < 60 ? space - text
                                                               : 60),
                             text, row_count);
        text = end + 1;
    }
    return true;
}

static bool
check_added(const char *text, size_t bytes, uint64_t row_count,
            struct lode_error *err)
{
    json_t *root = NULL;
    json_t *token;
    const char *key;
    bool ok = true;

    if (!lode_json_parse(text, bytes, &root, err))
        return false;
    json_object_foreach(json_object_get(root, "added_tokens_decoder"), key,
                        token) {
        const char *content =
            json_string_value(json_object_get(token, "content"));
        uint64_t id;

        if (!parse_id(key, key + strlen(key), &id))
            ok = lode_fail(err, LODE_E_CORRUPT,
                           "added_tokens_decoder: \"%.60s\" is no token id",
                           key);
        else if (id >= row_count)
            ok = lode_fail(err, LODE_E_CORRUPT,
                           "token %" PRIu64 " (%.100s) has no row in the "
                           "embedding, which has %" PRIu64,
                           id, content != NULL ? content : "without content",
                           row_count);
        if (!ok)
            break;
    }
    json_decref(root);
    return ok;
}

static bool
check_file(const char *folder, const char *name,
           bool (*check)(const char *, size_t, uint64_t, struct lode_error *),
           uint64_t row_count, struct lode_error *err)
{
    char *path = NULL;
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (!lode_path_join(folder, name, &path, err))
        return false;
    ok = access(path, F_OK) != 0; /* not every model has both */
    if (!ok && lode_file_slurp(path, TOKENIZER_BYTES_MAX, &text, &bytes, err)) {
        ok = check(text, bytes, row_count, err);
        if (!ok)
            lode_fail_in(err, "%s", path);
    }
    free(text);
    free(path);
    return ok;
}

bool
cv_vocabulary_check(const char *folder, uint64_t row_count,
                    struct lode_error *err)
{
    return check_file(folder, "tiktoken.model", check_tiktoken, row_count,
                      err) &&
           check_file(folder, "tokenizer_config.json", check_added, row_count,
                      err);
}
