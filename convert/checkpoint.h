/* SPDX-License-Identifier: Apache-2.0
 *
 * A folder of safetensors shards as one catalogue of tensors.  Index and
 * headers are compared; where they disagree the folder is refused. */

#ifndef LODE_CONVERT_CHECKPOINT_H
#define LODE_CONVERT_CHECKPOINT_H

#include <stdint.h>

#include "base/error.h"
#include "convert/notes.h"
#include "convert/safetensors.h"

enum { CV_TENSORS_MAX = 1 << 24 };

/* A file that is read: the shards first, by name, then the other files. */
struct cv_source {
    char *name;
    uint64_t file_bytes;
    uint64_t header_bytes; /* of a shard; 0 for other files */
    int64_t changed_s;     /* time of last change, to notice one */
    int64_t changed_ns;
    int fd;
    bool consumed; /* given up: its header is there, its data may not be */
};

/* A tensor of the catalogue: 88 bytes, since Kimi K3 has half a million. */
struct cv_tensor {
    const char *name;
    uint64_t offset; /* in its shard, from the start of the file */
    uint64_t raw_bytes;
    uint64_t dim[LODE_DIMS_MAX];
    char dtype[CV_DTYPE_BYTES];
    uint16_t source; /* number of its shard */
    uint8_t dim_count;
    bool claimed; /* a naming rule took it */
};

struct cv_checkpoint_options {
    bool include_unindexed;
    bool skip_unindexed;
    bool rebuild_index;
    bool follow_symlinks;
    bool headers_only; /* the data of shards may be missing */
    bool take_consumed; /* go on with shards that were given up */
    const char *const *skip_prefixes; /* NULL, or a list that NULL ends */
};

struct cv_name_piece;

struct cv_checkpoint {
    char *path;
    struct cv_source *sources;
    struct cv_tensor *tensors;    /* by name; no name twice */
    struct cv_name_piece *names;  /* they own the text of the names */
    uint32_t source_count;
    uint32_t shard_count;
    uint32_t tensor_count;
    uint32_t skipped_count;   /* tensors left out by skip_prefixes */
    uint32_t unaligned_count; /* tensors not aligned to their element size */
    bool complete; /* every tensor of every shard of the folder is here */
    struct cv_notes left_out; /* names of shards that are not in sources */
};

/* Open every file that is needed and build the catalogue.  On success *out is
 * the caller's, for cv_checkpoint_close().  Every message names the folder or
 * the file. */
LODE_MUST_CHECK
bool cv_checkpoint_open(const char *path,
                        const struct cv_checkpoint_options *opt,
                        struct cv_checkpoint **out, struct cv_notes *notes,
                        struct lode_error *err);
void cv_checkpoint_close(struct cv_checkpoint *c); /* NULL is allowed */

/* Fails with LODE_E_IO when a source is no longer the file that was opened,
 * unless we have given it up. */
LODE_MUST_CHECK
bool cv_source_unchanged(const struct cv_checkpoint *c, uint32_t source,
                         struct lode_error *err);
LODE_MUST_CHECK
bool cv_checkpoint_unchanged(const struct cv_checkpoint *c,
                             struct lode_error *err);

#endif
