/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizers for tests: those of the checkpoints in the source tree, and small
 * ones made up in memory. */

#ifndef LODE_TESTS_TOK_FILES_H
#define LODE_TESTS_TOK_FILES_H

#include "base/file.h"
#include "base/mem.h"
#include "runtime/tokenizer.h"
#include "tests/tap.h"

/* The whole of srcdir/dir/name. */
static inline char *
source_file(const char *dir, const char *name, size_t *bytes)
{
    const char *top = getenv("srcdir");
    struct lode_error err;
    char path[4096];
    char *text;

    (void)snprintf(path, sizeof(path), "%s/%s/%s", top != NULL ? top : ".",
                   dir, name); /* a cut name is not found */
    must(lode_file_slurp(path, 1 << 24, &text, bytes, &err), &err);
    return text;
}

static inline struct rt_tokenizer *
tokenizer_of(const char *dir, uint32_t rows)
{
    size_t model_bytes, config_bytes;
    char *model = source_file(dir, "tiktoken.model", &model_bytes);
    char *config = source_file(dir, "tokenizer_config.json", &config_bytes);
    struct rt_tokenizer *t = NULL;
    struct lode_error err;

    must(rt_tokenizer_new_tiktoken(model, model_bytes, config, config_bytes,
                                   rows, &t, &err),
         &err);
    free(model);
    free(config);
    return t;
}

/* Append a line of tiktoken.model. */
static inline void
add_line(struct lode_buf *b, const char *token, size_t bytes, unsigned rank)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "abcdefghijklmnopqrstuvwxyz0123456789+/";
    struct lode_error err;
    char tail[16];

    for (size_t i = 0; i < bytes; i += 3) {
        size_t n = bytes - i < 3 ? bytes - i : 3;
        uint32_t word = 0;
        char four[4];

        for (size_t j = 0; j < 3; j++)
            word = word << 8 | (j < n ? (uint8_t)token[i + j] : 0);
        for (size_t j = 0; j < 4; j++)
            four[j] = (char)(j <= n ? digits[word >> (18 - 6 * j) & 63] : '=');
        must(lode_buf_append(b, four, 4, &err), &err);
    }
    (void)snprintf(tail, sizeof(tail), " %u\n", rank); /* fits */
    must(lode_buf_append(b, tail, strlen(tail), &err), &err);
}

/* The 256 bytes, ranks 0 to 255, but for the one given (256: none). */
static inline void
add_bytes(struct lode_buf *b, unsigned left_out)
{
    for (unsigned i = 0; i < 256; i++) {
        char c = (char)i;

        if (i != left_out)
            add_line(b, &c, 1, i);
    }
}

#endif
