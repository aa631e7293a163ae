/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/cmd.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { TEXT_BYTES_MAX = 64 << 20 };

bool
rt_cmd_parse(int argc, char **argv, const struct lode_usage *u,
             const char **file, const char **text, bool *done,
             struct lode_error *err)
{
    int first = 0;

    if (!lode_cli_parse(argc, argv, u, &first, done, err))
        return false;
    if (*done)
        return true;
    if (first >= argc)
        return lode_fail(err, LODE_E_USAGE, "which container?  Usage: %s",
                         u->synopsis);
    *file = argv[first++];
    if (text != NULL && first < argc)
        *text = argv[first++];
    if (first < argc)
        return lode_fail(err, LODE_E_USAGE,
                         "unexpected argument \"%s\" (put a text of several "
                         "words in quotes)",
                         argv[first]);
    return true;
}

bool
rt_cmd_open_model(const struct rt_common *c, const char *path,
                  struct rt_model **out, struct lode_error *err)
{
    struct rt_model *m = NULL;

    if (!rt_model_open(path, c->folders.items, &m, err))
        return false;
    if (c->expect_root != NULL &&
        !lode_reader_expect_root(m->reader, c->expect_root, err)) {
        rt_model_close(m);
        return false;
    }
    *out = m;
    return true;
}

bool
rt_cmd_engine_options(const struct rt_common *c, struct rt_engine_options *out,
                      struct lode_error *err)
{
    memset(out, 0, sizeof(*out));
    out->io = RT_IO_AUTO;
    if (c->io != NULL && strcmp(c->io, "direct") == 0)
        out->io = RT_IO_DIRECT;
    else if (c->io != NULL && strcmp(c->io, "buffered") == 0)
        out->io = RT_IO_BUFFERED;
    else if (c->io != NULL)
        return lode_fail(err, LODE_E_USAGE,
                         "--io %s: it is direct or buffered", c->io);
    if (c->threads > UINT16_MAX)
        return lode_fail(err, LODE_E_USAGE, "--threads %" PRIu64 ": too many",
                         c->threads);
    if (c->chunk_tokens > UINT16_MAX)
        return lode_fail(err, LODE_E_USAGE,
                         "--prefill-chunk %" PRIu64 ": at most %d",
                         c->chunk_tokens, UINT16_MAX);
    out->memory_bytes = c->memory_bytes;
    out->compute_threads = (unsigned)c->threads;
    out->chunk_tokens = (uint32_t)c->chunk_tokens;
    out->isa = c->isa;
    return true;
}

static bool
parse_ids(const char *text, struct rt_ids *ids, struct lode_error *err)
{
    const char *p = text;

    for (;;) {
        unsigned long long value;
        char *end;

        while (*p == ' ' || *p == ',' || *p == '\n')
            p++;
        if (*p == '\0')
            break;
        errno = 0;
        value = strtoull(p, &end, 10);
        if (*p < '0' || *p > '9' || errno != 0 || value > UINT32_MAX ||
            (*end != '\0' && strchr(", \n", *end) == NULL))
            return lode_fail(err, LODE_E_USAGE,
                             "--ids: \"%.20s\" is not a token id", p);
        if (!rt_ids_append(ids, (uint32_t)value, err))
            return false;
        p = end;
    }
    if (ids->count == 0)
        return lode_fail(err, LODE_E_USAGE, "--ids: no token ids");
    return true;
}

static bool
read_stdin(char **out, size_t *out_bytes, struct lode_error *err)
{
    struct lode_buf b = {NULL, 0, 0};
    char piece[4096];
    size_t n;

    while ((n = fread(piece, 1, sizeof(piece), stdin)) > 0) {
        if (b.used_bytes + n > TEXT_BYTES_MAX) {
            lode_buf_fini(&b);
            return lode_fail(err, LODE_E_LIMIT,
                             "standard input: more than %d bytes",
                             TEXT_BYTES_MAX);
        }
        if (!lode_buf_append(&b, piece, n, err)) {
            lode_buf_fini(&b);
            return false;
        }
    }
    if (ferror(stdin)) {
        lode_buf_fini(&b);
        return lode_fail_errno(err, "standard input");
    }
    *out_bytes = b.used_bytes;
    *out = (char *)b.data;
    return true;
}

bool
rt_cmd_input(const struct rt_common *c, const char *given, bool *is_ids,
             struct rt_ids *ids, char **text, size_t *text_bytes,
             struct lode_error *err)
{
    int ways = (c->ids != NULL) + (c->file != NULL) + (given != NULL);

    *is_ids = c->ids != NULL;
    if (ways > 1)
        return lode_fail(err, LODE_E_USAGE,
                         "give a text, --file or --ids, not several");
    if (c->ids != NULL)
        return parse_ids(c->ids, ids, err);
    if (c->file != NULL && strcmp(c->file, "-") != 0)
        return lode_file_slurp(c->file, TEXT_BYTES_MAX, text, text_bytes, err);
    if (given != NULL) {
        *text_bytes = strlen(given);
        return lode_strndup(given, *text_bytes, text, err);
    }
    if (c->file == NULL && isatty(STDIN_FILENO))
        return lode_fail(err, LODE_E_USAGE,
                         "no text: give one, or --file, or --ids, or pipe it "
                         "in");
    return read_stdin(text, text_bytes, err);
}

bool
rt_cmd_tokenizer(const struct rt_model *m, const struct rt_tokenizer **out,
                 struct lode_error *err)
{
    if (m->tokenizer == NULL)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "%s: no tokenizer inside (tiktoken.model, "
                         "tokenizer_config.json); use --ids",
                         lode_reader_path(m->reader));
    *out = m->tokenizer;
    return true;
}

int
rt_cmd_fail(const struct lode_error *err)
{
    int status = lode_cli_report(RT_PROGRAM, err);

    if (err->code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return status;
}

void
rt_cmd_print_ids(const uint32_t *ids, size_t count)
{
    putchar('[');
    for (size_t i = 0; i < count; i++)
        printf("%s%" PRIu32, i > 0 ? "," : "", ids[i]);
    putchar(']');
}

void
rt_cmd_print_number(double value)
{
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null"); /* JSON has no infinities */
}
