/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of lode-run, and what their command lines share. */

#ifndef LODE_RUNTIME_CMD_H
#define LODE_RUNTIME_CMD_H

#include "base/cli.h"
#include "runtime/engine.h"

#define RT_PROGRAM "lode-run"

int rt_cmd_run(int argc, char **argv);
int rt_cmd_eval(int argc, char **argv);
int rt_cmd_plan(int argc, char **argv);

/* Options of every command that opens a model. */
struct rt_common {
    uint64_t memory_bytes;
    uint64_t threads;
    uint64_t context_tokens;
    uint64_t chunk_tokens;
    const char *ids;
    const char *file;
    const char *isa;
    const char *io;
    const char *expect_root;
    struct lode_opt_list folders; /* of volumes */
    bool json;
    bool quiet;
};

#define RT_MODEL_OPTIONS(c)                                                   \
    {"memory", 'm', LODE_OPT_SIZE, &(c)->memory_bytes, "SIZE",                \
     "use at most SIZE of memory (default: what the machine leaves free)"},   \
    {"context", 'c', LODE_OPT_U64, &(c)->context_tokens, "N",                 \
     "tokens a session holds"},                                               \
    {"threads", 't', LODE_OPT_U64, &(c)->threads, "N",                        \
     "compute threads (default: one a core)"},                                \
    {"prefill-chunk", 0, LODE_OPT_U64, &(c)->chunk_tokens, "N",               \
     "tokens taken at once (default: by the budget)"},                        \
    {"expect-root", 0, LODE_OPT_TEXT, &(c)->expect_root, "HEX",               \
     "refuse any container but the one with this content root"},              \
    {"dir", 0, LODE_OPT_LIST, &(c)->folders, "DIR",                           \
     "look for volumes of a set in DIR, too; may be repeated"},               \
    {"json", 0, LODE_OPT_FLAG, &(c)->json, NULL, "print JSON"}

#define RT_RUN_OPTIONS(c)                                                     \
    {"file", 'f', LODE_OPT_TEXT, &(c)->file, "PATH",                           \
     "read the text from PATH"},                                              \
    {"ids", 0, LODE_OPT_TEXT, &(c)->ids, "LIST",                              \
     "take token ids (1,2,3) instead of text"},                               \
    {"isa", 0, LODE_OPT_TEXT, &(c)->isa, "NAME",                              \
     "instruction set: scalar, avx2, avx512, neon (default: the best)"},      \
    {"io", 0, LODE_OPT_TEXT, &(c)->io, "HOW",                                 \
     "direct or buffered reads (default: direct where it works)"},            \
    {"quiet", 'q', LODE_OPT_FLAG, &(c)->quiet, NULL, "print no report"}

/* Parse by u; exactly one FILE, and at most one more argument when text is not
 * NULL.  *done: help was shown. */
LODE_MUST_CHECK
bool rt_cmd_parse(int argc, char **argv, const struct lode_usage *u,
                  const char **file, const char **text, bool *done,
                  struct lode_error *err);

/* Open the model of these options; *out is for rt_model_close(). */
LODE_MUST_CHECK
bool rt_cmd_open_model(const struct rt_common *c, const char *path,
                       struct rt_model **out, struct lode_error *err);

/* Engine options, without context and all_logits.  A session of tokens. */
LODE_MUST_CHECK
bool rt_cmd_engine_options(const struct rt_common *c,
                           struct rt_engine_options *out,
                           struct lode_error *err);

/* The input of a command: one of --ids, text, --file or (when none is given
 * and it is no terminal) stdin.  *is_ids says that ids holds the tokens; else
 * *text is for free(). */
LODE_MUST_CHECK
bool rt_cmd_input(const struct rt_common *c, const char *given, bool *is_ids,
                  struct rt_ids *ids, char **text, size_t *text_bytes,
                  struct lode_error *err);

/* The tokenizer, or LODE_E_UNSUPPORTED when the container has none. */
LODE_MUST_CHECK
bool rt_cmd_tokenizer(const struct rt_model *m, const struct rt_tokenizer **out,
                      struct lode_error *err);

/* After an error: report it, or die by the signal that ended the work. */
int rt_cmd_fail(const struct lode_error *err);

/* "[1,2,3]" to stdout. */
void rt_cmd_print_ids(const uint32_t *ids, size_t count);

/* A number as JSON takes it. */
void rt_cmd_print_number(double value);

#endif
