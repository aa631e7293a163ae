/* SPDX-License-Identifier: Apache-2.0
 *
 * Which filter and codec a tensor gets.  The choice depends on encoding, kind
 * and options alone, never on the machine, so that equal input and options give
 * equal files; whether a plane really gains enough is then decided frame by
 * frame, by its own bytes. */

#ifndef LODE_CONVERT_CHOICE_H
#define LODE_CONVERT_CHOICE_H

#include <stdint.h>

#include "base/mem.h"
#include "format/lode.h"
#include "format/pack.h"

enum cv_codec {
    CV_CODEC_NONE,    /* everything raw */
    CV_CODEC_AUTO,    /* what pays on a fast drive */
    CV_CODEC_ZSTD,    /* whatever gains at least 3 % */
    CV_CODEC_ARCHIVE, /* whatever gains at all */
};

struct cv_choice {
    enum cv_codec codec;
    int level; /* of zstd, 1 to 19; 0: entropy coding alone */
};

/* "auto", "none", "zstd", "zstd:9", "archive"; LODE_E_USAGE otherwise. */
LODE_MUST_CHECK
bool cv_choice_parse(const char *text, struct cv_choice *out,
                     struct lode_error *err);

/* Back to text, for plans and digests of plans. */
const char *cv_choice_name(const struct cv_choice *c, char *out,
                           size_t out_bytes);

/* What one tensor gets, and in a few words why. */
struct cv_method {
    const char *name; /* "none", "zstd", "zstd + rot16split", ... */
    const char *why;
    uint8_t filter; /* an enum lode_filter */
    uint8_t effort; /* an enum lode_effort */
    int8_t level;
    uint8_t all_planes;
};

/* t NULL: a file, or an object without tensors. */
void cv_choice_method(const struct cv_choice *c, uint32_t kind,
                      const struct lode_tensor *t, struct cv_method *out);

/* The runs (struct lode_run each) of one block of a group, into out, which is
 * emptied first.  Of g only kind, object_raw_bytes, block_raw_bytes and
 * blocks_per_object are looked at.  No runs: the block stays raw. */
LODE_MUST_CHECK
bool cv_choice_runs(const struct cv_choice *c, const struct lode_group *g,
                    const struct lode_tensor *tensors, uint32_t tensor_count,
                    uint32_t seq, struct lode_buf *out, struct lode_error *err);

/* Thousandths that a plane or block must save to be packed. */
uint32_t cv_choice_min_gain(const struct cv_choice *c);

#endif
