/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding, from the outside in: text is cut where the vendor's code cuts it,
 * then at special tokens (markup only), then at bytes that are no UTF-8, then
 * by the split pattern; each piece is merged into tokens.  A byte that is no
 * UTF-8, which the vendor's code cannot meet, becomes its own token, so that
 * decoding gives back the same bytes. */
#include "config.h"

#include "runtime/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/tok.h"

struct encoder {
    const struct rt_tokenizer *t;
    struct rt_tok_cursor cursor;
    struct rt_tok_merger merger;
    struct rt_ids *ids;
};

bool
rt_ids_append(struct rt_ids *ids, uint32_t id, struct lode_error *err)
{
    if (ids->count == ids->room) {
        size_t room = ids->room > 0 ? ids->room : 64;
        uint32_t *data = NULL;

        if (room <= SIZE_MAX / 2 / sizeof(*data)) {
            room *= ids->room > 0 ? 2 : 1;
            data = realloc(ids->data, room * sizeof(*data));
        }
        if (data == NULL)
            return lode_fail(err, LODE_E_NOMEM,
                             "out of memory for %zu token ids", room);
        ids->data = data;
        ids->room = room;
    }
    ids->data[ids->count++] = id;
    return true;
}

void
rt_ids_fini(struct rt_ids *ids)
{
    free(ids->data);
    memset(ids, 0, sizeof(*ids));
}

/* Text that is valid UTF-8. */
static bool
encode_valid(struct encoder *e, const char *text, size_t bytes,
             struct lode_error *err)
{
    size_t offset = 0;

    while (offset < bytes) {
        size_t piece_bytes;

        if (!rt_tok_cursor_next(&e->cursor, text, bytes, offset, &piece_bytes,
                                err) ||
            !rt_tok_merge(&e->merger, e->t, text + offset, piece_bytes, e->ids,
                          err))
            return false;
        offset += piece_bytes;
    }
    return true;
}

/* The length of the valid UTF-8 that text begins with. */
static size_t
valid_prefix(const char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        int length = rt_tok_utf8_length(text + at, bytes - at);

        if (length <= 0)
            break;
        at += (size_t)length;
    }
    return at;
}

static bool
encode_ordinary(struct encoder *e, const char *text, size_t bytes,
                struct lode_error *err)
{
    size_t at = 0;

    while (at < bytes) {
        size_t valid_bytes = valid_prefix(text + at, bytes - at);

        if (!encode_valid(e, text + at, valid_bytes, err))
            return false;
        at += valid_bytes;
        if (at == bytes)
            break;
        if (!rt_ids_append(e->ids, e->t->byte_id[(uint8_t)text[at]], err))
            return false;
        at++;
    }
    return true;
}

/* The special token whose name text begins with, the longest one. */
static size_t
special_at(const struct rt_tokenizer *t, const char *text, size_t bytes,
           uint32_t *id)
{
    size_t length = t->special_bytes_max < bytes ? t->special_bytes_max
                                                 : bytes;

    if (!t->special_first[(uint8_t)text[0]])
        return 0;
    for (; length > 0; length--)
        if (t->special_length[length] &&
            rt_tok_table_find(t, &t->specials, text, length, id))
            return length;
    return 0;
}

static bool
encode_markup(struct encoder *e, const char *text, size_t bytes,
              struct lode_error *err)
{
    size_t start = 0;
    size_t at = 0;

    while (at < bytes) {
        uint32_t id;
        size_t length = special_at(e->t, text + at, bytes - at, &id);

        if (length == 0) {
            at++;
            continue;
        }
        if (!encode_ordinary(e, text + start, at - start, err) ||
            !rt_ids_append(e->ids, id, err))
            return false;
        at += length;
        start = at;
    }
    return encode_ordinary(e, text + start, bytes - start, err);
}

/* What Python's str.isspace() says, by which the vendor cuts. */
static bool
is_python_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) ||
           c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The length of the part that text begins with: up to the 400,000th character
 * of the whole, whose count is *character_count, or through the 25,000th of a
 * run of spaces or of anything else.  As in the vendor's code, the first
 * character of the part that follows begins a run of its own. */
static size_t
cut(const char *text, size_t bytes, size_t *character_count)
{
    size_t run = 0;
    bool in_space = false;
    size_t at = 0;

    while (at < bytes) {
        int length = rt_tok_utf8_length(text + at, bytes - at);
        bool space = length > 0 &&
                     is_python_space(rt_tok_utf8_value(text + at, length));

        if (*character_count == RT_TOK_TEXT_CHARACTERS_MAX) {
            *character_count = 0;
            break;
        }
        run = space == in_space ? run + 1 : 1;
        in_space = space;
        if (run > RT_TOK_RUN_CHARACTERS_MAX)
            break;
        ++*character_count;
        at += length > 0 ? (size_t)length : 1;
    }
    return at;
}

static bool
encode(const struct rt_tokenizer *t, const char *text, size_t bytes,
       bool markup, struct rt_ids *ids, struct lode_error *err)
{
    struct encoder e;
    size_t count = ids->count;
    size_t characters = 0;
    bool good = true;

    memset(&e, 0, sizeof(e));
    e.t = t;
    e.ids = ids;
    if (!rt_tok_cursor_init(&e.cursor, t->splitter, err))
        return false;
    while (good && bytes > 0) {
        size_t part_bytes = cut(text, bytes, &characters);

        good = markup ? encode_markup(&e, text, part_bytes, err)
                      : encode_ordinary(&e, text, part_bytes, err);
        text += part_bytes;
        bytes -= part_bytes;
    }
    rt_tok_merger_fini(&e.merger);
    rt_tok_cursor_fini(&e.cursor);
    if (!good)
        ids->count = count;
    return good;
}

bool
rt_tokenizer_content(const struct rt_tokenizer *t, const char *text,
                     size_t bytes, struct rt_ids *ids, struct lode_error *err)
{
    return encode(t, text, bytes, false, ids, err);
}

bool
rt_tokenizer_markup(const struct rt_tokenizer *t, const char *text,
                    size_t bytes, struct rt_ids *ids, struct lode_error *err)
{
    return encode(t, text, bytes, true, ids, err);
}

bool
rt_tokenizer_special(const struct rt_tokenizer *t, const char *name,
                     uint32_t *id)
{
    return rt_tok_table_find(t, &t->specials, name, strlen(name), id);
}

bool
rt_tokenizer_is_special(const struct rt_tokenizer *t, uint32_t id)
{
    return id < t->rows && (t->special[id / 8] >> id % 8 & 1) != 0;
}

const char *
rt_tokenizer_bytes(const struct rt_tokenizer *t, uint32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id >= t->rows || t->offset[id + 1] == t->offset[id])
        return NULL;
    *bytes = (size_t)t->offset[id + 1] - t->offset[id];
    return t->arena + t->offset[id];
}

uint64_t
rt_tokenizer_memory_bytes(const struct rt_tokenizer *t)
{
    return sizeof(*t) + t->offset[t->rows] +
           ((uint64_t)t->rows + 1) * sizeof(*t->offset) + t->rows / 8 + 1 +
           (t->ordinary.slot_count + t->specials.slot_count) *
               sizeof(uint32_t) +
           rt_tok_splitter_memory_bytes(t->splitter);
}
