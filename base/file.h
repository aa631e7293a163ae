/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole reads and writes at an offset, and files that appear complete or not
 * at all.  Messages do not repeat the path unless said so: callers know it and
 * add it once with lode_fail_in(). */

#ifndef LODE_BASE_FILE_H
#define LODE_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Open a regular file for reading.  Fails with LODE_E_IO, the path named, also
 * for anything that is no regular file. */
LODE_MUST_CHECK
bool lode_file_open(const char *path, int *fd, uint64_t *file_bytes,
                    struct lode_error *err);

/* Read exactly bytes at offset; a file that ends earlier is LODE_E_CORRUPT and
 * both sizes are named.  Interrupted and short reads are continued. */
LODE_MUST_CHECK
bool lode_file_read(int fd, uint64_t offset, void *dst, size_t bytes,
                    struct lode_error *err);

LODE_MUST_CHECK
bool lode_file_write(int fd, uint64_t offset, const void *src, size_t bytes,
                     struct lode_error *err);

/* The whole file at path, at most max_bytes (else LODE_E_LIMIT), with a NUL
 * behind it, for free().  The path is named in every message. */
LODE_MUST_CHECK
bool lode_file_slurp(const char *path, uint64_t max_bytes, char **out,
                     size_t *out_bytes, struct lode_error *err);

/* Make the name of path durable: fsync of its directory. */
LODE_MUST_CHECK
bool lode_file_sync_directory(const char *path, struct lode_error *err);

/* dir "/" name, for free(). */
LODE_MUST_CHECK
bool lode_path_join(const char *dir, const char *name, char **out,
                    struct lode_error *err);

#endif
