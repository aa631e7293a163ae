/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/rules.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/mem.h"
#include "format/encoding.h"

/* The length of the UTF-8 sequence at p, or 0.  Refuses overlong forms,
 * surrogates, and what lies above U+10FFFF. */
static size_t
utf8_bytes(const uint8_t *p, size_t room)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    if (n == 1)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n > room)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool
lode_rules_text(const char *text, size_t bytes, const char *what,
                struct lode_error *err)
{
    const uint8_t *p = (const uint8_t *)text;

    if (bytes > LODE_NAME_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT, "%s of %zu bytes, the limit is %u",
                         what, bytes, LODE_NAME_BYTES_MAX);
    for (size_t at = 0; at < bytes;) {
        size_t n = utf8_bytes(p + at, bytes - at);

        if (n == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s is not UTF-8 (byte 0x%02x at %zu)", what,
                             p[at], at);
        /* Names reach terminals: no C0, DEL or C1 controls. */
        if (p[at] < 0x20 || p[at] == 0x7f ||
            (p[at] == 0xc2 && p[at + 1] < 0xa0))
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s has a control character at %zu", what, at);
        at += n;
    }
    return true;
}

bool
lode_rules_path(const char *path, struct lode_error *err)
{
    const char *part = path;

    if (path[0] == '\0')
        return lode_fail(err, LODE_E_CORRUPT, "path is empty");
    if (path[0] == '/')
        return lode_fail(err, LODE_E_CORRUPT, "path %s is absolute", path);
    if (strchr(path, '\\') != NULL)
        return lode_fail(err, LODE_E_CORRUPT, "path %s has a backslash", path);
    for (;;) {
        size_t n = strcspn(part, "/");

        if (n == 0 || (n == 1 && part[0] == '.') ||
            (n == 2 && part[0] == '.' && part[1] == '.'))
            return lode_fail(err, LODE_E_CORRUPT,
                             "path %s has an empty, \".\" or \"..\" part",
                             path);
        if (part[n] == '\0')
            return true;
        part += n + 1;
    }
}

bool
lode_rules_volume_name(const char *name, struct lode_error *err)
{
    if (!lode_rules_path(name, err))
        return false;
    if (strchr(name, '/') != NULL)
        return lode_fail(err, LODE_E_CORRUPT, "name %s is no file name", name);
    return true;
}

/* ---- groups ---- */

static bool
is_file_kind(uint32_t kind)
{
    return kind == LODE_KIND_META || kind == LODE_KIND_ORIGIN;
}

/* Spec 5.2: which values a kind allows. */
static bool
check_kind(const struct lode_group *g, struct lode_error *err)
{
    bool single = g->kind == LODE_KIND_TRUNK || g->kind == LODE_KIND_ROWS ||
                  is_file_kind(g->kind);

    if (g->kind == 0 || g->kind > 0xffff)
        return lode_fail(err, LODE_E_CORRUPT, "kind %" PRIu32, g->kind);
    if (g->kind > LODE_KIND_ORIGIN && g->kind < 0x8000)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "kind %" PRIu32 " is unknown to this version",
                         g->kind);
    if (g->layer < -1 || g->layer >= (int32_t)LODE_LAYERS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "layer %" PRId32 ", the limit is %u", g->layer,
                         LODE_LAYERS_MAX - 1);
    if (g->kind == LODE_KIND_EXPERT && g->layer < 0)
        return lode_fail(err, LODE_E_CORRUPT, "experts without a layer");
    if (is_file_kind(g->kind) && g->layer != -1)
        return lode_fail(err, LODE_E_CORRUPT, "file with layer %" PRId32,
                         g->layer);
    if (g->object_count == 0 || (single && g->object_count != 1))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " objects, expected %s", g->object_count,
                         single ? "1" : "at least 1");
    if (is_file_kind(g->kind))
        return lode_rules_path(g->name, err);
    return true;
}

bool
lode_rules_group(const struct lode_group *g, struct lode_error *err)
{
    uint64_t blocks;

    if (!check_kind(g, err))
        return false;
    if (g->object_raw_bytes > LODE_OBJECT_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "object of %" PRIu64 " bytes, the limit is %" PRIu64,
                         g->object_raw_bytes, LODE_OBJECT_BYTES_MAX);
    if (g->object_raw_bytes == 0 && !is_file_kind(g->kind))
        return lode_fail(err, LODE_E_CORRUPT, "objects of 0 bytes");
    if (g->block_raw_bytes > LODE_BLOCK_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "blocks of %" PRIu32 " bytes, the limit is %" PRIu64,
                         g->block_raw_bytes, LODE_BLOCK_BYTES_MAX);
    if ((g->block_raw_bytes == 0) != (g->object_raw_bytes == 0) ||
        g->block_raw_bytes > g->object_raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "blocks of %" PRIu32 " bytes in objects of %" PRIu64,
                         g->block_raw_bytes, g->object_raw_bytes);
    blocks = g->block_raw_bytes == 0
                 ? 0
                 : (g->object_raw_bytes - 1) / g->block_raw_bytes + 1;
    if (blocks > LODE_BLOCKS_PER_OBJECT_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu64 " blocks an object, the limit is %u",
                         blocks, LODE_BLOCKS_PER_OBJECT_MAX);
    if (blocks != g->blocks_per_object)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " blocks an object, expected %" PRIu64,
                         g->blocks_per_object, blocks);
    if (blocks > 1 && g->kind == LODE_KIND_EXPERT)
        return lode_fail(err, LODE_E_CORRUPT,
                         "expert of %" PRIu64 " blocks, expected 1", blocks);
    if (blocks > 1 && (g->block_raw_bytes < LODE_SPLIT_BLOCK_BYTES_MIN ||
                       (g->block_raw_bytes & (g->block_raw_bytes - 1)) != 0))
        return lode_fail(err, LODE_E_CORRUPT,
                         "split into blocks of %" PRIu32
                         " bytes, expected a power of two from %" PRIu64,
                         g->block_raw_bytes, LODE_SPLIT_BLOCK_BYTES_MIN);
    return true;
}

uint32_t
lode_rules_block_raw_bytes(const struct lode_group *g, uint32_t seq)
{
    if (seq + 1 < g->blocks_per_object)
        return g->block_raw_bytes;
    return (uint32_t)(g->object_raw_bytes - (uint64_t)seq * g->block_raw_bytes);
}

int
lode_rules_group_order(const struct lode_group *a, const struct lode_group *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->layer != b->layer)
        return a->layer < b->layer ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* ASCII letters alone: what other letters fold to depends on the file system,
 * and extraction never overwrites.  '/' sorts first, so that a folder's
 * entries directly follow a file of its name. */
static int
fold(char c)
{
    if (c == '/')
        return 1;
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int
compare_folded(const void *a, const void *b)
{
    const char *p = *(const char *const *)a;
    const char *q = *(const char *const *)b;

    while (*p != '\0' && fold(*p) == fold(*q)) {
        p++;
        q++;
    }
    return fold(*p) - fold(*q);
}

/* Is path a, when case is ignored, path b or a folder above it? */
static bool
is_above(const char *a, const char *b)
{
    while (*a != '\0' && fold(*a) == fold(*b)) {
        a++;
        b++;
    }
    return *a == '\0' && (*b == '\0' || *b == '/');
}

bool
lode_rules_distinct_paths(const struct lode_group *groups, uint32_t group_count,
                          struct lode_error *err)
{
    const char **names = NULL;
    uint32_t first = 0;
    void *p = NULL;

    if (!lode_alloc_array(group_count, sizeof(*names), "file names", &p, err))
        return false;
    names = p;
    while (first < group_count) {
        uint32_t n = 0;

        while (first + n < group_count &&
               groups[first + n].kind == groups[first].kind) {
            names[n] = groups[first + n].name;
            n++;
        }
        if (is_file_kind(groups[first].kind))
            qsort(names, n, sizeof(*names), compare_folded);
        for (uint32_t i = 1; is_file_kind(groups[first].kind) && i < n; i++) {
            if (!is_above(names[i - 1], names[i]))
                continue;
            lode_fail(err, LODE_E_CORRUPT, "files %s and %s collide",
                      names[i - 1], names[i]);
            free(p);
            return false;
        }
        first += n;
    }
    free(p);
    return true;
}

/* ---- schemas ---- */

/* Spec 6.3: dimensions and dtype give the size, for encodings we know. */
static bool
check_shape(const struct lode_tensor *t, struct lode_error *err)
{
    enum lode_encoding e = lode_encoding_find(t->encoding);
    const char *plain = lode_dtype_encoding(t->dtype);
    uint64_t bits = lode_dtype_bits(t->dtype);

    if (t->dim_count > LODE_DIMS_MAX)
        return lode_fail(err, LODE_E_LIMIT, "%u dimensions, the limit is %u",
                         t->dim_count, LODE_DIMS_MAX);
    for (uint32_t i = t->dim_count; i < LODE_DIMS_MAX; i++)
        if (t->dim[i] != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "dimension %" PRIu32 " of %u is %" PRIu64
                             ", expected 0",
                             i, t->dim_count, t->dim[i]);
    if (e == LODE_ENC_UNKNOWN)
        return true;
    if (bits == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "encoding %s with unknown dtype %s", t->encoding,
                         t->dtype);
    if (e != LODE_ENC_MXFP4 && e != LODE_ENC_E8M0_G32 &&
        strcmp(plain, t->encoding) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "encoding %s with dtype %s",
                         t->encoding, t->dtype);
    /* A zero anywhere makes the product 0, whatever else overflows. */
    for (uint32_t i = 0; i < t->dim_count; i++)
        if (t->dim[i] == 0)
            bits = 0;
    for (uint32_t i = 0; bits != 0 && i < t->dim_count; i++)
        if (!lode_mul(bits, t->dim[i], &bits))
            return lode_fail(err, LODE_E_CORRUPT, "dimensions overflow");
    if (bits % 8 != 0 || bits / 8 != t->raw_bytes)
        return lode_fail(
            err, LODE_E_CORRUPT,
            "%" PRIu64 " bytes, dimensions and dtype %s give %" PRIu64 " bits",
            t->raw_bytes, t->dtype, bits);
    return true;
}

static bool
check_tensor(const struct lode_tensor *t, uint64_t free_from,
             uint64_t object_raw_bytes, struct lode_error *err)
{
    if (t->name[0] == '\0' || t->encoding[0] == '\0' || t->dtype[0] == '\0')
        return lode_fail(err, LODE_E_CORRUPT,
                         "name, encoding or dtype is empty");
    if ((t->flags & ~(uint32_t)(LODE_TENSOR_SLICE0 | LODE_TENSOR_SYNTHETIC)) !=
        0)
        return lode_fail(err, LODE_E_UNSUPPORTED, "flags 0x%" PRIx32, t->flags);
    if (t->raw_offset % 64 != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "offset %" PRIu64 " is not a multiple of 64",
                         t->raw_offset);
    if (!lode_in_range(t->raw_offset, t->raw_bytes, object_raw_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu64 " bytes at %" PRIu64
                         " lie outside the object of %" PRIu64,
                         t->raw_bytes, t->raw_offset, object_raw_bytes);
    if (t->raw_offset < free_from)
        return lode_fail(err, LODE_E_CORRUPT,
                         "offset %" PRIu64 " is below %" PRIu64
                         ", the end of the tensor before",
                         t->raw_offset, free_from);
    return check_shape(t, err);
}

/* Spec 6.4: segments are numbered without gaps and none is empty. */
static bool
check_segments(const struct lode_tensor *tensors, uint32_t tensor_count,
               uint64_t object_raw_bytes, uint32_t segment_count,
               struct lode_error *err)
{
    uint64_t start = 0;
    uint32_t segment = 0;

    if (segment_count == 0 || segment_count > LODE_SEGMENTS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32 " segments, the limits are 1 and %u",
                         segment_count, LODE_SEGMENTS_MAX);
    for (uint32_t i = 0; i < tensor_count; i++) {
        const struct lode_tensor *t = &tensors[i];

        if (t->segment == segment)
            continue;
        if (i == 0 || t->segment != segment + 1)
            return lode_fail(err, LODE_E_CORRUPT,
                             "tensor %s has segment %u after %" PRIu32, t->name,
                             t->segment, segment);
        if (t->raw_offset == start || t->raw_offset == object_raw_bytes)
            return lode_fail(err, LODE_E_CORRUPT,
                             "segment at %" PRIu64 " is empty", t->raw_offset);
        start = t->raw_offset;
        segment++;
    }
    if (segment + 1 != segment_count)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu32 " segments, the tensors name %" PRIu32,
                         segment_count, segment + 1);
    return true;
}

bool
lode_rules_schema(const struct lode_tensor *tensors, uint32_t tensor_count,
                  uint64_t object_raw_bytes, uint32_t segment_count,
                  struct lode_error *err)
{
    uint64_t free_from = 0;

    if (object_raw_bytes > LODE_OBJECT_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "object of %" PRIu64 " bytes, the limit is %" PRIu64,
                         object_raw_bytes, LODE_OBJECT_BYTES_MAX);
    for (uint32_t i = 0; i < tensor_count; i++) {
        const struct lode_tensor *t = &tensors[i];

        if (!check_tensor(t, free_from, object_raw_bytes, err))
            return lode_fail_in(err, "tensor %" PRIu32 " (%s)", i, t->name);
        free_from = t->raw_offset + t->raw_bytes;
    }
    return check_segments(tensors, tensor_count, object_raw_bytes,
                          segment_count, err);
}

void
lode_rules_gap_begin(struct lode_gap *g, uint64_t start, uint64_t bytes)
{
    g->start = start;
    g->end = start + bytes;
    g->free_from = 0;
}

bool
lode_rules_gap_check(struct lode_gap *g, const struct lode_tensor *next,
                     const uint8_t *part, struct lode_error *err)
{
    uint64_t at = g->free_from > g->start ? g->free_from : g->start;

    for (; at < next->raw_offset && at < g->end; at++)
        if (part[at - g->start] != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "byte %" PRIu64
                             " of the image lies between tensors and is "
                             "0x%02x, expected 0",
                             at, part[at - g->start]);
    g->free_from = next->raw_offset + next->raw_bytes;
    return true;
}
