/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of the embedding, read block by block. */

#ifndef LODE_RUNTIME_EMBED_H
#define LODE_RUNTIME_EMBED_H

#include "runtime/engine_impl.h"

/* Decode the rows of ids (each below vocab_rows) into work.x.  Each block that
 * the tokens need is read once; the one read last is kept. */
LODE_MUST_CHECK
bool rt_embed(struct rt_engine *e, const uint32_t *ids, uint32_t tokens,
              struct lode_error *err);

#endif
