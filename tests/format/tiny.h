/* SPDX-License-Identifier: Apache-2.0
 *
 * Small containers with every kind of group, for tests: same options, same
 * bytes. */

#ifndef LODE_TESTS_FORMAT_TINY_H
#define LODE_TESTS_FORMAT_TINY_H

#include "format/lode_write.h"

struct tiny_options {
    uint32_t align_log2; /* 0: 12 */
    bool split;          /* a trunk of three blocks, the last of them odd */
    bool reverse;        /* append the blocks from the last to the first */
    const char *label;
    bool packed;     /* pack the blocks that gain by it, all but ROWS; images
                        have 0 in the upper half of each byte */
    bool index_only; /* leave all blocks out but those of files */
};

enum {
    TINY_EXPERT_COUNT = 3,
    TINY_EXPERT_BYTES = 520,
    TINY_FILE_BLOCK_COUNT = 4, /* the last ones */
    TINY_ROWS_BYTES = 5120,
    TINY_SPLIT_BYTES = (2 << 20) + 1088,
};

/* Fills opt's container into path; *root may be NULL. */
LODE_MUST_CHECK
bool tiny_write(const char *path, const struct tiny_options *opt, uint8_t *root,
                struct lode_error *err);

/* The blocks of opt's container as a set: block i in file i mod 3, which is the
 * head at path or a volume beside it, named so.  partial leaves block 4 out. */
extern const char *const tiny_volume_names[2];
LODE_MUST_CHECK
bool tiny_write_set(const char *path, const struct tiny_options *opt,
                    bool partial, uint8_t *root, struct lode_error *err);

/* Only step 1, without numbers. */
LODE_MUST_CHECK
bool tiny_new(const char *path, const struct lode_writer_options *wo,
              bool cut, struct lode_writer **out, struct lode_error *err);

/* Only steps 1 and 2, for tests of the writer's own checks. */
LODE_MUST_CHECK
bool tiny_declare(const char *path, const struct tiny_options *opt,
                  struct lode_writer **out, struct lode_error *err);

/* Number the blocks, and begin. */
LODE_MUST_CHECK
bool tiny_begin(struct lode_writer *w, struct lode_error *err);

/* Blocks of opt's container. */
uint32_t tiny_block_count(const struct tiny_options *opt);

/* Seal and append a block that is stored raw. */
LODE_MUST_CHECK
bool tiny_append(struct lode_writer *w, uint32_t block_index, void *image,
                 uint32_t raw_bytes, struct lode_error *err);

/* The image of a block, as tiny_write() stores it; image has room for it
 * padded.  Depends on nothing but the arguments. */
void tiny_image(uint32_t block_index, void *image, uint32_t raw_bytes);

/* Append a block with the image that tiny_write() gives it. */
LODE_MUST_CHECK
bool tiny_append_own(struct lode_writer *w, uint32_t block_index, void *image,
                     struct lode_error *err);

/* A whole file, for free(), or the test ends. */
uint8_t *tiny_slurp(const char *path, size_t *bytes);
void tiny_spill(const char *path, const uint8_t *data, size_t bytes);

/* dir "/" name in a static buffer that four calls share; dir is a new folder
 * that tiny_cleanup() removes with everything in it. */
const char *tiny_path(const char *name);
void tiny_cleanup(void);

#endif
