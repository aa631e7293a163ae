/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/checkpoint.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/consume.h"
#include "convert/folder.h"
#include "convert/weight_map.h"
#include "format/encoding.h"

/* Names are kept in pieces that never move. */
enum { NAME_PIECE_BYTES = 64 << 10 };

struct cv_name_piece {
    struct cv_name_piece *next;
    size_t used_bytes;
    char text[NAME_PIECE_BYTES];
};

/* What is known while the headers are read. */
struct gathering {
    struct cv_checkpoint *c;
    const struct cv_checkpoint_options *opt;
    struct cv_folder folder;
    struct cv_weight_map map; /* empty without an index */
    struct lode_buf indexed;  /* tensors the index names, sorted by name */
    struct lode_buf others;   /* tensors of headers that it does not name */
    bool has_index;
    bool skipped_in_shard;
};

static bool
keep_name(struct cv_checkpoint *c, const char *name, const char **out,
          struct lode_error *err)
{
    size_t bytes = strlen(name) + 1; /* at most CV_KEY_BYTES_MAX + 1 */
    struct cv_name_piece *p = c->names;
    void *fresh;

    if (p == NULL || bytes > sizeof(p->text) - p->used_bytes) {
        if (!lode_alloc_array(1, sizeof(*p), "tensor names", &fresh, err))
            return false;
        p = fresh;
        p->next = c->names;
        c->names = p;
    }
    *out = memcpy(p->text + p->used_bytes, name, bytes);
    p->used_bytes += bytes;
    return true;
}

static bool
is_skipped(const struct cv_checkpoint_options *opt, const char *name)
{
    if (opt->skip_prefixes == NULL)
        return false;
    for (const char *const *p = opt->skip_prefixes; *p != NULL; p++)
        if (strncmp(name, *p, strlen(*p)) == 0)
            return true;
    return false;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct cv_tensor *)a)->name,
                  ((const struct cv_tensor *)b)->name);
}

static uint32_t
count_of(const struct lode_buf *tensors)
{
    return (uint32_t)(tensors->used_bytes / sizeof(struct cv_tensor));
}

/* The index's entries become tensors without a place; source holds the number
 * of the shard in the index until the shards are opened. */
static bool
on_entry(void *user, const char *name, uint32_t shard, struct lode_error *err)
{
    struct gathering *g = user;
    struct cv_tensor t;

    if (is_skipped(g->opt, name)) {
        g->c->skipped_count++;
        return true;
    }
    g->map.shards[shard].needed = true;
    if (count_of(&g->indexed) >= CV_TENSORS_MAX)
        return lode_fail(err, LODE_E_LIMIT, "more tensors than the limit of %d",
                         CV_TENSORS_MAX);
    memset(&t, 0, sizeof(t));
    t.source = (uint16_t)shard;
    return keep_name(g->c, name, &t.name, err) &&
           lode_buf_append(&g->indexed, &t, sizeof(t), err);
}

static bool
read_index(struct gathering *g, struct lode_error *err)
{
    struct cv_tensor *t;
    char *path = NULL;
    bool ok;

    if (!lode_path_join(g->c->path, CV_INDEX_NAME, &path, err))
        return false;
    ok = cv_weight_map_read(path, &g->map, on_entry, g, err);
    free(path);
    if (!ok)
        return false;
    t = (void *)g->indexed.data;
    if (t != NULL)
        qsort(t, count_of(&g->indexed), sizeof(*t), by_name);
    for (uint32_t i = 1; i < count_of(&g->indexed); i++)
        if (strcmp(t[i - 1].name, t[i].name) == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s/%s: duplicate key \"%.200s\"", g->c->path,
                             CV_INDEX_NAME, t[i].name);
    return cv_weight_map_check(&g->map, &g->folder, err);
}

static bool
open_source(struct cv_checkpoint *c, const struct cv_file *f,
            struct lode_error *err)
{
    struct cv_source *s = &c->sources[c->source_count];
    char *path = NULL;
    struct stat st;

    s->fd = -1;
    s->consumed = f->consumed;
    if (!lode_strndup(f->name, strlen(f->name), &s->name, err))
        return false;
    c->source_count++; /* from here on the close function sees it */
    if (!lode_path_join(c->path, f->name, &path, err))
        return false;
    if (f->consumed) {
        char *plain = path;
        bool ok = cv_consume_name(plain, &path, err);

        free(plain);
        if (!ok)
            return false;
    }
    if (!lode_file_open(path, &s->fd, &s->file_bytes, err)) {
        free(path);
        return false;
    }
    if (fstat(s->fd, &st) != 0) {
        lode_fail_errno(err, "%s", path);
        free(path);
        return false;
    }
    s->changed_s = st.st_mtim.tv_sec;
    s->changed_ns = st.st_mtim.tv_nsec;
    free(path);
    return true;
}

/* One file descriptor a shard; the usual soft limit is 1,024. */
static void
allow_many_files(void)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
        lim.rlim_cur = lim.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &lim); /* then open() will say so */
    }
}

static bool
is_wanted(struct gathering *g, const struct cv_file *f)
{
    const struct cv_map_shard *s;

    if (!g->has_index)
        return true;
    s = cv_weight_map_find(&g->map, f->name);
    if (s == NULL)
        return !g->opt->skip_unindexed;
    return s->needed;
}

/* Open a shard, or remember that it was left out. */
static bool
open_shard(struct gathering *g, const struct cv_file *f,
           struct cv_notes *notes, struct lode_error *err)
{
    if (is_wanted(g, f))
        return open_source(g->c, f, err);
    g->skipped_in_shard = true;
    return cv_notes_add(&g->c->left_out, err, "%s", f->name) &&
           cv_notes_add(notes, err, "left out, %s: %s",
                        cv_weight_map_find(&g->map, f->name) == NULL
                            ? "not indexed"
                            : "no tensor of it is wanted", f->name);
}

static bool
open_sources(struct gathering *g, struct cv_notes *notes,
             struct lode_error *err)
{
    struct cv_checkpoint *c = g->c;
    void *p;

    if (!lode_alloc_array(g->folder.file_count, sizeof(c->sources[0]),
                          "files of the checkpoint", &p, err))
        return false;
    c->sources = p;
    allow_many_files();
    for (uint32_t i = 0; i < g->folder.file_count; i++)
        if (g->folder.files[i].is_shard &&
            !open_shard(g, &g->folder.files[i], notes, err))
            return false;
    c->shard_count = c->source_count;
    if (c->shard_count == 0)
        return lode_fail(err, LODE_E_USAGE, "%s: no *.safetensors file here",
                         c->path);
    for (uint32_t i = 0; i < g->folder.file_count; i++)
        if (!g->folder.files[i].is_shard &&
            !open_source(c, &g->folder.files[i], err))
            return false;
    return true;
}

static void
place(struct cv_tensor *t, const struct cv_shard_tensor *from, uint32_t source)
{
    t->offset = from->offset;
    t->raw_bytes = from->raw_bytes;
    memcpy(t->dim, from->dim, sizeof(t->dim));
    memcpy(t->dtype, from->dtype, sizeof(t->dtype));
    t->dim_count = from->dim_count;
    t->source = (uint16_t)source;
    t->claimed = true; /* until all headers are read: has a place */
}

/* A tensor that the index names: it must be where the index says. */
static bool
fill_indexed(struct gathering *g, struct cv_tensor *t,
             const struct cv_shard_tensor *from, uint32_t source,
             struct lode_error *err)
{
    const char *here = g->c->sources[source].name;
    const char *there = t->claimed ? g->c->sources[t->source].name
                                   : g->map.shards[t->source].name;

    if (t->claimed)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: tensor \"%.200s\" is in both %s and %s",
                         g->c->path, t->name, there, here);
    if (strcmp(here, there) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: the index says tensor \"%.200s\" is in %s, but "
                         "it is in %s; --rebuild-index goes by the headers",
                         g->c->path, t->name, there, here);
    place(t, from, source);
    return true;
}

static bool
merge_shard(struct gathering *g, uint32_t source, const struct cv_shard *s,
            struct lode_error *err)
{
    for (uint32_t i = 0; i < s->tensor_count; i++) {
        const struct cv_shard_tensor *from = &s->tensors[i];
        struct cv_tensor t = {.name = from->name};
        struct cv_tensor *known = NULL;

        if (is_skipped(g->opt, from->name)) {
            g->c->skipped_count += !g->has_index;
            g->skipped_in_shard = true;
            continue;
        }
        if (g->indexed.used_bytes != 0)
            known = bsearch(&t, g->indexed.data, count_of(&g->indexed),
                            sizeof(t), by_name);
        if (known != NULL) {
            if (!fill_indexed(g, known, from, source, err))
                return false;
            continue;
        }
        if (count_of(&g->others) >= CV_TENSORS_MAX)
            return lode_fail(err, LODE_E_LIMIT,
                             "more tensors than the limit of %d",
                             CV_TENSORS_MAX);
        if (!keep_name(g->c, from->name, &t.name, err))
            return false;
        place(&t, from, source);
        if (!lode_buf_append(&g->others, &t, sizeof(t), err))
            return false;
    }
    return true;
}

static bool
read_headers(struct gathering *g, struct lode_error *err)
{
    struct cv_checkpoint *c = g->c;
    struct cv_shard shard;

    for (uint32_t i = 0; i < c->shard_count; i++) {
        struct cv_source *s = &c->sources[i];
        bool ok;

        if (!(g->opt->headers_only ? cv_shard_read_header : cv_shard_read)(
                s->fd, s->file_bytes, &shard, err))
            return lode_fail_in(err, "%s/%s", c->path, s->name);
        s->file_bytes = shard.end_offset;
        s->header_bytes = shard.header_bytes;
        ok = merge_shard(g, i, &shard, err);
        cv_shard_fini(&shard);
        if (!ok)
            return false;
    }
    return true;
}

/* Everything the index names must have been found in its shard. */
static bool
check_found(struct gathering *g, struct lode_error *err)
{
    const struct cv_tensor *t = (const void *)g->indexed.data;
    struct cv_list list = {"", 0};
    uint32_t first = 0;

    for (uint32_t i = count_of(&g->indexed); i-- > 0;)
        if (!t[i].claimed)
            first = i;
    for (uint32_t i = 0; i < count_of(&g->indexed); i++)
        if (!t[i].claimed)
            cv_list_add(&list, t[i].name);
    if (list.count == 0)
        return true;
    return lode_fail(err, LODE_E_CORRUPT,
                     "%s: the index names %" PRIu32
                     " tensors that their shards do not have (%s has no \"%s\""
                     "; all: %s); --rebuild-index goes by the headers",
                     g->c->path, list.count,
                     g->map.shards[t[first].source].name, t[first].name,
                     cv_list_text(&list));
}

/* Tensors the index does not name: never dropped or taken in silence. */
static bool
settle_unindexed(struct gathering *g, struct cv_notes *notes,
                 struct lode_error *err)
{
    const struct cv_tensor *t = (const void *)g->others.data;
    uint32_t count = count_of(&g->others);
    struct cv_list names = {"", 0};
    struct cv_list files = {"", 0};
    uint32_t last = UINT32_MAX;

    if (!g->has_index || count == 0)
        return true;
    for (uint32_t i = 0; i < count; i++) {
        cv_list_add(&names, t[i].name);
        if (t[i].source != last)
            cv_list_add(&files, g->c->sources[t[i].source].name);
        last = t[i].source;
    }
    if (g->opt->include_unindexed)
        return cv_notes_add(notes, err,
                            "included although not indexed: %" PRIu32
                            " tensors of %s",
                            count, cv_list_text(&files));
    if (g->opt->skip_unindexed) {
        g->others.used_bytes = 0;
        g->skipped_in_shard = true;
        return cv_notes_add(notes, err,
                            "left out, not indexed: %" PRIu32
                            " tensors of %s",
                            count, cv_list_text(&files));
    }
    return lode_fail(err, LODE_E_CORRUPT,
                     "%s: %" PRIu32 " tensors are not indexed (in %s: %s); "
                     "decide with --include-unindexed or --skip-unindexed",
                     g->c->path, count, cv_list_text(&files),
                     cv_list_text(&names));
}

static bool
is_aligned(const struct cv_tensor *t)
{
    uint32_t bits = lode_dtype_bits(t->dtype);

    return bits < 16 || t->offset % (bits / 8) == 0;
}

/* The two lists become one, sorted by name. */
static bool
finish_catalogue(struct gathering *g, struct lode_error *err)
{
    struct cv_checkpoint *c = g->c;

    if (g->indexed.used_bytes == 0) {
        lode_buf_fini(&g->indexed);
        g->indexed = g->others;
        memset(&g->others, 0, sizeof(g->others));
    } else if (!lode_buf_append(&g->indexed, g->others.data,
                                g->others.used_bytes, err)) {
        return false;
    }
    c->tensors = (void *)g->indexed.data;
    c->tensor_count = count_of(&g->indexed);
    memset(&g->indexed, 0, sizeof(g->indexed));
    if (c->tensor_count == 0)
        return lode_fail(err, LODE_E_CORRUPT, "%s: no tensors", c->path);
    qsort(c->tensors, c->tensor_count, sizeof(c->tensors[0]), by_name);
    for (uint32_t i = 0; i < c->tensor_count; i++) {
        struct cv_tensor *t = &c->tensors[i];

        t->claimed = false;
        c->unaligned_count += !is_aligned(t);
        if (i != 0 && strcmp(t[-1].name, t->name) == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s: tensor \"%.200s\" is in both %s and %s",
                             c->path, t->name, c->sources[t[-1].source].name,
                             c->sources[t->source].name);
    }
    c->complete = !g->skipped_in_shard;
    return true;
}

/* Without an index, names such as -00001-of-00003 say whether all is here. */
static bool
check_numbering(const struct gathering *g, struct lode_error *err)
{
    uint32_t count = 0;
    uint32_t want = 0;
    const char *sample = NULL;

    for (uint32_t i = 0; i < g->folder.file_count; i++) {
        const struct cv_file *f = &g->folder.files[i];
        uint32_t number;
        uint32_t of;

        if (!cv_shard_numbers(f->name, &number, &of))
            continue;
        if (want != 0 && of != want)
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s: shards of two sets, %s and %s", g->c->path,
                             sample, f->name);
        want = of;
        sample = f->name;
        count++;
    }
    if (count != want)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: %" PRIu32 " shards here, their names (%s) say "
                         "%" PRIu32,
                         g->c->path, count, sample, want);
    return true;
}

static bool
gather(struct gathering *g, struct cv_notes *notes, struct lode_error *err)
{
    struct cv_checkpoint *c = g->c;

    if (!lode_strndup(g->folder.path, strlen(g->folder.path), &c->path, err))
        return false;
    g->has_index = !g->opt->rebuild_index &&
                   cv_folder_find(&g->folder, CV_INDEX_NAME) != NULL;
    if (g->has_index ? !read_index(g, err) : !check_numbering(g, err))
        return false;
    return open_sources(g, notes, err) && read_headers(g, err) &&
           check_found(g, err) && settle_unindexed(g, notes, err) &&
           finish_catalogue(g, err);
}

bool
cv_checkpoint_open(const char *path, const struct cv_checkpoint_options *opt,
                   struct cv_checkpoint **out, struct cv_notes *notes,
                   struct lode_error *err)
{
    struct gathering g;
    const struct cv_folder_options fo = {
        .follow_symlinks = opt->follow_symlinks,
        .take_consumed = opt->take_consumed};
    bool ok = false;
    void *p;

    memset(&g, 0, sizeof(g));
    g.opt = opt;
    if (!cv_folder_list(path, &fo, &g.folder, notes, err))
        return false;
    if (lode_alloc_array(1, sizeof(*g.c), "checkpoint", &p, err)) {
        g.c = p;
        ok = gather(&g, notes, err);
    }
    lode_buf_fini(&g.indexed);
    lode_buf_fini(&g.others);
    cv_weight_map_fini(&g.map);
    cv_folder_fini(&g.folder);
    if (!ok) {
        cv_checkpoint_close(g.c);
        return false;
    }
    *out = g.c;
    return true;
}

void
cv_checkpoint_close(struct cv_checkpoint *c)
{
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->source_count; i++) {
        if (c->sources[i].fd >= 0)
            (void)close(c->sources[i].fd); /* only read */
        free(c->sources[i].name);
    }
    while (c->names != NULL) {
        struct cv_name_piece *next = c->names->next;

        free(c->names);
        c->names = next;
    }
    cv_notes_fini(&c->left_out);
    free(c->sources);
    free(c->tensors);
    free(c->path);
    free(c);
}

bool
cv_source_unchanged(const struct cv_checkpoint *c, uint32_t source,
                    struct lode_error *err)
{
    const struct cv_source *s = &c->sources[source];
    struct stat st;

    if (s->consumed)
        return true; /* we changed it */
    if (fstat(s->fd, &st) != 0)
        return lode_fail_errno(err, "%s/%s", c->path, s->name);
    if ((uint64_t)st.st_size == s->file_bytes &&
        st.st_mtim.tv_sec == s->changed_s &&
        st.st_mtim.tv_nsec == s->changed_ns)
        return true;
    return lode_fail(err, LODE_E_IO,
                     "%s/%s: the file changed while it was read", c->path,
                     s->name);
}

bool
cv_checkpoint_unchanged(const struct cv_checkpoint *c, struct lode_error *err)
{
    for (uint32_t i = 0; i < c->source_count; i++)
        if (!cv_source_unchanged(c, i, err))
            return false;
    return true;
}
