/* SPDX-License-Identifier: Apache-2.0
 *
 * Tokenizer files and text: no crash, and of a tokenizer that is accepted the
 * promises: content comes back byte by byte and holds no special token, markup
 * comes back as well, every id is below the rows, a failure changes nothing.
 *
 * An input is FLAGS ROWS CONFIG TEXT MODEL: one byte of flags, then 16-bit
 * little-endian numbers, rows and the lengths of config and text, then these
 * and the model.  With flag 1 the 256 byte tokens stand before the model, so
 * that mutants of short inputs get past the check for them. */
#include "config.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "base/mem.h"
#include "runtime/template.h"
#include "tests/fuzz/fuzz.h"
#include "tests/runtime/tok_files.h"

enum { HEADER_BYTES = 7, WITH_BYTES = 1 };

const uint32_t fuzz_mutant_count = 1500;

struct input {
    uint8_t flags;
    uint32_t rows;
    const char *config, *text, *model;
    size_t config_bytes, text_bytes, model_bytes;
};

static bool
parse(const uint8_t *data, size_t bytes, struct input *in)
{
    if (bytes < HEADER_BYTES)
        return false;
    in->flags = data[0];
    in->rows = lode_load_u16(data + 1);
    in->config_bytes = lode_load_u16(data + 3);
    in->text_bytes = lode_load_u16(data + 5);
    data += HEADER_BYTES;
    bytes -= HEADER_BYTES;
    if (in->config_bytes > bytes)
        in->config_bytes = bytes;
    if (in->text_bytes > bytes - in->config_bytes)
        in->text_bytes = bytes - in->config_bytes;
    in->config = (const char *)data;
    in->text = in->config + in->config_bytes;
    in->model = in->text + in->text_bytes;
    in->model_bytes = bytes - in->config_bytes - in->text_bytes;
    return true;
}

static void
check_ids(const struct rt_tokenizer *t, const struct input *in, bool markup)
{
    struct rt_ids ids = {NULL, 0, 0};
    struct lode_error err;
    size_t at = 0;
    bool good;

    good = markup ? rt_tokenizer_markup(t, in->text, in->text_bytes, &ids,
                                        &err)
                  : rt_tokenizer_content(t, in->text, in->text_bytes, &ids,
                                         &err);
    if (!good) {
        assert(ids.count == 0 && err.text[0] != '\0');
        rt_ids_fini(&ids);
        return;
    }
    for (size_t i = 0; i < ids.count; i++) {
        size_t n;
        const char *p = rt_tokenizer_bytes(t, ids.data[i], &n);

        assert(ids.data[i] < in->rows && p != NULL);
        assert(n <= in->text_bytes - at && memcmp(p, in->text + at, n) == 0);
        assert(markup || !rt_tokenizer_is_special(t, ids.data[i]));
        at += n;
    }
    assert(at == in->text_bytes);
    rt_ids_fini(&ids);
}

/* What the model says may be any ids: the filter and the stream must bear it,
 * and what they give out must be UTF-8. */
static void
check_answer(const struct rt_tokenizer *t, const struct input *in)
{
    struct rt_utf8_stream stream = {{0}, 0};
    struct rt_answer_filter f;
    char *out = malloc(3 * (1024 + 3));

    assert(out != NULL);
    rt_answer_filter_init(&f, in->flags & 2 ? RT_CHAT_KIMI : RT_CHAT_XTML,
                          RT_THINK_HIGH);
    for (size_t i = 0; i + 1 < in->text_bytes; i += 2) {
        uint32_t id = lode_load_u16((const uint8_t *)in->text + i);
        bool reasoning;
        size_t n, out_bytes;
        const char *p = rt_tokenizer_bytes(t, id, &n);

        if (!rt_answer_filter_feed(&f, t, id, &reasoning))
            continue;
        assert(p != NULL && n <= 1024);
        out_bytes = rt_utf8_stream_feed(&stream, p, n, i % 5 == 0, out);
        assert(out_bytes <= 3 * (n + 3) && stream.held_bytes < 4);
    }
    free(out);
}

static void
check_prompt(const struct rt_tokenizer *t, const struct input *in)
{
    struct rt_message m = {.role = "user", .text = in->text,
                           .text_bytes = in->text_bytes};
    struct rt_ids ids = {NULL, 0, 0};
    struct lode_error err;

    if (!rt_template_render(in->flags & 2 ? RT_CHAT_KIMI : RT_CHAT_XTML, t, &m,
                            1, RT_THINK_OFF, &ids, &err))
        assert(ids.count == 0);
    rt_ids_fini(&ids);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rt_tokenizer *t = NULL;
    struct lode_buf model = {NULL, 0, 0};
    struct lode_error err;
    struct input in;

    if (!parse(data, bytes, &in))
        return 0;
    if (in.flags & WITH_BYTES)
        add_bytes(&model, 256);
    must(lode_buf_append(&model, in.model, in.model_bytes, &err), &err);
    if (rt_tokenizer_new_tiktoken((const char *)model.data, model.used_bytes,
                                  in.config, in.config_bytes, in.rows, &t,
                                  &err)) {
        check_ids(t, &in, false);
        check_ids(t, &in, true);
        check_answer(t, &in);
        check_prompt(t, &in);
        assert(rt_tokenizer_memory_bytes(t) > 0);
    } else {
        assert(t == NULL && err.code != LODE_E_NONE && err.text[0] != '\0');
    }
    rt_tokenizer_free(t);
    lode_buf_fini(&model);
    return 0;
}

static void
emit_seed(void (*emit)(const uint8_t *data, size_t bytes), uint8_t flags,
          uint16_t rows, const char *config, const char *text,
          const char *model)
{
    size_t config_bytes = strlen(config), text_bytes = strlen(text);
    uint8_t data[4096];
    size_t n = HEADER_BYTES;

    data[0] = flags;
    lode_store_u16(data + 1, rows);
    lode_store_u16(data + 3, (uint16_t)config_bytes);
    lode_store_u16(data + 5, (uint16_t)text_bytes);
    memcpy(data + n, config, config_bytes);
    memcpy(data + n + config_bytes, text, text_bytes);
    n += config_bytes + text_bytes;
    memcpy(data + n, model, strlen(model));
    emit(data, n + strlen(model));
}

#define NAMED(id, name) "\"" id "\": {\"content\": \"" name "\"}"

void
fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes))
{
    static const char k3[] =
        "{\"added_tokens_decoder\": {" NAMED("260", "<|end_of_msg|>") ", "
        NAMED("261", "<|open|>") ", " NAMED("262", "<|close|>") ", "
        NAMED("263", "<|sep|>") "}}";
    static const char linear[] =
        "{\"added_tokens_decoder\": {" NAMED("260", "<|im_end|>") ", "
        NAMED("261", "<|im_user|>") ", " NAMED("262", "<|im_middle|>") ", "
        NAMED("263", "<|im_system|>") ", " NAMED("264", "<|im_assistant|>")
        "}}";
    static const char words[] = "aGU= 256\nbGw= 257\naGVsbA== 258\n"
                                "IHc= 259\n";

    emit_seed(emit, WITH_BYTES, 600, k3,
              "hello w\xe3\x81\x82\xff <|open|>it's 12345\n\n x", words);
    emit_seed(emit, WITH_BYTES | 2, 600, linear,
              "hello<|im_end|> \xe6\xbc\xa2\xe5\xad\x97" "Ab\xcc\x81 ll",
              words);
    emit_seed(emit, WITH_BYTES, 300, "{\"added_tokens_decoder\": {}}",
              "\x05\x01\x04\x01\x06\x01hell", "");
    emit_seed(emit, 0, 300, "{\"added_tokens_decoder\": {}}", "hello",
              "AA== 0\nAQ== 1\n/w== 255\n");
    emit_seed(emit, 0, 1, "", "", "");
}
