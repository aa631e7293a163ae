/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/mem.h"
#include "runtime/cmd.h"
#include "runtime/sampler.h"
#include "runtime/template.h"

enum {
    TOKENS_DEFAULT = 256,
    PIECE_BYTES = 256,          /* of a token, printed at once */
    ID_BYTES = 2 * sizeof(uint32_t), /* of a token in a list that doubles */
    JSON_ID_BYTES = 96,         /* of a token in the JSON result */
};

struct run_options {
    struct rt_common common;
    struct rt_sampler_options sampler;
    uint64_t token_count; /* to generate at most */
    const char *text;
    const char *system;
    const char *think;
    bool raw;
    bool ignore_stop;
};

/* One kind of text on its way out. */
struct outlet {
    struct rt_utf8_stream stream;
    struct lode_buf text; /* kept for JSON */
    FILE *file;           /* or printed; NULL: not */
};

struct run {
    struct run_options opt;
    struct rt_model *model;
    struct rt_engine *engine;
    struct rt_sampler *sampler;
    struct rt_ids prompt;
    struct rt_ids ids; /* generated */
    struct rt_answer_filter filter;
    bool chat;
    struct outlet answer;
    struct outlet reasoning;
    const char *stop;
    uint64_t prefill_ns;
    uint64_t decode_ns;
    uint64_t decode_passes;
    struct rt_engine_stats prefill_stats;
    struct rt_engine_stats stats;
};

static enum rt_chat_format
chat_format(const struct rt_model *m)
{
    return m->config.type == RT_KIMI_K3 ? RT_CHAT_XTML : RT_CHAT_KIMI;
}

static bool
render_chat(struct run *r, const char *text, size_t text_bytes,
            struct lode_error *err)
{
    enum rt_chat_format format = chat_format(r->model);
    struct rt_message messages[2];
    enum rt_think think = RT_THINK_OFF;
    const struct rt_tokenizer *t;
    size_t count = 0;

    memset(messages, 0, sizeof(messages));
    if (!rt_cmd_tokenizer(r->model, &t, err))
        return false;
    if (r->opt.think != NULL && !rt_think_parse(r->opt.think, &think, err))
        return false;
    if (r->opt.system != NULL) {
        messages[count].role = "system";
        messages[count].text = r->opt.system;
        messages[count++].text_bytes = strlen(r->opt.system);
    }
    messages[count].role = "user";
    messages[count].text = text;
    messages[count++].text_bytes = text_bytes;
    rt_answer_filter_init(&r->filter, format, think);
    r->chat = true;
    if (!rt_template_render(format, t, messages, count, think, &r->prompt, err))
        return lode_fail_in(err, "%s (--raw continues plain text)",
                            lode_reader_path(r->model->reader));
    return true;
}

static bool
make_prompt(struct run *r, struct lode_error *err)
{
    const struct run_options *o = &r->opt;
    const struct rt_tokenizer *t;
    size_t text_bytes = 0;
    char *text = NULL;
    bool is_ids;
    bool ok;

    if (!rt_cmd_input(&o->common, o->text, &is_ids, &r->prompt, &text,
                      &text_bytes, err))
        return false;
    if ((is_ids || o->raw) && (o->system != NULL || o->think != NULL)) {
        ok = lode_fail(err, LODE_E_USAGE,
                       "--system and --think belong to the chat format; leave "
                       "out --raw and --ids");
    } else if (is_ids) {
        ok = true;
    } else if (o->raw) {
        ok = rt_cmd_tokenizer(r->model, &t, err) &&
             rt_tokenizer_content(t, text, text_bytes, &r->prompt, err);
    } else {
        ok = render_chat(r, text, text_bytes, err);
    }
    free(text);
    if (ok && r->prompt.count == 0)
        return lode_fail(err, LODE_E_USAGE, "the prompt is empty");
    return ok;
}

/* Rows of the embedding that are no token of the tokenizer.  Without one, and
 * for a stop, any row is as good as another. */
static void
forbid_unused(struct run *r)
{
    const struct rt_tokenizer *t = r->model->tokenizer;
    size_t bytes = 1;

    for (uint32_t id = 0; t != NULL && id < r->model->config.vocab_rows; id++) {
        (void)rt_tokenizer_bytes(t, id, &bytes); /* how many is the question */
        if (bytes == 0 && !rt_config_is_stop(&r->model->config, id))
            rt_sampler_forbid(r->sampler, id);
    }
}

static bool
open_engine(struct run *r, struct lode_error *err)
{
    const struct rt_common *c = &r->opt.common;
    uint64_t limit = r->model->config.context_limit;
    uint64_t tokens = r->prompt.count + r->opt.token_count;
    struct rt_engine_options e;

    if (!rt_cmd_engine_options(c, &e, err))
        return false;
    e.context_tokens = c->context_tokens;
    if (e.context_tokens == 0)
        e.context_tokens = tokens < limit ? tokens : limit;
    if (r->prompt.count > e.context_tokens)
        return lode_fail(err, LODE_E_LIMIT,
                         "the prompt has %zu tokens, the context %" PRIu64,
                         r->prompt.count, e.context_tokens);
    if (tokens > e.context_tokens)
        tokens = e.context_tokens;
    e.max_chunk_tokens = r->prompt.count < UINT32_MAX
                             ? (uint32_t)r->prompt.count
                             : UINT32_MAX;
    e.caller_bytes = tokens * (c->json ? JSON_ID_BYTES : ID_BYTES);
    if (!rt_engine_open(r->model, &e, &r->engine, err) ||
        !rt_sampler_new(&r->opt.sampler, r->model->config.vocab_rows,
                        &r->sampler, err))
        return false;
    forbid_unused(r);
    if (!c->quiet && rt_engine_io_note(r->engine)[0] != '\0')
        fprintf(stderr, "%s\n", rt_engine_io_note(r->engine));
    return true;
}

static bool
prefill(struct run *r, struct lode_error *err)
{
    bool show = !r->opt.common.quiet && isatty(STDERR_FILENO) == 1;
    uint32_t chunk = rt_engine_budget(r->engine)->chunk_tokens;
    uint64_t start = lode_now_ns();
    size_t done = 0;

    while (done < r->prompt.count) {
        size_t left = r->prompt.count - done;
        uint32_t n = left < chunk ? (uint32_t)left : chunk;

        if (show && r->prompt.count > chunk)
            fprintf(stderr, "\rprompt: %zu of %zu tokens\033[K", done,
                    r->prompt.count);
        if (!rt_engine_push(r->engine, r->prompt.data + done, n,
                            n == left ? RT_WANT_LAST : RT_WANT_NONE,
                            n < left || r->opt.token_count > 1, err))
            return false;
        for (uint32_t i = 0; i < n; i++)
            rt_sampler_saw(r->sampler, r->prompt.data[done + i]);
        done += n;
    }
    if (show && r->prompt.count > chunk)
        fputs("\r\033[K", stderr);
    r->prefill_ns = lode_now_ns() - start;
    rt_engine_stats(r->engine, &r->prefill_stats);
    return true;
}

/* Print or keep text; flush gives out what a cut character holds back. */
static bool
let_out(struct outlet *o, const char *text, size_t bytes, bool flush,
        struct lode_error *err)
{
    char piece[3 * (PIECE_BYTES + 3)];
    size_t done = 0;

    do {
        size_t n = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        size_t got = rt_utf8_stream_feed(&o->stream, text + done, n,
                                         flush && done + n == bytes, piece);

        if (o->file != NULL && fwrite(piece, 1, got, o->file) != got)
            return lode_fail_errno(err, "output");
        if (o->file == NULL && !lode_buf_append(&o->text, piece, got, err))
            return false;
        done += n;
    } while (done < bytes);
    if (o->file != NULL && fflush(o->file) != 0)
        return lode_fail_errno(err, "output");
    return true;
}

static bool
show_token(struct run *r, uint32_t id, struct lode_error *err)
{
    const struct rt_tokenizer *t = r->model->tokenizer;
    bool reasoning = false;
    const char *text;
    size_t bytes;

    if (t == NULL) {
        if (!r->opt.common.json)
            printf("%" PRIu32 " ", id);
        return true;
    }
    if (r->chat ? !rt_answer_filter_feed(&r->filter, t, id, &reasoning)
                : rt_tokenizer_is_special(t, id))
        return true;
    text = rt_tokenizer_bytes(t, id, &bytes);
    if (bytes == 0)
        return true;
    return let_out(reasoning ? &r->reasoning : &r->answer, text, bytes, false,
                   err);
}

/* Choose one token from the logits at hand.  r->stop is set at the end. */
static bool
choose(struct run *r, uint32_t *id, struct lode_error *err)
{
    if (!rt_sampler_pick(r->sampler, rt_engine_logits(r->engine), id, err))
        return lode_fail_in(err, "%s", lode_reader_path(r->model->reader));
    rt_sampler_saw(r->sampler, *id);
    if (!rt_ids_append(&r->ids, *id, err))
        return false;
    if (!r->opt.ignore_stop && rt_config_is_stop(&r->model->config, *id)) {
        r->stop = "stop_token";
        return true;
    }
    if (r->ids.count == r->opt.token_count)
        r->stop = "length";
    else if (r->prompt.count + r->ids.count >
             rt_engine_context(r->engine))
        r->stop = "context";
    return show_token(r, *id, err);
}

static bool
generate(struct run *r, struct lode_error *err)
{
    uint64_t start = lode_now_ns();
    uint32_t id = 0;

    if (r->opt.token_count == 0)
        r->stop = "length";
    while (r->stop == NULL) {
        if (!choose(r, &id, err))
            return false;
        if (r->stop != NULL)
            break;
        if (!rt_engine_push(r->engine, &id, 1, RT_WANT_LAST,
                            r->ids.count + 1 < r->opt.token_count, err))
            return false;
        r->decode_passes++;
    }
    r->decode_ns = lode_now_ns() - start;
    rt_engine_stats(r->engine, &r->stats);
    return let_out(&r->answer, "", 0, true, err) &&
           let_out(&r->reasoning, "", 0, true, err);
}

static double
per(double amount, double count)
{
    return count > 0 ? amount / count : 0;
}

struct report {
    double tokens_per_second;
    double prefill_tokens_per_second;
    double hit_rate;
    double stall_seconds;
    double bytes_per_token;
    double reads_per_token;
};

static struct report
make_report(const struct run *r)
{
    const struct rt_engine_stats *s = &r->stats;
    const struct rt_engine_stats *p = &r->prefill_stats;
    double passes = (double)r->decode_passes;
    struct report out;

    out.tokens_per_second = per(passes, (double)r->decode_ns / 1e9);
    out.prefill_tokens_per_second =
        per((double)r->prompt.count, (double)r->prefill_ns / 1e9);
    out.hit_rate = per((double)s->cache_hits,
                       (double)(s->cache_hits + s->cache_misses));
    out.stall_seconds = (double)s->stall_ns / 1e9;
    out.bytes_per_token = per((double)(s->bytes_read - p->bytes_read), passes);
    out.reads_per_token = per((double)(s->reads - p->reads), passes);
    return out;
}

static void
print_report(const struct run *r)
{
    struct report p = make_report(r);
    char a[32];
    char b[32];

    fprintf(stderr,
            "%zu prompt tokens at %.1f tokens/s, %zu generated at %.1f "
            "tokens/s (%s, %u threads, %s reads)\n",
            r->prompt.count, p.prefill_tokens_per_second, r->ids.count,
            p.tokens_per_second, rt_engine_isa(r->engine),
            rt_engine_threads(r->engine),
            rt_engine_is_direct(r->engine) ? "direct" : "buffered");
    fprintf(stderr, "memory %s at its peak, budget %s; ",
            lode_format_bytes(rt_peak_resident_bytes(), a, sizeof(a)),
            lode_format_bytes(rt_engine_budget(r->engine)->memory_bytes, b,
                              sizeof(b)));
    fprintf(stderr,
            "drive %s in %" PRIu64 " reads, per token %s in %.1f; ",
            lode_format_bytes(r->stats.bytes_read, a, sizeof(a)),
            r->stats.reads,
            lode_format_bytes((uint64_t)p.bytes_per_token, b, sizeof(b)),
            p.reads_per_token);
    fprintf(stderr, "expert hits %.1f %%; waited %.2f s for the drive\n",
            p.hit_rate * 100, p.stall_seconds);
}

static json_t *
ids_json(const struct rt_ids *ids)
{
    json_t *a = json_array();

    for (size_t i = 0; i < ids->count; i++)
        if (!lode_json_push(a, json_integer(ids->data[i])))
            break; /* the caller's json_object_set sees the NULL below */
    return a;
}

static json_t *
text_json(const struct outlet *o)
{
    return json_stringn(o->text.used_bytes > 0 ? (const char *)o->text.data
                                               : "",
                        o->text.used_bytes);
}

static json_t *
report_json(const struct run *r)
{
    struct report p = make_report(r);
    const struct rt_budget *b = rt_engine_budget(r->engine);
    json_t *o = json_object();
    const struct {
        const char *key;
        json_t *value;
    } rows[] = {
        {"tokens_per_second", json_real(p.tokens_per_second)},
        {"prefill_tokens_per_second", json_real(p.prefill_tokens_per_second)},
        {"peak_rss_bytes", json_integer((json_int_t)rt_peak_resident_bytes())},
        {"budget_bytes", json_integer((json_int_t)b->memory_bytes)},
        {"bytes_read", json_integer((json_int_t)r->stats.bytes_read)},
        {"reads", json_integer((json_int_t)r->stats.reads)},
        {"bytes_per_token", json_real(p.bytes_per_token)},
        {"reads_per_token", json_real(p.reads_per_token)},
        {"hit_rate", json_real(p.hit_rate)},
        {"stall_seconds", json_real(p.stall_seconds)},
        {"isa", json_string(rt_engine_isa(r->engine))},
        {"threads", json_integer((json_int_t)rt_engine_threads(r->engine))},
        {"io", json_string(rt_engine_is_direct(r->engine) ? "direct"
                                                          : "buffered")},
    };
    bool ok = true;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok = lode_json_set(o, rows[i].key, rows[i].value) && ok;
    if (ok)
        return o;
    json_decref(o);
    return NULL;
}

static bool
print_result(struct run *r, struct lode_error *err)
{
    json_t *o;
    bool ok;

    if (!r->opt.common.json) {
        putchar('\n');
        if (fflush(stdout) != 0) /* the text comes before the report */
            return lode_fail_errno(err, "output");
        if (!r->opt.common.quiet)
            print_report(r);
        return true;
    }
    o = json_object();
    ok = lode_json_set(o, "prompt_ids", ids_json(&r->prompt)) &&
         lode_json_set(o, "ids", ids_json(&r->ids)) &&
         lode_json_set(o, "text", text_json(&r->answer)) &&
         lode_json_set(o, "reasoning", text_json(&r->reasoning)) &&
         lode_json_set(o, "stop", json_string(r->stop)) &&
         lode_json_set(o, "seed",
                       json_integer((json_int_t)r->opt.sampler.seed)) &&
         lode_json_set(o, "report", report_json(r));
    if (!ok) {
        json_decref(o);
        return lode_fail(err, LODE_E_NOMEM, "out of memory for the result");
    }
    return lode_json_print(o, err);
}

static bool
parse(int argc, char **argv, struct run_options *o, const char **path,
      bool *done, struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"max-tokens", 'n', LODE_OPT_U64, &o->token_count, "N",
         "generate at most N tokens (default: 256)"},
        {"raw", 0, LODE_OPT_FLAG, &o->raw, NULL,
         "continue the text; no chat format"},
        {"system", 0, LODE_OPT_TEXT, &o->system, "TEXT", "the system message"},
        {"think", 0, LODE_OPT_TEXT, &o->think, "HOW",
         "off, low, high or max (default: off)"},
        {"temperature", 0, LODE_OPT_F64, &o->sampler.temperature, "T",
         "0 takes the best token (default: 0)"},
        {"top-k", 0, LODE_OPT_U64, &o->sampler.top_k, "K",
         "draw from the K best (default: 0, all)"},
        {"top-p", 0, LODE_OPT_F64, &o->sampler.top_p, "P",
         "draw from the best that make up P (default: 1)"},
        {"min-p", 0, LODE_OPT_F64, &o->sampler.min_p, "P",
         "draw from those at least P times the best (default: 0)"},
        {"repetition-penalty", 0, LODE_OPT_F64,
         &o->sampler.repetition_penalty, "R",
         "make tokens that were there R times less likely (default: 1)"},
        {"seed", 0, LODE_OPT_U64, &o->sampler.seed, "S",
         "same seed, same text (default: 0)"},
        {"ignore-stop", 0, LODE_OPT_FLAG, &o->ignore_stop, NULL,
         "go on after stop tokens"},
        RT_RUN_OPTIONS(&o->common),
        RT_MODEL_OPTIONS(&o->common),
        {.name = NULL},
    };
    const struct lode_usage usage = {
        table, "lode run FILE [TEXT] [OPTION]...",
        "Generate text: an answer to TEXT, or with --raw its continuation."};

    return rt_cmd_parse(argc, argv, &usage, path, &o->text, done, err);
}

static void
release(struct run *r)
{
    rt_engine_close(r->engine);
    rt_sampler_free(r->sampler);
    rt_model_close(r->model);
    rt_ids_fini(&r->prompt);
    rt_ids_fini(&r->ids);
    lode_buf_fini(&r->answer.text);
    lode_buf_fini(&r->reasoning.text);
}

int
rt_cmd_run(int argc, char **argv)
{
    const char *path = NULL;
    struct lode_error err;
    struct run r;
    bool done = false;
    int status = 0;

    memset(&r, 0, sizeof(r));
    r.opt.token_count = TOKENS_DEFAULT;
    r.opt.sampler.top_p = 1;
    r.opt.sampler.repetition_penalty = 1;
    if (!parse(argc, argv, &r.opt, &path, &done, &err))
        return rt_cmd_fail(&err);
    if (done)
        return 0;
    if (!r.opt.common.json) {
        r.answer.file = stdout;
        r.reasoning.file = stderr; /* so that stdout is the answer alone */
    }
    lode_cli_catch_signals();
    if (!rt_cmd_open_model(&r.opt.common, path, &r.model, &err) ||
        !make_prompt(&r, &err) || !open_engine(&r, &err) ||
        !prefill(&r, &err) || !generate(&r, &err) || !print_result(&r, &err)) {
        if (r.ids.count > 0 && !r.opt.common.json)
            putchar('\n'); /* the message gets a line of its own */
        status = rt_cmd_fail(&err);
    }
    release(&r);
    return status;
}
