/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks with codec zstd (spec 7.3): a table of frames, and behind it their
 * bytes.  A frame is a piece of the image of at most 1 MiB that can be decoded
 * alone: a filter takes it apart into planes, and each plane is either one zstd
 * frame or raw.  The block tells all that a decoder needs; the schema is not
 * asked.
 *
 * Packing is deterministic: equal image, runs and zstd version give equal
 * bytes.  Nothing here does I/O or starts threads. */

#ifndef LODE_FORMAT_PACK_H
#define LODE_FORMAT_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LODE_FRAME_RAW_BYTES_MAX = 1 << 20,
    LODE_FRAME_PLANES = 2,
    LODE_FRAME_RECORD_BYTES = 24,
    LODE_PACK_HEADER_BYTES = 8,
};

/* How a frame is taken apart before the codec (spec 7.2 has the bits). */
enum lode_filter {
    LODE_FILTER_NONE = 0,
    LODE_FILTER_ROT16SPLIT = 1, /* bf16: exponents | sign and mantissa */
    LODE_FILTER_SPLIT16 = 2,    /* f16: high bytes | low bytes */
    LODE_FILTER_ROT32SPLIT = 3, /* f32: exponents | the other three bytes */
    LODE_FILTER_NIBSPLIT8 = 4,  /* f8.e4m3: exponents | sign and mantissa */
    LODE_FILTER_SCALECLASS = 5, /* mxfp4: groups at or above the most common
                                   scale | groups below it */
    LODE_FILTER_COUNT
};
/* As a mask: bit f stands for filter f > 0. */
#define LODE_FILTERS_KNOWN ((UINT64_C(1) << LODE_FILTER_COUNT) - 2)

/* What a run of a block's image is to be packed with. */
enum lode_effort {
    LODE_EFFORT_RAW,  /* leave as it is */
    LODE_EFFORT_FAST, /* entropy coding alone: made for weights */
    LODE_EFFORT_LEVEL /* zstd at run.level */
};

/* Runs cover an image without gap or overlap, in order. */
struct lode_run {
    uint32_t offset; /* in the block's image */
    uint32_t bytes;
    uint32_t scale_offset; /* SCALECLASS: where in the image the scale of the
                              run's first group lies; one byte a group of 16
                              bytes; in a run with another filter */
    uint8_t filter;        /* an enum lode_filter */
    uint8_t effort;        /* an enum lode_effort */
    int8_t level;          /* of EFFORT_LEVEL, 1 to 19 */
    uint8_t all_planes;    /* try every plane, not only the one that the
                              filter makes for packing */
};

/* A plane is packed, and a block is, when that saves at least this share; in
 * thousandths. */
enum { LODE_GAIN_AUTO = 30, LODE_GAIN_ANY = 1 };

struct lode_packer; /* contexts and scratch; one thread at a time */

LODE_MUST_CHECK
bool lode_packer_new(struct lode_packer **out, struct lode_error *err);
void lode_packer_free(struct lode_packer *p); /* NULL is allowed */

/* Name and version of the library that packs: another may give other bytes. */
const char *lode_pack_version(void);

/* Bytes that a packer and an unpacker take. */
uint64_t lode_packer_bytes(void);
uint64_t lode_unpacker_bytes(void);

/* Pack an image.  out has room for raw_bytes bytes.  *stored_bytes is what was
 * written there, or 0 when packing does not save min_gain thousandths: store
 * the image raw.  *filters gets bit f for each filter f > 0 in use.  Fails with
 * LODE_E_NOMEM, or LODE_E_USAGE for runs that break the rules above. */
LODE_MUST_CHECK
bool lode_pack(struct lode_packer *p, const void *image, uint32_t raw_bytes,
               const struct lode_run *runs, uint32_t run_count,
               uint32_t min_gain, void *out, uint32_t *stored_bytes,
               uint8_t *filters, struct lode_error *err);

/* The table of a packed block, checked: sums, limits, that each frame's bytes
 * lie in the block and its scales in frames of the first phase.  Borrows
 * stored. */
struct lode_frames {
    const uint8_t *stored;
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint32_t count;
    bool second_phase; /* some frame needs the image of others: decode all
                          frames of phase 0 first, then those of phase 1 */
};

/* LODE_E_CORRUPT for a table that breaks a rule, or filters other than the
 * block record's. */
LODE_MUST_CHECK
bool lode_frames_open(const void *stored, uint32_t stored_bytes,
                      uint32_t raw_bytes, uint8_t filters,
                      struct lode_frames *out, struct lode_error *err);

/* Where frame i lies in the image, and in which phase it is decoded. */
struct lode_frame_place {
    uint32_t offset;
    uint32_t bytes;
    uint32_t stored_bytes; /* of both planes */
    uint32_t phase;        /* 0 or 1 */
};
void lode_frames_place(const struct lode_frames *f, uint32_t frame_index,
                       struct lode_frame_place *out);

struct lode_unpacker; /* one thread at a time */

LODE_MUST_CHECK
bool lode_unpacker_new(struct lode_unpacker **out, struct lode_error *err);
void lode_unpacker_free(struct lode_unpacker *u); /* NULL is allowed */

/* Decode one frame into its place in image (f->raw_bytes long).  Threads may
 * decode frames of one phase at once, each with an unpacker of its own. */
LODE_MUST_CHECK
bool lode_unpack_frame(struct lode_unpacker *u, const struct lode_frames *f,
                       uint32_t frame_index, void *image,
                       struct lode_error *err);

/* All frames, by one thread. */
LODE_MUST_CHECK
bool lode_unpack(struct lode_unpacker *u, const void *stored,
                 uint32_t stored_bytes, uint8_t filters, void *image,
                 uint32_t raw_bytes, struct lode_error *err);

#endif
