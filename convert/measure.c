/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/measure.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/mem.h"
#include "format/lode_write.h"

enum {
    PIECE_BYTES = 4 << 20,
    PIECES_MAX = 8,
    FILE_SHARE = 8, /* of the free space, at most one part in this many */
};

/* A quarter of a second for each drive. */
static const uint64_t time_ns = UINT64_C(250000000);

static uint64_t
speed(uint64_t bytes, uint64_t start_ns)
{
    uint64_t ns = lode_now_ns() - start_ns;

    return (uint64_t)((double)bytes * 1e9 / (double)(ns != 0 ? ns : 1));
}

/* Past the page cache where the file system can do that. */
static int
open_direct(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_DIRECT | O_CLOEXEC, mode);

    return fd >= 0 ? fd : open(path, flags | O_CLOEXEC, mode);
}

static uint64_t
measure_read(const char *path, uint8_t *buffer)
{
    int fd = open_direct(path, O_RDONLY, 0);
    uint64_t start = lode_now_ns();
    uint64_t done = 0;
    struct stat st;

    if (fd < 0)
        return 0;
    if (fstat(fd, &st) != 0)
        st.st_size = 0;
    for (uint64_t i = 0; i < PIECES_MAX; i++) {
        /* Spread over the file, from 4096-aligned places. */
        uint64_t at = (uint64_t)st.st_size / PIECES_MAX * i / 4096 * 4096;
        ssize_t n = pread(fd, buffer, PIECE_BYTES, (off_t)at);

        if (n > 0)
            done += (uint64_t)n;
        if (n <= 0 || lode_now_ns() - start > time_ns)
            break;
    }
    (void)close(fd); /* only read */
    return done != 0 ? speed(done, start) : 0;
}

/* The folder of path, for free(); NULL without memory. */
static char *
folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct lode_error ignored;
    char *folder;
    bool ok = slash == NULL ? lode_strndup(".", 1, &folder, &ignored)
                            : lode_strndup(path, (uint64_t)(slash - path) + 1,
                                           &folder, &ignored);

    return ok ? folder : NULL;
}

/* The file never has a name, so that nothing is left whatever happens. */
static uint64_t
measure_write(const char *folder, const uint8_t *buffer)
{
    struct statvfs fs;
    uint64_t start;
    uint64_t done = 0;
    int fd;

    if (statvfs(folder, &fs) != 0)
        return 0;
    fd = open_direct(folder, O_TMPFILE | O_WRONLY, 0600);
    if (fd < 0)
        return 0;
    start = lode_now_ns();
    for (uint64_t i = 0; i < PIECES_MAX; i++) {
        ssize_t n;

        if (done + PIECE_BYTES > fs.f_bavail * fs.f_frsize / FILE_SHARE)
            break;
        n = pwrite(fd, buffer, PIECE_BYTES, (off_t)done);
        if (n > 0)
            done += (uint64_t)n;
        if (n < PIECE_BYTES || lode_now_ns() - start > time_ns)
            break;
    }
    if (done != 0 && fdatasync(fd) != 0)
        done = 0;
    done = done != 0 ? speed(done, start) : 0;
    (void)close(fd); /* its content is of no use */
    return done;
}

static uint64_t
measure_digest(uint8_t *buffer)
{
    struct lode_parcel p = {.stored = buffer,
                            .image = buffer,
                            .stored_bytes = PIECE_BYTES,
                            .raw_bytes = PIECE_BYTES};
    uint64_t start = lode_now_ns();

    lode_seal(&p);
    return speed(PIECE_BYTES, start);
}

static uint64_t
measure_sha256(const uint8_t *buffer)
{
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_error ignored;
    struct lode_sha256 *sha;
    uint64_t start = lode_now_ns();

    if (!lode_sha256_new(&sha, &ignored))
        return 0;
    lode_sha256_update(sha, buffer, PIECE_BYTES);
    lode_sha256_final(sha, digest);
    lode_sha256_free(sha);
    return speed(PIECE_BYTES, start);
}

void
cv_measure(const char *in_path, const char *out_path, struct cv_speeds *out)
{
    char *folder = folder_of(out_path);
    struct lode_error ignored;
    struct stat a;
    struct stat b;
    void *buffer = NULL;

    memset(out, 0, sizeof(*out));
    if (folder != NULL &&
        lode_alloc_aligned(PIECE_BYTES, "measurement", &buffer, &ignored)) {
        out->read = measure_read(in_path, buffer);
        memset(buffer, 0x5a, PIECE_BYTES); /* drives may spare zeros */
        out->write = measure_write(folder, buffer);
        out->digest = measure_digest(buffer);
        out->sha256 = measure_sha256(buffer);
        out->same_drive = stat(in_path, &a) == 0 && stat(folder, &b) == 0 &&
                          a.st_dev == b.st_dev;
        lode_free_aligned(buffer, PIECE_BYTES);
    }
    free(folder);
}

static double
seconds(uint64_t bytes, uint64_t per_second)
{
    return per_second != 0 ? (double)bytes / (double)per_second : 0;
}

double
cv_expected_seconds(const struct cv_speeds *s, const struct cv_workload *w)
{
    double reading = seconds(w->read_bytes, s->read);
    double writing = seconds(w->write_bytes, s->write);
    double sources = seconds(w->sha256_bytes, s->sha256);
    double making = (seconds(w->digest_bytes, s->digest) +
                     seconds(w->packing_bytes, w->packing_bytes_per_second)) /
                    (w->jobs != 0 ? w->jobs : 1);
    double drives = s->same_drive       ? reading + writing
                    : reading > writing ? reading
                                        : writing;
    double longest = drives > making ? drives : making;

    if (s->read == 0 || s->write == 0)
        return -1;
    return longest > sources ? longest : sources;
}
