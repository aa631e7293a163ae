/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes <-> tokens.  Markup and content are two functions: only text that the
 * program itself writes may name special tokens, so user text can never forge
 * one.
 *
 * Threads: immutable after rt_tokenizer_new(); encoding allocates. */

#ifndef LODE_RUNTIME_TOKENIZER_H
#define LODE_RUNTIME_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rt_tokenizer;

/* Token ids that grow; zero-initialise, free with rt_ids_fini(). */
struct rt_ids {
    uint32_t *data;
    size_t count;
    size_t room;
};

LODE_MUST_CHECK
bool rt_ids_append(struct rt_ids *ids, uint32_t id, struct lode_error *err);
void rt_ids_fini(struct rt_ids *ids);

/* From the texts of tiktoken.model and tokenizer_config.json (neither is kept).
 * vocab_rows is the number of embedding rows: ids at or above it are refused by
 * name (cases C43), gaps are unused ids.  pieces_pattern: "kimi".  Fails with
 * LODE_E_CORRUPT (line and reason), LODE_E_LIMIT, LODE_E_NOMEM. */
LODE_MUST_CHECK
bool rt_tokenizer_new_tiktoken(const char *model, size_t model_bytes,
                               const char *config, size_t config_bytes,
                               uint32_t vocab_rows, struct rt_tokenizer **out,
                               struct lode_error *err);
void rt_tokenizer_free(struct rt_tokenizer *t); /* NULL is allowed */

/* Append the ids of content: special tokens' names in it are ordinary text.
 * Any bytes are accepted, also invalid UTF-8. */
LODE_MUST_CHECK
bool rt_tokenizer_content(const struct rt_tokenizer *t, const char *text,
                          size_t bytes, struct rt_ids *ids,
                          struct lode_error *err);

/* The same, but names of special tokens become those tokens (longest first at
 * each position). */
LODE_MUST_CHECK
bool rt_tokenizer_markup(const struct rt_tokenizer *t, const char *text,
                         size_t bytes, struct rt_ids *ids,
                         struct lode_error *err);

/* The special token called name; false when there is none. */
bool rt_tokenizer_special(const struct rt_tokenizer *t, const char *name,
                          uint32_t *id);
bool rt_tokenizer_is_special(const struct rt_tokenizer *t, uint32_t id);

/* The bytes of a token (a special token's name), borrowed; an unused id has
 * none.  A token may end amid a UTF-8 character. */
const char *rt_tokenizer_bytes(const struct rt_tokenizer *t, uint32_t id,
                               size_t *bytes);

/* Holds back an incomplete UTF-8 character between tokens, so that streamed
 * text is always whole characters.  Zero-initialise. */
struct rt_utf8_stream {
    char held[4];
    size_t held_bytes;
};

/* Feed bytes, get what may be printed (at most bytes + 3) in out; returns its
 * length.  Bytes that are no UTF-8 come out as U+FFFD each; so out needs
 * 3 * (bytes + 3).  flush: also give out what is held. */
size_t rt_utf8_stream_feed(struct rt_utf8_stream *s, const char *text,
                           size_t bytes, bool flush, char *out);

/* Memory the tokenizer holds, for the budget. */
uint64_t rt_tokenizer_memory_bytes(const struct rt_tokenizer *t);

#endif
