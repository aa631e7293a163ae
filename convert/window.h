/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of objects, through the few blocks that were read last. */

#ifndef LODE_CONVERT_WINDOW_H
#define LODE_CONVERT_WINDOW_H

#include "format/lode.h"

struct cv_window;

/* r must live as long as *out. */
LODE_MUST_CHECK
bool cv_window_open(const struct lode_reader *r, struct cv_window **out,
                    struct lode_error *err);
void cv_window_close(struct cv_window *w); /* NULL is allowed */

const struct lode_reader *cv_window_reader(const struct cv_window *w);

/* Copy bytes at offset of an object's image to dst.  The range must lie in the
 * object.  LODE_E_IO for a block that is not here. */
LODE_MUST_CHECK
bool cv_window_copy(struct cv_window *w, uint32_t group_index,
                    uint32_t object_index, uint64_t offset, void *dst,
                    uint64_t bytes, struct lode_error *err);

#endif
