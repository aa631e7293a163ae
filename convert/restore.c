/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/le.h"
#include "base/mem.h"
#include "convert/folder.h"
#include "convert/notes.h"
#include "convert/origin.h"
#include "convert/places.h"
#include "convert/safetensors.h"
#include "format/lode_write.h"

enum { CACHED_BLOCKS = 4, PROVENANCE_BYTES_MAX = 64 << 20 };
#define HEADERS_BYTES_MAX (UINT64_C(1) << 30)

/* A block in memory.  Tensors of a layer alternate between a few blocks. */
struct cached {
    uint8_t *data;
    uint64_t room_bytes;
    uint64_t used; /* when, by the clock; 0: empty */
    uint32_t block_index;
};

struct cv_restore {
    const struct lode_reader *r;
    struct cv_places *places;
    char *headers;
    json_t *provenance;
    struct cv_restored *files;
    uint32_t file_count;
    uint32_t shard_count;
    struct lode_buf names; /* NUL-terminated names of the shards */
    struct cached cache[CACHED_BLOCKS];
    uint64_t clock;
};

/* The file that is being written. */
struct sink {
    int fd;
    uint64_t offset;
    struct lode_sha256 *sha;
    struct lode_progress *progress;
};

/* ---- what is recorded ---- */

static bool
load_origin(struct cv_restore *x, size_t *headers_bytes,
            struct lode_error *err)
{
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (!lode_reader_load_file(x->r, LODE_KIND_ORIGIN, CV_HEADERS_NAME,
                               HEADERS_BYTES_MAX, &x->headers, headers_bytes,
                               err) ||
        !lode_reader_load_file(x->r, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                               PROVENANCE_BYTES_MAX, &text, &bytes, err))
        return false;
    if (x->headers == NULL || text == NULL) {
        free(text);
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "it does not record the files it was made from");
    }
    ok = lode_json_parse(text, bytes, &x->provenance, err);
    free(text);
    return ok || lode_fail_in(err, CV_PROVENANCE_NAME);
}

/* Names are shown in messages, so they must not steer a terminal. */
static bool
has_control(const uint8_t *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (name[i] < 0x20 || name[i] == 0x7f)
            return true;
    return false;
}

/* One record of source-headers at *at; its name goes into names. */
static bool
read_record(struct cv_restore *x, size_t total, size_t *at,
            struct cv_restored *out, struct lode_error *err)
{
    const uint8_t *p = (const uint8_t *)x->headers + *at;
    size_t left = total - *at;
    uint32_t name_bytes = left >= 2 ? lode_load_u16(p) : 0;

    if (left < CV_HEADER_RECORD_BYTES ||
        left - CV_HEADER_RECORD_BYTES < name_bytes)
        goto cut;
    out->name = (const char *)(uintptr_t)x->names.used_bytes; /* an offset */
    if (has_control(p + 2, name_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         CV_HEADERS_NAME ": the record at byte %zu has a "
                         "control character in its name", *at);
    if (!lode_buf_append(&x->names, p + 2, name_bytes, err) ||
        !lode_buf_append(&x->names, "", 1, err))
        return false;
    p += 2 + name_bytes;
    left -= CV_HEADER_RECORD_BYTES + name_bytes;
    out->file_bytes = lode_load_u64(p);
    memcpy(out->sha256, p + 8, LODE_DIGEST_BYTES);
    out->header_bytes = lode_load_u64(p + 8 + LODE_DIGEST_BYTES);
    out->header = p + 16 + LODE_DIGEST_BYTES;
    if (out->header_bytes > left || out->header_bytes > CV_HEADER_BYTES_MAX)
        goto cut;
    *at = total - (left - (size_t)out->header_bytes);
    return true;
cut:
    return lode_fail(err, LODE_E_CORRUPT,
                     CV_HEADERS_NAME ": the record at byte %zu is cut short",
                     *at);
}

static bool
read_shards(struct cv_restore *x, size_t total, struct lode_buf *files,
            struct lode_error *err)
{
    struct cv_restored *f;
    size_t at = 0;

    while (at < total) {
        struct cv_restored shard = {0};

        if (x->shard_count == CV_SHARDS_MAX)
            return lode_fail(err, LODE_E_LIMIT, "more shards than the limit of "
                             "%d", CV_SHARDS_MAX);
        if (!read_record(x, total, &at, &shard, err) ||
            !lode_buf_append(files, &shard, sizeof(shard), err))
            return false;
        x->shard_count++;
    }
    f = (void *)files->data;
    for (uint32_t i = 0; i < x->shard_count; i++) {
        f[i].name = (const char *)x->names.data + (uintptr_t)f[i].name;
        if (!cv_shard_name_ok(f[i].name))
            return lode_fail(err, LODE_E_CORRUPT,
                             CV_HEADERS_NAME ": \"%.100s\" is no name of a "
                             "shard", f[i].name);
        if (i != 0 && strcmp(f[i - 1].name, f[i].name) >= 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             CV_HEADERS_NAME ": shard \"%.100s\" is out of "
                             "order", f[i].name);
    }
    return true;
}

static bool
parse_hex(const char *hex, uint8_t out[LODE_DIGEST_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    if (hex == NULL || strlen(hex) != 2 * LODE_DIGEST_BYTES)
        return false;
    for (size_t i = 0; i < 2 * LODE_DIGEST_BYTES; i++) {
        const char *d = strchr(digits, hex[i]);

        if (d == NULL)
            return false;
        out[i / 2] = (uint8_t)(out[i / 2] << 4 | (uint8_t)(d - digits));
    }
    return true;
}

/* The SHA-256 that provenance.json has for a file beside the shards. */
static bool
find_digest(const struct cv_restore *x, struct cv_restored *f,
            struct lode_error *err)
{
    const json_t *source = json_object_get(x->provenance, "source");
    const json_t *list = json_object_get(source, "files");

    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *file = json_array_get(list, i);
        const char *path = json_string_value(json_object_get(file, "path"));

        if (path != NULL && strcmp(path, f->name) == 0 &&
            parse_hex(json_string_value(json_object_get(file, "sha256")),
                      f->sha256))
            return true;
    }
    return lode_fail(err, LODE_E_CORRUPT,
                     CV_PROVENANCE_NAME " has no SHA-256 of file \"%.100s\"",
                     f->name);
}

/* Without regard to case, as file systems may have it. */
static bool
is_shard(const struct lode_buf *files, const char *name)
{
    const struct cv_restored *f = (const void *)files->data;

    for (size_t i = 0; i < files->used_bytes / sizeof(*f); i++)
        if (f[i].header != NULL && strcasecmp(f[i].name, name) == 0)
            return true;
    return false;
}

static bool
read_others(struct cv_restore *x, struct lode_buf *files,
            struct lode_error *err)
{
    for (uint32_t i = 0; i < lode_reader_summary(x->r)->group_count; i++) {
        const struct lode_group *g = lode_reader_group(x->r, i);
        struct cv_restored f = {.name = g->name,
                                .file_bytes = g->object_raw_bytes,
                                .group_index = i};

        if (g->kind != LODE_KIND_META)
            continue;
        if (strchr(f.name, '/') != NULL || f.name[0] == '.')
            return lode_fail(err, LODE_E_UNSUPPORTED,
                             "file \"%.100s\": only plain file names can be "
                             "extracted", f.name);
        if (is_shard(files, f.name))
            return lode_fail(err, LODE_E_CORRUPT,
                             "\"%.100s\" is the name of a file and of a "
                             "shard", f.name);
        if (!find_digest(x, &f, err) ||
            !lode_buf_append(files, &f, sizeof(f), err))
            return false;
    }
    return true;
}

/* ---- a shard's header, checked again ---- */

/* Headers come from a file that may be hostile, so they pass the same checks
 * as those of a checkpoint. */
static bool
parse_header(const struct cv_restored *f, struct cv_shard *out,
             struct lode_error *err)
{
    uint8_t prefix[8];
    int fd = memfd_create("header", MFD_CLOEXEC);
    bool ok;

    if (fd < 0)
        return lode_fail_errno(err, "memory for a header");
    lode_store_u64(prefix, f->header_bytes);
    ok = lode_file_write(fd, 0, prefix, sizeof(prefix), err) &&
         lode_file_write(fd, 8, f->header, (size_t)f->header_bytes, err) &&
         cv_shard_read(fd, f->file_bytes, out, err);
    (void)close(fd); /* nothing to lose */
    return ok || lode_fail_in(err, "shard %.100s", f->name);
}

static const struct lode_tensor *
tensor_of(const struct cv_restore *x, const struct cv_place *p)
{
    const struct lode_group *g = lode_reader_group(x->r, p->group_index);
    uint32_t count;

    return lode_reader_schema(x->r, g->schema_index, &count) +
           p->tensor_index;
}

/* A header may not see other tensors than the container holds. */
static bool
check_tensor(const struct cv_restored *f, const struct cv_shard_tensor *s,
             const struct lode_tensor *t, struct lode_error *err)
{
    bool same = strcmp(s->dtype, t->dtype) == 0 &&
                s->raw_bytes == t->raw_bytes && s->dim_count == t->dim_count &&
                memcmp(s->dim, t->dim, sizeof(s->dim)) == 0;

    return same || lode_fail(err, LODE_E_CORRUPT,
                             "shard %.100s: tensor \"%.200s\" is %s of %" PRIu64
                             " bytes by its header, but %.20s of %" PRIu64
                             " bytes in the container, or has another shape",
                             f->name, s->name, s->dtype, s->raw_bytes,
                             t->dtype, t->raw_bytes);
}

static bool
can_restore(const struct cv_restore *x, const struct cv_restored *f,
            bool *can, struct lode_error *err)
{
    struct cv_shard s;
    bool ok = true;

    if (!parse_header(f, &s, err))
        return false;
    *can = true;
    for (uint32_t i = 0; ok && *can && i < s.tensor_count; i++) {
        const struct cv_place *p = cv_places_find(x->places,
                                                  s.tensors[i].name);

        *can = p != NULL;
        ok = p == NULL ||
             check_tensor(f, &s.tensors[i], tensor_of(x, p), err);
    }
    cv_shard_fini(&s);
    return ok;
}

static bool
check_shards(const struct cv_restore *x, struct lode_error *err)
{
    const json_t *left_out =
        json_object_get(json_object_get(x->provenance, "recipe"),
                        "left_out_shards");
    uint32_t total = x->shard_count + (uint32_t)json_array_size(left_out);
    struct cv_list lost = {"", 0};
    uint32_t count;

    for (uint32_t i = 0; i < x->shard_count; i++) {
        bool can = false;

        if (!can_restore(x, &x->files[i], &can, err))
            return false;
        if (!can)
            cv_list_add(&lost, x->files[i].name);
    }
    for (size_t i = 0; i < json_array_size(left_out); i++) {
        const char *name = json_string_value(json_array_get(left_out, i));

        cv_list_add(&lost, name != NULL && cv_shard_name_ok(name) ? name
                                                                  : "?");
    }
    count = lost.count;
    if (count == 0)
        return true;
    return lode_fail(err, LODE_E_UNSUPPORTED,
                     "%" PRIu32 " of %" PRIu32 " shards cannot be restored, "
                     "since tensors of them were left out when it was made: "
                     "%s", count, total, cv_list_text(&lost));
}

/* A container whose content was changed says so. */
static bool
check_verbatim(const struct lode_reader *r, struct lode_error *err)
{
    const char *experts;
    json_t *root = NULL;
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (!lode_reader_load_file(r, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                               PROVENANCE_BYTES_MAX, &text, &bytes, err))
        return false;
    if (text == NULL)
        return true; /* that is told where it is wanted */
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (!ok)
        return lode_fail_in(err, CV_PROVENANCE_NAME);
    experts = json_string_value(
        json_object_get(json_object_get(root, "recipe"), "experts"));
    if (experts != NULL && strcmp(experts, "verbatim") != 0)
        ok = lode_fail(err, LODE_E_UNSUPPORTED,
                       "its experts are \"%.40s\", not verbatim: the shards "
                       "it was made from cannot be extracted",
                       experts);
    json_decref(root);
    return ok;
}

bool
cv_restore_open(const struct lode_reader *r, struct cv_restore **out,
                struct lode_error *err)
{
    struct lode_buf files = {0};
    struct cv_restore *x;
    size_t bytes = 0;
    void *p;
    bool ok;

    if (lode_reader_summary(r)->present_count !=
        lode_reader_summary(r)->block_count)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "%s: %" PRIu32 " of %" PRIu32
                         " blocks are not in this file: the checkpoint cannot "
                         "be extracted from it",
                         lode_reader_path(r),
                         lode_reader_summary(r)->block_count -
                             lode_reader_summary(r)->present_count,
                         lode_reader_summary(r)->block_count);
    if (!check_verbatim(r, err))
        return lode_fail_in(err, "%s", lode_reader_path(r));
    if (!lode_alloc_array(1, sizeof(*x), "files", &p, err))
        return false;
    x = p;
    x->r = r;
    ok = load_origin(x, &bytes, err) &&
         cv_places_build(r, &x->places, err) &&
         read_shards(x, bytes, &files, err) && read_others(x, &files, err);
    x->files = (void *)files.data;
    x->file_count = (uint32_t)(files.used_bytes / sizeof(x->files[0]));
    if (!ok || !check_shards(x, err)) {
        cv_restore_close(x);
        return lode_fail_in(err, "%s", lode_reader_path(r));
    }
    *out = x;
    return true;
}

void
cv_restore_close(struct cv_restore *x)
{
    if (x == NULL)
        return;
    for (size_t i = 0; i < CACHED_BLOCKS; i++)
        free(x->cache[i].data);
    cv_places_free(x->places);
    lode_buf_fini(&x->names);
    free(x->files);
    free(x->headers);
    json_decref(x->provenance);
    free(x);
}

const struct cv_restored *
cv_restore_files(const struct cv_restore *x, uint32_t *count)
{
    *count = x->file_count;
    return x->files;
}

/* ---- writing ---- */

static bool
load_block(struct cv_restore *x, uint32_t block_index, const uint8_t **data,
           struct lode_error *err)
{
    struct cached *c = &x->cache[0];
    struct lode_block b;
    void *p;

    for (size_t i = 0; i < CACHED_BLOCKS; i++) {
        if (x->cache[i].used != 0 && x->cache[i].block_index == block_index) {
            x->cache[i].used = ++x->clock;
            *data = x->cache[i].data;
            return true;
        }
        if (x->cache[i].used < c->used)
            c = &x->cache[i];
    }
    lode_reader_block(x->r, block_index, &b);
    c->used = 0;
    if (c->room_bytes < b.raw_bytes) {
        free(c->data);
        c->data = NULL;
        c->room_bytes = 0;
        if (!lode_alloc_array(b.raw_bytes, 1, "block", &p, err))
            return false;
        c->data = p;
        c->room_bytes = b.raw_bytes;
    }
    if (!lode_reader_load(x->r, block_index, c->data, (size_t)c->room_bytes,
                          err))
        return false;
    c->block_index = block_index;
    c->used = ++x->clock;
    *data = c->data;
    return true;
}

static bool
put(struct sink *s, const void *data, size_t bytes, struct lode_error *err)
{
    if (!lode_file_write(s->fd, s->offset, data, bytes, err))
        return false;
    lode_sha256_update(s->sha, data, bytes);
    lode_progress_add(s->progress, bytes);
    s->offset += bytes;
    return true;
}

/* Bytes [offset, offset + bytes) of an object. */
static bool
put_range(struct cv_restore *x, struct sink *s, uint32_t group_index,
          uint32_t object_index, uint64_t offset, uint64_t bytes,
          struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(x->r, group_index);

    while (bytes != 0) {
        uint64_t seq = offset / g->block_raw_bytes;
        uint64_t within = offset % g->block_raw_bytes;
        uint64_t n = g->block_raw_bytes - within;
        const uint8_t *data;

        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "cancelled");
        if (n > bytes)
            n = bytes;
        if (!load_block(x, g->first_block_index +
                               object_index * g->blocks_per_object +
                               (uint32_t)seq, &data, err) ||
            !put(s, data + within, (size_t)n, err))
            return false;
        offset += n;
        bytes -= n;
    }
    return true;
}

static bool
put_shard(struct cv_restore *x, struct sink *s, const struct cv_restored *f,
          struct lode_error *err)
{
    struct cv_shard shard;
    uint8_t prefix[8];
    bool ok;

    if (!parse_header(f, &shard, err))
        return false;
    lode_store_u64(prefix, f->header_bytes);
    ok = put(s, prefix, sizeof(prefix), err) &&
         put(s, f->header, (size_t)f->header_bytes, err);
    for (uint32_t i = 0; ok && i < shard.tensor_count; i++) {
        const struct cv_place *p =
            cv_places_find(x->places, shard.tensors[i].name);

        ok = put_range(x, s, p->group_index, p->object_index,
                       tensor_of(x, p)->raw_offset,
                       shard.tensors[i].raw_bytes, err);
    }
    cv_shard_fini(&shard);
    return ok;
}

static bool
check_digest(struct sink *s, const struct cv_restored *f,
             struct lode_error *err)
{
    char found[2 * LODE_DIGEST_BYTES + 1];
    char want[2 * LODE_DIGEST_BYTES + 1];
    uint8_t digest[LODE_DIGEST_BYTES];

    lode_sha256_final(s->sha, digest);
    if (memcmp(digest, f->sha256, sizeof(digest)) == 0)
        return true;
    return lode_fail(err, LODE_E_CORRUPT,
                     "SHA-256 %s, the original had %s", lode_hex(digest, found),
                     lode_hex(f->sha256, want));
}

static bool
fill(struct cv_restore *x, struct sink *s, const struct cv_restored *f,
     struct lode_error *err)
{
    if (f->header != NULL ? !put_shard(x, s, f, err)
                          : !put_range(x, s, f->group_index, 0, 0,
                                       f->file_bytes, err))
        return false;
    if (!check_digest(s, f, err))
        return false;
    return fsync(s->fd) == 0 || lode_fail_errno(err, "sync");
}

/* path, its temporary name, and back. */
static bool
write_at(struct cv_restore *x, const struct cv_restored *f, const char *path,
         struct lode_progress *progress, struct lode_error *err)
{
    struct sink s = {.fd = -1, .progress = progress};
    size_t bytes = strlen(path) + sizeof(".wip");
    char *wip = NULL;
    bool ok = false;
    void *p;

    if (!lode_alloc_array(bytes, 1, "path", &p, err))
        return false;
    wip = p;
    (void)snprintf(wip, bytes, "%s.wip", path); /* fits */
    if (!lode_sha256_new(&s.sha, err))
        goto out;
    (void)unlink(wip); /* of an earlier attempt; usually not there */
    s.fd = open(wip, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (s.fd < 0) {
        lode_fail_errno(err, "%s", wip);
        goto out;
    }
    ok = fill(x, &s, f, err);
    (void)close(s.fd); /* synced */
    if (ok && rename(wip, path) != 0)
        ok = lode_fail_errno(err, "rename to %s", path);
    else if (!ok)
        lode_fail_in(err, "%s", path);
    if (!ok)
        (void)unlink(wip); /* on the way out of a failure */
out:
    lode_sha256_free(s.sha);
    free(wip);
    return ok;
}

bool
cv_restore_write(struct cv_restore *x, uint32_t file, const char *folder,
                 struct lode_progress *progress, struct lode_error *err)
{
    char *path = NULL;
    bool ok;

    if (!lode_path_join(folder, x->files[file].name, &path, err))
        return false;
    ok = write_at(x, &x->files[file], path, progress, err);
    free(path);
    return ok;
}
