/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* The folder that path lies in, for free(). */
static bool
parent_of(const char *path, char **out, struct lode_error *err)
{
    const char *slash = strrchr(path, '/');

    if (slash == NULL)
        return lode_strndup(".", 1, out, err);
    if (slash == path)
        return lode_strndup("/", 1, out, err);
    return lode_strndup(path, (uint64_t)(slash - path), out, err);
}

static bool
check_place(const char *path, struct lode_error *err)
{
    char *parent = NULL;
    struct stat st;
    bool good = true;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return lode_fail(err, LODE_E_USAGE, "%s is a directory", path);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
        return lode_fail(err, LODE_E_USAGE, "%s is not a regular file", path);
    if (path[0] == '\0' || path[strlen(path) - 1] == '/')
        return lode_fail(err, LODE_E_USAGE, "\"%s\" is no file name", path);
    if (!parent_of(path, &parent, err))
        return false;
    if (stat(parent, &st) != 0 || !S_ISDIR(st.st_mode))
        good = lode_fail(err, LODE_E_USAGE, "%s: there is no directory %s",
                         path, parent);
    else if (access(parent, W_OK | X_OK) != 0)
        good = lode_fail(err, LODE_E_USAGE,
                         "%s: directory %s cannot be written to", path, parent);
    free(parent);
    return good;
}

bool
lode_output_init(struct lode_output *o, const char *path,
                 struct lode_error *err)
{
    size_t path_bytes = strlen(path);
    void *p = NULL;

    memset(o, 0, sizeof(*o));
    o->fd = o->folder_fd = -1;
    if (!check_place(path, err) ||
        !lode_strndup(path, path_bytes, &o->path, err) ||
        !lode_alloc_array(path_bytes + sizeof(".wip"), 1, "path", &p, err))
        goto fail;
    o->wip_path = p;
    memcpy(o->wip_path, path, path_bytes);
    memcpy(o->wip_path + path_bytes, ".wip", sizeof(".wip"));
    return true;
fail:
    lode_output_fini(o);
    return false;
}

/* Closing releases the lock, so the name goes first. */
void
lode_output_fini(struct lode_output *o)
{
    if (o->fd >= 0) {
        if (!o->keep)
            (void)unlink(o->wip_path); /* on the way out of a failure */
        (void)close(o->fd); /* what counts of it was synced */
    }
    if (o->folder_fd >= 0)
        (void)close(o->folder_fd); /* nothing was written */
    free(o->path);
    free(o->wip_path);
    memset(o, 0, sizeof(*o));
    o->fd = o->folder_fd = -1;
}

/* Before hours of work. */
bool
lode_output_check_room(const struct lode_output *o, uint64_t needed_bytes,
                       uint64_t file_bytes, struct lode_error *err)
{
    struct rlimit limit;
    struct statvfs fs;
    uint64_t there;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < file_bytes)
        return lode_fail(err, LODE_E_IO,
                         "%s: needs %" PRIu64 " bytes, the file size limit of "
                         "this process is %" PRIu64,
                         o->path, file_bytes, (uint64_t)limit.rlim_cur);
    if (fstatvfs(o->fd, &fs) != 0)
        return lode_fail_errno(err, "%s: free space", o->wip_path);
    there = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (there < needed_bytes)
        return lode_fail(err, LODE_E_IO,
                         "%s: not enough space on the drive: %" PRIu64
                         " bytes are needed, %" PRIu64 " are available",
                         o->path, needed_bytes, there);
    return true;
}

/* Two writers of one OUT would mix their blocks, so OUT.wip is locked; and the
 * other may have finished (renamed) it between our open and our lock, in which
 * case it is not ours to empty. */
static bool
take(struct lode_output *o, int fd, struct lode_error *err)
{
    struct stat ours;
    struct stat named;

    if (fstat(fd, &ours) != 0)
        return lode_fail_errno(err, "%s", o->wip_path);
    if (!S_ISREG(ours.st_mode))
        return lode_fail(err, LODE_E_IO, "%s is in the way: not a regular file",
                         o->wip_path);
    /* File systems without locks leave it to the user. */
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return lode_fail(err, LODE_E_IO,
                         "%s is being written by another process", o->wip_path);
    if (lstat(o->wip_path, &named) != 0 || named.st_ino != ours.st_ino ||
        named.st_dev != ours.st_dev)
        return lode_fail(err, LODE_E_IO,
                         "%s was just written by another process", o->path);
    o->fd = fd;
    return true;
}

/* Now rather than after the rename, when it would be too late to fail. */
static bool
open_folder(struct lode_output *o, struct lode_error *err)
{
    char *parent = NULL;

    if (!parent_of(o->path, &parent, err))
        return false;
    o->folder_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (o->folder_fd < 0)
        lode_fail_errno(err, "%s", parent);
    free(parent);
    return o->folder_fd >= 0;
}

bool
lode_output_open(struct lode_output *o, struct lode_error *err)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd;

    assert(o->fd < 0);
    if (!open_folder(o, err))
        return false;
    o->direct = true;
    fd = open(o->wip_path, flags | O_DIRECT, 0666);
    if (fd < 0 && (errno == EINVAL || errno == EOPNOTSUPP)) {
        o->direct = false;
        fd = open(o->wip_path, flags, 0666);
    }
    if (fd < 0)
        return lode_fail_errno(err, "%s", o->wip_path);
    if (!take(o, fd, err)) {
        (void)close(fd); /* nothing was written */
        return false;
    }
    return true;
}

bool
lode_output_cut(struct lode_output *o, uint64_t bytes, struct lode_error *err)
{
    if (ftruncate(o->fd, (off_t)bytes) != 0)
        return lode_fail_errno(err, "%s", o->wip_path);
    return true;
}

/* Say what ran out: "No space left on device" alone does not tell which. */
static bool
explain(const struct lode_output *o, uint64_t offset, uint64_t bytes,
        struct lode_error *err)
{
    int saved = err->sys_errno;

    if (saved == ENOSPC || saved == EDQUOT)
        lode_fail(err, LODE_E_IO,
                  "%s: no space left on the drive (%s) after %" PRIu64
                  " bytes, %" PRIu64 " more were to be written",
                  o->wip_path, strerror(saved), offset, bytes);
    else if (saved == EFBIG)
        lode_fail(err, LODE_E_IO,
                  "%s: file size limit (of the file system or the process) "
                  "reached after %" PRIu64 " bytes",
                  o->wip_path, offset);
    else
        lode_fail_in(err, "%s", o->wip_path);
    err->sys_errno = saved;
    return false;
}

bool
lode_output_write(struct lode_output *o, uint64_t offset, const void *data,
                  uint64_t bytes, struct lode_error *err)
{
    int flags;

    assert((uintptr_t)data % 4096 == 0 && offset % 4096 == 0 &&
           bytes % 4096 == 0);
    if (lode_file_write(o->fd, offset, data, (size_t)bytes, err))
        return true;
    if (!o->direct || err->sys_errno != EINVAL)
        return explain(o, offset, bytes, err);
    /* Some file systems accept O_DIRECT and refuse the write. */
    o->direct = false;
    flags = fcntl(o->fd, F_GETFL);
    if (flags < 0 || fcntl(o->fd, F_SETFL, flags & ~O_DIRECT) != 0)
        return lode_fail_errno(err, "%s: buffered writes", o->wip_path);
    return lode_file_write(o->fd, offset, data, (size_t)bytes, err) ||
           explain(o, offset, bytes, err);
}

/* copy_file_range() shares extents by itself where it can. */
bool
lode_output_copy(struct lode_output *o, uint64_t offset, int fd, uint64_t from,
                 uint64_t bytes, struct lode_error *err)
{
    off_t in = (off_t)from;
    off_t out = (off_t)offset;

    while (bytes > 0) {
        ssize_t n = copy_file_range(fd, &in, o->fd, &out, (size_t)bytes, 0);

        if (n > 0) {
            bytes -= (uint64_t)n;
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            return lode_fail(err, LODE_E_CORRUPT, "cut off: the file ends at "
                             "%" PRIu64, (uint64_t)in);
        /* What other failures have begun is written again by the caller. */
        if (errno == EXDEV || errno == EINVAL || errno == ENOSYS ||
            errno == EOPNOTSUPP || errno == EPERM || errno == EBADF)
            return lode_fail(err, LODE_E_UNSUPPORTED, "copy_file_range: %s",
                             strerror(errno));
        lode_fail_errno(err, "copy");
        return explain(o, (uint64_t)out, bytes, err);
    }
    return true;
}

/* Spec 11.2.  After a failed sync the kernel may have dropped the data and
 * report success the next time: it is never tried again. */
bool
lode_output_sync(struct lode_output *o, bool all, struct lode_error *err)
{
    if ((all ? fsync(o->fd) : fdatasync(o->fd)) == 0)
        return true;
    return lode_fail_errno(err, "sync of %s", o->wip_path);
}

static bool
sync_folder(const struct lode_output *o)
{
    /* EINVAL: this file system has no sync of folders. */
    return fsync(o->folder_fd) == 0 || errno == EINVAL;
}

bool
lode_output_sync_folder(const struct lode_output *o, struct lode_error *err)
{
    return sync_folder(o) ||
           lode_fail_errno(err, "sync of the folder of %s", o->wip_path);
}

bool
lode_output_rename(struct lode_output *o, struct lode_error *err)
{
    if (rename(o->wip_path, o->path) != 0)
        return lode_fail_errno(err, "rename of %s to %s", o->wip_path, o->path);
    (void)close(o->fd); /* synced before */
    o->fd = -1;
    return true;
}

bool
lode_output_commit(struct lode_output *o, struct lode_error *err)
{
    return lode_output_rename(o, err) &&
           (sync_folder(o) ||
            lode_fail_errno(err,
                            "%s is complete, but its folder cannot be synced",
                            o->path));
}

void
lode_output_withdraw(struct lode_output *o, bool keep)
{
    if (o->fd >= 0)
        return; /* never got its name */
    if (keep)
        (void)rename(o->path, o->wip_path); /* else the next run does it */
    else
        (void)unlink(o->path); /* on the way out of a failure */
}
