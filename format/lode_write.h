/* SPDX-License-Identifier: Apache-2.0
 *
 * Write a container, and check one through and through.  For convert/ and
 * tests; the runtime never includes it.
 *
 * Writing goes in four steps.
 *   1. declare: lode_writer_new(), then every schema and every group.  After
 *      that the index's size is known.
 *   2. lode_writer_begin() creates OUT.wip and numbers the blocks.
 *   3. for each block, in any order: lode_seal() (pure, any thread) digests
 *      the image, lode_writer_append() (one thread) gives it the next offset
 *      and writes it.  Equal calls in equal order give equal files.
 *   4. lode_writer_finish() writes index and superblocks, syncs, and renames.
 * lode_writer_free() at any earlier moment removes OUT.wip. */

#ifndef LODE_FORMAT_LODE_WRITE_H
#define LODE_FORMAT_LODE_WRITE_H

#include "format/lode.h"

struct lode_writer;

struct lode_writer_options {
    uint32_t align_log2; /* 12 to 16 */
    const char *label;   /* for display, at most 127 bytes; NULL: none */
    /* Blocks may be left out, down to all of them: for planning without data
     * (spec 7.4).  Where one is missing the content root is unknown, zeros. */
    bool index_only;
};

/* The digests of one block (spec 8). */
struct lode_seal {
    uint64_t hash;                      /* XXH3-64, stored bytes */
    uint8_t content[LODE_DIGEST_BYTES]; /* tree over the decoded block */
    uint8_t stored[LODE_DIGEST_BYTES];  /* tree over the stored bytes */
};

/* Fails with LODE_E_USAGE when path is not fit to be written (a directory, no
 * such folder).  Does not touch the disk otherwise. */
LODE_MUST_CHECK
bool lode_writer_new(const char *path, const struct lode_writer_options *opt,
                     struct lode_writer **out, struct lode_error *err);
void lode_writer_free(struct lode_writer *w); /* NULL is allowed */

/* A schema; tensors (copied) in image order, raw_offset multiples of 64.
 * Equal schemas get one index.  Breaking a rule of the specification is
 * LODE_E_LIMIT or LODE_E_CORRUPT, as it would be for a reader. */
LODE_MUST_CHECK
bool lode_writer_schema(struct lode_writer *w,
                        const struct lode_tensor *tensors,
                        uint32_t tensor_count, uint64_t object_raw_bytes,
                        uint32_t *schema_index, struct lode_error *err);

/* A group; block_raw_bytes 0 means one block an object.  Order is free; the
 * file sorts groups.  *handle is for lode_writer_block_index(). */
LODE_MUST_CHECK
bool lode_writer_group(struct lode_writer *w, uint32_t kind, int32_t layer,
                       const char *name, uint32_t object_count,
                       uint32_t schema_index, uint64_t object_raw_bytes,
                       uint32_t block_raw_bytes, uint32_t *handle,
                       struct lode_error *err);

/* Sizes known after the last group: the index region (with superblocks), and
 * the whole file when every block is stored raw. */
LODE_MUST_CHECK
bool lode_writer_sizes(struct lode_writer *w, uint64_t *index_bytes,
                       uint64_t *file_bytes, uint32_t *block_count,
                       struct lode_error *err);

/* Create OUT.wip and reserve the index.  Fails with LODE_E_IO and what is
 * needed and there when the drive is too small. */
LODE_MUST_CHECK
bool lode_writer_begin(struct lode_writer *w, struct lode_error *err);

/* The number of a block, from its group's handle, object and position. */
uint32_t lode_writer_block_index(const struct lode_writer *w, uint32_t handle,
                                 uint32_t object_index, uint32_t seq);
uint32_t lode_writer_block_raw_bytes(const struct lode_writer *w,
                                     uint32_t block_index);

/* Digest one decoded block that is stored as it is.  Pure; any thread. */
void lode_seal(const void *raw, uint32_t raw_bytes, struct lode_seal *out);

/* Write one block, stored raw.  image must be 4096-aligned with room up to the
 * next multiple of the alignment; the writer zeroes that padding.  Each block
 * exactly once (LODE_E_USAGE). */
LODE_MUST_CHECK
bool lode_writer_append(struct lode_writer *w, uint32_t block_index,
                        void *image, uint32_t raw_bytes,
                        const struct lode_seal *seal, struct lode_error *err);

/* Index, roots, superblocks, sync, re-open through the reader, rename over
 * path, sync of the folder.  Every block must be there, unless opt.index_only
 * was set.  After a failure what was at path before is still there; only when
 * the folder's sync fails is it the new container.  *content_root may be
 * NULL. */
LODE_MUST_CHECK
bool lode_writer_finish(struct lode_writer *w,
                        uint8_t content_root[LODE_DIGEST_BYTES],
                        struct lode_error *err);

/* One fault of lode_verify(). */
struct lode_fault {
    const char *where; /* "expert 3 of layer 1", "superblock B", ... */
    const char *what;
};

struct lode_verify_options {
    void (*fault)(void *user, const struct lode_fault *f); /* for each */
    bool (*progress)(void *user, uint64_t bytes);          /* false cancels */
    void *user;
    uint32_t *absent_count; /* out: blocks not in this file; may be NULL */
};

/* Check every byte: both superblocks, sections, padding, each block's XXH3,
 * digests, group roots, content root.  Goes on after a fault where it can, and
 * counts them.  True with *fault_count > 0 is a damaged container; false is a
 * check that could not be made (I/O, memory, unreadable index: counted and
 * reported as a fault too, in that case *fault_count >= 1).  Blocks that an
 * index-only container leaves out are no faults but counted apart. */
LODE_MUST_CHECK
bool lode_verify(const char *path, const struct lode_verify_options *opt,
                 uint64_t *fault_count, struct lode_error *err);

/* SHA-256, streaming; here because the digest of source shards is part of the
 * specification (spec 9). */
struct lode_sha256;
LODE_MUST_CHECK
bool lode_sha256_new(struct lode_sha256 **out, struct lode_error *err);
void lode_sha256_update(struct lode_sha256 *s, const void *data, size_t bytes);
void lode_sha256_final(struct lode_sha256 *s, uint8_t out[LODE_DIGEST_BYTES]);
void lode_sha256_free(struct lode_sha256 *s); /* NULL is allowed */

#endif
