/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/reader_state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/hash.h"
#include "format/head.h"
#include "format/pack.h"
#include "format/rules.h"

/* Spec 10.1: the first read, 128 KiB, finds the superblock; the second brings
 * the hot range. */
static bool
read_index(struct lode_reader *r, int fd, uint64_t file_bytes,
           struct lode_error *err)
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
        !lode_file_read(fd, 0, head, head_bytes, err) ||
        !lode_head_decode(head, head_bytes, file_bytes, sb, err) ||
        !lode_alloc_array(sb->hot_bytes, 1, "index", &hot, err))
        goto out;
    if (!lode_file_read(fd, sb->hot_offset, hot, (size_t)sb->hot_bytes, err)) {
        free(hot);
        goto out;
    }
    good = lode_index_decode(sb, hot, &r->index, err);
out:
    free(head);
    free(sb);
    return good;
}

/* ---- the volumes of a set ---- */

/* Is this file volume v of our set (spec 4.3)?  Only its superblock is read;
 * that names its index, and each block has a checksum in ours. */
static bool
check_volume(int fd, uint64_t file_bytes, const struct lode_volume_record *v,
             uint32_t volume_index, struct lode_error *err)
{
    struct lode_superblock *sb = NULL;
    void *head = NULL;
    void *p = NULL;
    bool good = false;

    if (file_bytes < LODE_INDEX_OFFSET)
        return lode_fail(err, LODE_E_CORRUPT,
                         "has %" PRIu64 " bytes, expected %" PRIu64,
                         file_bytes, v->file_bytes);
    if (!lode_alloc_array(1, sizeof(*sb), "superblock", &p, err))
        return false;
    sb = p;
    if (lode_alloc_array(LODE_INDEX_OFFSET, 1, "superblocks", &head, err) &&
        lode_file_read(fd, 0, head, LODE_INDEX_OFFSET, err))
        good = lode_head_decode(head, LODE_INDEX_OFFSET, file_bytes, sb, err);
    if (good && (sb->volume_index != volume_index ||
                 file_bytes != v->file_bytes ||
                 memcmp(sb->volume_uuid, v->uuid, sizeof(v->uuid)) != 0 ||
                 memcmp(sb->index_digest, v->index_digest,
                        LODE_DIGEST_BYTES) != 0))
        good = lode_fail(err, LODE_E_CORRUPT,
                         "is another file than volume %" PRIu32 " of this set",
                         volume_index);
    free(head);
    free(sb);
    return good;
}

/* Open folder/name if it is there. */
static bool
try_folder(struct lode_reader *r, uint32_t volume_index, const char *folder,
           struct lode_error *err)
{
    struct lode_volume *v = &r->volumes[volume_index];
    struct lode_volume_record record;
    const char *name;
    struct stat st;
    uint64_t file_bytes;
    char *path = NULL;

    lode_index_volume(&r->index, volume_index, &record, &name);
    if (!lode_path_join(folder, name, &path, err))
        return false;
    if (stat(path, &st) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        free(path);
        return true;
    }
    v->path = path;
    return lode_file_open(path, &v->fd, &file_bytes, err) &&
           (check_volume(v->fd, file_bytes, &record, volume_index, err) ||
            lode_fail_in(err, "%s", path));
}

static bool
find_volume(struct lode_reader *r, uint32_t volume_index,
            const char *const *folders, struct lode_error *err)
{
    const char *slash = strrchr(r->path, '/');
    char *beside = NULL;
    bool ok;

    if (!lode_strndup(slash != NULL ? r->path : ".",
                      slash == NULL ? 1
                                    : (uint64_t)(slash - r->path) +
                                          (slash == r->path),
                      &beside, err))
        return false;
    ok = try_folder(r, volume_index, beside, err);
    free(beside);
    for (; ok && folders != NULL && *folders != NULL; folders++)
        if (r->volumes[volume_index].fd < 0)
            ok = try_folder(r, volume_index, *folders, err);
    return ok;
}

static bool
open_volumes(struct lode_reader *r, const char *const *folders,
             struct lode_error *err)
{
    for (uint32_t i = 1;
         r->index.volumes != NULL && i < r->index.summary.volume_count; i++) {
        struct lode_volume_record record;
        struct lode_volume *v = &r->volumes[i];

        lode_index_volume(&r->index, i, &record, &v->name);
        v->file_bytes = record.file_bytes;
        memcpy(v->index_digest, record.index_digest, LODE_DIGEST_BYTES);
        if (!find_volume(r, i, folders, err))
            return false;
    }
    return true;
}

/* Room for as many volumes as there may be files to open. */
static bool
make_volumes(struct lode_reader *r, int fd, uint64_t file_bytes,
             struct lode_error *err)
{
    uint32_t count = 1;
    void *p = NULL;

    if (r->index.volumes != NULL)
        count = r->index.summary.volume_count;
    if (!lode_alloc_array(count, sizeof(*r->volumes), "volumes", &p, err))
        return false;
    r->volumes = p;
    for (uint32_t i = 0; i < count; i++) {
        r->volumes[i].name = "";
        r->volumes[i].fd = -1;
    }
    r->volumes[0].path = r->path;
    r->volumes[0].fd = fd;
    r->volumes[0].file_bytes = file_bytes;
    memcpy(r->volumes[0].index_digest, r->index.summary.index_digest,
           LODE_DIGEST_BYTES);
    return true;
}

bool
lode_reader_open_in(const char *path, const char *const *folders,
                    struct lode_reader **out, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    uint64_t file_bytes;
    void *p = NULL;
    int fd = -1;

    if (!lode_alloc_array(1, sizeof(*r), path, &p, err))
        return false;
    r = p;
    if (!lode_file_open(path, &fd, &file_bytes, err))
        goto fail; /* it has named the path */
    if (!lode_strndup(path, strlen(path), &r->path, err) ||
        !read_index(r, fd, file_bytes, err) ||
        !make_volumes(r, fd, file_bytes, err)) {
        lode_fail_in(err, "%s", path);
        (void)close(fd); /* nothing was written */
        goto fail;
    }
    if (!open_volumes(r, folders, err)) {
        lode_fail_in(err, "%s", path);
        goto fail;
    }
    *out = r;
    return true;
fail:
    lode_reader_close(r);
    return false;
}

bool
lode_reader_open(const char *path, struct lode_reader **out,
                 struct lode_error *err)
{
    return lode_reader_open_in(path, NULL, out, err);
}

static uint32_t
opened_count(const struct lode_reader *r)
{
    return r->index.volumes != NULL ? r->index.summary.volume_count : 1;
}

void
lode_reader_close(struct lode_reader *r)
{
    if (r == NULL)
        return;
    for (uint32_t i = 0; r->volumes != NULL && i < opened_count(r); i++) {
        if (r->volumes[i].fd >= 0)
            (void)close(r->volumes[i].fd); /* nothing was written */
        if (i > 0)
            free((char *)(uintptr_t)r->volumes[i].path);
    }
    free(r->volumes);
    lode_index_fini(&r->index);
    free(r->path);
    free(r);
}

const struct lode_volume *
lode_reader_volume(const struct lode_reader *r, uint32_t volume_index)
{
    assert(volume_index < opened_count(r));
    return &r->volumes[volume_index];
}

bool
lode_reader_whole(const struct lode_reader *r, struct lode_error *err)
{
    char names[256] = "";
    size_t used = 0;
    uint32_t missing = 0;

    for (uint32_t i = 0; i < opened_count(r); i++) {
        if (r->volumes[i].fd >= 0)
            continue;
        if (used < sizeof(names))
            used += (size_t)snprintf(names + used, sizeof(names) - used,
                                     "%s%.64s", missing != 0 ? ", " : "",
                                     r->volumes[i].name);
        missing++;
    }
    if (missing == 0)
        return true;
    return lode_fail(err, LODE_E_IO,
                     "%s: %" PRIu32 " of %" PRIu32
                     " volumes are missing: %s%s; looked beside it and in "
                     "the folders given",
                     r->path, missing, opened_count(r) - 1, names,
                     used >= sizeof(names) ? "..." : "");
}

/* The file that a block lies in, NULL when it is elsewhere or nowhere. */
static const struct lode_volume *
volume_of(const struct lode_reader *r, const struct lode_block *b)
{
    /* Of a volume that was opened alone the blocks lie in it. */
    uint32_t i = r->index.volumes != NULL ? b->volume_index : 0;

    return b->present && r->volumes[i].fd >= 0 ? &r->volumes[i] : NULL;
}

bool
lode_reader_here(const struct lode_reader *r, const struct lode_block *b)
{
    return volume_of(r, b) != NULL;
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
    return r->volumes[0].fd;
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
    struct lode_block b;

    lode_reader_block(r, block_index, &b);
    if (b.present)
        lode_fail(err, LODE_E_IO, "lies in volume %s, which is missing",
                  r->volumes[b.volume_index].name);
    else
        lode_fail(err, LODE_E_IO, "not in this file");
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

void
lode_scratch_fini(struct lode_scratch *s)
{
    lode_unpacker_free(s->unpacker);
    lode_free_aligned(s->stored, s->stored_bytes);
    memset(s, 0, sizeof(*s));
}

bool
lode_reader_decode(const struct lode_reader *r, uint32_t block_index,
                   struct lode_scratch *s, const void *stored, void *dst,
                   struct lode_error *err)
{
    struct lode_block b;

    lode_reader_block(r, block_index, &b);
    if (b.codec == LODE_CODEC_NONE) {
        memcpy(dst, stored, b.raw_bytes);
        return true;
    }
    if (s->unpacker == NULL && !lode_unpacker_new(&s->unpacker, err))
        return false;
    return lode_unpack(s->unpacker, stored, b.stored_bytes, b.filters, dst,
                       b.raw_bytes, err) ||
           fail_in_block(r, block_index, err);
}

bool
lode_scratch_room(struct lode_scratch *s, uint64_t bytes,
                  struct lode_error *err)
{
    void *p = NULL;

    if (s->stored_bytes >= bytes)
        return true;
    lode_free_aligned(s->stored, s->stored_bytes);
    s->stored = NULL;
    s->stored_bytes = 0;
    if (!lode_alloc_aligned(bytes, "packed block", &p, err))
        return false;
    s->stored = p;
    s->stored_bytes = bytes;
    return true;
}

bool
lode_reader_load_with(const struct lode_reader *r, uint32_t block_index,
                      struct lode_scratch *s, void *dst, size_t dst_bytes,
                      struct lode_error *err)
{
    const struct lode_volume *v;
    struct lode_block b;
    void *stored = dst;

    lode_reader_block(r, block_index, &b);
    assert(dst_bytes >= b.raw_bytes);
    (void)dst_bytes;
    v = volume_of(r, &b);
    if (v == NULL)
        return fail_absent(r, block_index, err);
    if (b.codec != LODE_CODEC_NONE) {
        if (!lode_scratch_room(s, b.stored_bytes, err))
            return fail_in_block(r, block_index, err);
        stored = s->stored;
    }
    if (!lode_file_read(v->fd, b.offset, stored, b.stored_bytes, err)) {
        if (b.volume_index != 0 && r->index.volumes != NULL)
            lode_fail_in(err, "%s", v->path);
        return fail_in_block(r, block_index, err);
    }
    return lode_reader_check(r, block_index, stored, err) &&
           (stored == dst ||
            lode_reader_decode(r, block_index, s, stored, dst, err));
}

bool
lode_reader_load(const struct lode_reader *r, uint32_t block_index, void *dst,
                 size_t dst_bytes, struct lode_error *err)
{
    struct lode_scratch s = {0};
    bool ok = lode_reader_load_with(r, block_index, &s, dst, dst_bytes, err);

    lode_scratch_fini(&s);
    return ok;
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

/* Zeros stand for a root that could not be known. */
static bool
is_known(const uint8_t root[LODE_DIGEST_BYTES])
{
    static const uint8_t zero[LODE_DIGEST_BYTES];

    return memcmp(root, zero, sizeof(zero)) != 0;
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
    if (!is_known(r->index.summary.content_root))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: content root is not known (the file is %s), "
                         "expected %s",
                         r->path,
                         r->index.summary.volume_index != 0
                             ? "a volume of a set"
                             : "partial",
                         hex);
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
