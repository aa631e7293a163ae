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
};

/* Look at path, touch nothing.  LODE_E_USAGE for a folder, a device, a missing
 * or read-only parent. */
LODE_MUST_CHECK
bool lode_output_init(struct lode_output *o, const char *path,
                      struct lode_error *err);
/* Removes OUT.wip unless it became OUT. */
void lode_output_fini(struct lode_output *o);

/* Create OUT.wip, empty, when the drive has room for needed_bytes. */
LODE_MUST_CHECK
bool lode_output_create(struct lode_output *o, uint64_t needed_bytes,
                        struct lode_error *err);

/* data, offset and bytes are multiples of 4096. */
LODE_MUST_CHECK
bool lode_output_write(struct lode_output *o, uint64_t offset, const void *data,
                       uint64_t bytes, struct lode_error *err);

/* To the drive: data alone, or data and everything about the file. */
LODE_MUST_CHECK
bool lode_output_sync(struct lode_output *o, bool all, struct lode_error *err);

/* OUT.wip becomes OUT, durably.  Only when the folder cannot be synced is OUT
 * there, and whole, after a failure. */
LODE_MUST_CHECK
bool lode_output_commit(struct lode_output *o, struct lode_error *err);

#endif
