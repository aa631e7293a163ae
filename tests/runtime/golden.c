/* SPDX-License-Identifier: Apache-2.0
 *
 * Not a test by itself: compares a container with the values that a model's
 * official code gave (expected.json of tests/fixtures and tests/models).
 *
 *   golden logits        CONTAINER EXPECTED TOLERANCE
 *   golden routes        CONTAINER EXPECTED
 *   golden greedy        CONTAINER EXPECTED
 *   golden continuations CONTAINER EXPECTED
 *   golden facts         CONTAINER FACTS.tsv
 *
 * Status 0 when all agree; the worst differences on stdout. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "runtime/engine.h"
#include "runtime/sampler.h"

enum { CONTEXT = 256, ROUTES_MAX = 64 };

struct subject {
    struct rt_model *model;
    struct rt_engine *engine;
    uint32_t chosen[ROUTES_MAX][CONTEXT][16];
    uint32_t chosen_count;
};

static void
give_up(const struct lode_error *err)
{
    fprintf(stderr, "golden: %s\n", err->text);
    exit(1);
}

static json_t *
load_json(const char *path)
{
    struct lode_error err;
    size_t bytes;
    json_t *root = NULL;
    char *text = NULL;

    if (!lode_file_slurp(path, 64 << 20, &text, &bytes, &err) ||
        !lode_json_parse(text, bytes, &root, &err))
        give_up(&err);
    free(text);
    return root;
}

static void
open_subject(struct subject *s, const char *path)
{
    struct rt_engine_options opt;
    struct lode_error err;

    memset(&opt, 0, sizeof(opt));
    opt.memory_bytes = UINT64_C(1) << 30;
    opt.context_tokens = CONTEXT;
    opt.chunk_tokens = CONTEXT;
    opt.all_logits = true;
    if (!rt_model_open(path, NULL, &s->model, &err) ||
        !rt_engine_open(s->model, &opt, &s->engine, &err))
        give_up(&err);
}

static uint32_t
load_ids(const json_t *array, uint32_t *ids, uint32_t count)
{
    size_t n = json_array_size(array);

    for (size_t i = 0; i < n && count < CONTEXT; i++)
        ids[count++] = (uint32_t)json_integer_value(json_array_get(array, i));
    return count;
}

static void
push(struct subject *s, const uint32_t *ids, uint32_t count)
{
    struct lode_error err;

    if (!rt_engine_push(s->engine, ids, count, RT_WANT_ALL, false, &err))
        give_up(&err);
}

/* Prompt and greedy continuation, without its last token. */
static uint32_t
push_all(struct subject *s, const json_t *e)
{
    uint32_t ids[CONTEXT];
    uint32_t n = load_ids(json_object_get(e, "prompt_ids"), ids, 0);

    n = load_ids(json_object_get(e, "greedy_ids"), ids, n);
    push(s, ids, n - 1);
    return n - 1;
}

static int
check_logits(struct subject *s, const json_t *e, double tolerance)
{
    const json_t *top = json_object_get(e, "logits_top20");
    uint32_t rows = s->model->config.vocab_rows;
    uint32_t positions = push_all(s, e);
    const float *logits = rt_engine_logits(s->engine);
    double worst = 0;
    size_t order = 0;

    for (size_t i = 0; i < json_array_size(top); i++) {
        const json_t *t = json_array_get(top, i);
        size_t pos = (size_t)json_integer_value(json_object_get(t, "pos"));
        const json_t *ids = json_object_get(t, "ids");
        const json_t *values = json_object_get(t, "values");
        uint32_t best[20];

        rt_top_k(logits + pos * rows, rows, 20, best);
        for (size_t k = 0; k < json_array_size(ids); k++) {
            size_t id = (size_t)json_integer_value(json_array_get(ids, k));
            double want = json_number_value(json_array_get(values, k));
            double diff = fabs((double)logits[pos * rows + id] - want);

            if (!(diff <= worst)) /* also when it is NaN */
                worst = diff;
            order += best[k] != id;
        }
    }
    printf("%u positions, %zu with values, worst difference %g, %zu of the "
           "top 20 elsewhere\n",
           positions, json_array_size(top), worst, order);
    return worst <= tolerance && json_array_size(top) == positions ? 0 : 1;
}

static void
keep_routes(void *user, uint32_t layer, const uint32_t *ids, uint32_t tokens,
            uint32_t k)
{
    struct subject *s = user;

    s->chosen_count = k;
    for (uint32_t t = 0; t < tokens && layer < ROUTES_MAX && k <= 16; t++)
        memcpy(s->chosen[layer][t], ids + (size_t)t * k, k * sizeof(*ids));
}

static bool
among(const uint32_t *ids, uint32_t count, uint32_t id)
{
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] == id)
            return true;
    return false;
}

static int
check_routes(struct subject *s, const json_t *e)
{
    const json_t *layers =
        json_object_get(json_object_get(e, "router"), "layers");
    size_t compared = 0;
    size_t wrong = 0;

    rt_engine_record_routes(s->engine, keep_routes, s);
    push_all(s, e);
    for (size_t i = 0; i < json_array_size(layers); i++) {
        const json_t *l = json_array_get(layers, i);
        size_t layer = (size_t)json_integer_value(json_object_get(l, "layer"));
        const json_t *rows = json_object_get(l, "ids");

        for (size_t t = 0; t < json_array_size(rows); t++) {
            const json_t *row = json_array_get(rows, t);

            wrong += json_array_size(row) != s->chosen_count;
            for (size_t k = 0; k < json_array_size(row); k++) {
                uint32_t id =
                    (uint32_t)json_integer_value(json_array_get(row, k));

                compared++;
                wrong += !among(s->chosen[layer][t], s->chosen_count, id);
            }
        }
    }
    printf("%zu choices, %zu differ\n", compared, wrong);
    return compared > 0 && wrong == 0 ? 0 : 1;
}

/* Greedy ids after a prompt, up to count; returns how many were compared equal
 * with want, in order. */
static uint32_t
follow(struct subject *s, const uint32_t *prompt, uint32_t prompt_count,
       const uint32_t *want, uint32_t count)
{
    uint32_t rows = s->model->config.vocab_rows;
    const float *logits;
    uint32_t id;

    rt_engine_reset(s->engine);
    push(s, prompt, prompt_count);
    logits = rt_engine_logits(s->engine) + (size_t)(prompt_count - 1) * rows;
    for (uint32_t i = 0; i < count; i++) {
        id = (uint32_t)rt_argmax(logits, rows);
        if (id != want[i])
            return i;
        push(s, &id, 1);
        logits = rt_engine_logits(s->engine);
    }
    return count;
}

static int
check_greedy(struct subject *s, const json_t *e)
{
    uint32_t prompt[CONTEXT];
    uint32_t want[CONTEXT];
    uint32_t n = load_ids(json_object_get(e, "prompt_ids"), prompt, 0);
    uint32_t count = load_ids(json_object_get(e, "greedy_ids"), want, 0);
    uint32_t got = follow(s, prompt, n, want, count);

    printf("%u of %u ids equal\n", got, count);
    return count > 0 && got == count ? 0 : 1;
}

static int
check_continuations(struct subject *s, const json_t *e)
{
    json_t *all = json_object_get(e, "continuations");
    size_t good = 0;
    const char *text;
    json_t *c;

    json_object_foreach(all, text, c) {
        struct rt_ids ids = {NULL, 0, 0};
        uint32_t prompt[CONTEXT];
        uint32_t want[CONTEXT];
        struct lode_error err;
        uint32_t n = load_ids(json_object_get(c, "prompt_ids"), prompt, 0);
        uint32_t count = load_ids(json_object_get(c, "ids"), want, 0);

        if (!rt_tokenizer_content(s->model->tokenizer, text, strlen(text),
                                  &ids, &err))
            give_up(&err);
        if (ids.count != n || memcmp(ids.data, prompt, n * 4) != 0)
            printf("\"%s\": its tokens differ\n", text);
        else if (follow(s, prompt, n, want, count) != count)
            printf("\"%s\": the continuation differs\n", text);
        else
            good++;
        rt_ids_fini(&ids);
    }
    printf("%zu of %zu continuations equal\n", good, json_object_size(all));
    return good > 0 && good == json_object_size(all) ? 0 : 1;
}

/* Lines "prompt TAB continuation"; the greedy text begins with it. */
static int
check_facts(struct subject *s, const char *path)
{
    struct lode_error err;
    unsigned right = 0;
    unsigned lines = 0;
    char *save = NULL;
    size_t bytes;
    char *text = NULL;

    if (!lode_file_slurp(path, 1 << 20, &text, &bytes, &err))
        give_up(&err);
    for (char *line = strtok_r(text, "\n", &save); line != NULL;
         line = strtok_r(NULL, "\n", &save)) {
        struct rt_ids prompt = {NULL, 0, 0};
        char *tab = strchr(line, '\t');
        char got[256] = "";
        uint32_t rows = s->model->config.vocab_rows;
        const float *logits;
        uint32_t id;

        if (tab == NULL)
            continue;
        *tab = '\0';
        lines++;
        if (!rt_tokenizer_content(s->model->tokenizer, line, strlen(line),
                                  &prompt, &err))
            give_up(&err);
        rt_engine_reset(s->engine);
        push(s, prompt.data, (uint32_t)prompt.count);
        logits = rt_engine_logits(s->engine) + (prompt.count - 1) * rows;
        while (strlen(got) < strlen(tab + 1)) {
            const char *piece;
            size_t n;

            id = (uint32_t)rt_argmax(logits, rows);
            piece = rt_tokenizer_bytes(s->model->tokenizer, id, &n);
            if (rt_config_is_stop(&s->model->config, id) ||
                strlen(got) + n >= sizeof(got))
                break;
            strncat(got, piece, n);
            push(s, &id, 1);
            logits = rt_engine_logits(s->engine);
        }
        right += strncmp(got, tab + 1, strlen(tab + 1)) == 0;
        rt_ids_fini(&prompt);
    }
    free(text);
    printf("%u of %u facts right\n", right, lines);
    return lines > 0 && right == lines ? 0 : 1;
}

int
main(int argc, char **argv)
{
    static struct subject s;
    json_t *e = NULL;
    int status = 2;

    if (argc < 4) {
        fputs("usage: golden WHAT CONTAINER EXPECTED [TOLERANCE]\n", stderr);
        return 2;
    }
    open_subject(&s, argv[2]);
    if (strcmp(argv[1], "facts") != 0)
        e = load_json(argv[3]);
    if (strcmp(argv[1], "facts") == 0)
        status = check_facts(&s, argv[3]);
    else if (strcmp(argv[1], "logits") == 0 && argc > 4)
        status = check_logits(&s, e, atof(argv[4]));
    else if (strcmp(argv[1], "routes") == 0)
        status = check_routes(&s, e);
    else if (strcmp(argv[1], "greedy") == 0)
        status = check_greedy(&s, e);
    else if (strcmp(argv[1], "continuations") == 0)
        status = check_continuations(&s, e);
    json_decref(e);
    rt_engine_close(s.engine);
    rt_model_close(s.model);
    return status;
}
