/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the tokenizer share; everybody else uses tokenizer.h. */

#ifndef LODE_RUNTIME_TOK_H
#define LODE_RUNTIME_TOK_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/tokenizer.h"

enum {
    RT_TOK_ROWS_MAX = 1 << 22,
    RT_TOK_TOKEN_BYTES_MAX = 1024, /* longest in Kimi's: 128 spaces */
    RT_TOK_SPECIAL_BYTES_MAX = 256,
    RT_TOK_SPECIAL_SLOTS = 256, /* that Kimi puts behind the vocabulary */
    RT_TOK_PROBES_MAX = 1024,   /* in a table; hostile files collide */
    /* The vendor cuts text of more characters than this before it splits it,
     * and runs of (non-)space characters likewise. */
    RT_TOK_TEXT_CHARACTERS_MAX = 400000,
    RT_TOK_RUN_CHARACTERS_MAX = 25000,
};

/* Open addressing over token ids; a slot holds id + 1. */
struct rt_tok_table {
    uint32_t *slot;
    size_t slot_count; /* a power of two */
};

struct rt_tok_splitter;

struct rt_tokenizer {
    uint32_t rows;
    char *arena;      /* the bytes of all tokens, by id */
    uint32_t *offset; /* rows + 1; equal neighbours: an unused id */
    uint8_t *special; /* one bit an id */
    struct rt_tok_table ordinary;
    struct rt_tok_table specials;
    uint32_t byte_id[256];
    uint32_t ordinary_bytes_max; /* the longest of each */
    uint32_t special_bytes_max;
    bool special_length[RT_TOK_SPECIAL_BYTES_MAX + 1];
    bool special_first[256];
    struct rt_tok_splitter *splitter;
};

/* tok_table.c */
LODE_MUST_CHECK
bool rt_tok_table_init(struct rt_tok_table *table, uint64_t item_count,
                       struct lode_error *err);

/* Put id in; its bytes must not be there yet (LODE_E_CORRUPT). */
LODE_MUST_CHECK
bool rt_tok_table_put(const struct rt_tokenizer *t, struct rt_tok_table *table,
                      uint32_t id, struct lode_error *err);
bool rt_tok_table_find(const struct rt_tokenizer *t,
                       const struct rt_tok_table *table, const char *text,
                       size_t bytes, uint32_t *id);
void rt_tok_table_fini(struct rt_tok_table *table);

/* tok_split.c: ordinary text into pieces by the pattern that Kimi publishes.
 * A splitter never changes; a cursor belongs to one thread. */
LODE_MUST_CHECK
bool rt_tok_splitter_new(struct rt_tok_splitter **out, struct lode_error *err);
void rt_tok_splitter_free(struct rt_tok_splitter *s); /* NULL is allowed */
uint64_t rt_tok_splitter_memory_bytes(const struct rt_tok_splitter *s);

struct rt_tok_cursor {
    const struct rt_tok_splitter *splitter;
    void *match;
};

LODE_MUST_CHECK
bool rt_tok_cursor_init(struct rt_tok_cursor *c,
                        const struct rt_tok_splitter *s,
                        struct lode_error *err);
void rt_tok_cursor_fini(struct rt_tok_cursor *c);

/* The length of the piece at offset of text, which is valid UTF-8. */
LODE_MUST_CHECK
bool rt_tok_cursor_next(struct rt_tok_cursor *c, const char *text,
                        size_t bytes, size_t offset, size_t *piece_bytes,
                        struct lode_error *err);

/* tok_merge.c: one piece into tokens.  Zero-initialise the scratch. */
struct rt_tok_merger {
    struct rt_tok_node *node;
    struct rt_tok_pair *heap;
    size_t room; /* nodes; the heap has three times as many */
    size_t heap_count;
};

LODE_MUST_CHECK
bool rt_tok_merge(struct rt_tok_merger *m, const struct rt_tokenizer *t,
                  const char *piece, size_t bytes, struct rt_ids *ids,
                  struct lode_error *err);
void rt_tok_merger_fini(struct rt_tok_merger *m);

/* tok_utf8.c: the length of the character that text begins with: 1 to 4; 0
 * when it is cut off by the end; -1 when the first byte begins no character. */
int rt_tok_utf8_length(const char *text, size_t bytes);

/* The character there, whose length is known. */
uint32_t rt_tok_utf8_value(const char *text, int length);

#endif
