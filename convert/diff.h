/* SPDX-License-Identifier: Apache-2.0
 *
 * What two containers, or a container and a checkpoint, hold differently. */

#ifndef LODE_CONVERT_DIFF_H
#define LODE_CONVERT_DIFF_H

#include "convert/checkpoint.h"
#include "convert/values.h"

enum cv_diff_kind {
    CV_DIFF_BLOCK,  /* content digests differ */
    CV_DIFF_TENSOR, /* delta says how */
    CV_DIFF_FILE,   /* likewise; also any object without tensors */
    CV_ONLY_IN_A,   /* a tensor or file */
    CV_ONLY_IN_B,
    CV_DIFF_UNKNOWN, /* an object of which blocks are not here */
};

struct cv_difference {
    enum cv_diff_kind kind;
    const char *name;             /* until the call returns */
    const struct cv_delta *delta; /* NULL: there is none */
    bool same_encoding;
};

struct cv_diff {
    void (*tell)(void *user, const struct cv_difference *d);
    void *user;
    uint32_t same_group_count; /* by their roots */
    uint64_t difference_count; /* tensors and files; what only one has, too */
    uint64_t unknown_count;
    uint64_t allowed_count; /* of these: other encodings, only in one */
};

/* Compare by names of tensors, in bounded memory.  Groups with equal roots are
 * not looked into. */
LODE_MUST_CHECK
bool cv_diff_containers(struct cv_diff *d, const struct lode_reader *a,
                        const struct lode_reader *b, struct lode_error *err);

/* The container is a, the checkpoint b; its files of the container's names in
 * the checkpoint's folder count, too. */
LODE_MUST_CHECK
bool cv_diff_checkpoint(struct cv_diff *d, const struct lode_reader *a,
                        const struct cv_checkpoint *b, struct lode_error *err);

#endif
