/* SPDX-License-Identifier: Apache-2.0
 *
 * What a writer has done so far, so that another process can go on after a
 * crash (spec 11.3).  A file of fixed records, each with its number and its
 * own checksum; reading it ends at the first that is not right. */

#ifndef LODE_FORMAT_JOURNAL_H
#define LODE_FORMAT_JOURNAL_H

#include <stdint.h>

#include "base/error.h"
#include "format/lode.h"

enum lode_entry_type {
    LODE_ENTRY_BLOCK = 1,
    LODE_ENTRY_SYNC = 2, /* all before it is on the drive */
    LODE_ENTRY_NOTE = 3,
    LODE_ENTRY_DONE = 4, /* only the names are missing */
};

struct lode_entry {
    enum lode_entry_type type;
    uint64_t offset;
    uint64_t hash;
    uint32_t block_index; /* of a note its key */
    uint32_t stored_bytes;
    uint16_t volume_index;
    uint8_t codec;
    uint8_t filters;
    /* Of a note its data, of the end OUT's index digest. */
    uint8_t content[LODE_DIGEST_BYTES];
    uint8_t stored[LODE_DIGEST_BYTES];
};

struct lode_journal {
    char *path;
    int fd; /* -1: closed */
    uint64_t count;
    uint64_t synced_count; /* up to the last sync mark that is on the drive */
    uint8_t plan[LODE_DIGEST_BYTES];
};

/* The path of OUT's journal, for free(). */
LODE_MUST_CHECK
bool lode_journal_path(const char *out_path, char **path,
                       struct lode_error *err);

enum lode_journal_state {
    LODE_JOURNAL_NONE,   /* no journal, or an empty one */
    LODE_JOURNAL_OURS,   /* of this plan */
    LODE_JOURNAL_OTHERS, /* of another plan */
};

/* Look at a journal without touching it. */
LODE_MUST_CHECK
bool lode_journal_peek(const char *path, const uint8_t plan[LODE_DIGEST_BYTES],
                       enum lode_journal_state *state, struct lode_error *err);

/* Open the journal at path.  keep: go on behind its first keep entries, else
 * empty it; what is cut off does not come back after a power cut.  j's memory
 * is the caller's, who sets synced_count when entries are kept. */
LODE_MUST_CHECK
bool lode_journal_open(struct lode_journal *j, const char *path,
                       const uint8_t plan[LODE_DIGEST_BYTES], uint64_t keep,
                       struct lode_error *err);

/* Entry number i of an existing journal; *found false behind the last whole
 * one. */
LODE_MUST_CHECK
bool lode_journal_read(int fd, const uint8_t plan[LODE_DIGEST_BYTES],
                       uint64_t i, struct lode_entry *out, bool *found,
                       struct lode_error *err);

LODE_MUST_CHECK
bool lode_journal_append(struct lode_journal *j, const struct lode_entry *e,
                         struct lode_error *err);
LODE_MUST_CHECK
bool lode_journal_sync(struct lode_journal *j, struct lode_error *err);

/* A sync failed, so nobody may rely on what is behind the last sync mark: a
 * later read could see in memory what the drive never got. */
void lode_journal_distrust(struct lode_journal *j);

/* Close; remove: the work is finished, or was thrown away. */
void lode_journal_close(struct lode_journal *j, bool remove);

#endif
