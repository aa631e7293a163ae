/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

/* Linux moves at most 0x7ffff000 bytes a call; a round number below it keeps
 * direct reads aligned. */
enum { MAX_STEP_BYTES = 1 << 30 };

bool
lode_file_open(const char *path, int *fd, uint64_t *file_bytes,
               struct lode_error *err)
{
    struct stat st;
    int f;

    /* O_NONBLOCK so that a FIFO given by mistake cannot hang us. */
    f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0)
        return lode_fail_errno(err, "%s", path);
    if (fstat(f, &st) != 0) {
        lode_fail_errno(err, "%s", path);
        (void)close(f); /* nothing was written */
        return false;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)close(f); /* nothing was written */
        return lode_fail(err, LODE_E_IO, "%s: not a regular file", path);
    }
    *fd = f;
    *file_bytes = (uint64_t)st.st_size;
    return true;
}

bool
lode_file_read(int fd, uint64_t offset, void *dst, size_t bytes,
               struct lode_error *err)
{
    uint8_t *p = dst;
    size_t done = 0;

    while (done < bytes) {
        size_t step = bytes - done;
        ssize_t n;

        if (step > MAX_STEP_BYTES)
            step = MAX_STEP_BYTES;
        n = pread(fd, p + done, step, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lode_fail_errno(err, "read of %zu bytes at %" PRIu64, bytes,
                                   offset);
        if (n == 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "file ends at %" PRIu64 ", %zu bytes at %" PRIu64
                             " were expected",
                             offset + done, bytes, offset);
        done += (size_t)n;
    }
    return true;
}

bool
lode_file_write(int fd, uint64_t offset, const void *src, size_t bytes,
                struct lode_error *err)
{
    const uint8_t *p = src;
    size_t done = 0;

    while (done < bytes) {
        size_t step = bytes - done;
        ssize_t n;

        if (step > MAX_STEP_BYTES)
            step = MAX_STEP_BYTES;
        n = pwrite(fd, p + done, step, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return lode_fail_errno(err, "write of %zu bytes at %" PRIu64, bytes,
                                   offset);
        if (n == 0)
            return lode_fail(err, LODE_E_IO,
                             "write of %zu bytes at %" PRIu64
                             " made no progress",
                             bytes, offset);
        done += (size_t)n;
    }
    return true;
}

bool
lode_file_slurp(const char *path, uint64_t max_bytes, char **out,
                size_t *out_bytes, struct lode_error *err)
{
    uint64_t file_bytes;
    void *text = NULL;
    int fd;

    if (!lode_file_open(path, &fd, &file_bytes, err))
        return false;
    if (file_bytes > max_bytes) {
        lode_fail(err, LODE_E_LIMIT,
                  "%s: %" PRIu64 " bytes, the limit is %" PRIu64, path,
                  file_bytes, max_bytes);
        goto fail;
    }
    if (!lode_alloc_array(file_bytes + 1, 1, path, &text, err))
        goto fail;
    if (!lode_file_read(fd, 0, text, (size_t)file_bytes, err)) {
        lode_fail_in(err, "%s", path);
        goto fail;
    }
    (void)close(fd); /* nothing was written */
    *out = text;
    *out_bytes = (size_t)file_bytes;
    return true;
fail:
    free(text);
    (void)close(fd); /* nothing was written */
    return false;
}

bool
lode_file_sync_directory(const char *path, struct lode_error *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = NULL;
    bool ok;
    int fd;

    if (slash == NULL)
        ok = lode_strndup(".", 1, &dir, err);
    else if (slash == path)
        ok = lode_strndup("/", 1, &dir, err);
    else
        ok = lode_strndup(path, (uint64_t)(slash - path), &dir, err);
    if (!ok)
        return false;
    fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        lode_fail_errno(err, "%s", dir);
        free(dir);
        return false;
    }
    ok = fsync(fd) == 0;
    if (!ok)
        lode_fail_errno(err, "sync of directory %s", dir);
    (void)close(fd); /* read-only */
    free(dir);
    return ok;
}

bool
lode_path_join(const char *dir, const char *name, char **out,
               struct lode_error *err)
{
    size_t dir_bytes = strlen(dir);
    size_t name_bytes = strlen(name);
    void *p;

    if (!lode_alloc_array(dir_bytes + name_bytes + 2, 1, "path", &p, err))
        return false;
    memcpy(p, dir, dir_bytes);
    ((char *)p)[dir_bytes] = '/';
    memcpy((char *)p + dir_bytes + 1, name, name_bytes);
    *out = p;
    return true;
}
