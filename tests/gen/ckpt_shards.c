/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/le.h"

enum { PIECE_BYTES = 1 << 20, PATTERNS_MAX = 32 };

/* What a run of the writer holds: the list of one shard, and one piece. */
struct writer {
    const struct ck_model *m;
    struct ck_shards *s;
    uint64_t shard_count;
    uint64_t shard_index; /* of the shard being collected */
    struct ck_list list;
    struct lode_buf header;
    uint64_t seen_bytes;
    uint64_t parameter_count;
    struct ck_filler filler;
    uint8_t *piece;
    FILE *index;
    bool index_began;
    char *patterns[PATTERNS_MAX]; /* into pattern_text */
    bool matched[PATTERNS_MAX];
    size_t pattern_count;
    char *pattern_text;
};

static void
shard_name(const struct writer *w, char *out, size_t out_bytes)
{
    int digits = w->m->family == CK_KIMI_K3 ? 6 : 5;

    (void)snprintf(out, out_bytes,
                   "model-%05" PRIu64 "-of-%0*" PRIu64 ".safetensors",
                   w->shard_index + 1, digits,
                   w->shard_count); /* fits: 20 digits each at most */
}

/* The header as safetensors has it: its length, one JSON object, and spaces up
 * to a multiple of eight. */
static bool
build_header(struct writer *w, struct lode_error *err)
{
    static const char *const dtype[] = {"F32", "BF16", "U8"};
    struct lode_buf *h = &w->header;
    uint8_t length[8] = {0};
    uint64_t offset = 0;

    h->used_bytes = 0;
    if (!lode_buf_append(h, length, 8, err))
        return false;
    for (size_t i = 0; i < ck_list_count(&w->list); i++) {
        const struct ck_tensor *t = ck_list_at(&w->list, i);
        char text[512];
        int n = snprintf(text, sizeof(text),
                         "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                         i == 0 ? "{" : ",", ck_list_name(&w->list, i),
                         dtype[t->dtype]);

        for (uint32_t d = 0; d < t->dim_count; d++)
            n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%" PRIu64,
                          d == 0 ? "" : ",", t->dim[d]);
        n += snprintf(text + n, sizeof(text) - (size_t)n,
                      "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset,
                      offset + t->bytes);
        offset += t->bytes;
        if (!lode_buf_append(h, text, (size_t)n, err))
            return false;
    }
    if (!lode_buf_append(h, "}", 1, err))
        return false;
    while (h->used_bytes % 8 != 0)
        if (!lode_buf_append(h, " ", 1, err))
            return false;
    lode_store_u64(h->data, h->used_bytes - 8);
    return true;
}

static bool
split_patterns(struct writer *w, struct lode_error *err)
{
    const char *fill = w->s->fill;
    char *rest;

    if (fill == NULL)
        return true;
    if (!lode_strndup(fill, strlen(fill), &w->pattern_text, err))
        return false;
    rest = w->pattern_text;
    for (char *one; (one = strsep(&rest, ",")) != NULL;) {
        if (w->pattern_count == PATTERNS_MAX)
            return lode_fail(err, LODE_E_USAGE,
                             "--fill: more than %d patterns", PATTERNS_MAX);
        w->patterns[w->pattern_count++] = one;
    }
    return true;
}

/* Has this tensor values?  Notes every pattern that says so. */
static bool
is_filled(struct writer *w, const char *name)
{
    bool any = !w->s->sparse;

    for (size_t i = 0; i < w->pattern_count; i++)
        if (fnmatch(w->patterns[i], name, 0) == 0) {
            w->matched[i] = true;
            any = true;
        }
    return any;
}

static bool
check_patterns(const struct writer *w, struct lode_error *err)
{
    for (size_t i = 0; i < w->pattern_count; i++)
        if (!w->matched[i])
            return lode_fail(err, LODE_E_USAGE, "--fill %s: no such tensor",
                             w->patterns[i]);
    return true;
}

static bool
write_values(struct writer *w, int fd, struct lode_error *err)
{
    uint64_t offset = w->header.used_bytes;

    for (size_t i = 0; i < ck_list_count(&w->list); i++) {
        const struct ck_tensor *t = ck_list_at(&w->list, i);

        if (!is_filled(w, ck_list_name(&w->list, i))) {
            offset += t->bytes;
            continue;
        }
        w->s->filled_bytes += t->bytes;
        ck_filler_begin(&w->filler, w->m, ck_list_name(&w->list, i), t);
        for (uint64_t done = 0; done < t->bytes;) {
            size_t bytes = t->bytes - done < PIECE_BYTES
                               ? (size_t)(t->bytes - done)
                               : PIECE_BYTES;

            ck_filler_fill(&w->filler, w->piece, bytes);
            if (!lode_file_write(fd, offset, w->piece, bytes, err))
                return false;
            done += bytes;
            offset += bytes;
        }
    }
    return true;
}

static bool
list_in_index(struct writer *w, const char *shard, struct lode_error *err)
{
    for (size_t i = 0; i < ck_list_count(&w->list); i++) {
        if (fprintf(w->index, "%s    \"%s\": \"%s\"",
                    w->index_began ? ",\n" : "", ck_list_name(&w->list, i),
                    shard) < 0)
            return lode_fail_errno(err, "model.safetensors.index.json");
        w->index_began = true;
    }
    return true;
}

/* Write the shard whose tensors were collected, and begin the next. */
static bool
flush_shard(struct writer *w, struct lode_error *err)
{
    uint64_t bytes = 0;
    char name[96];
    char *path = NULL;
    int fd = -1;
    bool good = false;

    ck_list_sort(&w->list);
    for (size_t i = 0; i < ck_list_count(&w->list); i++)
        bytes += ck_list_at(&w->list, i)->bytes;
    shard_name(w, name, sizeof(name));
    if (!build_header(w, err) ||
        !lode_path_join(w->s->dir, name, &path, err))
        goto out;
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        lode_fail_errno(err, "%s", path);
        goto out;
    }
    if (!lode_file_write(fd, 0, w->header.data, w->header.used_bytes, err))
        goto out;
    if (ftruncate(fd, (off_t)(w->header.used_bytes + bytes)) != 0) {
        lode_fail_errno(err, "%s", path);
        goto out;
    }
    if (!write_values(w, fd, err)) {
        lode_fail_in(err, "%s", path);
        goto out;
    }
    if (!list_in_index(w, name, err))
        goto out;
    ck_list_clear(&w->list);
    w->shard_index++;
    good = true;
out:
    if (fd >= 0 && close(fd) != 0 && good)
        good = lode_fail_errno(err, "%s", path);
    free(path);
    return good;
}

/* Calls visit for each unit in the order of the shards. */
typedef bool visit_unit(struct writer *w, struct ck_list *unit,
                        struct lode_error *err);

static bool
each_unit(struct writer *w, visit_unit *visit, struct lode_error *err)
{
    uint64_t layers = w->m->size[CK_LAYERS];
    uint64_t count = layers + (w->m->vision ? 3 : 1);
    struct ck_list unit;
    bool good = true;

    memset(&unit, 0, sizeof(unit));
    for (uint64_t i = 0; good && i < count; i++) {
        enum ck_unit kind = i < layers        ? CK_UNIT_LAYER
                            : i == layers     ? CK_UNIT_TOP
                            : i == layers + 1 ? CK_UNIT_PROJECTOR
                                              : CK_UNIT_TOWER;

        ck_list_clear(&unit);
        good = ck_list_add_unit(&unit, w->m, kind, i, err) &&
               visit(w, &unit, err);
    }
    ck_list_fini(&unit);
    return good;
}

static bool
count_unit(struct writer *w, struct ck_list *unit, struct lode_error *err)
{
    (void)err; /* counting cannot fail */
    for (size_t i = 0; i < ck_list_count(unit); i++) {
        const struct ck_tensor *t = ck_list_at(unit, i);

        w->s->total_bytes += t->bytes;
        w->parameter_count += t->bytes / (t->dtype == CK_F32 ? 4 : 2);
    }
    w->s->tensor_count += ck_list_count(unit);
    return true;
}

static bool
write_unit_as_shard(struct writer *w, struct ck_list *unit,
                    struct lode_error *err)
{
    for (size_t i = 0; i < ck_list_count(unit); i++)
        if (!ck_list_add_copy(&w->list, unit, i, err))
            return false;
    return flush_shard(w, err);
}

/* Cut by bytes: a shard ends with the first tensor that reaches its share of
 * the total, so a layer can straddle two files. */
static bool
write_unit_by_bytes(struct writer *w, struct ck_list *unit,
                    struct lode_error *err)
{
    ck_list_sort(unit);
    for (size_t i = 0; i < ck_list_count(unit); i++) {
        if (!ck_list_add_copy(&w->list, unit, i, err))
            return false;
        w->seen_bytes += ck_list_at(unit, i)->bytes;
        if (w->seen_bytes * w->shard_count >=
                (w->shard_index + 1) * w->s->total_bytes &&
            !flush_shard(w, err))
            return false;
    }
    return true;
}

static bool
write_index_head(struct writer *w, struct lode_error *err)
{
    if (fprintf(w->index, "{\n  \"metadata\": {\n") < 0)
        return lode_fail_errno(err, "model.safetensors.index.json");
    if (w->m->family == CK_KIMI_LINEAR &&
        fprintf(w->index, "    \"total_parameters\": %" PRIu64 ",\n",
                w->parameter_count) < 0)
        return lode_fail_errno(err, "model.safetensors.index.json");
    if (fprintf(w->index,
                "    \"total_size\": %" PRIu64 "\n  },\n"
                "  \"weight_map\": {\n",
                w->s->total_bytes) < 0)
        return lode_fail_errno(err, "model.safetensors.index.json");
    return true;
}

static bool
write_all(struct writer *w, struct lode_error *err)
{
    uint64_t unit_count = w->m->size[CK_LAYERS] + (w->m->vision ? 3 : 1);
    bool by_unit = w->s->shard_count == 0;

    w->shard_count = by_unit ? unit_count : w->s->shard_count;
    if (!each_unit(w, count_unit, err) || !write_index_head(w, err) ||
        !each_unit(w, by_unit ? write_unit_as_shard : write_unit_by_bytes,
                   err))
        return false;
    if (w->shard_index != w->shard_count)
        return lode_fail(err, LODE_E_USAGE,
                         "only %" PRIu64 " of %" PRIu64
                         " shards get a tensor; ask for fewer",
                         w->shard_index, w->shard_count);
    if (fprintf(w->index, "\n  }\n}\n") < 0)
        return lode_fail_errno(err, "model.safetensors.index.json");
    return check_patterns(w, err);
}

bool
ck_write_shards(const struct ck_model *m, struct ck_shards *s,
                struct lode_error *err)
{
    struct writer w;
    char *path = NULL;
    void *piece = NULL;
    bool good = false;

    memset(&w, 0, sizeof(w));
    w.m = m;
    w.s = s;
    s->tensor_count = 0;
    s->total_bytes = 0;
    s->filled_bytes = 0;
    ck_filler_init(&w.filler);
    if (!split_patterns(&w, err) ||
        !lode_alloc_array(PIECE_BYTES, 1, "a piece", &piece, err) ||
        !lode_path_join(s->dir, "model.safetensors.index.json", &path, err))
        goto out;
    w.piece = piece;
    w.index = fopen(path, "we");
    if (w.index == NULL) {
        lode_fail_errno(err, "%s", path);
        goto out;
    }
    good = write_all(&w, err);
out:
    if (w.index != NULL && fclose(w.index) != 0 && good)
        good = lode_fail_errno(err, "%s", path);
    free(path);
    free(piece);
    free(w.pattern_text);
    ck_list_fini(&w.list);
    lode_buf_fini(&w.header);
    return good;
}
