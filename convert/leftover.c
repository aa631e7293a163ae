/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/leftover.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/consume.h"
#include "convert/restore.h"
#include "format/lode.h"

/* Does out have unfinished work beside it? */
static bool
has_work(const char *out, bool *work, struct lode_error *err)
{
    static const char suffix[] = ".wip";
    size_t bytes = strlen(out);
    void *p = NULL;
    struct stat st;

    if (!lode_alloc_array(bytes + sizeof(suffix), 1, "path", &p, err))
        return false;
    memcpy(p, out, bytes);
    memcpy((char *)p + bytes, suffix, sizeof(suffix));
    *work = lstat(p, &st) == 0;
    free(p);
    return true;
}

/* Is the shard there under its own name? */
static bool
look(const char *source, const char *name, bool *there, struct lode_error *err)
{
    char *path = NULL;
    struct stat st;

    if (!lode_path_join(source, name, &path, err))
        return false;
    *there = lstat(path, &st) == 0;
    free(path);
    return true;
}

static bool
remove_all(const char *source, const struct cv_restored *files, uint32_t count,
           struct lode_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        char *path = NULL;
        bool ok;

        if (files[i].header == NULL)
            continue; /* not a shard */
        if (!lode_path_join(source, files[i].name, &path, err))
            return false;
        ok = cv_consume_remove(path, err);
        free(path);
        if (!ok)
            return false;
    }
    return true;
}

void
cv_leftover_remove_journal(const char *out)
{
    static const char suffix[] = ".wip.journal";
    struct lode_error ignored;
    size_t bytes = strlen(out);
    void *p = NULL;

    if (!lode_alloc_array(bytes + sizeof(suffix), 1, "path", &p, &ignored))
        return;
    memcpy(p, out, bytes);
    memcpy((char *)p + bytes, suffix, sizeof(suffix));
    (void)unlink(p); /* mostly it is not there */
    free(p);
}

bool
cv_leftover_remove(const char *source, const char *out, bool *removed,
                   struct lode_error *err)
{
    const struct cv_restored *files;
    struct lode_reader *r = NULL;
    struct cv_restore *x = NULL;
    struct lode_error other;
    uint32_t shards = 0;
    uint32_t count;
    bool there = false;
    bool work;
    bool ok;

    *removed = false;
    if (!has_work(out, &work, err))
        return false;
    if (work || !lode_reader_open(out, &r, &other))
        return true;
    if (!cv_restore_open(r, &x, &other)) {
        lode_reader_close(r);
        return true; /* not made from a whole checkpoint */
    }
    files = cv_restore_files(x, &count);
    ok = true;
    for (uint32_t i = 0; ok && !there && i < count; i++) {
        shards += files[i].header != NULL;
        if (files[i].header != NULL)
            ok = look(source, files[i].name, &there, err);
    }
    if (ok && !there && shards != 0) {
        /* Whoever renamed OUT may not have come to make that durable. */
        ok = lode_file_sync_directory(out, err) &&
             remove_all(source, files, count, err);
        *removed = ok;
        if (ok)
            cv_leftover_remove_journal(out);
    }
    cv_restore_close(x);
    lode_reader_close(r);
    return ok;
}
