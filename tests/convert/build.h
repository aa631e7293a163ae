/* SPDX-License-Identifier: Apache-2.0
 *
 * Small checkpoints for tests: a folder of their own, files of given text, and
 * shards of given tensors. */

#ifndef LODE_TESTS_CONVERT_BUILD_H
#define LODE_TESTS_CONVERT_BUILD_H

#include <jansson.h>

#include "convert/checkpoint.h"
#include "convert/naming.h"

/* A fresh, empty folder; the one before is removed.  Returns its path. */
const char *build_folder(void);
void build_remove(void);

const char *build_path(const char *name); /* good until the next call */
void build_text(const char *name, const char *text);

/* A shard of tensors of dtype U8 and shape [4], names separated by spaces. */
void build_shard(const char *name, const char *tensors);

/* The index: pairs of tensor and shard, each ended by a space. */
void build_index(const char *pairs);

/* A checkpoint of tests/fixtures and its config; both are the caller's. */
struct cv_checkpoint *build_open_fixture(const char *name, json_t **config);

#endif
