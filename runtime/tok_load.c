/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer from tiktoken.model and tokenizer_config.json.  Two passes: the
 * first learns the length of each token, so that the second can put all bytes
 * into one arena by id. */
#include "config.h"

#include "runtime/tok.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

struct load {
    struct rt_tokenizer *t;
    const char *model;
    size_t model_bytes;
    const json_t *added; /* id -> {"content": name} */
    uint32_t base;       /* the highest rank and one */
    uint32_t base_count; /* tokens below it */
    uint32_t special_count;
};

/* One line of the model. */
struct line {
    const char *text;
    size_t bytes;
    uint64_t number; /* from 1 */
};

static bool
next_line(const struct load *l, struct line *line)
{
    const char *start = line->number == 0 ? l->model
                                          : line->text + line->bytes + 1;
    const char *end = l->model + l->model_bytes;
    const char *newline;

    if (start >= end)
        return false;
    newline = memchr(start, '\n', (size_t)(end - start));
    line->text = start;
    line->bytes = (size_t)((newline != NULL ? newline : end) - start);
    line->number++;
    return true;
}

static int
digit_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Base64 with padding, in its one canonical form.  False: it is not. */
static bool
decode_base64(const char *text, size_t bytes, char *out, size_t *out_bytes)
{
    size_t padding = 0;
    uint32_t word = 0;
    size_t n = 0;

    if (bytes == 0 || bytes % 4 != 0)
        return false;
    while (padding < 2 && text[bytes - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < bytes - padding; i++) {
        int digit = digit_of(text[i]);

        if (digit < 0)
            return false;
        word = word << 6 | (uint32_t)digit;
        if (i % 4 > 0)
            out[n++] = (char)(word >> (6 - 2 * (i % 4)));
    }
    *out_bytes = n;
    /* The bits behind the last byte belong to no byte. */
    return padding == 0 || (word & (padding == 2 ? 15U : 3U)) == 0;
}

/* A whole number without sign or leading zeros, below 10^9. */
static bool
parse_id(const char *text, size_t bytes, uint32_t *id)
{
    uint32_t value = 0;

    if (bytes == 0 || bytes > 9 || (text[0] == '0' && bytes > 1))
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (uint32_t)(text[i] - '0');
    }
    *id = value;
    return true;
}

static bool
parse_line(const struct load *l, const struct line *line,
           char token[RT_TOK_TOKEN_BYTES_MAX], size_t *token_bytes,
           uint32_t *rank, struct lode_error *err)
{
    const char *space = memchr(line->text, ' ', line->bytes);
    size_t digits;

    if (space == NULL)
        return lode_fail(err, LODE_E_CORRUPT,
                         "line %" PRIu64 ": no space between token and rank",
                         line->number);
    digits = (size_t)(space - line->text);
    if (digits > RT_TOK_TOKEN_BYTES_MAX / 3 * 4)
        return lode_fail(err, LODE_E_LIMIT,
                         "line %" PRIu64 ": a token of more than %d bytes",
                         line->number, RT_TOK_TOKEN_BYTES_MAX / 3 * 3);
    if (!decode_base64(line->text, digits, token, token_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "line %" PRIu64 ": the token is no base64",
                         line->number);
    if (!parse_id(space + 1, line->bytes - digits - 1, rank))
        return lode_fail(err, LODE_E_CORRUPT,
                         "line %" PRIu64 ": the rank is no whole number",
                         line->number);
    if (*rank >= l->t->rows)
        return lode_fail(err, LODE_E_CORRUPT,
                         "line %" PRIu64 ": rank %" PRIu32
                         " is not below the %" PRIu32 " embedding rows",
                         line->number, *rank, l->t->rows);
    return true;
}

/* First pass: lengths, in offset[rank + 1]; 0 stands for none. */
static bool
measure_model(struct load *l, struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;
    struct line line = {NULL, 0, 0};

    while (next_line(l, &line)) {
        char token[RT_TOK_TOKEN_BYTES_MAX];
        size_t bytes;
        uint32_t rank;

        if (!parse_line(l, &line, token, &bytes, &rank, err))
            return false;
        if (t->offset[rank + 1] != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "line %" PRIu64 ": rank %" PRIu32
                             " stands there twice",
                             line.number, rank);
        t->offset[rank + 1] = (uint32_t)bytes;
        if (bytes > t->ordinary_bytes_max)
            t->ordinary_bytes_max = (uint32_t)bytes;
        if (rank >= l->base)
            l->base = rank + 1;
        l->base_count++;
    }
    return true;
}

/* The name of a slot without one, as the vendor's code makes it. */
static size_t
reserved_name(uint32_t id, char out[40])
{
    /* Fits: ten digits at most. */
    return (size_t)snprintf(out, 40, "<|reserved_token_%" PRIu32 "|>", id);
}

static bool
take_special(struct load *l, uint32_t id, const char *name, size_t bytes,
             struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;

    if (bytes == 0 || bytes > RT_TOK_SPECIAL_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "added token %" PRIu32 " has a name of %zu bytes, not"
                         " 1 to %d",
                         id, bytes, RT_TOK_SPECIAL_BYTES_MAX);
    if (t->offset[id + 1] != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "added token \"%s\": id %" PRIu32
                         " is a token of the vocabulary",
                         name, id);
    t->offset[id + 1] = (uint32_t)bytes;
    t->special[id / 8] |= (uint8_t)(1U << id % 8);
    t->special_length[bytes] = true;
    t->special_first[(uint8_t)name[0]] = true;
    if (bytes > t->special_bytes_max)
        t->special_bytes_max = (uint32_t)bytes;
    l->special_count++;
    return true;
}

static bool
parse_added(const struct load *l, const char *key, const json_t *value,
            uint32_t *id, const char **name, struct lode_error *err)
{
    if (!lode_json_string(value, "content", name, err))
        return lode_fail_in(err, "added_tokens_decoder: \"%.40s\"", key);
    if (!parse_id(key, strlen(key), id))
        return lode_fail(err, LODE_E_CORRUPT,
                         "added_tokens_decoder: \"%.40s\" is no token id",
                         key);
    if (*id >= l->t->rows)
        return lode_fail(err, LODE_E_CORRUPT,
                         "added token \"%.80s\": id %" PRIu32
                         " is not below the %" PRIu32 " embedding rows",
                         *name, *id, l->t->rows);
    return true;
}

static bool
measure_specials(struct load *l, struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;
    uint32_t end = t->rows - l->base < RT_TOK_SPECIAL_SLOTS
                       ? t->rows
                       : l->base + RT_TOK_SPECIAL_SLOTS;
    const char *key;
    json_t *value;
    char name[40];

    /* Jansson's iteration does not change the object, but asks for it. */
    json_object_foreach((json_t *)(uintptr_t)l->added, key, value) {
        const char *content;
        uint32_t id;

        if (!parse_added(l, key, value, &id, &content, err) ||
            !take_special(l, id, content, strlen(content), err))
            return false;
    }
    for (uint32_t id = l->base; id < end; id++)
        if (t->offset[id + 1] == 0 &&
            !take_special(l, id, name, reserved_name(id, name), err))
            return false;
    return true;
}

/* Lengths become offsets, and the arena gets its memory.  Nothing overflows:
 * at most 2^22 ids of at most 2^10 bytes are below 2^32 + 1. */
static bool
place(struct load *l, struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;
    uint64_t sum = 0;
    void *arena;

    for (uint32_t id = 0; id < t->rows; id++) {
        sum += t->offset[id + 1];
        if (sum > INT32_MAX)
            return lode_fail(err, LODE_E_LIMIT, "tokens of more than %d bytes",
                             INT32_MAX);
        t->offset[id + 1] = (uint32_t)sum;
    }
    if (!lode_alloc_array(sum, 1, "token bytes", &arena, err))
        return false;
    t->arena = arena;
    return rt_tok_table_init(&t->ordinary, l->base_count, err) &&
           rt_tok_table_init(&t->specials, l->special_count, err);
}

/* Second pass. */
static bool
store_all(struct load *l, struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;
    struct line line = {NULL, 0, 0};
    const char *key;
    json_t *value;

    while (next_line(l, &line)) {
        char token[RT_TOK_TOKEN_BYTES_MAX];
        size_t bytes;
        uint32_t rank;

        if (!parse_line(l, &line, token, &bytes, &rank, err))
            return false;
        memcpy(t->arena + t->offset[rank], token, bytes);
        if (!rt_tok_table_put(t, &t->ordinary, rank, err))
            return lode_fail_in(err, "line %" PRIu64, line.number);
    }
    json_object_foreach((json_t *)(uintptr_t)l->added, key, value) {
        const char *content;
        uint32_t id;

        if (!parse_added(l, key, value, &id, &content, err))
            return false;
        memcpy(t->arena + t->offset[id], content, strlen(content));
        if (!rt_tok_table_put(t, &t->specials, id, err))
            return lode_fail_in(err, "added token \"%.80s\"", content);
    }
    return true;
}

/* The slots that no name was given for: all special ids that store_all() left
 * out, which are those whose bytes are still zero. */
static bool
store_reserved(struct load *l, struct lode_error *err)
{
    struct rt_tokenizer *t = l->t;

    for (uint32_t id = l->base; id < t->rows; id++) {
        char name[40];

        if (!rt_tokenizer_is_special(t, id) ||
            t->arena[t->offset[id]] != '\0')
            continue;
        memcpy(t->arena + t->offset[id], name, reserved_name(id, name));
        if (!rt_tok_table_put(t, &t->specials, id, err))
            return lode_fail_in(err, "reserved token");
    }
    return true;
}

static bool
find_byte_tokens(struct rt_tokenizer *t, struct lode_error *err)
{
    for (int b = 0; b < 256; b++) {
        char text = (char)b;

        if (!rt_tok_table_find(t, &t->ordinary, &text, 1, &t->byte_id[b]))
            return lode_fail(err, LODE_E_CORRUPT,
                             "no token stands for the byte 0x%02x", b);
    }
    return true;
}

static bool
load_config(struct load *l, const char *config, size_t config_bytes,
            json_t **root, struct lode_error *err)
{
    json_t *added;

    if (!lode_json_parse(config, config_bytes, root, err))
        return lode_fail_in(err, "tokenizer_config.json");
    added = json_object_get(*root, "added_tokens_decoder");
    if (!json_is_object(added))
        return lode_fail(err, LODE_E_CORRUPT,
                         "tokenizer_config.json: added_tokens_decoder is %s,"
                         " expected an object",
                         added == NULL ? "missing"
                                       : lode_json_type_name(added));
    l->added = added;
    return true;
}

static bool
load_all(struct load *l, struct lode_error *err)
{
    if (!measure_model(l, err))
        return lode_fail_in(err, "tiktoken.model");
    if (!measure_specials(l, err))
        return lode_fail_in(err, "tokenizer_config.json");
    return place(l, err) && store_all(l, err) && store_reserved(l, err) &&
           find_byte_tokens(l->t, err);
}

bool
rt_tokenizer_new_tiktoken(const char *model, size_t model_bytes,
                          const char *config, size_t config_bytes,
                          uint32_t vocab_rows, struct rt_tokenizer **out,
                          struct lode_error *err)
{
    struct load l;
    json_t *root = NULL;
    void *p = NULL;
    bool good = false;

    memset(&l, 0, sizeof(l));
    l.model = model;
    l.model_bytes = model_bytes;
    if (vocab_rows == 0 || vocab_rows > RT_TOK_ROWS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32 " embedding rows, not 1 to %d", vocab_rows,
                         RT_TOK_ROWS_MAX);
    if (!lode_alloc_array(1, sizeof(*l.t), "tokenizer", &p, err))
        return false;
    l.t = p;
    l.t->rows = vocab_rows;
    if (!lode_alloc_array((uint64_t)vocab_rows + 1, sizeof(uint32_t),
                          "token offsets", &p, err))
        goto out;
    l.t->offset = p;
    if (!lode_alloc_array(vocab_rows / 8 + 1, 1, "special tokens", &p, err))
        goto out;
    l.t->special = p;
    if (!load_config(&l, config, config_bytes, &root, err) ||
        !load_all(&l, err) || !rt_tok_splitter_new(&l.t->splitter, err))
        goto out;
    *out = l.t;
    l.t = NULL;
    good = true;
out:
    json_decref(root);
    rt_tokenizer_free(l.t);
    return good;
}

void
rt_tokenizer_free(struct rt_tokenizer *t)
{
    if (t == NULL)
        return;
    rt_tok_splitter_free(t->splitter);
    rt_tok_table_fini(&t->ordinary);
    rt_tok_table_fini(&t->specials);
    free(t->special);
    free(t->offset);
    free(t->arena);
    free(t);
}
