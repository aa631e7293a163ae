/* SPDX-License-Identifier: Apache-2.0
 *
 * One safetensors file: 8 bytes of header length, a JSON header that names
 * tensors, their bytes.  Everything the header says is checked before it is
 * believed. */

#ifndef LODE_CONVERT_SAFETENSORS_H
#define LODE_CONVERT_SAFETENSORS_H

#include <stdint.h>

#include "base/error.h"
#include "format/limits.h"

enum {
    CV_HEADER_BYTES_MAX = 100 * 1000 * 1000, /* the library's own limit */
    CV_DTYPE_BYTES = 12, /* "F8_E5M2FNUZ" and its NUL */
    CV_SHARD_TENSORS_MAX = 1 << 20,
};

/* One tensor.  offset counts from the start of the file. */
struct cv_shard_tensor {
    const char *name;
    uint64_t offset;
    uint64_t raw_bytes;
    uint64_t dim[LODE_DIMS_MAX];
    char dtype[CV_DTYPE_BYTES];
    uint8_t dim_count;
};

struct cv_shard {
    struct cv_shard_tensor *tensors; /* by offset, then name */
    char *names;                     /* they point in here */
    uint32_t tensor_count;
    uint64_t header_bytes; /* of the JSON, without the length in front */
    uint64_t data_offset;  /* 8 + header_bytes */
    uint64_t end_offset;   /* where the last tensor ends */
};

/* Read and check the header of a file of file_bytes bytes.  On success *out is
 * the caller's, for cv_shard_fini().  Messages do not name the file.  Fails
 * with LODE_E_CORRUPT, LODE_E_LIMIT, LODE_E_UNSUPPORTED (an unknown dtype),
 * LODE_E_IO or LODE_E_NOMEM. */
LODE_MUST_CHECK
bool cv_shard_read(int fd, uint64_t file_bytes, struct cv_shard *out,
                   struct lode_error *err);

/* The same for a file whose data is not wanted and may be missing. */
LODE_MUST_CHECK
bool cv_shard_read_header(int fd, uint64_t file_bytes, struct cv_shard *out,
                          struct lode_error *err);
void cv_shard_fini(struct cv_shard *s);

#endif
