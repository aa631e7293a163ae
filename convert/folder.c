/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/folder.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/consume.h"

#define CONSUMED_SHARD ".safetensors" CV_CONSUMED_SUFFIX

static bool
ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return n > m && strcmp(text + n - m, end) == 0;
}

bool
cv_shard_name_ok(const char *name)
{
    return name[0] != '.' && strchr(name, '/') == NULL &&
           strchr(name, '\\') == NULL && strlen(name) < 250 &&
           ends_with(name, ".safetensors");
}

/* The decimal number that ends before end; *start is its first digit. */
static bool
number_before(const char *text, const char *end, const char **start,
              uint32_t *out)
{
    const char *p = end;
    uint64_t value = 0;

    while (p > text && p[-1] >= '0' && p[-1] <= '9' && end - p < 9)
        p--;
    for (const char *q = p; q < end; q++)
        value = value * 10 + (uint64_t)(*q - '0');
    *start = p;
    *out = (uint32_t)value; /* nine digits fit */
    return p < end;
}

bool
cv_shard_numbers(const char *name, uint32_t *number, uint32_t *of)
{
    const char *p;

    if (!ends_with(name, ".safetensors"))
        return false;
    p = name + strlen(name) - strlen(".safetensors");
    return number_before(name, p, &p, of) && p - name > 5 &&
           strncmp(p - 4, "-of-", 4) == 0 &&
           number_before(name, p - 4, &p, number);
}

/* Does the link at path lead to something inside the folder? */
static bool
stays_inside(const char *folder, const char *path, bool *inside,
             struct lode_error *err)
{
    char *root = realpath(folder, NULL);
    char *target = root != NULL ? realpath(path, NULL) : NULL;
    size_t n;

    if (target == NULL) {
        lode_fail_errno(err, "%s: symbolic link", path);
        free(root);
        return false;
    }
    n = strlen(root);
    *inside = strncmp(root, target, n) == 0 &&
              (target[n] == '/' || strcmp(root, "/") == 0);
    free(target);
    free(root);
    return true;
}

static bool
add_file(struct lode_buf *list, const char *name, uint64_t file_bytes,
         struct lode_error *err)
{
    struct cv_file f = {.file_bytes = file_bytes};
    size_t bytes = strlen(name);

    f.consumed = ends_with(name, CONSUMED_SHARD);
    if (f.consumed)
        bytes -= strlen(CV_CONSUMED_SUFFIX);
    f.is_shard = f.consumed || ends_with(name, ".safetensors");
    if (!lode_strndup(name, bytes, &f.name, err))
        return false;
    if (!lode_buf_append(list, &f, sizeof(f), err)) {
        free(f.name);
        return false;
    }
    return true;
}

/* A name that cannot be a path in a container. */
static bool
name_is_odd(const char *name)
{
    for (const char *p = name; *p != '\0'; p++)
        if ((unsigned char)*p < 0x20 || *p == '\\' || *p == 0x7f)
            return true;
    return false;
}

static bool
consider(struct lode_buf *list, const char *folder, const char *name,
         const struct cv_folder_options *opt, struct cv_notes *notes,
         struct lode_error *err)
{
    char *path = NULL;
    bool inside = true;
    struct stat st;
    bool ok = false;

    if (name[0] == '.')
        return true;
    if (!lode_path_join(folder, name, &path, err))
        return false;
    if (lstat(path, &st) != 0) {
        lode_fail_errno(err, "%s", path);
        goto out;
    }
    if (S_ISLNK(st.st_mode)) {
        if (!stays_inside(folder, path, &inside, err))
            goto out;
        if (!inside && !opt->follow_symlinks) {
            lode_fail(err, LODE_E_IO,
                      "%s: symbolic link that leaves the folder; if you trust "
                      "it (a hub cache links its files), say "
                      "--follow-symlinks",
                      path);
            goto out;
        }
        if (stat(path, &st) != 0) {
            lode_fail_errno(err, "%s", path);
            goto out;
        }
    }
    if (!S_ISREG(st.st_mode))
        ok = cv_notes_add(notes, err, "not carried: %s (%s)", name,
                          S_ISDIR(st.st_mode) ? "a folder"
                                              : "not a regular file");
    else if (ends_with(name, CONSUMED_SHARD) && !opt->take_consumed)
        ok = lode_fail(err, LODE_E_USAGE,
                       "%s: this shard was given up by an unfinished "
                       "conversion; the same command, with --consume, goes on "
                       "with it",
                       path);
    else if (ends_with(name, ".lode") || ends_with(name, ".wip") ||
             ends_with(name, ".wip.journal"))
        ok = cv_notes_add(notes, err, "not carried: %s (a container)", name);
    else if (name_is_odd(name))
        ok = lode_fail(err, LODE_E_UNSUPPORTED,
                       "%s: a container cannot carry a file of this name",
                       path);
    else if (!ends_with(name, ".safetensors") &&
             !ends_with(name, CONSUMED_SHARD) &&
             (uint64_t)st.st_size > CV_META_FILE_BYTES_MAX)
        ok = cv_notes_add(notes, err,
                          "not carried: %s (%" PRIu64
                          " bytes, the limit for files beside the shards is "
                          "%d)",
                          name, (uint64_t)st.st_size, CV_META_FILE_BYTES_MAX);
    else
        ok = add_file(list, name, (uint64_t)st.st_size, err);
out:
    free(path);
    return ok;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct cv_file *)a)->name,
                  ((const struct cv_file *)b)->name);
}

static bool
check_counts(const struct cv_folder *f, struct lode_error *err)
{
    uint32_t shards = 0;

    for (uint32_t i = 0; i < f->file_count; i++) {
        shards += f->files[i].is_shard;
        if (i > 0 && strcmp(f->files[i - 1].name, f->files[i].name) == 0)
            return lode_fail(err, LODE_E_USAGE,
                             "%s: both %s and %s" CV_CONSUMED_SUFFIX
                             " are there",
                             f->path, f->files[i].name, f->files[i].name);
    }
    if (shards > CV_SHARDS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%s: %" PRIu32 " shards, the limit is %d", f->path,
                         shards, CV_SHARDS_MAX);
    if (f->file_count - shards > CV_META_FILES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%s: %" PRIu32
                         " files beside the shards, the limit is %d",
                         f->path, f->file_count - shards, CV_META_FILES_MAX);
    return true;
}

/* readdir() tells its end and its errors apart by errno only. */
static bool
read_entries(DIR *d, const char *path, const struct cv_folder_options *opt,
             struct lode_buf *list, struct cv_notes *notes,
             struct lode_error *err)
{
    struct dirent *entry;

    for (;;) {
        errno = 0;
        entry = readdir(d);
        if (entry == NULL)
            break;
        if (!consider(list, path, entry->d_name, opt, notes, err))
            return false;
    }
    if (errno != 0)
        return lode_fail_errno(err, "%s", path);
    return true;
}

bool
cv_folder_list(const char *path, const struct cv_folder_options *opt,
               struct cv_folder *out, struct cv_notes *notes,
               struct lode_error *err)
{
    struct cv_folder f = {NULL, NULL, 0};
    struct lode_buf list = {NULL, 0, 0};
    bool ok;
    DIR *d;

    d = opendir(path);
    if (d == NULL) {
        lode_fail_errno(err, "%s: expected the folder of a checkpoint", path);
        return false;
    }
    ok = lode_strndup(path, strlen(path), &f.path, err) &&
         read_entries(d, path, opt, &list, notes, err);
    (void)closedir(d); /* only read */
    f.files = (void *)list.data;
    f.file_count = (uint32_t)(list.used_bytes / sizeof(f.files[0]));
    if (ok && f.file_count != 0)
        qsort(f.files, f.file_count, sizeof(f.files[0]), by_name);
    if (!ok || !check_counts(&f, err)) {
        cv_folder_fini(&f);
        return false;
    }
    *out = f;
    return true;
}

void
cv_folder_fini(struct cv_folder *f)
{
    for (uint32_t i = 0; i < f->file_count; i++)
        free(f->files[i].name);
    free(f->files);
    free(f->path);
    memset(f, 0, sizeof(*f));
}

const struct cv_file *
cv_folder_find(const struct cv_folder *f, const char *name)
{
    struct cv_file key = {.name = (char *)(uintptr_t)name};

    if (f->file_count == 0)
        return NULL;
    return bsearch(&key, f->files, f->file_count, sizeof(key), by_name);
}
