/* SPDX-License-Identifier: Apache-2.0
 *
 * Walk the members of a large JSON object in a file without holding it.
 *
 * A safetensors header may have 100 MB and the index of a large checkpoint has
 * 60 MB; parsed whole, either costs many times that in memory.  So the text is
 * cut at the commas of the outermost object, and each member is parsed by
 * Jansson alone: memory is bounded by the longest member, whatever the file
 * says.  Before a byte is kept it has passed lode_json_guard. */

#ifndef LODE_CONVERT_MEMBERS_H
#define LODE_CONVERT_MEMBERS_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

enum { CV_MEMBER_BYTES_MAX = 1 << 20, CV_KEY_BYTES_MAX = 4096 };

/* One member.  inner is true for a member of the object that was descended
 * into.  key and value are borrowed for the call; false stops the walk. */
typedef bool cv_member_fn(void *user, bool inner, const char *key,
                          const json_t *value, struct lode_error *err);

/* Walk the object at [offset, offset + bytes) of fd; white space around it is
 * allowed.  The members of the member named descend (NULL: none), when it is
 * an object, are reported one by one with inner set instead of as a whole.
 * Keys that occur twice are NOT noticed here, since that would take memory:
 * the caller sorts what it collects.  Fails with LODE_E_CORRUPT, LODE_E_LIMIT,
 * LODE_E_IO, or as fn did. */
LODE_MUST_CHECK
bool cv_members_walk(int fd, uint64_t offset, uint64_t bytes,
                     const char *descend, cv_member_fn *fn, void *user,
                     struct lode_error *err);

#endif
