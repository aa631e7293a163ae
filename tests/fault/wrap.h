/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that fail when a test says so, by the linker's --wrap: the code under
 * test carries no hooks.  For any test program: add wrap.c to its sources and
 * $(FAULT_WRAP) to its LDFLAGS (tests/format.mk).  Only calls from objects
 * that are linked statically are seen, not those within shared libraries.
 * Threads may call, also while settings change: a reader thread may still
 * be at work when its engine has already failed. */

#ifndef LODE_TESTS_FAULT_WRAP_H
#define LODE_TESTS_FAULT_WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum wrap_call {
    WRAP_ALLOC, /* malloc, calloc, realloc */
    WRAP_MMAP,
    WRAP_OPEN,
    WRAP_PREAD,
    WRAP_PWRITE,
    WRAP_SYNC, /* fsync, fdatasync */
    WRAP_RENAME,
    WRAP_FTRUNCATE,
    WRAP_COPY, /* copy_file_range */
    WRAP_CALL_COUNT
};

/* All as if never wrapped; counters at 0. */
void wrap_reset(void);

/* The nth call from now on (1: the next) fails with sys_errno, once. */
void wrap_fail(enum wrap_call call, uint64_t nth, int sys_errno);

/* Did the failure that was asked for happen? */
bool wrap_failed(void);

/* A pread, pwrite or copy_file_range moves at most so many bytes; 0: as many
 * as it can. */
void wrap_short(size_t max_bytes);

/* Syncs are counted and may fail, but bring nothing to the drive: for tests
 * that run thousands of them and never cut the power. */
void wrap_skip_sync(void);

/* Since wrap_reset(): calls, the largest allocation (mmap included), and the
 * sum of all. */
uint64_t wrap_count(enum wrap_call call);
uint64_t wrap_largest_bytes(void);
uint64_t wrap_total_bytes(void);

#endif
