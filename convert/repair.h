/* SPDX-License-Identifier: Apache-2.0
 *
 * Damaged blocks of a container made whole from something that still has their
 * content: the checkpoint, another container however it is stored, a volume, or
 * a part of one.  Only bytes with the recorded digests are ever written. */

#ifndef LODE_CONVERT_REPAIR_H
#define LODE_CONVERT_REPAIR_H

#include "base/cli.h"
#include "format/lode_write.h"

struct cv_repair_options {
    const char *source; /* a folder of shards, or a container */
    const struct lode_opt_list *folders;
    uint32_t jobs; /* threads that verify */
    bool dry_run;
    /* What was done or not, and why; line has no newline. */
    void (*tell)(void *user, bool good, const char *line);
    void *user;
};

struct cv_repair_figures {
    uint64_t fault_count; /* before */
    uint64_t left_count;  /* afterwards; of a dry run those that would be */
    uint32_t block_count; /* damaged */
    uint32_t repaired_count;
    uint32_t section_count;
    uint32_t slot_count;
    uint64_t zeroed_bytes;
};

/* A block that cannot be repaired is told and left; other failures end it. */
LODE_MUST_CHECK
bool cv_repair(const char *path, const struct cv_repair_options *opt,
               struct cv_repair_figures *out, struct lode_error *err);

#endif
