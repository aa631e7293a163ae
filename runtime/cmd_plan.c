/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "runtime/cmd.h"

enum { CONTEXT_TOKENS = 4096 };

/* What a token reads from the drive, if all experts of all layers were used
 * alike: no routing trace is known here, and real ones are kinder. */
static uint64_t
bytes_per_token(const struct rt_model *m, const struct rt_budget *b)
{
    uint64_t all = m->expert_count;
    double missed =
        all != 0 ? 1.0 - (double)b->slot_count / (double)all : 0.0;

    return b->streamed_bytes +
           (uint64_t)((double)b->expert_bytes_per_token * missed);
}

static bool
print_json(const struct rt_model *m, const struct rt_budget *b,
           uint64_t context_tokens, struct lode_error *err)
{
    json_t *o = json_object();
    const struct {
        const char *key;
        uint64_t value;
    } rows[] = {
        {"budget_bytes", b->memory_bytes},
        {"floor_bytes", b->floor_bytes},
        {"context", context_tokens},
        {"pinned_bytes", b->pinned_bytes},
        {"cache_bytes", b->cache_bytes},
        {"bytes_per_token", bytes_per_token(m, b)},
        {"total_bytes", b->total_bytes},
        {"base_bytes", b->base_bytes},
        {"state_bytes", b->state_bytes},
        {"work_bytes", b->work_bytes},
        {"fixed_bytes", b->fixed_bytes},
        {"ring_bytes", b->ring_bytes},
        {"streamed_bytes", b->streamed_bytes},
        {"trunk_bytes", m->trunk_room_bytes},
        {"expert_bytes", m->max_expert_room_bytes},
        {"expert_slots", b->slot_count},
        {"experts", m->expert_count},
        {"decode_bytes", b->decode_bytes},
        {"trunk_stored_bytes", m->trunk_stored_bytes},
        {"expert_bytes_per_token", b->expert_bytes_per_token},
        {"prefill_chunk", b->chunk_tokens},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        (void)lode_json_set(o, rows[i].key, /* a failure shows in the next */
                            json_integer((json_int_t)rows[i].value));
    return lode_json_print(o, err);
}

static void
row(const char *name, uint64_t bytes, const char *note)
{
    char text[32];

    printf("  %-14s %10s  %s\n", name,
           lode_format_bytes(bytes, text, sizeof(text)), note);
}

static void
print_text(const struct rt_model *m, const struct rt_budget *b,
           uint64_t context_tokens)
{
    char text[32];
    char note[128];

    printf("budget %s", lode_format_bytes(b->memory_bytes, text, sizeof(text)));
    printf(", floor %s at a context of %" PRIu64 " tokens\n",
           lode_format_bytes(b->floor_bytes, text, sizeof(text)),
           context_tokens);
    row("program", b->base_bytes, "code, libraries, index, tokenizer");
    row("state", b->state_bytes, "what the context needs");
    (void)snprintf(note, sizeof(note), "activations, %u tokens at once",
                   b->chunk_tokens);
    row("work", b->work_bytes, note);
    row("buffers", b->fixed_bytes,
        b->decode_bytes != 0 ? "embedding block, sampler, decoding"
                             : "embedding block, sampler");
    (void)snprintf(note, sizeof(note), "%u of %u trunk blocks stay in memory",
                   b->pinned_count, m->position_count);
    row("pinned", b->pinned_bytes, note);
    (void)snprintf(note, sizeof(note), "%u blocks, the rest streams through",
                   b->ring_count);
    row("ring", b->ring_bytes, note);
    (void)snprintf(note, sizeof(note), "%u of %u experts", b->slot_count,
                   m->expert_count);
    row("expert cache", b->cache_bytes, note);
    row("total", b->total_bytes, "");
    printf("per token %s read if all experts were used alike",
           lode_format_bytes(bytes_per_token(m, b), text, sizeof(text)));
    printf(" (trunk %s, ",
           lode_format_bytes(b->streamed_bytes, text, sizeof(text)));
    printf("experts %s without a cache)\n",
           lode_format_bytes(b->expert_bytes_per_token, text, sizeof(text)));
}

int
rt_cmd_plan(int argc, char **argv)
{
    struct rt_common c = {0};
    const struct lode_opt table[] = {RT_MODEL_OPTIONS(&c), {.name = NULL}};
    const struct lode_usage usage = {
        table, "lode plan FILE --memory SIZE",
        "Say what a memory budget would be spent on."};
    struct rt_budget_options opt = {0};
    struct rt_model *m = NULL;
    const char *path = NULL;
    struct rt_engine_options e;
    struct rt_budget budget;
    struct lode_error err;
    bool done = false;
    int status = 0;

    if (!rt_cmd_parse(argc, argv, &usage, &path, NULL, &done, &err))
        return rt_cmd_fail(&err);
    if (done)
        return 0;
    if (!rt_cmd_engine_options(&c, &e, &err) ||
        !rt_cmd_open_model(&c, path, &m, &err))
        return rt_cmd_fail(&err);
    opt.memory_bytes = c.memory_bytes;
    opt.chunk_tokens = e.chunk_tokens;
    opt.compute_threads = rt_engine_thread_count(e.compute_threads);
    opt.reader_threads = RT_READER_THREADS;
    opt.context_tokens = c.context_tokens;
    if (opt.context_tokens == 0)
        opt.context_tokens = m->config.context_limit < CONTEXT_TOKENS
                                 ? m->config.context_limit
                                 : CONTEXT_TOKENS;
    if (!rt_budget_plan(m, &opt, &budget, &err)) {
        lode_fail_in(&err, "%s", path);
        status = rt_cmd_fail(&err);
    } else if (!c.json) {
        print_text(m, &budget, opt.context_tokens);
    } else if (!print_json(m, &budget, opt.context_tokens, &err)) {
        status = rt_cmd_fail(&err);
    }
    rt_model_close(m);
    return status;
}
