/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up a source while it is being turned into something else, on a drive
 * that has no room for both.  A file that is being given up is renamed to
 * NAME.consumed first, so that nobody takes what is left of it for whole, and
 * loses its space piece by piece; a run that goes on finds it by that name. */

#ifndef LODE_CONVERT_CONSUME_H
#define LODE_CONVERT_CONSUME_H

#include <stdint.h>

#include "base/error.h"

#define CV_CONSUMED_SUFFIX ".consumed"

/* path with the suffix, for free(). */
LODE_MUST_CHECK
bool cv_consume_name(const char *path, char **out, struct lode_error *err);

/* Can space in the middle of files be given back in the folder of path?  Tried
 * on a file of its own.  LODE_E_UNSUPPORTED says what is missing. */
LODE_MUST_CHECK
bool cv_consume_possible(const char *path, struct lode_error *err);

/* Rename path to path.consumed, durably.  Refused for a symbolic link and for a
 * file that has other names (LODE_E_USAGE): its space would stay. */
LODE_MUST_CHECK
bool cv_consume_claim(const char *path, struct lode_error *err);

/* Would cv_consume_claim() accept it? */
LODE_MUST_CHECK
bool cv_consume_claimable(const char *path, struct lode_error *err);

/* Give back the whole pages among these bytes of a file; it keeps its size. */
LODE_MUST_CHECK
bool cv_consume_punch(const char *path, uint64_t offset, uint64_t bytes,
                      struct lode_error *err);

/* Remove path.consumed; nothing happens when it is not there. */
LODE_MUST_CHECK
bool cv_consume_remove(const char *path, struct lode_error *err);

#endif
