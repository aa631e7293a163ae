/* SPDX-License-Identifier: Apache-2.0
 *
 * The files a container was made from, bit for bit. */

#ifndef LODE_CONVERT_RESTORE_H
#define LODE_CONVERT_RESTORE_H

#include <stdint.h>

#include "base/cli.h"
#include "format/lode.h"

/* A file that can be restored. */
struct cv_restored {
    const char *name;
    uint64_t file_bytes;
    uint8_t sha256[LODE_DIGEST_BYTES];
    const uint8_t *header; /* of a shard; NULL for other files */
    uint64_t header_bytes;
    uint32_t group_index; /* of another file */
};

struct cv_restore;

/* Read what r says about its origin.  Fails, naming them, when some shards
 * cannot be restored because their tensors were left out (LODE_E_UNSUPPORTED).
 * r must live as long as *out. */
LODE_MUST_CHECK
bool cv_restore_open(const struct lode_reader *r, struct cv_restore **out,
                     struct lode_error *err);
void cv_restore_close(struct cv_restore *x); /* NULL is allowed */

/* The files, shards first; borrowed. */
const struct cv_restored *cv_restore_files(const struct cv_restore *x,
                                           uint32_t *count);

/* Write one file into folder: under another name first, and under its own when
 * its SHA-256 is the recorded one.  An existing file is replaced. */
LODE_MUST_CHECK
bool cv_restore_write(struct cv_restore *x, uint32_t file, const char *folder,
                      struct lode_progress *progress, struct lode_error *err);

#endif
