/* SPDX-License-Identifier: Apache-2.0
 *
 * The file that a writer fills: OUT.wip until it is whole, then OUT.  Aligned
 * writes past the page cache where the file system allows it. */

#ifndef LODE_FORMAT_OUTPUT_H
#define LODE_FORMAT_OUTPUT_H

#include <stdint.h>

#include "base/error.h"

struct lode_output {
    char *path;
    char *wip_path;
    int fd;        /* -1: OUT.wip does not exist, or is no longer ours */
    int folder_fd; /* where both lie; open from create on, else -1 */
    bool direct;
    bool keep; /* OUT.wip stays when it did not become OUT */
};

/* Look at path, touch nothing.  LODE_E_USAGE for a folder, a device, a missing
 * or read-only parent. */
LODE_MUST_CHECK
bool lode_output_init(struct lode_output *o, const char *path,
                      struct lode_error *err);
/* Removes OUT.wip unless it became OUT, or is to be kept. */
void lode_output_fini(struct lode_output *o);

/* Open OUT.wip and lock it; it is created when it is not there.  Nothing of
 * it is lost by that. */
LODE_MUST_CHECK
bool lode_output_open(struct lode_output *o, struct lode_error *err);

/* Is there room for needed_bytes more on the drive, and for a file of
 * file_bytes at all? */
LODE_MUST_CHECK
bool lode_output_check_room(const struct lode_output *o, uint64_t needed_bytes,
                            uint64_t file_bytes, struct lode_error *err);

/* Give up all behind the first bytes. */
LODE_MUST_CHECK
bool lode_output_cut(struct lode_output *o, uint64_t bytes,
                     struct lode_error *err);

/* data, offset and bytes are multiples of 4096. */
LODE_MUST_CHECK
bool lode_output_write(struct lode_output *o, uint64_t offset, const void *data,
                       uint64_t bytes, struct lode_error *err);

/* Bytes of another file, offsets and bytes multiples of 4096: shared with it
 * where the file system can, or copied by the kernel.  LODE_E_UNSUPPORTED when
 * neither works. */
LODE_MUST_CHECK
bool lode_output_copy(struct lode_output *o, uint64_t offset, int fd,
                      uint64_t from, uint64_t bytes, struct lode_error *err);

/* To the drive: data alone, or data and everything about the file. */
LODE_MUST_CHECK
bool lode_output_sync(struct lode_output *o, bool all, struct lode_error *err);

/* The names in the folder, to the drive. */
LODE_MUST_CHECK
bool lode_output_sync_folder(const struct lode_output *o,
                             struct lode_error *err);

/* OUT.wip becomes OUT; the folder is not synced. */
LODE_MUST_CHECK
bool lode_output_rename(struct lode_output *o, struct lode_error *err);

/* OUT.wip becomes OUT, durably.  Only when the folder cannot be synced is OUT
 * there, and whole, after a failure. */
LODE_MUST_CHECK
bool lode_output_commit(struct lode_output *o, struct lode_error *err);

/* Back from OUT, which was not there before, to OUT.wip, or to nothing. */
void lode_output_withdraw(struct lode_output *o, bool keep);

#endif
