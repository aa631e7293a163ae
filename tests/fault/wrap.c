/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fault/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>

static _Atomic uint64_t counts[WRAP_CALL_COUNT];
static _Atomic uint64_t fail_at[WRAP_CALL_COUNT]; /* 0: none */
static _Atomic uint64_t largest_bytes;
static _Atomic uint64_t total_bytes;
static atomic_bool failed;
static atomic_int fail_errno;
static atomic_size_t short_bytes;
static atomic_bool skip_sync;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *p, size_t bytes);
void *__real_mmap(void *p, size_t bytes, int prot, int flags, int fd,
                  off_t offset);
int __real_open(const char *path, int flags, ...);
ssize_t __real_pread(int fd, void *dst, size_t bytes, off_t offset);
ssize_t __real_pwrite(int fd, const void *src, size_t bytes, off_t offset);
int __real_fsync(int fd);
int __real_fdatasync(int fd);
int __real_rename(const char *from, const char *to);
int __real_ftruncate(int fd, off_t bytes);
ssize_t __real_copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at,
                               size_t bytes, unsigned flags);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *p, size_t bytes);
void *__wrap_mmap(void *p, size_t bytes, int prot, int flags, int fd,
                  off_t offset);
int __wrap_open(const char *path, int flags, ...);
ssize_t __wrap_pread(int fd, void *dst, size_t bytes, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *src, size_t bytes, off_t offset);
int __wrap_fsync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_rename(const char *from, const char *to);
int __wrap_ftruncate(int fd, off_t bytes);
ssize_t __wrap_copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at,
                               size_t bytes, unsigned flags);

void
wrap_reset(void)
{
    for (int i = 0; i < WRAP_CALL_COUNT; i++) {
        counts[i] = 0;
        fail_at[i] = 0;
    }
    largest_bytes = 0;
    total_bytes = 0;
    failed = false;
    short_bytes = 0;
    skip_sync = false;
}

void
wrap_fail(enum wrap_call call, uint64_t nth, int sys_errno)
{
    fail_errno = sys_errno;
    failed = false;
    fail_at[call] = counts[call] + nth;
}

bool
wrap_failed(void)
{
    return failed;
}

void
wrap_short(size_t max_bytes)
{
    short_bytes = max_bytes;
}

void
wrap_skip_sync(void)
{
    skip_sync = true;
}

uint64_t
wrap_count(enum wrap_call call)
{
    return counts[call];
}

uint64_t
wrap_largest_bytes(void)
{
    return largest_bytes;
}

uint64_t
wrap_total_bytes(void)
{
    return total_bytes;
}

/* Count a call; true when it is to fail, with errno set. */
static bool
fails(enum wrap_call call)
{
    uint64_t n = atomic_fetch_add(&counts[call], 1) + 1;

    if (n != fail_at[call])
        return false;
    failed = true;
    errno = fail_errno;
    return true;
}

static bool
alloc_fails(enum wrap_call call, size_t bytes)
{
    uint64_t seen = largest_bytes;

    while (bytes > seen &&
           !atomic_compare_exchange_weak(&largest_bytes, &seen, bytes))
        continue;
    total_bytes += bytes;
    return fails(call);
}

void *
__wrap_malloc(size_t bytes)
{
    return alloc_fails(WRAP_ALLOC, bytes) ? NULL : __real_malloc(bytes);
}

void *
__wrap_calloc(size_t count, size_t bytes)
{
    return alloc_fails(WRAP_ALLOC, count * bytes) ? NULL
                                                  : __real_calloc(count, bytes);
}

void *
__wrap_realloc(void *p, size_t bytes)
{
    return alloc_fails(WRAP_ALLOC, bytes) ? NULL : __real_realloc(p, bytes);
}

void *
__wrap_mmap(void *p, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    return alloc_fails(WRAP_MMAP, bytes)
               ? MAP_FAILED
               : __real_mmap(p, bytes, prot, flags, fd, offset);
}

int
__wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list ap;

    if ((flags & O_CREAT) != 0) {
        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
    }
    return fails(WRAP_OPEN) ? -1 : __real_open(path, flags, mode);
}

static size_t
shorten(size_t bytes)
{
    size_t most = short_bytes; /* once: a reset may come in between */

    return most != 0 && bytes > most ? most : bytes;
}

ssize_t
__wrap_pread(int fd, void *dst, size_t bytes, off_t offset)
{
    return fails(WRAP_PREAD) ? -1
                             : __real_pread(fd, dst, shorten(bytes), offset);
}

ssize_t
__wrap_pwrite(int fd, const void *src, size_t bytes, off_t offset)
{
    return fails(WRAP_PWRITE) ? -1
                              : __real_pwrite(fd, src, shorten(bytes), offset);
}

int
__wrap_fsync(int fd)
{
    return fails(WRAP_SYNC) ? -1 : skip_sync ? 0 : __real_fsync(fd);
}

int
__wrap_fdatasync(int fd)
{
    return fails(WRAP_SYNC) ? -1 : skip_sync ? 0 : __real_fdatasync(fd);
}

int
__wrap_rename(const char *from, const char *to)
{
    return fails(WRAP_RENAME) ? -1 : __real_rename(from, to);
}

int
__wrap_ftruncate(int fd, off_t bytes)
{
    return fails(WRAP_FTRUNCATE) ? -1 : __real_ftruncate(fd, bytes);
}

ssize_t
__wrap_copy_file_range(int in, off64_t *in_at, int out, off64_t *out_at,
                       size_t bytes, unsigned flags)
{
    return fails(WRAP_COPY)
               ? -1
               : __real_copy_file_range(in, in_at, out, out_at, shorten(bytes),
                                        flags);
}
