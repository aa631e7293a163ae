/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/lode.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/hash.h"
#include "format/head.h"
#include "format/index.h"
#include "format/rules.h"

struct lode_reader {
    char *path;
    int fd;
    struct lode_index index;
};

/* Spec 10.1: the first read, 128 KiB, finds the superblock; the second brings
 * the hot range. */
static bool
read_index(struct lode_reader *r, uint64_t file_bytes, struct lode_error *err)
{
    size_t head_bytes =
        file_bytes < LODE_INDEX_OFFSET ? (size_t)file_bytes : LODE_INDEX_OFFSET;
    struct lode_superblock *sb = NULL;
    void *head = NULL;
    void *hot = NULL;
    void *p = NULL;
    bool good = false;

    if (!lode_alloc_array(1, sizeof(*sb), "superblock", &p, err))
        goto out;
    sb = p;
    if (!lode_alloc_array(head_bytes, 1, "superblocks", &head, err) ||
        !lode_file_read(r->fd, 0, head, head_bytes, err) ||
        !lode_head_decode(head, head_bytes, file_bytes, sb, err) ||
        !lode_alloc_array(sb->hot_bytes, 1, "index", &hot, err))
        goto out;
    if (!lode_file_read(r->fd, sb->hot_offset, hot, (size_t)sb->hot_bytes,
                        err)) {
        free(hot);
        goto out;
    }
    good = lode_index_decode(sb, hot, &r->index, err);
out:
    free(head);
    free(sb);
    return good;
}

bool
lode_reader_open(const char *path, struct lode_reader **out,
                 struct lode_error *err)
{
    struct lode_reader *r = NULL;
    uint64_t file_bytes;
    void *p = NULL;

    if (!lode_alloc_array(1, sizeof(*r), path, &p, err))
        return false;
    r = p;
    r->fd = -1;
    if (!lode_file_open(path, &r->fd, &file_bytes, err))
        goto fail; /* it has named the path */
    if (!lode_strndup(path, strlen(path), &r->path, err) ||
        !read_index(r, file_bytes, err)) {
        lode_fail_in(err, "%s", path);
        goto fail;
    }
    *out = r;
    return true;
fail:
    lode_reader_close(r);
    return false;
}

void
lode_reader_close(struct lode_reader *r)
{
    if (r == NULL)
        return;
    if (r->fd >= 0)
        (void)close(r->fd); /* nothing was written */
    lode_index_fini(&r->index);
    free(r->path);
    free(r);
}

const struct lode_summary *
lode_reader_summary(const struct lode_reader *r)
{
    return &r->index.summary;
}

const char *
lode_reader_path(const struct lode_reader *r)
{
    return r->path;
}

int
lode_reader_fd(const struct lode_reader *r)
{
    return r->fd;
}

const struct lode_group *
lode_reader_group(const struct lode_reader *r, uint32_t group_index)
{
    assert(group_index < r->index.summary.group_count);
    return &r->index.groups[group_index];
}

int64_t
lode_reader_find(const struct lode_reader *r, uint32_t kind, int32_t layer,
                 const char *name)
{
    const struct lode_group wanted = {
        .kind = kind, .layer = layer, .name = name != NULL ? name : ""};
    uint32_t count = r->index.summary.group_count;
    uint32_t low = 0;
    uint32_t high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (lode_rules_group_order(&r->index.groups[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == count || r->index.groups[low].kind != kind ||
        r->index.groups[low].layer != layer)
        return LODE_NO_INDEX;
    if (name != NULL && strcmp(r->index.groups[low].name, name) != 0)
        return LODE_NO_INDEX;
    return low;
}

const struct lode_tensor *
lode_reader_schema(const struct lode_reader *r, uint32_t schema_index,
                   uint32_t *tensor_count)
{
    const struct lode_schema *c = &r->index.schemas[schema_index];

    assert(schema_index < r->index.summary.schema_count);
    *tensor_count = c->tensor_count;
    return r->index.tensors + c->first_tensor_index;
}

void
lode_reader_block(const struct lode_reader *r, uint32_t block_index,
                  struct lode_block *out)
{
    struct lode_block_record record;

    assert(block_index < r->index.summary.block_count);
    lode_index_block(&r->index, block_index, &record);
    *out = record.block;
}

const char *
lode_reader_block_name(const struct lode_reader *r, uint32_t block_index,
                       char *out, size_t out_bytes)
{
    assert(block_index < r->index.summary.block_count);
    return lode_index_block_name(&r->index, block_index, out, out_bytes);
}

uint64_t
lode_reader_padded_bytes(const struct lode_reader *r,
                         const struct lode_block *b)
{
    struct lode_block raw = *b;

    if (!raw.present)
        raw.stored_bytes = raw.raw_bytes;
    return lode_index_padded_bytes(&r->index, &raw);
}

/* "file: block: what was there". */
static bool
fail_in_block(const struct lode_reader *r, uint32_t block_index,
              struct lode_error *err)
{
    char name[256];

    return lode_fail_in(
        err, "%s: %s", r->path,
        lode_reader_block_name(r, block_index, name, sizeof(name)));
}

/* Spec 7.4. */
static bool
fail_absent(const struct lode_reader *r, uint32_t block_index,
            struct lode_error *err)
{
    lode_fail(err, LODE_E_IO, "not in this file (index only)");
    return fail_in_block(r, block_index, err);
}

/* Spec 8.1. */
bool
lode_reader_check(const struct lode_reader *r, uint32_t block_index,
                  const void *stored, struct lode_error *err)
{
    struct lode_block b;
    uint64_t found;

    lode_reader_block(r, block_index, &b);
    if (!b.present)
        return fail_absent(r, block_index, err);
    found = lode_hash(stored, b.stored_bytes);
    if (found == b.hash)
        return true;
    lode_fail(err, LODE_E_CORRUPT,
              "damaged: checksum of %" PRIu32 " bytes at %" PRIu64
              " is %016" PRIx64 ", expected %016" PRIx64,
              b.stored_bytes, b.offset, found, b.hash);
    return fail_in_block(r, block_index, err);
}

bool
lode_reader_load(const struct lode_reader *r, uint32_t block_index, void *dst,
                 size_t dst_bytes, struct lode_error *err)
{
    struct lode_block b;

    lode_reader_block(r, block_index, &b);
    assert(dst_bytes >= b.raw_bytes);
    if (!b.present)
        return fail_absent(r, block_index, err);
    if (b.codec != LODE_CODEC_NONE) {
        lode_fail(err, LODE_E_UNSUPPORTED,
                  "codec %u is not supported by this version", b.codec);
        return fail_in_block(r, block_index, err);
    }
    if (!lode_file_read(r->fd, b.offset, dst, b.stored_bytes, err))
        return fail_in_block(r, block_index, err);
    return lode_reader_check(r, block_index, dst, err);
}

bool
lode_reader_load_object(const struct lode_reader *r, uint32_t group_index,
                        uint32_t object_index, uint64_t max_bytes, char **out,
                        size_t *out_bytes, struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(r, group_index);
    uint32_t first = g->first_block_index + object_index * g->blocks_per_object;
    uint64_t at = 0;
    void *p = NULL;

    assert(object_index < g->object_count);
    if (g->object_raw_bytes > max_bytes)
        return lode_fail(err, LODE_E_LIMIT,
                         "%s: %s has %" PRIu64 " bytes, the limit is %" PRIu64,
                         r->path, g->name, g->object_raw_bytes, max_bytes);
    if (!lode_alloc_array(g->object_raw_bytes + 1, 1, g->name, &p, err))
        return lode_fail_in(err, "%s", r->path);
    for (uint32_t i = 0; i < g->blocks_per_object; i++) {
        uint32_t bytes = lode_rules_block_raw_bytes(g, i);

        if (!lode_reader_load(r, first + i, (char *)p + at, bytes, err)) {
            free(p);
            return false;
        }
        at += bytes;
    }
    *out = p;
    *out_bytes = (size_t)at;
    return true;
}

bool
lode_reader_load_file(const struct lode_reader *r, uint32_t kind,
                      const char *name, uint64_t max_bytes, char **out,
                      size_t *out_bytes, struct lode_error *err)
{
    int64_t group_index = lode_reader_find(r, kind, -1, name);

    if (group_index == LODE_NO_INDEX) {
        *out = NULL;
        *out_bytes = 0;
        return true;
    }
    return lode_reader_load_object(r, (uint32_t)group_index, 0, max_bytes, out,
                                   out_bytes, err);
}

const char *
lode_hex(const uint8_t digest[LODE_DIGEST_BYTES], char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (int i = 0; i < LODE_DIGEST_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[2 * LODE_DIGEST_BYTES] = '\0';
    return out;
}

bool
lode_reader_expect_root(const struct lode_reader *r, const char *hex,
                        struct lode_error *err)
{
    char found[2 * LODE_DIGEST_BYTES + 1];
    size_t digits = strspn(hex, "0123456789abcdefABCDEF");

    if (digits != 2 * LODE_DIGEST_BYTES || hex[digits] != '\0')
        return lode_fail(err, LODE_E_USAGE,
                         "\"%.80s\" is no content root: 64 hex digits are "
                         "expected",
                         hex);
    if ((r->index.sb.incompat & LODE_INCOMPAT_INDEX_ONLY) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: content root is unknown (index only), expected "
                         "%s",
                         r->path, hex);
    lode_hex(r->index.summary.content_root, found);
    for (size_t i = 0; i < digits; i++) {
        char c = hex[i] >= 'A' && hex[i] <= 'F' ? (char)(hex[i] - 'A' + 'a')
                                                : hex[i];

        if (c != found[i])
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s: content root is %s, expected %s", r->path,
                             found, hex);
    }
    return true;
}

/* Append text at *used; false when it does not fit. */
static bool
put(char *out, size_t out_bytes, size_t *used, const char *text, size_t bytes)
{
    if (bytes >= out_bytes - *used)
        return false;
    memcpy(out + *used, text, bytes);
    *used += bytes;
    out[*used] = '\0';
    return true;
}

/* Spec 6.2. */
bool
lode_tensor_name(const struct lode_tensor *t, int32_t layer,
                 uint32_t object_index, char *out, size_t out_bytes,
                 struct lode_error *err)
{
    const char *p = t->name;
    size_t used = 0;
    char number[16];

    assert(out_bytes > 0);
    out[0] = '\0';
    while (*p != '\0') {
        size_t step = 3;
        bool good;

        if (strncmp(p, "{L}", 3) == 0) {
            if (layer < 0)
                return lode_fail(err, LODE_E_CORRUPT,
                                 "tensor %s names a layer, its group has none",
                                 t->name);
            (void)snprintf(number, sizeof(number), "%" PRId32, layer);
            good = put(out, out_bytes, &used, number, strlen(number));
        } else if (strncmp(p, "{E}", 3) == 0) {
            (void)snprintf(number, sizeof(number), "%" PRIu32, object_index);
            good = put(out, out_bytes, &used, number, strlen(number));
        } else {
            step = 1;
            good = put(out, out_bytes, &used, p, 1);
        }
        if (!good)
            return lode_fail(err, LODE_E_LIMIT,
                             "name of tensor %s is longer than %zu bytes",
                             t->name, out_bytes - 1);
        p += step;
    }
    return true;
}
