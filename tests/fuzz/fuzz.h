/* SPDX-License-Identifier: Apache-2.0
 *
 * What a fuzz target is: libFuzzer's entry point, and seeds that it makes
 * itself, so that no binary files lie in the tree.  replay.c runs seeds and
 * mutants of them without libFuzzer, as a part of make check. */

#ifndef LODE_TESTS_FUZZ_FUZZ_H
#define LODE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Aborts when something is wrong. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Calls emit for each seed; what it gets is borrowed. */
void fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes));

/* Mutants that replay.c makes of each seed; a fast target can afford many. */
extern const uint32_t fuzz_mutant_count;

#endif
