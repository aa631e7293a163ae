/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation by checked count and size.  Everything fails with LODE_E_NOMEM
 * and names what was wanted. */

#ifndef LODE_BASE_MEM_H
#define LODE_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* count zeroed items of item_bytes each, for free().  *out is never NULL on
 * success, also when count is 0.  what names the thing in the message. */
LODE_MUST_CHECK
bool lode_alloc_array(uint64_t count, uint64_t item_bytes, const char *what,
                      void **out, struct lode_error *err);

/* Zero-filled memory on a 4096-byte boundary, for lode_free_aligned(), fit for
 * O_DIRECT.  Pages become resident only when touched. */
LODE_MUST_CHECK
bool lode_alloc_aligned(uint64_t bytes, const char *what, void **out,
                        struct lode_error *err);
void lode_free_aligned(void *p, uint64_t bytes); /* NULL is allowed */

/* A copy of bytes bytes and a NUL behind them, for free(). */
LODE_MUST_CHECK
bool lode_strndup(const char *text, uint64_t bytes, char **out,
                  struct lode_error *err);

/* Bytes that grow by doubling.  Zero-initialise; free with lode_buf_fini(). */
struct lode_buf {
    uint8_t *data;
    size_t used_bytes;
    size_t room_bytes;
};

LODE_MUST_CHECK
bool lode_buf_append(struct lode_buf *b, const void *data, size_t bytes,
                     struct lode_error *err);
void lode_buf_fini(struct lode_buf *b);

#endif
