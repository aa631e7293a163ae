/* SPDX-License-Identifier: Apache-2.0
 *
 * Read an expert-aligned container (docs/format.md).
 *
 * A container is a file of blocks: aligned, hashed pieces that can be read one
 * by one.  One or more blocks make an object (an expert, a layer's trunk, a
 * metadata file); objects of one kind and layer make a group; a group's schema
 * says which tensors lie where in the memory image of each of its objects.
 *
 * Threads: a reader never changes after lode_reader_open(), so any number of
 * threads may use one at once.  Nothing in format/ starts a thread, prints, or
 * keeps global state. */

#ifndef LODE_FORMAT_LODE_H
#define LODE_FORMAT_LODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/limits.h"

enum lode_kind {
    LODE_KIND_EXPERT = 1, /* objects of a group: the experts of one layer */
    LODE_KIND_TRUNK = 2,  /* one object: a layer's trunk, in order of use */
    LODE_KIND_RESIDENT = 3,
    LODE_KIND_ROWS = 4,   /* one row-addressed matrix: the embedding */
    LODE_KIND_AUX = 5,    /* carried, not needed for text: vision, draft */
    LODE_KIND_META = 6,   /* one file, verbatim; name is its relative path */
    LODE_KIND_ORIGIN = 7, /* "source-headers", "provenance.json" */
};

enum lode_codec { LODE_CODEC_NONE = 0, LODE_CODEC_ZSTD = 1 };

enum { LODE_DIGEST_BYTES = 32, LODE_NO_INDEX = -1 };

struct lode_reader;

/* The superblock's facts (spec 3). */
struct lode_summary {
    uint64_t file_bytes;
    uint64_t data_offset;
    uint64_t raw_bytes;    /* of all blocks, decoded, here or not */
    uint64_t stored_bytes; /* of the blocks here, without padding */
    uint64_t index_bytes;  /* hot and cold sections */
    uint32_t align_bytes;
    uint32_t block_count;   /* of the model */
    uint32_t present_count; /* in this file, or set; see lode_reader_here() */
    uint32_t group_count;
    uint32_t schema_count;
    uint32_t volume_count; /* files of the set, head included; 1: single file */
    uint32_t volume_index; /* 0, or which volume of a set this file is */
    bool packed;           /* some block has a codec */
    uint8_t content_root[LODE_DIGEST_BYTES]; /* zeros when not known */
    uint8_t index_digest[LODE_DIGEST_BYTES];
    char writer[65];
    char label[129];
};

/* Spec 5.  Borrowed strings live as long as the reader. */
struct lode_group {
    const char *name;
    uint64_t object_raw_bytes;
    uint32_t kind; /* an enum lode_kind, or >= 0x8000 */
    int32_t layer; /* -1: none */
    uint32_t object_count;
    uint32_t blocks_per_object;
    uint32_t first_block_index;
    uint32_t schema_index;
    uint32_t block_raw_bytes; /* of every block of an object but the last */
    uint8_t root[LODE_DIGEST_BYTES];
    uint8_t schema_digest[LODE_DIGEST_BYTES];
};

enum lode_tensor_flags {
    LODE_TENSOR_SLICE0 = 1, /* slice {E} along axis 0 of a stacked tensor */
    LODE_TENSOR_SYNTHETIC = 2,
};

/* Spec 6: one tensor of an object's memory image. */
struct lode_tensor {
    const char *name;     /* with {L} and {E} for layer and object number */
    const char *encoding; /* what the bytes mean: "bf16", "mxfp4.e2m1.lo" */
    const char *dtype;    /* the source's word: "BF16", "U8" */
    uint64_t raw_offset;  /* in the object's image, a multiple of 64 */
    uint64_t raw_bytes;
    uint64_t dim[LODE_DIMS_MAX];
    uint32_t flags;
    uint32_t quant_group;
    uint16_t role; /* an enum lode_role (format/role.h) */
    uint8_t dim_count;
    uint8_t segment;
};

/* Spec 7.  Of a block that is not here (spec 7.4) offset, hash and
 * stored_bytes are 0. */
struct lode_block {
    uint64_t offset;       /* from the start of its volume, aligned */
    uint64_t hash;         /* XXH3-64 of the stored bytes */
    uint32_t stored_bytes; /* without padding */
    uint32_t raw_bytes;
    uint32_t group_index;
    uint32_t object_index; /* in its group: the expert's number */
    uint32_t seq;          /* in its object */
    uint16_t volume_index; /* the file it lies in; 0: the one opened */
    uint8_t codec;
    uint8_t filters; /* bit f: some frame has filter f (format/pack.h) */
    bool present;    /* is it in this file, or set? */
};

/* A file of a set (spec 4.3). */
struct lode_volume {
    const char *name; /* "" for the head */
    const char *path; /* where it was found; NULL: it is missing */
    uint64_t file_bytes;
    int fd; /* buffered, read-only; -1: missing */
    uint8_t index_digest[LODE_DIGEST_BYTES];
};

/* Open the container at path and read its index, but no block.  Two reads.  On
 * success *out is the caller's, for lode_reader_close().  Every message names
 * the path.  Fails with LODE_E_IO, LODE_E_NOMEM, LODE_E_CORRUPT (damaged, cut
 * short, or no container at all), LODE_E_UNSUPPORTED or LODE_E_LIMIT. */
LODE_MUST_CHECK
bool lode_reader_open(const char *path, struct lode_reader **out,
                      struct lode_error *err);
void lode_reader_close(struct lode_reader *r); /* NULL is allowed */

/* The same for the head of a set, whose volumes are looked for beside it and
 * then in folders (a list that NULL ends, or NULL).  A volume that is found
 * nowhere is no failure here: blocks in it cannot be read (LODE_E_IO names it),
 * all others can.  A file of its name with another index is refused. */
LODE_MUST_CHECK
bool lode_reader_open_in(const char *path, const char *const *folders,
                         struct lode_reader **out, struct lode_error *err);

/* Volume volume_index < summary.volume_count; 0 is the file opened. */
const struct lode_volume *lode_reader_volume(const struct lode_reader *r,
                                             uint32_t volume_index);

/* Fails with LODE_E_IO, naming those that are missing, unless every volume was
 * found. */
LODE_MUST_CHECK
bool lode_reader_whole(const struct lode_reader *r, struct lode_error *err);

/* Can this block be read: is it present, and its volume here? */
bool lode_reader_here(const struct lode_reader *r, const struct lode_block *b);

/* Borrowed until lode_reader_close(). */
const struct lode_summary *lode_reader_summary(const struct lode_reader *r);
const char *lode_reader_path(const struct lode_reader *r);
int lode_reader_fd(const struct lode_reader *r); /* buffered, read-only */

/* Groups are sorted by kind, layer, name.  Borrowed likewise. */
const struct lode_group *lode_reader_group(const struct lode_reader *r,
                                           uint32_t group_index);

/* The group with this kind, layer (-1: none) and name (NULL: the first of this
 * kind and layer), or LODE_NO_INDEX. */
int64_t lode_reader_find(const struct lode_reader *r, uint32_t kind,
                         int32_t layer, const char *name);

/* The tensors of a schema in image order; borrowed likewise. */
const struct lode_tensor *lode_reader_schema(const struct lode_reader *r,
                                             uint32_t schema_index,
                                             uint32_t *tensor_count);

/* Block block_index < summary.block_count, decoded and valid. */
void lode_reader_block(const struct lode_reader *r, uint32_t block_index,
                       struct lode_block *out);

/* "expert 12 of layer 37", "trunk of layer 3, block 2 of 5", "file
 * config.json", ...: what messages call a block.  Returns out. */
const char *lode_reader_block_name(const struct lode_reader *r,
                                   uint32_t block_index, char *out,
                                   size_t out_bytes);

/* Bytes to read for a block, padding included: a multiple of the alignment.
 * For a block that is not here: what it would take, stored raw. */
uint64_t lode_reader_padded_bytes(const struct lode_reader *r,
                                  const struct lode_block *b);

/* Compare stored bytes that came from the drive with the block's XXH3-64;
 * LODE_E_CORRUPT names the file and the block, LODE_E_IO one that is not here.
 */
LODE_MUST_CHECK
bool lode_reader_check(const struct lode_reader *r, uint32_t block_index,
                       const void *stored, struct lode_error *err);

/* Read, check and decode one block into dst (at least raw_bytes).  On failure
 * dst holds garbage.  LODE_E_IO for a block that is not here. */
LODE_MUST_CHECK
bool lode_reader_load(const struct lode_reader *r, uint32_t block_index,
                      void *dst, size_t dst_bytes, struct lode_error *err);

/* The memory that decoding takes, kept between loads; one thread at a time.
 * Zero-initialise; free with lode_scratch_fini(). */
struct lode_scratch {
    struct lode_unpacker *unpacker;
    uint8_t *stored; /* 4096-aligned */
    uint64_t stored_bytes;
};
void lode_scratch_fini(struct lode_scratch *s);
/* Make stored hold at least bytes; what was in it is lost. */
LODE_MUST_CHECK
bool lode_scratch_room(struct lode_scratch *s, uint64_t bytes,
                       struct lode_error *err);

/* As lode_reader_load(), with memory of the caller's. */
LODE_MUST_CHECK
bool lode_reader_load_with(const struct lode_reader *r, uint32_t block_index,
                           struct lode_scratch *s, void *dst, size_t dst_bytes,
                           struct lode_error *err);

/* Decode stored bytes, already checked, into dst (raw_bytes long): for callers
 * that read by themselves. */
LODE_MUST_CHECK
bool lode_reader_decode(const struct lode_reader *r, uint32_t block_index,
                        struct lode_scratch *s, const void *stored, void *dst,
                        struct lode_error *err);

/* A whole object, block by block, into memory of its own with a NUL behind it,
 * for free().  max_bytes bounds it (LODE_E_LIMIT). */
LODE_MUST_CHECK
bool lode_reader_load_object(const struct lode_reader *r, uint32_t group_index,
                             uint32_t object_index, uint64_t max_bytes,
                             char **out, size_t *out_bytes,
                             struct lode_error *err);

/* A META or ORIGIN file by name, the same way; *out is NULL when there is no
 * such file. */
LODE_MUST_CHECK
bool lode_reader_load_file(const struct lode_reader *r, uint32_t kind,
                           const char *name, uint64_t max_bytes, char **out,
                           size_t *out_bytes, struct lode_error *err);

/* Compare the content root with 64 hex digits; LODE_E_CORRUPT names both.  A
 * container whose root is not known (spec 7.4) is never the expected one. */
LODE_MUST_CHECK
bool lode_reader_expect_root(const struct lode_reader *r, const char *hex,
                             struct lode_error *err);

/* A digest in hex; out has 65 bytes.  Returns out. */
const char *lode_hex(const uint8_t digest[LODE_DIGEST_BYTES], char *out);

/* Replace {L} and {E} in a tensor's name by layer and object number. */
LODE_MUST_CHECK
bool lode_tensor_name(const struct lode_tensor *t, int32_t layer,
                      uint32_t object_index, char *out, size_t out_bytes,
                      struct lode_error *err);

#endif
