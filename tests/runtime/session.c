/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine from its programs' side: bounds, reset, failures of memory and
 * reads, and a token loop that allocates nothing.  t_session.sh runs it on a
 * container. */
#include "config.h"

#include <errno.h>

#include "runtime/engine.h"
#include "runtime/sampler.h"
#include "tests/fault/wrap.h"
#include "tests/tap.h"

enum { TOKENS = 12, CONTEXT = 20, CHUNK = 6 };

static const uint32_t tokens[TOKENS] = {5,   9, 200, 31, 7,  7,
                                       120, 2, 44,  3,  90, 1};

static const char *path;
static size_t rows;

static struct rt_engine_options
options(void)
{
    struct rt_engine_options o;

    memset(&o, 0, sizeof(o));
    o.memory_bytes = UINT64_C(512) << 20;
    o.context_tokens = CONTEXT;
    o.chunk_tokens = CHUNK;
    o.compute_threads = 2;
    o.all_logits = true;
    return o;
}

struct both {
    struct rt_model *model;
    struct rt_engine *engine;
};

static bool
open_both(struct both *b, const struct rt_engine_options *o,
          struct lode_error *err)
{
    memset(b, 0, sizeof(*b));
    return rt_model_open(path, NULL, &b->model, err) &&
           rt_engine_open(b->model, o, &b->engine, err);
}

static void
close_both(struct both *b)
{
    rt_engine_close(b->engine);
    rt_model_close(b->model);
    memset(b, 0, sizeof(*b));
}

/* All tokens in chunks of this many; the logits of all, for free(). */
static bool
run_all(struct rt_engine *e, uint32_t chunk, float **out,
        struct lode_error *err)
{
    float *all = malloc(TOKENS * rows * sizeof(*all));
    uint32_t n;

    for (uint32_t at = 0; all != NULL && at < TOKENS; at += n) {
        n = TOKENS - at < chunk ? TOKENS - at : chunk;
        if (!rt_engine_push(e, tokens + at, n, RT_WANT_ALL, at + n < TOKENS,
                            err)) {
            free(all);
            return false;
        }
        memcpy(all + at * rows, rt_engine_logits(e), n * rows * sizeof(*all));
    }
    *out = all;
    return all != NULL;
}

static bool
same(const float *a, const float *b)
{
    return memcmp(a, b, TOKENS * rows * sizeof(*a)) == 0;
}

static float *reference;

static void
test_bounds(void)
{
    struct rt_engine_options o = options();
    struct lode_error err;
    struct both b;
    float *again;
    uint32_t beyond;

    must(open_both(&b, &o, &err), &err);
    rows = b.model->config.vocab_rows;
    must(run_all(b.engine, CHUNK, &reference, &err), &err);
    is_u64(rt_engine_position(b.engine), TOKENS, "position");
    rt_engine_reset(b.engine);
    is_u64(rt_engine_position(b.engine), 0, "position after a reset");
    must(run_all(b.engine, CHUNK, &again, &err), &err);
    ok(same(reference, again), "the same bits after a reset");
    free(again);
    rt_engine_reset(b.engine);
    must(run_all(b.engine, 1, &again, &err), &err);
    ok(same(reference, again), "and token by token");
    free(again);

    fails_with(rt_engine_push(b.engine, tokens, 0, RT_WANT_LAST, false, &err),
               &err, LODE_E_USAGE, "0 tokens at once", "no tokens");
    fails_with(rt_engine_push(b.engine, tokens, CHUNK + 1, RT_WANT_LAST, false,
                              &err),
               &err, LODE_E_USAGE, "7 tokens at once", "a chunk too long");
    beyond = (uint32_t)rows;
    fails_with(rt_engine_push(b.engine, &beyond, 1, RT_WANT_LAST, false, &err),
               &err, LODE_E_USAGE, "the vocabulary has", "no such token");
    must(rt_engine_push(b.engine, tokens, CHUNK, RT_WANT_NONE, true, &err),
         &err);
    fails_with(rt_engine_push(b.engine, tokens, CHUNK, RT_WANT_LAST, false,
                              &err),
               &err, LODE_E_LIMIT, "context of 20 tokens is full",
               "the context is full");
    must(rt_engine_push(b.engine, tokens, 2, RT_WANT_LAST, false, &err), &err);
    ok(rt_engine_position(b.engine) == rt_engine_context(b.engine),
       "refusals do not spoil the session");
    close_both(&b);
}

static void
test_options(void)
{
    struct rt_engine_options o = options();
    struct lode_error err;
    struct both b;

    o.memory_bytes = 1 << 20;
    fails_with(open_both(&b, &o, &err), &err, LODE_E_NOMEM,
               "below what this model needs", "a budget below the floor");
    close_both(&b);
    o = options();
    o.isa = "sse9";
    fails_with(open_both(&b, &o, &err), &err, LODE_E_USAGE, "sse9",
               "an unknown instruction set");
    close_both(&b);
    o = options();
    o.context_tokens = UINT64_C(1) << 40;
    fails_with(open_both(&b, &o, &err), &err, LODE_E_USAGE, "1099511627776",
               "a context beyond the model's");
    close_both(&b);
    o = options();
    o.compute_threads = 100000;
    fails_with(open_both(&b, &o, &err), &err, LODE_E_USAGE, "threads",
               "too many threads");
    close_both(&b);
}

static void
test_token_loop(void)
{
    struct rt_engine_options o = options();
    struct rt_sampler_options so;
    struct rt_sampler *sampler;
    struct lode_error err;
    struct both b;
    uint32_t id;

    memset(&so, 0, sizeof(so));
    so.temperature = 0.8;
    so.top_p = 0.9;
    so.top_k = 50;
    so.repetition_penalty = 1.1;
    o.memory_bytes = 0; /* everything fits, so nothing is given up ... */
    must(open_both(&b, &o, &err), &err);
    must(rt_sampler_new(&so, (uint32_t)rows, &sampler, &err), &err);
    wrap_reset();
    must(rt_engine_push(b.engine, tokens, CHUNK, RT_WANT_LAST, true, &err),
         &err);
    for (unsigned i = 0; i < CONTEXT - CHUNK; i++) {
        must(rt_sampler_pick(sampler, rt_engine_logits(b.engine), &id, &err),
             &err);
        rt_sampler_saw(sampler, id);
        must(rt_engine_push(b.engine, &id, 1, RT_WANT_LAST, true, &err), &err);
    }
    is_u64(wrap_count(WRAP_ALLOC), 0, "prefill and decode allocate nothing");
    is_u64(wrap_count(WRAP_MMAP), 0, "and map nothing");
    ok(wrap_count(WRAP_PREAD) > 0, "(the wrapper sees the engine's calls)");
    rt_sampler_free(sampler);
    close_both(&b);
}

/* The n-th allocation or mapping fails, for every n. */
static void
test_no_memory(enum wrap_call call, const char *what)
{
    struct rt_engine_options o = options();
    unsigned named = 0;
    unsigned n = 0;
    bool met;

    do {
        struct lode_error err;
        struct both b;
        bool good;

        wrap_reset();
        wrap_fail(call, ++n, ENOMEM);
        err.text[0] = '\0';
        good = open_both(&b, &o, &err);
        met = wrap_failed();
        wrap_reset();
        if (met && !good && err.code == LODE_E_NOMEM && err.text[0] != '\0')
            named++;
        else if (met && good)
            named++; /* a probe that is allowed to fail */
        close_both(&b);
    } while (met && n < 10000);
    ok(n > 3, "%s: %u calls while opening", what, n - 1);
    is_u64(named, n - 1, "%s: each failure is reported", what);
}

/* The n-th read fails: the run ends with an error that names the file, and the
 * session is over; or a retry made it good and the bits are the same. */
static void
test_bad_reads(void)
{
    struct rt_engine_options o = options();
    unsigned good_ends = 0;
    unsigned n = 0;
    bool met;

    o.io = RT_IO_BUFFERED;
    do {
        struct lode_error err;
        struct both b;
        float *all = NULL;
        bool good;

        wrap_reset();
        wrap_fail(WRAP_PREAD, ++n, EIO);
        err.text[0] = '\0';
        good = open_both(&b, &o, &err) && run_all(b.engine, CHUNK, &all, &err);
        met = wrap_failed();
        wrap_reset();
        if (met && !good && err.code == LODE_E_IO &&
            strstr(err.text, path) != NULL)
            good_ends++;
        else if (met && good && same(reference, all))
            good_ends++;
        if (met && b.engine != NULL && !good && n % 16 == 0)
            fails_with(rt_engine_push(b.engine, tokens, 1, RT_WANT_LAST, false,
                                      &err),
                       &err, LODE_E_USAGE, "ended with an error",
                       "a session that failed takes no more");
        free(all);
        close_both(&b);
    } while (met && n < 10000);
    ok(n > 40, "%u reads", n - 1);
    is_u64(good_ends, n - 1, "each failing read is named or made good");
}

/* A file system that takes no direct reads: one line says so, the bits are the
 * same, and who insists is refused. */
static void
test_not_direct(void)
{
    struct rt_engine_options o = options();
    struct lode_error err;
    struct both b;
    float *all;

    memset(&b, 0, sizeof(b));
    must(rt_model_open(path, NULL, &b.model, &err), &err);
    wrap_reset();
    wrap_fail(WRAP_OPEN, 1, EINVAL);
    must(rt_engine_open(b.model, &o, &b.engine, &err), &err);
    ok(wrap_failed(), "direct reads were tried");
    wrap_reset();
    ok(!rt_engine_is_direct(b.engine), "and given up");
    is_str(rt_engine_io_note(b.engine),
           "reading through the page cache (direct I/O: Invalid argument)",
           "a line says why");
    must(run_all(b.engine, CHUNK, &all, &err), &err);
    ok(same(reference, all), "the same bits");
    free(all);
    rt_engine_close(b.engine);
    b.engine = NULL;
    o.io = RT_IO_DIRECT;
    wrap_fail(WRAP_OPEN, 1, EINVAL);
    fails_with(rt_engine_open(b.model, &o, &b.engine, &err), &err, LODE_E_IO,
               "direct I/O: Invalid argument", "direct reads insisted on");
    wrap_reset();
    close_both(&b);
}

static void
test_short_reads(void)
{
    struct rt_engine_options o = options();
    struct lode_error err;
    struct both b;
    float *all;

    o.io = RT_IO_BUFFERED;
    wrap_reset();
    wrap_short(1001);
    must(open_both(&b, &o, &err), &err);
    must(run_all(b.engine, CHUNK, &all, &err), &err);
    wrap_reset();
    ok(same(reference, all), "short reads are continued");
    free(all);
    close_both(&b);
}

int
main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: session CONTAINER\n", stderr);
        return 2;
    }
    path = argv[1];
    wrap_reset();
    test_bounds();
    test_options();
    test_token_loop();
    test_no_memory(WRAP_ALLOC, "allocations");
    test_no_memory(WRAP_MMAP, "mappings");
    test_bad_reads();
    test_not_direct();
    test_short_reads();
    free(reference);
    return done_testing();
}
