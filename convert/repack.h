/* SPDX-License-Identifier: Apache-2.0
 *
 * A container made from another: recoded, aligned otherwise, in another order,
 * split into a set or joined, without some layers or experts.  Blocks that stay
 * as they are, are copied without being looked at. */

#ifndef LODE_CONVERT_REPACK_H
#define LODE_CONVERT_REPACK_H

#include <stdint.h>

#include "base/cli.h"
#include "convert/choice.h"
#include "format/lode_write.h"

enum cv_split { CV_SPLIT_NONE, CV_SPLIT_LAYER, CV_SPLIT_SIZE };

struct cv_repack_options {
    struct cv_choice choice; /* when recode */
    bool recode;             /* else blocks keep their codec */
    uint32_t align_log2;     /* 0: as before */
    const char *label;       /* NULL: as before */
    const char *const *traces; /* NULL, or files that NULL ends */
    bool order;                /* lay out experts by the traces */
    enum cv_split split;
    uint64_t split_bytes; /* of a volume, at most; CV_SPLIT_SIZE */
    bool layers; /* only first_layer to last_layer, and what has none */
    int32_t first_layer;
    int32_t last_layer;
    const char *drop_list; /* experts to drop, or NULL */
    double drop_share;     /* or this share of each layer, by the traces */
    bool consume;          /* free the old container's blocks on the way */
    bool restart;
    bool ignore_space; /* begin although the drive seems too small */
};

struct cv_repack;

/* What will happen, before it does. */
struct cv_repack_figures {
    uint64_t raw_bytes;     /* to go through, decoded */
    uint64_t index_bytes;
    uint64_t file_bytes;    /* of all files, at most */
    uint64_t needed_bytes;  /* free on the drive, at most */
    uint64_t memory_bytes;
    uint32_t block_count;
    uint32_t copied_count;  /* as they are */
    uint32_t recoded_count;
    uint32_t changed_count; /* with other content */
    uint32_t volume_count;
    uint32_t dropped_count; /* experts */
    bool lossless;          /* same content root */
};

/* in must live as long as *out. */
LODE_MUST_CHECK
bool cv_repack_plan(const struct lode_reader *in, const char *out_path,
                    const struct cv_repack_options *opt, uint32_t jobs,
                    struct cv_repack **out, struct lode_error *err);
void cv_repack_free(struct cv_repack *x); /* NULL is allowed */

const struct cv_repack_figures *cv_repack_figures(const struct cv_repack *x);

/* What stands for this work in a journal. */
const uint8_t *cv_repack_plan_digest(const struct cv_repack *x);

/* Do it, from where it stopped if it was begun.  *done_count, when not NULL, is
 * how many blocks were there.  With consume, in_path's files are freed as their
 * blocks become durable, and removed at the end. */
LODE_MUST_CHECK
bool cv_repack_run(struct cv_repack *x, struct lode_progress *progress,
                   uint8_t root[LODE_DIGEST_BYTES], struct lode_error *err);

#endif
