/* SPDX-License-Identifier: Apache-2.0
 *
 * Write a container or a set, and check one through and through.  For convert/
 * and tests; the runtime never includes it.
 *
 * Writing goes in four steps.
 *   1. declare: lode_writer_new(), then every schema and every group; then
 *      lode_writer_number(), and for a set its volumes.  After that the sizes
 *      of all indexes are known.
 *   2. lode_writer_begin() creates OUT.wip, or goes on with an unfinished one.
 *   3. for each block, in any order: lode_seal() (pure, any thread) digests
 *      the image, lode_writer_append() (one thread) gives it the next offset
 *      and writes it.  Equal calls in equal order give equal files.
 *   4. lode_writer_finish() writes index and superblocks, syncs, and renames.
 *
 * With a journal (options.plan) every block that was written is remembered in
 * OUT.wip.journal, so that after a crash or a failure the same declarations
 * and calls continue where it ended: lode_writer_done() tells which blocks need
 * no second call, and the others must come in the order of the first time.
 * Without one, lode_writer_free() at any earlier moment removes OUT.wip. */

#ifndef LODE_FORMAT_LODE_WRITE_H
#define LODE_FORMAT_LODE_WRITE_H

#include "base/mem.h"
#include "format/lode.h"

struct lode_writer;

struct lode_writer_options {
    uint32_t align_log2; /* 12 to 16 */
    const char *label;   /* for display, at most 127 bytes; NULL: none */
    /* Blocks may be left out, down to all of them (spec 7.4). */
    bool partial;
    /* Blocks may be packed: room is kept for their stored digests. */
    bool packed;
    /* Keep a journal.  32 bytes that stand for the sources and all options: an
     * unfinished OUT.wip of another plan is refused. */
    const uint8_t *plan;
    bool restart; /* throw away an unfinished OUT.wip instead */
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

struct lode_group_spec {
    const char *name;
    uint64_t object_raw_bytes;
    uint32_t kind;
    int32_t layer;
    uint32_t object_count;
    uint32_t schema_index;
    uint32_t block_raw_bytes; /* 0: one block an object */
};

/* A group.  Order is free; the file sorts groups.  *handle is for
 * lode_writer_block_index(). */
LODE_MUST_CHECK
bool lode_writer_group(struct lode_writer *w, const struct lode_group_spec *g,
                       uint32_t *handle, struct lode_error *err);

/* After the last group: give blocks their numbers. */
LODE_MUST_CHECK
bool lode_writer_number(struct lode_writer *w, uint32_t *block_count,
                        struct lode_error *err);

/* The number of a block, from its group's handle, object and position. */
uint32_t lode_writer_block_index(const struct lode_writer *w, uint32_t handle,
                                 uint32_t object_index, uint32_t seq);
uint32_t lode_writer_block_raw_bytes(const struct lode_writer *w,
                                     uint32_t block_index);

/* Make OUT the head of a set: a volume of this file name, in OUT's folder, and
 * the blocks that go into it.  Blocks without one go into the head. */
LODE_MUST_CHECK
bool lode_writer_volume(struct lode_writer *w, const char *name,
                        uint32_t *volume_index, struct lode_error *err);
void lode_writer_place(struct lode_writer *w, uint32_t block_index,
                       uint32_t volume_index);

/* Sizes known then: all index regions (with superblocks), and all files when
 * every block is stored raw. */
LODE_MUST_CHECK
bool lode_writer_sizes(struct lode_writer *w, uint64_t *index_bytes,
                       uint64_t *file_bytes, struct lode_error *err);

/* Create OUT.wip (and the volumes') and reserve the indexes, or continue.
 * needed_bytes are what is still to be written at most, or 0 for the sizes
 * above.  Fails with LODE_E_IO and what is needed and there when the drive is
 * too small, with LODE_E_USAGE for unfinished work of another plan, and for a
 * volume's name that is taken. */
LODE_MUST_CHECK
bool lode_writer_begin(struct lode_writer *w, uint64_t needed_bytes,
                       struct lode_error *err);

/* Was this block written before (by the run that we continue)? */
bool lode_writer_done(const struct lode_writer *w, uint32_t block_index);
/* Blocks and stored bytes written so far. */
uint32_t lode_writer_written(const struct lode_writer *w, uint64_t *bytes);

/* The digests of one block (spec 8). */
struct lode_seal {
    uint64_t hash;                      /* XXH3-64, stored bytes */
    uint8_t content[LODE_DIGEST_BYTES]; /* tree over the decoded block */
    uint8_t stored[LODE_DIGEST_BYTES];  /* tree over the stored bytes */
};

/* A block as it is to be written. */
struct lode_parcel {
    /* Stored bytes: 4096-aligned, with room up to the next multiple of the
     * alignment; the writer zeroes that padding. */
    void *stored;
    const void *image; /* decoded; NULL: gaps between tensors were checked */
    uint32_t stored_bytes;
    uint32_t raw_bytes;
    uint8_t codec; /* NONE: stored is the image */
    uint8_t filters;
    struct lode_seal seal;
};

/* Fill seal from image, stored, their sizes and codec.  Pure; any thread. */
void lode_seal(struct lode_parcel *p);

/* Write one block.  Each block exactly once (LODE_E_USAGE). */
LODE_MUST_CHECK
bool lode_writer_append(struct lode_writer *w, uint32_t block_index,
                        const struct lode_parcel *p, struct lode_error *err);

/* The same for stored bytes that lie in another file, 4096-aligned with their
 * padding: they are shared with it where the file system can do that, else
 * copied without passing through us.  p->stored and p->image are not used.
 * False with LODE_E_UNSUPPORTED: neither works here; use append. */
LODE_MUST_CHECK
bool lode_writer_copy(struct lode_writer *w, uint32_t block_index,
                      const struct lode_parcel *p, int fd, uint64_t offset,
                      struct lode_error *err);

/* With a journal: bring to the drive what was written.  lode_writer_append()
 * does it by itself now and then. */
LODE_MUST_CHECK
bool lode_writer_sync(struct lode_writer *w, struct lode_error *err);

/* With a journal: remember 32 bytes under a number of the caller's, durably
 * once lode_writer_sync() has returned; a later note replaces an earlier one.
 * lode_writer_noted() gives it back, also after a crash; NULL: none. */
LODE_MUST_CHECK
bool lode_writer_note(struct lode_writer *w, uint32_t key,
                      const uint8_t data[LODE_DIGEST_BYTES],
                      struct lode_error *err);
const uint8_t *lode_writer_noted(const struct lode_writer *w, uint32_t key);

/* Index, roots, superblocks, sync, re-open through the reader, rename (volumes
 * first), sync of the folder, end of the journal.  Every block must be there,
 * unless opt.partial was set.  After a failure what was at path before is still
 * there; only when the folder's sync fails is it the new container.
 * *content_root may be NULL. */
LODE_MUST_CHECK
bool lode_writer_finish(struct lode_writer *w,
                        uint8_t content_root[LODE_DIGEST_BYTES],
                        struct lode_error *err);

/* Content digests of blocks that are left out but known from elsewhere, so that
 * the roots of a partial container stay known (spec 7.4).  After begin. */
void lode_writer_absent(struct lode_writer *w, uint32_t block_index,
                        const uint8_t content[LODE_DIGEST_BYTES]);

/* Did an earlier run of this plan finish path and only not tidy up?  Then it is
 * tidied up. */
LODE_MUST_CHECK
bool lode_writer_was_finished(const char *path, const uint8_t *plan,
                              bool *finished, struct lode_error *err);

/* The digests of a container: cold sections, read on request.  For free();
 * one of LODE_DIGEST_BYTES bytes for each block, zeros where not known.
 * *stored is NULL when none were kept: both digests are equal then. */
LODE_MUST_CHECK
bool lode_reader_digests(const struct lode_reader *r, uint8_t **content,
                         uint8_t **stored, struct lode_error *err);

/* Present blocks in the order in which they were written: by volume and offset,
 * or as the head of a set remembers it.  For free(). */
LODE_MUST_CHECK
bool lode_reader_order(const struct lode_reader *r, uint32_t **blocks,
                       uint32_t *count, struct lode_error *err);

/* One fault of lode_verify(). */
struct lode_fault {
    const char *where; /* "expert 3 of layer 1", "superblock B", ... */
    const char *what;
    int64_t block_index;   /* LODE_NO_INDEX when it is not about a block */
    uint32_t volume_index; /* the file it lies in */
};

enum lode_verify_level {
    LODE_VERIFY_FAST,   /* checksums of index and blocks */
    LODE_VERIFY_TREE,   /* and digests, up to the content root */
    LODE_VERIFY_STRICT, /* and every byte of the file accounted for */
};

struct lode_verify_options {
    void (*fault)(void *user, const struct lode_fault *f); /* for each */
    bool (*progress)(void *user, uint64_t bytes);          /* false cancels */
    void *user;
    uint32_t *absent_count; /* out: blocks not in this file; may be NULL */
    const char *const *folders; /* where volumes may lie; NULL: beside */
    enum lode_verify_level level;
};

/* Check a container, or a set from its head.  Goes on after a fault where it
 * can, and counts them.  True with *fault_count > 0 is a damaged container;
 * false is a check that could not be made (I/O, memory, unreadable index:
 * counted and reported as a fault too, in that case *fault_count >= 1).
 * Blocks that a partial container leaves out are no faults but counted apart.
 */
LODE_MUST_CHECK
bool lode_verify(const char *path, const struct lode_verify_options *opt,
                 uint64_t *fault_count, struct lode_error *err);

/* The same in parts, for threads: a part is a block and what lies before it.
 * Opening checks superblocks and indexes, and tells their faults; it fails with
 * LODE_E_NOMEM alone, since what cannot be opened is a fault, too.  opt must
 * live as long as *out. */
struct lode_verifier;
LODE_MUST_CHECK
bool lode_verifier_open(const char *path, const struct lode_verify_options *opt,
                        struct lode_verifier **out, struct lode_error *err);
void lode_verifier_close(struct lode_verifier *v); /* NULL is allowed */
uint32_t lode_verifier_part_count(const struct lode_verifier *v);
/* Of all files of the set, as found. */
uint64_t lode_verifier_bytes(const struct lode_verifier *v);
/* Files that could be looked at: 0 is the one at path.  Borrowed; *volume_index
 * is its number in the set. */
const char *lode_verifier_file(const struct lode_verifier *v, uint32_t i,
                               uint32_t *volume_index); /* NULL: no more */
/* Room that image needs, at least 1. */
uint32_t lode_verifier_image_bytes(const struct lode_verifier *v);

/* Check one part and append what was found to *found, for
 * lode_verifier_tell().  Pure: any threads at once, each with scratch, image
 * and found of its own.  Fails with LODE_E_NOMEM when it could not. */
LODE_MUST_CHECK
bool lode_verifier_check(const struct lode_verifier *v, uint32_t part,
                         struct lode_scratch *s, void *image,
                         struct lode_buf *found, struct lode_error *err);

/* Tell the faults of a part, and progress; by one thread, in order of the
 * parts.  False: the caller's progress() cancelled. */
bool lode_verifier_tell(struct lode_verifier *v, uint32_t part,
                        const struct lode_buf *found);

/* The end: as lode_verify() would have returned. */
LODE_MUST_CHECK
bool lode_verifier_result(const struct lode_verifier *v, uint64_t *fault_count,
                          struct lode_error *err);

/* Repair one file in place.  It needs one superblock that is whole.  What was
 * whole before is whole at any moment; a block or section being written is
 * damaged until it is repaired.  Nothing is written in a dry run. */
struct lode_mender;
LODE_MUST_CHECK
bool lode_mender_open(const char *path, bool dry_run, struct lode_mender **out,
                      struct lode_error *err);
void lode_mender_close(struct lode_mender *m); /* NULL is allowed */

struct lode_mended {
    bool size;              /* the file's length */
    bool slot;              /* a superblock, from the other */
    uint32_t section_count; /* from a source */
    uint64_t zeroed_bytes;  /* that belong to nothing and were not zero */
};

/* Everything but blocks.  Damaged sections are taken from the first of sources
 * (paths that NULL ends; what is no container is passed over) that has the same
 * index digest; LODE_E_CORRUPT when there is none. */
LODE_MUST_CHECK
bool lode_mender_frame(struct lode_mender *m, const char *const *sources,
                       struct lode_mended *out, struct lode_error *err);

/* Write a block that is listed in this file.  stored is accepted only with the
 * recorded size, checksum and digest (LODE_E_CORRUPT). */
LODE_MUST_CHECK
bool lode_mender_block(struct lode_mender *m, uint32_t block_index,
                       const void *stored, uint32_t stored_bytes,
                       struct lode_error *err);

/* SHA-256, streaming; here because the digest of source shards is part of the
 * specification (spec 9). */
struct lode_sha256;
LODE_MUST_CHECK
bool lode_sha256_new(struct lode_sha256 **out, struct lode_error *err);
void lode_sha256_update(struct lode_sha256 *s, const void *data, size_t bytes);
void lode_sha256_final(struct lode_sha256 *s, uint8_t out[LODE_DIGEST_BYTES]);
void lode_sha256_free(struct lode_sha256 *s); /* NULL is allowed */

#endif
