/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/tap.h"

static char folder[256];

static char *
at(const char *name)
{
    struct lode_error err;
    char *path;

    must(lode_path_join(folder, name, &path, &err), &err);
    return path;
}

static void
test_read_write(void)
{
    char *path = at("a");
    struct lode_error err;
    uint64_t bytes;
    char text[8] = "";
    int fd = open(path, O_RDWR | O_CREAT, 0666);

    must(lode_file_write(fd, 3, "defgh", 5, &err), &err);
    must(lode_file_write(fd, 0, "abc", 3, &err), &err);
    must(lode_file_write(fd, 99, "", 0, &err), &err);
    close(fd);
    must(lode_file_open(path, &fd, &bytes, &err), &err);
    is_u64(bytes, 8, "size: an empty write adds nothing");
    must(lode_file_read(fd, 2, text, 4, &err), &err);
    ok(memcmp(text, "cdef", 4) == 0, "read in the middle");
    fails_with(lode_file_read(fd, 5, text, 4, &err), &err, LODE_E_CORRUPT,
               "file ends at 8, 4 bytes at 5 were expected", "past the end");
    fails_with(lode_file_write(fd, 0, "x", 1, &err), &err, LODE_E_IO,
               "write of 1 bytes at 0: ", "write to a file open for reading");
    close(fd);
    fails_with(lode_file_read(fd, 0, text, 1, &err), &err, LODE_E_IO,
               "read of 1 bytes at 0: ", "read from a closed file");
    free(path);
}

static void
test_slurp(void)
{
    char *path = at("a");
    struct lode_error err;
    size_t bytes;
    char *text;

    must(lode_file_slurp(path, 8, &text, &bytes, &err), &err);
    is_str(text, "abcdefgh", "a whole file, with a NUL");
    is_u64(bytes, 8, "its size");
    free(text);
    fails_with(lode_file_slurp(path, 7, &text, &bytes, &err), &err,
               LODE_E_LIMIT, "/a: 8 bytes, the limit is 7", "one byte above");
    free(path);
    path = at("none");
    fails_with(lode_file_slurp(path, 8, &text, &bytes, &err), &err, LODE_E_IO,
               "/none: No such file", "no such file");
    free(path);
    fails_with(lode_file_slurp(folder, 8, &text, &bytes, &err), &err, LODE_E_IO,
               ": not a regular file", "a folder");
}

static void
test_sync(void)
{
    char *path = at("none/x");
    struct lode_error err;

    fails_with(lode_file_sync_directory(path, &err), &err, LODE_E_IO,
               "none: No such file", "the folder of a file is missing");
    free(path);
    path = at("x");
    must(lode_file_sync_directory(path, &err), &err);
    must(lode_file_sync_directory("x", &err), &err);
    must(lode_file_sync_directory("/x", &err), &err);
    ok(true, "folders are synced");
    free(path);
}

int
main(void)
{
    const char *base = getenv("TMPDIR");
    char *path;

    snprintf(folder, sizeof(folder), "%.200s/lode-test.XXXXXX",
             base != NULL ? base : "/tmp");
    if (mkdtemp(folder) == NULL)
        return 99;
    test_read_write();
    test_slurp();
    test_sync();
    path = at("a");
    unlink(path);
    free(path);
    rmdir(folder);
    return done_testing();
}
