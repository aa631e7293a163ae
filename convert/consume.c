/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/consume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { PAGE_BYTES = 4096, PROBE_BYTES = 2 * PAGE_BYTES };

static bool
with_suffix(const char *path, const char *suffix, char **out,
            struct lode_error *err)
{
    size_t bytes = strlen(path) + strlen(suffix) + 1;
    void *p = NULL;

    if (!lode_alloc_array(bytes, 1, "path", &p, err))
        return false;
    (void)snprintf(p, bytes, "%s%s", path, suffix);
    *out = p;
    return true;
}

bool
cv_consume_name(const char *path, char **out, struct lode_error *err)
{
    return with_suffix(path, CV_CONSUMED_SUFFIX, out, err);
}

static bool
punch(int fd, uint64_t offset, uint64_t bytes)
{
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (off_t)offset, (off_t)bytes) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

bool
cv_consume_possible(const char *path, struct lode_error *err)
{
    static const char probe[PROBE_BYTES] = {1};
    char *name = NULL;
    bool ok = false;
    int fd;

    if (!with_suffix(path, ".consume-probe", &name, err))
        return false;
    fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST && unlink(name) == 0) /* a killed run's */
        fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        lode_fail_errno(err, "%s", name);
    } else {
        (void)unlink(name); /* it lives until it is closed */
        if (!lode_file_write(fd, 0, probe, sizeof(probe), err))
            lode_fail_in(err, "%s", name);
        else if (!punch(fd, 0, PAGE_BYTES))
            lode_fail(err, LODE_E_UNSUPPORTED,
                      "%s: --consume is not possible: this file system cannot "
                      "give back space in the middle of a file (%s)",
                      path, strerror(errno));
        else
            ok = true;
        (void)close(fd); /* nothing in it counts */
    }
    free(name);
    return ok;
}

bool
cv_consume_claimable(const char *path, struct lode_error *err)
{
    struct stat st;

    if (lstat(path, &st) != 0)
        return lode_fail_errno(err, "%s", path);
    if (S_ISLNK(st.st_mode))
        return lode_fail(err, LODE_E_USAGE,
                         "%s is a symbolic link: --consume takes files only "
                         "where they are",
                         path);
    if (!S_ISREG(st.st_mode) || st.st_nlink != 1)
        return lode_fail(err, LODE_E_USAGE,
                         "%s has other names (%lu links): --consume would "
                         "destroy what they stand for",
                         path, (unsigned long)st.st_nlink);
    return true;
}

bool
cv_consume_claim(const char *path, struct lode_error *err)
{
    char *name = NULL;
    struct stat st;
    bool ok;

    if (!cv_consume_claimable(path, err) ||
        !cv_consume_name(path, &name, err))
        return false;
    ok = lstat(name, &st) != 0 ||
         lode_fail(err, LODE_E_USAGE, "%s is in the way", name);
    if (ok && rename(path, name) != 0)
        ok = lode_fail_errno(err, "rename of %s to %s", path, name);
    ok = ok && lode_file_sync_directory(name, err);
    free(name);
    return ok;
}

bool
cv_consume_punch(const char *path, uint64_t offset, uint64_t bytes,
                 struct lode_error *err)
{
    uint64_t first = (offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    uint64_t end = (offset + bytes) / PAGE_BYTES * PAGE_BYTES;
    bool ok;
    int fd;

    if (end <= first)
        return true;
    fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return lode_fail_errno(err, "%s", path);
    ok = punch(fd, first, end - first) ||
         lode_fail_errno(err, "%s: giving back space", path);
    (void)close(fd); /* nothing was written */
    return ok;
}

bool
cv_consume_remove(const char *path, struct lode_error *err)
{
    char *name = NULL;
    bool ok;

    if (!cv_consume_name(path, &name, err))
        return false;
    ok = unlink(name) == 0 || errno == ENOENT ||
         lode_fail_errno(err, "%s", name);
    free(name);
    return ok;
}
