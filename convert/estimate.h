/* SPDX-License-Identifier: Apache-2.0
 *
 * How large a container will be, before it is written: one row for each kind,
 * role, encoding and codec, from a sample that is packed as the real blocks
 * will be.  Where images come from is the caller's: shards, or another
 * container. */

#ifndef LODE_CONVERT_ESTIMATE_H
#define LODE_CONVERT_ESTIMATE_H

#include <stdint.h>

#include "base/mem.h"
#include "convert/choice.h"
#include "convert/plan.h"
#include "convert/repack.h"

/* What is sampled at most. */
#define CV_SAMPLE_BYTES (UINT64_C(64) << 20)
#define CV_SAMPLE_NS UINT64_C(800000000)

/* A group, old or new; the pointers are borrowed. */
struct cv_estimate_group {
    struct lode_group group; /* kind and sizes are looked at */
    const struct lode_tensor *tensors;
    uint32_t tensor_count;
    bool kept; /* its blocks stay as they are stored, and take: */
    uint64_t known_stored_bytes;
    uint64_t known_extent_bytes; /* with padding */
};

enum cv_sample_state {
    CV_SAMPLE_ABSENT, /* there are no bytes to be had */
    CV_SAMPLE_IMAGE,
    CV_SAMPLE_PACKED, /* stored bytes of a block that is kept */
};

struct cv_sample {
    uint8_t *image;  /* room for raw_bytes; in */
    uint8_t *packed; /* likewise */
    uint32_t raw_bytes;
    uint32_t stored_bytes; /* of PACKED; out */
    uint8_t filters;
    enum cv_sample_state state; /* out */
};

struct cv_estimate_input {
    const struct cv_estimate_group *groups; /* what will be written */
    uint32_t group_count;
    const struct cv_estimate_group *samples; /* where to take samples */
    uint32_t sample_count;
    struct cv_choice choice;
    uint32_t align_bytes;
    uint64_t index_bytes;
    /* Block seq of an object of samples[group]; NULL: there is no data. */
    bool (*load)(void *user, uint32_t group, uint32_t object, uint32_t seq,
                 struct cv_sample *s, struct lode_error *err);
    void *user;
};

/* Strings are borrowed from the groups' tensors, or static. */
struct cv_estimate_row {
    const char *encoding;
    const char *codec;
    const char *why;
    uint64_t tensor_count;
    uint64_t raw_bytes;
    uint64_t stored_bytes;  /* what they are expected to take */
    uint64_t tried_bytes;   /* looked at */
    uint64_t sampled_bytes; /* of these, not all zero */
    uint64_t sample_stored_bytes;
    uint32_t kind;
    uint16_t role;
    bool packing; /* a codec is tried */
};

struct cv_estimate {
    struct lode_buf rows;   /* struct cv_estimate_row */
    uint64_t file_bytes;    /* index and padding included */
    uint64_t packing_bytes; /* decoded, that go through a codec */
    uint64_t sampled_bytes;
    uint64_t packing_bytes_per_second; /* of one thread; 0: not known */
    bool unsampled;                    /* some rows had to be taken for raw */
};

/* Zero-initialise *out; free it with cv_estimate_fini(), also after failure. */
LODE_MUST_CHECK
bool cv_estimate_make(const struct cv_estimate_input *in,
                      struct cv_estimate *out, struct lode_error *err);
void cv_estimate_fini(struct cv_estimate *e);

/* Those without tensors are only where samples were taken from. */
struct cv_estimate_row *cv_estimate_rows(const struct cv_estimate *e,
                                         size_t *count);

/* For a conversion.  With with_data false nothing is sampled: the shards' data
 * may be missing. */
LODE_MUST_CHECK
bool cv_estimate_plan(const struct cv_plan *p, const struct cv_choice *choice,
                      uint32_t align_bytes, uint64_t index_bytes,
                      bool with_data, struct cv_estimate *out,
                      struct lode_error *err);

/* For a repack.  The plan takes note: without consume it then asks for the
 * space that is expected to be needed, with a margin. */
LODE_MUST_CHECK
bool cv_estimate_repack(struct cv_repack *x, struct cv_estimate *out,
                        struct lode_error *err);

/* Space to ask for: the estimate and a margin, never more than at_most. */
uint64_t cv_estimate_needed(const struct cv_estimate *e, uint64_t at_most);

#endif
