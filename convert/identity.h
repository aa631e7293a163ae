/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands for a checkpoint and what is made of it, without reading its
 * weights: unfinished work is gone on with only for the same. */

#ifndef LODE_CONVERT_IDENTITY_H
#define LODE_CONVERT_IDENTITY_H

#include <stdint.h>

#include "base/error.h"
#include "convert/checkpoint.h"
#include "format/lode.h"

/* SHA-256 over options, names, sizes, headers of shards, and the whole of the
 * other files.  options is the text of all that changes the output. */
LODE_MUST_CHECK
bool cv_identity(const struct cv_checkpoint *c, const char *options,
                 uint8_t out[LODE_DIGEST_BYTES], struct lode_error *err);

/* When a source was last changed, as 32 bytes for a journal. */
void cv_identity_time(const struct cv_source *s,
                      uint8_t out[LODE_DIGEST_BYTES]);

#endif
