/* SPDX-License-Identifier: Apache-2.0
 *
 * Two tensors compared: bytes where both have one encoding, numbers where both
 * can be decoded. */

#ifndef LODE_CONVERT_VALUES_H
#define LODE_CONVERT_VALUES_H

#include "convert/window.h"

/* Where bytes are: in an object of a container, or, with w NULL, in a file. */
struct cv_bytes {
    struct cv_window *w;
    uint32_t group_index;
    uint32_t object_index;
    uint64_t offset;
    int fd;
};

/* A tensor: how to read it, and what it means. */
struct cv_side {
    struct cv_bytes data;
    struct cv_bytes scales; /* of mxfp4.e2m1.lo */
    const char *encoding;
    const char *dtype;
    uint64_t raw_bytes;
    uint64_t element_count; /* values, not bytes, of mxfp4.e2m1.lo */
    bool has_scales;
};

/* The tensor of an object, its scales beside it.  False: the shape overflows,
 * so that it cannot be compared. */
bool cv_side_of(struct cv_window *w, uint32_t group_index,
                uint32_t object_index, uint32_t tensor_index,
                struct cv_side *out);

/* The same of a file with a plain dtype. */
void cv_side_of_file(int fd, uint64_t offset, uint64_t raw_bytes,
                     const char *dtype, const uint64_t *dims,
                     uint32_t dim_count, struct cv_side *out);

enum cv_verdict {
    CV_SAME,            /* all bytes, in one encoding */
    CV_SAME_VALUES,     /* all numbers, in two encodings */
    CV_DIFFERENT,       /* numbers differ: the figures below */
    CV_DIFFERENT_BYTES, /* no numbers, or another shape */
};

struct cv_delta {
    enum cv_verdict verdict;
    uint64_t first_element; /* or byte, of CV_DIFFERENT_BYTES */
    double a;               /* the values there */
    double b;
    double relative; /* ||a - b|| / ||b||; infinite when only b is zero, or
                        only one side is no number */
    uint64_t different_count;
};

/* Reads in pieces.  Fails as reading does, and with LODE_E_CANCELLED. */
LODE_MUST_CHECK
bool cv_values_compare(const struct cv_side *a, const struct cv_side *b,
                       struct cv_delta *out, struct lode_error *err);

/* "first difference at element 7: 0.5, then 0.25; relative error 1e-3" */
const char *cv_delta_text(const struct cv_delta *d, char *out,
                          size_t out_bytes);

#endif
