/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/origin.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/le.h"
#include "base/mem.h"

enum { FIXED_MAX = CV_HEADER_RECORD_BYTES + 256 }; /* names have 255 bytes */

static uint64_t
record_bytes(const struct cv_source *s)
{
    return CV_HEADER_RECORD_BYTES + strlen(s->name) + s->header_bytes;
}

uint64_t
cv_headers_bytes(const struct cv_checkpoint *c)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < c->shard_count; i++)
        total += record_bytes(&c->sources[i]);
    return total;
}

/* The part of a record before the header itself; its length. */
static size_t
record_front(const struct cv_source *s, const uint8_t *digest,
             uint8_t out[FIXED_MAX])
{
    size_t n = strlen(s->name);

    lode_store_u16(out, (uint16_t)n);
    memcpy(out + 2, s->name, n);
    lode_store_u64(out + 2 + n, s->file_bytes);
    memcpy(out + 10 + n, digest, LODE_DIGEST_BYTES);
    lode_store_u64(out + 10 + n + LODE_DIGEST_BYTES, s->header_bytes);
    return CV_HEADER_RECORD_BYTES + n;
}

/* The part of [from, from + count) that lies in [start, start + bytes). */
static bool
overlap(uint64_t start, uint64_t bytes, uint64_t from, uint64_t count,
        uint64_t *first, uint64_t *n)
{
    uint64_t end = start + bytes < from + count ? start + bytes : from + count;

    *first = start > from ? start : from;
    *n = end > *first ? end - *first : 0;
    return *n != 0;
}

bool
cv_headers_fill(const struct cv_checkpoint *c,
                const uint8_t (*digests)[LODE_DIGEST_BYTES], uint64_t offset,
                uint8_t *dst, uint64_t bytes, struct lode_error *err)
{
    uint8_t front[FIXED_MAX];
    uint64_t at = 0;
    uint64_t first;
    uint64_t n;

    for (uint32_t i = 0; i < c->shard_count && at < offset + bytes; i++) {
        const struct cv_source *s = &c->sources[i];
        size_t front_bytes;

        if (at + record_bytes(s) <= offset) {
            at += record_bytes(s);
            continue;
        }
        front_bytes = record_front(s, digests[i], front);
        if (overlap(offset, bytes, at, front_bytes, &first, &n))
            memcpy(dst + (first - offset), front + (first - at), (size_t)n);
        at += front_bytes;
        if (overlap(offset, bytes, at, s->header_bytes, &first, &n) &&
            !lode_file_read(s->fd, 8 + (first - at), dst + (first - offset),
                            (size_t)n, err))
            return lode_fail_in(err, "%s/%s", c->path, s->name);
        at += s->header_bytes;
    }
    return true;
}

static json_t *
file_list(const struct cv_checkpoint *c,
          const uint8_t (*digests)[LODE_DIGEST_BYTES])
{
    static const uint8_t zero[LODE_DIGEST_BYTES];
    json_t *list = json_array();
    char hex[2 * LODE_DIGEST_BYTES + 1];

    for (uint32_t i = 0; i < c->source_count; i++) {
        const struct cv_source *s = &c->sources[i];
        json_t *file = json_object();

        (void)lode_hex(digests != NULL ? digests[i] : zero, hex);
        if (!lode_json_set(file, "path", json_string(s->name)) ||
            !lode_json_set(file, "bytes",
                           json_integer((json_int_t)s->file_bytes)) ||
            !lode_json_set(file, "sha256", json_string(hex)) ||
            !lode_json_push(list, file)) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* What was left out on request; NULL without memory. */
static json_t *
left_out(const struct cv_checkpoint *c)
{
    json_t *list = json_array();

    for (const char *name = cv_notes_next(&c->left_out, NULL); name != NULL;
         name = cv_notes_next(&c->left_out, name))
        if (!lode_json_push(list, json_string(name))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

bool
cv_provenance(const struct cv_checkpoint *c,
              const uint8_t (*digests)[LODE_DIGEST_BYTES], char **out,
              size_t *out_bytes, struct lode_error *err)
{
    json_t *root = json_object();
    json_t *source = json_object();
    json_t *recipe = json_object();
    char *text = NULL;
    bool ok;

    ok = lode_json_set(source, "kind", json_string("folder")) &&
         lode_json_set(source, "files", file_list(c, digests)) &&
         lode_json_set(recipe, "experts", json_string("verbatim")) &&
         lode_json_set(recipe, "trunk", json_string("verbatim"));
    ok = ok && (c->complete ||
                (lode_json_set(recipe, "left_out",
                               json_string("some tensors of the shards")) &&
                 lode_json_set(recipe, "left_out_shards", left_out(c))));
    ok = lode_json_set(root, "source", source) && ok;
    ok = lode_json_set(root, "recipe", recipe) && ok;
    ok = ok &&
         lode_json_set(root, "format", json_string("lode-provenance-1")) &&
         lode_json_set(root, "lossless", json_boolean(c->complete)) &&
         lode_json_set(root, "parent", json_null());
    if (ok)
        text = json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT);
    json_decref(root);
    if (text == NULL)
        return lode_fail(err, LODE_E_NOMEM,
                         CV_PROVENANCE_NAME ": out of memory, or a file name "
                         "is not UTF-8");
    *out = text;
    *out_bytes = strlen(text);
    return true;
}
