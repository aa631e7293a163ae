/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "runtime/cmd.h"
#include "runtime/sampler.h"

enum { TOP_MAX = 1024 };

struct eval_options {
    struct rt_common common;
    uint64_t top_count;
    const char *text;
    const char *logits_path;
    bool routes;
};

struct eval {
    struct eval_options opt;
    struct rt_model *model;
    struct rt_engine *engine;
    struct rt_ids ids;
    uint64_t window_tokens; /* tokens scored from one empty state */
    FILE *logits;
    uint32_t *top_ids;    /* [tokens][top_count] */
    float *top_logits;    /* likewise */
    double *logprobs;     /* [tokens]; NaN: not scored */
    uint32_t *routes;     /* [layers][tokens][k] */
    uint64_t done;        /* tokens of chunks before the one at hand */
    uint64_t scored_count;
    double nll;
};

static bool
read_tokens(struct eval *v, struct lode_error *err)
{
    const struct rt_tokenizer *t;
    size_t text_bytes = 0;
    char *text = NULL;
    bool is_ids;
    bool ok;

    if (v->opt.top_count > v->model->config.vocab_rows)
        return lode_fail(err, LODE_E_USAGE,
                         "--top %" PRIu64 ": the vocabulary has %u",
                         v->opt.top_count, v->model->config.vocab_rows);
    if (!rt_cmd_input(&v->opt.common, v->opt.text, &is_ids, &v->ids, &text,
                      &text_bytes, err))
        return false;
    ok = is_ids || (rt_cmd_tokenizer(v->model, &t, err) &&
                    rt_tokenizer_content(t, text, text_bytes, &v->ids, err));
    free(text);
    if (ok && v->ids.count == 0)
        return lode_fail(err, LODE_E_USAGE, "the text is empty");
    if (ok && v->ids.count > UINT32_MAX)
        return lode_fail(err, LODE_E_LIMIT, "%zu tokens are too many",
                         v->ids.count);
    return ok;
}

static uint64_t
route_count(const struct eval *v)
{
    const struct rt_config *c = &v->model->config;

    return v->opt.routes
               ? (uint64_t)c->layer_count * v->ids.count * c->chosen_count
               : 0;
}

/* The results of all tokens; they are part of the memory budget. */
static bool
allocate(struct eval *v, uint64_t *bytes, struct lode_error *err)
{
    uint64_t n = v->ids.count;
    void *p = NULL;

    if (!lode_alloc_array(n * v->opt.top_count, sizeof(*v->top_ids), "results",
                          &p, err))
        return false;
    v->top_ids = p;
    if (!lode_alloc_array(n * v->opt.top_count, sizeof(*v->top_logits),
                          "results", &p, err))
        return false;
    v->top_logits = p;
    if (!lode_alloc_array(n, sizeof(*v->logprobs), "results", &p, err))
        return false;
    v->logprobs = p;
    if (!lode_alloc_array(route_count(v), sizeof(*v->routes), "results", &p,
                          err))
        return false;
    v->routes = p;
    *bytes = n * (v->opt.top_count * 8 + sizeof(*v->logprobs)) +
             route_count(v) * sizeof(*v->routes);
    return true;
}

static bool
open_engine(struct eval *v, struct lode_error *err)
{
    struct rt_engine_options e;

    if (!rt_cmd_engine_options(&v->opt.common, &e, err))
        return false;
    v->window_tokens = v->opt.common.context_tokens;
    if (v->window_tokens == 0 || v->window_tokens > v->ids.count)
        v->window_tokens = v->ids.count;
    if (v->window_tokens > v->model->config.context_limit)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu64 " tokens at once: this model takes %u; "
                         "evaluate windows with --context",
                         v->window_tokens, v->model->config.context_limit);
    e.context_tokens = v->window_tokens;
    e.max_chunk_tokens = (uint32_t)v->window_tokens;
    e.all_logits = true;
    if (!allocate(v, &e.caller_bytes, err) ||
        !rt_engine_open(v->model, &e, &v->engine, err))
        return false;
    if (!v->opt.common.quiet && rt_engine_io_note(v->engine)[0] != '\0')
        fprintf(stderr, "%s\n", rt_engine_io_note(v->engine));
    return true;
}

static void
keep_routes(void *user, uint32_t layer, const uint32_t *ids, uint32_t tokens,
            uint32_t k)
{
    struct eval *v = user;
    size_t at = ((size_t)layer * v->ids.count + v->done) * k;

    memcpy(v->routes + at, ids, (size_t)tokens * k * sizeof(*ids));
}

/* Little-endian float32, as the format of --logits says. */
static bool
write_logits(struct eval *v, const float *row, struct lode_error *err)
{
    uint32_t rows = v->model->config.vocab_rows;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "lode runs on little-endian machines"
#endif
    if (fwrite(row, sizeof(*row), rows, v->logits) != rows)
        return lode_fail_errno(err, "%s", v->opt.logits_path);
    return true;
}

static bool
take_position(struct eval *v, uint64_t pos, const float *row,
              struct lode_error *err)
{
    uint32_t rows = v->model->config.vocab_rows;
    size_t top = v->opt.top_count;
    bool last = pos + 1 == v->ids.count ||
                (pos + 1) % v->window_tokens == 0;

    for (uint32_t i = 0; i < rows; i++)
        if (isnan(row[i]))
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s: position %" PRIu64
                             ": the logit of token %u is not a number",
                             lode_reader_path(v->model->reader), pos, i);
    if (v->logits != NULL && !write_logits(v, row, err))
        return false;
    if (top > 0)
        rt_top_k(row, rows, top, v->top_ids + pos * top);
    for (size_t i = 0; i < top; i++)
        v->top_logits[pos * top + i] = row[v->top_ids[pos * top + i]];
    if (pos % v->window_tokens == 0)
        v->logprobs[pos] = NAN;
    if (!last) {
        double p = rt_log_probability(row, rows, v->ids.data[pos + 1]);

        v->logprobs[pos + 1] = p;
        v->nll -= p;
        v->scored_count++;
    }
    return true;
}

static bool
evaluate(struct eval *v, struct lode_error *err)
{
    bool show = !v->opt.common.quiet && isatty(STDERR_FILENO) == 1;
    uint32_t chunk = rt_engine_budget(v->engine)->chunk_tokens;

    if (v->opt.routes)
        rt_engine_record_routes(v->engine, keep_routes, v);
    while (v->done < v->ids.count) {
        uint64_t in_window = v->done % v->window_tokens;
        uint64_t left = v->window_tokens - in_window;
        uint32_t n = chunk;

        if (left > v->ids.count - v->done)
            left = v->ids.count - v->done;
        if (n > left)
            n = (uint32_t)left;
        if (in_window == 0)
            rt_engine_reset(v->engine);
        if (!rt_engine_push(v->engine, v->ids.data + v->done, n, RT_WANT_ALL,
                            v->done + n < v->ids.count, err))
            return false;
        for (uint32_t i = 0; i < n; i++)
            if (!take_position(v, v->done + i,
                               rt_engine_logits(v->engine) +
                                   (size_t)i * v->model->config.vocab_rows,
                               err))
                return false;
        v->done += n;
        if (show)
            fprintf(stderr, "\r%" PRIu64 " of %zu tokens\033[K", v->done,
                    v->ids.count);
    }
    if (show)
        fputs("\r\033[K", stderr);
    return true;
}

static double
perplexity(const struct eval *v)
{
    return v->scored_count > 0 ? exp(v->nll / (double)v->scored_count) : NAN;
}

static void
print_top_json(const struct eval *v)
{
    size_t top = v->opt.top_count;

    printf("  \"top\": [");
    for (size_t pos = 0; top > 0 && pos < v->ids.count; pos++) {
        printf("%s\n    {\"pos\": %zu, \"ids\": ", pos > 0 ? "," : "", pos);
        rt_cmd_print_ids(v->top_ids + pos * top, top);
        printf(", \"logits\": [");
        for (size_t i = 0; i < top; i++) {
            if (i > 0)
                putchar(',');
            rt_cmd_print_number((double)v->top_logits[pos * top + i]);
        }
        printf("]}");
    }
    printf("],\n");
}

static void
print_routes_json(const struct eval *v)
{
    const struct rt_config *c = &v->model->config;
    bool first = true;

    printf("  \"routes\": [");
    for (uint32_t l = 0; l < c->layer_count; l++) {
        if (!rt_config_is_moe(c, l))
            continue;
        printf("%s\n    {\"layer\": %" PRIu32 ", \"ids\": [", first ? "" : ",",
               l);
        first = false;
        for (size_t pos = 0; pos < v->ids.count; pos++) {
            if (pos > 0)
                putchar(',');
            rt_cmd_print_ids(v->routes +
                                 ((size_t)l * v->ids.count + pos) *
                                     c->chosen_count,
                             c->chosen_count);
        }
        printf("]}");
    }
    printf("],\n");
}

static void
print_json(const struct eval *v)
{
    printf("{\n  \"tokens\": %zu,\n  \"context\": %" PRIu64
           ",\n  \"scored\": %" PRIu64 ",\n  \"ids\": ",
           v->ids.count, v->window_tokens, v->scored_count);
    rt_cmd_print_ids(v->ids.data, v->ids.count);
    printf(",\n");
    print_top_json(v);
    if (v->opt.routes)
        print_routes_json(v);
    printf("  \"logprobs\": [");
    for (size_t i = 0; i < v->ids.count; i++) {
        if (i > 0)
            putchar(',');
        rt_cmd_print_number(v->logprobs[i]);
    }
    printf("],\n  \"nll\": ");
    rt_cmd_print_number(v->scored_count > 0
                            ? v->nll / (double)v->scored_count
                            : NAN);
    printf(",\n  \"perplexity\": ");
    rt_cmd_print_number(perplexity(v));
    printf(",\n  \"peak_rss_bytes\": %" PRIu64 ",\n  \"budget_bytes\": %" PRIu64
           "\n}\n",
           rt_peak_resident_bytes(),
           rt_engine_budget(v->engine)->memory_bytes);
}

static void
print_text(const struct eval *v)
{
    const struct rt_config *c = &v->model->config;
    size_t top = v->opt.top_count;
    size_t k = c->chosen_count;

    for (size_t pos = 0; pos < v->ids.count; pos++) {
        if (top == 0 && !v->opt.routes)
            break;
        printf("%zu: token %" PRIu32, pos, v->ids.data[pos]);
        if (!isnan(v->logprobs[pos]))
            printf(", log-probability %.6g", v->logprobs[pos]);
        for (size_t i = 0; i < top; i++)
            printf("%s%" PRIu32 " (%.6g)", i > 0 ? " " : "; next: ",
                   v->top_ids[pos * top + i],
                   (double)v->top_logits[pos * top + i]);
        putchar('\n');
        for (uint32_t l = 0; v->opt.routes && l < c->layer_count; l++) {
            if (!rt_config_is_moe(c, l))
                continue;
            printf("  layer %" PRIu32 ": experts ", l);
            rt_cmd_print_ids(v->routes + ((size_t)l * v->ids.count + pos) * k,
                             k);
            putchar('\n');
        }
    }
    printf("%zu tokens, %" PRIu64 " scored, windows of %" PRIu64 "\n",
           v->ids.count, v->scored_count, v->window_tokens);
    if (v->scored_count > 0)
        printf("perplexity %.6g\n", perplexity(v));
}

/* Numbers appear under the final name only when all are there. */
static bool
open_logits(struct eval *v, char **wip, struct lode_error *err)
{
    static const char suffix[] = ".wip";
    size_t bytes;
    void *p = NULL;

    if (v->opt.logits_path == NULL)
        return true;
    bytes = strlen(v->opt.logits_path) + sizeof(suffix);
    if (!lode_alloc_array(bytes, 1, "path", &p, err))
        return false;
    *wip = p;
    (void)snprintf(*wip, bytes, "%s%s", v->opt.logits_path, suffix);
    v->logits = fopen(*wip, "wb");
    if (v->logits == NULL)
        return lode_fail_errno(err, "%s", *wip);
    return true;
}

static bool
close_logits(struct eval *v, const char *wip, struct lode_error *err)
{
    FILE *f = v->logits;

    v->logits = NULL;
    if (f == NULL)
        return true;
    if (fflush(f) != 0 || fsync(fileno(f)) != 0) {
        lode_fail_errno(err, "%s", wip);
        (void)fclose(f); /* the first error is the one to report */
        return false;
    }
    if (fclose(f) != 0 || rename(wip, v->opt.logits_path) != 0)
        return lode_fail_errno(err, "%s", wip);
    return true;
}

static bool
run(struct eval *v, const char *path, struct lode_error *err)
{
    char *wip = NULL;
    bool ok = rt_cmd_open_model(&v->opt.common, path, &v->model, err) &&
              read_tokens(v, err) && open_engine(v, err) &&
              open_logits(v, &wip, err) && evaluate(v, err) &&
              close_logits(v, wip, err);

    if (v->logits != NULL)
        (void)fclose(v->logits); /* incomplete, and removed */
    if (!ok && wip != NULL)
        (void)unlink(wip); /* perhaps never created */
    free(wip);
    return ok;
}

static bool
parse(int argc, char **argv, struct eval_options *o, const char **path,
      bool *done, struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"text", 0, LODE_OPT_TEXT, &o->text, "TEXT", "score TEXT"},
        {"top", 0, LODE_OPT_U64, &o->top_count, "N",
         "print the N best tokens at each position"},
        {"logits", 0, LODE_OPT_TEXT, &o->logits_path, "OUT",
         "write all logits: float32, little endian, [position][vocabulary]"},
        {"routes", 0, LODE_OPT_FLAG, &o->routes, NULL,
         "print the experts that were chosen"},
        RT_RUN_OPTIONS(&o->common),
        RT_MODEL_OPTIONS(&o->common),
        {.name = NULL},
    };
    const struct lode_usage usage = {
        table,
        "lode eval FILE (--ids LIST | --text TEXT | --file PATH) [OPTION]...",
        "Score tokens.  With --context N each window of N tokens starts "
        "afresh."};

    if (!rt_cmd_parse(argc, argv, &usage, path, NULL, done, err))
        return false;
    if (o->top_count > TOP_MAX)
        return lode_fail(err, LODE_E_USAGE, "--top %" PRIu64 ": at most %d",
                         o->top_count, TOP_MAX);
    return true;
}

int
rt_cmd_eval(int argc, char **argv)
{
    const char *path = NULL;
    struct lode_error err;
    struct eval v;
    bool done = false;
    int status = 0;

    memset(&v, 0, sizeof(v));
    if (!parse(argc, argv, &v.opt, &path, &done, &err))
        return rt_cmd_fail(&err);
    if (done)
        return 0;
    lode_cli_catch_signals();
    if (!run(&v, path, &err))
        status = rt_cmd_fail(&err);
    else if (v.opt.common.json)
        print_json(&v);
    else
        print_text(&v);
    rt_engine_close(v.engine);
    rt_model_close(v.model);
    rt_ids_fini(&v.ids);
    free(v.top_ids);
    free(v.top_logits);
    free(v.logprobs);
    free(v.routes);
    return status;
}
