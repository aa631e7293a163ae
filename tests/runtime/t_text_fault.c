/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th allocation fails, for every n: tokenizer, prompt, sampler and team
 * say so, and nothing is lost (a leak checker sees that).  What promises to
 * allocate nothing does not. */
#include "config.h"

#include <errno.h>

#include "runtime/sampler.h"
#include "runtime/team.h"
#include "runtime/template.h"
#include "tests/fault/wrap.h"
#include "tests/runtime/tok_files.h"

enum { RUNS_MAX = 400 };

static char *model, *config;
static size_t model_bytes, config_bytes;

static bool
tokenize(struct lode_error *err)
{
    static const char text[] = "Hello <|open|> w\xe3\x81\x82rld, a long piece:"
                               "ksdjfhskdjfhskdjfhwieurywieurhskdjfhskdjfhskd";
    struct rt_message m = {.role = "user", .text = text,
                           .text_bytes = sizeof(text) - 1, .name = "a\"b&c"};
    struct rt_tokenizer *t = NULL;
    struct rt_ids ids = {NULL, 0, 0};
    bool good;

    good = rt_tokenizer_new_tiktoken(model, model_bytes, config, config_bytes,
                                     768, &t, err) &&
           rt_tokenizer_markup(t, text, sizeof(text) - 1, &ids, err) &&
           rt_template_render(RT_CHAT_XTML, t, &m, 1, RT_THINK_HIGH, &ids,
                              err);
    rt_ids_fini(&ids);
    rt_tokenizer_free(t);
    return good;
}

static bool
sample(struct lode_error *err)
{
    static const struct rt_sampler_options o = {1.0, 5, 0.9, 0.01, 1.1, 3};
    struct rt_sampler *s = NULL;
    bool good = rt_sampler_new(&o, 1000, &s, err);

    rt_sampler_free(s);
    return good;
}

static bool
gather(struct lode_error *err)
{
    struct rt_team *t = NULL;
    bool good = rt_team_new(3, &t, err);

    rt_team_free(t);
    return good;
}

static void
test_fault(const char *what, bool (*run)(struct lode_error *))
{
    uint64_t n = 0, wrong = 0;
    bool failed = true;

    while (failed && n < RUNS_MAX) {
        struct lode_error err = {.code = LODE_E_NONE};
        bool good;

        wrap_reset();
        wrap_fail(WRAP_ALLOC, ++n, ENOMEM);
        good = run(&err);
        failed = wrap_failed();
        wrap_reset();
        if (good == failed || (!good && err.code != LODE_E_NOMEM)) {
            printf("# allocation %" PRIu64 ": %s\n", n,
                   good ? "no failure" : err.text);
            wrong++;
        }
    }
    ok(wrong == 0 && n > 1 && n < RUNS_MAX,
       "%s: each of %" PRIu64 " allocations fails", what, n - 1);
}

static void
add_one(void *user, size_t begin, size_t end, unsigned thread)
{
    (void)thread;
    for (size_t i = begin; i < end; i++)
        ((unsigned *)user)[i]++;
}

static void
test_no_allocation(void)
{
    static const struct rt_sampler_options o = {1.0, 0, 0.9, 0.01, 1.1, 3};
    struct lode_error err;
    struct rt_sampler *s;
    struct rt_team *t;
    float logits[1000];
    unsigned counts[100] = {0};
    uint32_t id = 0;

    must(rt_sampler_new(&o, 1000, &s, &err), &err);
    must(rt_team_new(3, &t, &err), &err);
    wrap_reset();
    for (int i = 0; i < 100; i++) {
        for (size_t j = 0; j < 1000; j++)
            logits[j] = (float)(j * 31 % 97) * 0.1F;
        must(rt_sampler_pick(s, logits, &id, &err), &err);
        rt_sampler_saw(s, id);
        rt_team_run(t, 100, 3, add_one, counts);
    }
    is_u64(wrap_count(WRAP_ALLOC), 0, "picking and running allocate nothing");
    ok(counts[0] == 100 && counts[99] == 100, "and the work was done");
    rt_team_free(t);
    rt_sampler_free(s);
}

int
main(void)
{
    static const char dir[] = "tests/fixtures/kimi-k3-tiny-a";

    model = source_file(dir, "tiktoken.model", &model_bytes);
    config = source_file(dir, "tokenizer_config.json", &config_bytes);
    test_fault("tokenizer and prompt", tokenize);
    test_fault("sampler", sample);
    test_fault("team", gather);
    test_no_allocation();
    free(model);
    free(config);
    return done_testing();
}
