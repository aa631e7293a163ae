/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks pass through a ring of slots, in order and all stages at once:
 *
 *   one thread reads what a block is made of;
 *   one feeds it to what needs every block in order (digests of the sources);
 *   jobs threads make it what is to be written (decode, pack, seal);
 *   the caller's thread writes.
 *
 * What a stage does is the caller's; the ring keeps order and bounds memory.
 * Output depends on the order alone, never on jobs or timing. */

#ifndef LODE_CONVERT_FLOW_H
#define LODE_CONVERT_FLOW_H

#include <stdint.h>

#include "base/cli.h"
#include "base/mem.h"
#include "format/lode_write.h"
#include "format/pack.h"

enum { CV_JOBS_MAX = 64 };

/* A block on its way.  image has room for the largest block and its padding;
 * so has packed, in a job that packs or unpacks.  Both are 4096-aligned. */
struct cv_slot {
    uint8_t *image;
    uint8_t *packed;
    struct lode_buf pieces; /* the reader's, to tell the feeder */
    struct lode_parcel parcel;
    bool made; /* the ring's */
};

/* What each of the jobs threads has for itself. */
struct cv_worker {
    struct lode_packer *packer;  /* NULL in a job that does not pack */
    struct lode_scratch scratch; /* for lode_reader_decode() */
};

/* Stages fail as usual; the first failure ends the run.  Those that are NULL
 * have nothing to do.  A block is written after it was fed, and what the feeder
 * wrote for it is seen by the writer. */
struct cv_job {
    void *user;
    uint32_t count; /* of blocks, numbered from 0 in the order of writing */
    uint32_t largest_bytes; /* of a block, decoded */
    bool packing;           /* slots have packed, workers a packer */
    /* Is there nothing to do for block i?  Asked once, before all else. */
    bool (*done)(void *user, uint32_t i);
    bool (*read)(void *user, uint32_t i, struct cv_slot *s,
                 struct lode_error *err);
    bool (*feed)(void *user, uint32_t i, struct cv_slot *s,
                 struct lode_error *err);
    bool (*make)(void *user, uint32_t i, struct cv_slot *s,
                 struct cv_worker *w, struct lode_error *err);
    bool (*write)(void *user, uint32_t i, struct cv_slot *s,
                  struct lode_error *err);
};

/* Memory that cv_flow_run() takes. */
uint64_t cv_flow_bytes(uint32_t largest_bytes, bool packing, uint32_t jobs);

/* Take all blocks through all stages.  Fails with LODE_E_CANCELLED once
 * lode_cancelled is set. */
LODE_MUST_CHECK
bool cv_flow_run(const struct cv_job *job, uint32_t jobs,
                 struct lode_error *err);

/* One slot outside of any ring, for blocks that are made one by one. */
LODE_MUST_CHECK
bool cv_slot_init(struct cv_slot *s, uint32_t largest_bytes, bool packing,
                  struct lode_error *err);
void cv_slot_fini(struct cv_slot *s, uint32_t largest_bytes);

/* Fill the parcel from the image, stored as it is, and seal it. */
void cv_slot_seal_raw(struct cv_slot *s, uint32_t raw_bytes);

/* How to pack an image. */
struct cv_packing {
    const struct lode_run *runs;
    uint32_t run_count;   /* 0: not at all */
    uint32_t min_gain;    /* thousandths to save, at least */
    uint32_t align_bytes; /* and one of these: a smaller block in as large an
                             extent would have to be decoded for nothing */
};

/* The same, packed where that gains. */
LODE_MUST_CHECK
bool cv_slot_seal_packed(struct cv_slot *s, uint32_t raw_bytes,
                         struct cv_worker *w, const struct cv_packing *p,
                         struct lode_error *err);

#endif
