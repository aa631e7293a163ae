/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the writer share: writer.c declares, writer_blocks.c writes
 * blocks, writer_finish.c writes indexes. */

#ifndef LODE_FORMAT_WRITER_STATE_H
#define LODE_FORMAT_WRITER_STATE_H

#include "base/mem.h"
#include "format/journal.h"
#include "format/layout.h"
#include "format/lode_write.h"
#include "format/output.h"
#include "format/strings.h"

/* What the file remembers of a schema, and what we need to find it again. */
struct lode_declared_schema {
    struct lode_schema schema;
    uint64_t hash; /* of its tensor records */
    uint8_t digest[LODE_DIGEST_BYTES];
};

struct lode_declared_group {
    struct lode_group_record record;
    uint32_t position; /* in the file, once sorted */
};

/* A file that is written: the container, or the head and each volume. */
struct lode_writer_file {
    struct lode_output output;
    struct lode_superblock sb; /* sections are placed when blocks are */
    uint64_t next_offset;
    uint64_t found_bytes; /* of an earlier run's file */
    uint32_t record_count; /* in its BLOCKS */
    uint32_t name_ref;     /* of a volume */
};

struct lode_note {
    uint32_t key;
    uint8_t data[LODE_DIGEST_BYTES];
};

struct lode_writer {
    char *path;
    struct lode_strings strings;
    struct lode_buf schemas;        /* struct lode_declared_schema */
    struct lode_buf tensor_records; /* as in the file */
    struct lode_buf groups;         /* struct lode_declared_group, by handle */
    uint32_t schema_count;
    uint32_t tensor_count;
    uint32_t group_count;
    struct lode_group *sorted; /* as in the file; names point into strings */

    char label[LODE_LABEL_TEXT_BYTES + 1];
    uint32_t align_log2;
    bool partial;
    bool packed;

    struct lode_writer_file *files; /* [0]: OUT */
    uint32_t file_count;

    /* By block number, from lode_writer_number() on. */
    uint8_t *records;  /* as in a file; flags 0: not written yet */
    uint8_t *contents; /* digests */
    uint8_t *stored;
    uint16_t *volume_of; /* NULL: all in file 0 */
    uint32_t *order;     /* of writing; written_count are used */
    uint32_t block_count;
    uint32_t written_count;
    uint64_t written_bytes; /* stored */
    bool numbered;
    bool begun;
    bool keep; /* the work of an earlier run is in our hands */

    bool journaled;
    bool restart;
    uint8_t plan[LODE_DIGEST_BYTES];
    struct lode_journal journal;
    uint64_t unsynced_bytes;
    uint64_t synced_ns;
    bool folder_synced;
    bool sync_failed; /* and must not be tried again */
    struct lode_buf notes; /* struct lode_note */
};

struct lode_declared_schema *lode_writer_schema_at(const struct lode_writer *w,
                                                   uint32_t i);
struct lode_declared_group *lode_writer_group_at(const struct lode_writer *w,
                                                 uint32_t i);

/* The position in the file of the group that holds a block. */
uint32_t lode_writer_group_of(const struct lode_writer *w,
                              uint32_t block_index);

uint64_t lode_writer_padded_bytes(const struct lode_writer *w, uint32_t bytes);

/* Spec 4.1: where the sections of a file lie; all counts are known. */
LODE_MUST_CHECK
bool lode_writer_place_sections(const struct lode_writer *w,
                                struct lode_writer_file *f,
                                struct lode_error *err);

/* "group NAME (kind, layer): ...".  False. */
bool lode_writer_fail_in_group(const struct lode_group *g,
                               struct lode_error *err);

#endif
