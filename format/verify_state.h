/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of verify share: verify.c opens the files of a container and
 * tells faults, verify_index.c checks superblocks and indexes,
 * verify_blocks.c one block at a time, verify_set.c head against volumes. */

#ifndef LODE_FORMAT_VERIFY_STATE_H
#define LODE_FORMAT_VERIFY_STATE_H

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/index.h"
#include "format/lode_write.h"

enum { LODE_VERIFY_PIECE_BYTES = 4 << 20 };

/* One file: all there is, the head of a set, or a volume. */
struct lode_verify_file {
    int fd;
    char *path;
    uint64_t file_bytes; /* as found */
    const char *prefix;  /* of messages: which volume; "" */
    struct lode_superblock sb;
    struct lode_index index;
    bool index_good;
    uint8_t *contents; /* the CONTENT DIGESTS section, NULL if unreadable */
    uint8_t *stored;   /* STORED DIGESTS, likewise, or NULL if there are none */
    uint32_t *order;   /* blocks in this file by offset, of a good index */
    uint8_t *records;  /* BLOCKS, of an index that is not good */
    uint32_t block_count; /* of order or records */
    uint32_t first_part;  /* its blocks, then what lies behind the last one */
    uint32_t part_count;
};

struct lode_verifier {
    const struct lode_verify_options *opt;
    char *path;
    struct lode_verify_file *files; /* [0] is the one at path */
    char **names;                   /* prefixes of the others */
    uint32_t file_count;
    uint32_t part_count;
    uint32_t image_bytes;
    uint64_t total_bytes;
    uint64_t fault_count;
    uint32_t absent_count;
    bool stopped; /* a check could not be made; why has the first reason */
    bool cancelled;
    struct lode_error why;
};

/* A check in progress.  Changes nothing but itself and found. */
struct lode_look {
    const struct lode_verifier *v;
    const struct lode_verify_file *f;
    uint8_t *piece; /* room for LODE_VERIFY_PIECE_BYTES */
    struct lode_buf *found;
    int64_t block_index; /* that findings are about, or LODE_NO_INDEX */
    uint64_t bytes;      /* read so far */
    uint64_t fault_count;
    bool lost; /* there was no memory for a finding */
};

/* Add a finding. */
__attribute__((format(printf, 3, 4))) void lode_look_report(struct lode_look *l,
                                                            const char *where,
                                                            const char *fmt,
                                                            ...);

/* One that is also the reason why a check could not be made. */
void lode_look_stop(struct lode_look *l, const char *where,
                    const struct lode_error *err);

/* Read bytes (at most a piece) into l->piece, or report why not.  A file that
 * ends too early is damage, anything else is a check not made. */
bool lode_look_read(struct lode_look *l, uint64_t offset, uint64_t bytes,
                    const char *where);

/* Spec 4.1: what belongs to nothing is zero (strict alone). */
void lode_look_zero(struct lode_look *l, uint64_t offset, uint64_t end,
                    const char *where);

static inline uint64_t
lode_look_piece(uint64_t bytes)
{
    return bytes < LODE_VERIFY_PIECE_BYTES ? bytes : LODE_VERIFY_PIECE_BYTES;
}

/* At the speed of memcmp(): each byte equals the one before it. */
static inline bool
lode_look_is_zero(const uint8_t *p, uint64_t bytes)
{
    return p[0] == 0 && memcmp(p, p + 1, (size_t)bytes - 1) == 0;
}

/* verify_index.c: everything but blocks.  f is l->f, to be filled.  False: it
 * has no superblock that can be used (reported, and *err). */
bool lode_verify_index(struct lode_look *l, struct lode_verify_file *f,
                       struct lode_error *err);

/* verify_blocks.c: fills order or records, and block_count. */
void lode_verify_list_blocks(struct lode_look *l, struct lode_verify_file *f);
/* Block i of the file's list, or, for block_count, what lies behind. */
void lode_verify_part(struct lode_look *l, uint32_t i, struct lode_scratch *s,
                      uint8_t *image);
/* Bytes that this reads. */
uint64_t lode_verify_part_bytes(const struct lode_look *l, uint32_t i);

/* verify_set.c: spec 4.3, what head and volume say of each other is true. */
void lode_verify_volume(struct lode_look *l,
                        const struct lode_verify_file *head,
                        uint32_t volume_index, bool *same_file);

/* The record's place in a digest section that was read. */
const uint8_t *lode_verify_digest(const struct lode_verify_file *f,
                                  const uint8_t *section, uint32_t type,
                                  uint32_t block_index);

#endif
