/* SPDX-License-Identifier: Apache-2.0
 *
 * A container in memory that a test damages on purpose, and sums again so that
 * the check it means to reach is the one that refuses. */

#ifndef LODE_TESTS_FORMAT_PATCH_H
#define LODE_TESTS_FORMAT_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "format/layout.h"
#include "tests/format/tiny.h"

struct patch {
    uint8_t *data;
    size_t bytes;
};

/* The tiny container of these options. */
void patch_make(struct patch *p, const struct tiny_options *opt);
void patch_load(struct patch *p, const char *path);
void patch_copy(const struct patch *p, struct patch *out);
void patch_free(struct patch *p);

/* The directory entry of a section type, decoded; ends the test when there is
 * none. */
struct lode_section patch_section(const struct patch *p, uint32_t type);

/* A record of a section, or for type 0 the superblock (slot A). */
uint8_t *patch_record(const struct patch *p, uint32_t type, uint32_t index);

/* Store the low bytes of value, little-endian. */
void patch_store(uint8_t *at, uint32_t bytes, uint64_t value);

/* Add an empty section to the directory. */
void patch_add_section(struct patch *p, const struct lode_section *s);

/* Checksum; slot B = slot A. */
void patch_seal_superblock(struct patch *p);

/* Index digest and UUIDs, too. */
void patch_seal_directory(struct patch *p);

/* Sums of all sections, too. */
void patch_seal(struct patch *p);

/* Write it to path. */
void patch_spill(const struct patch *p, const char *path);

#endif
