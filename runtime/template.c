/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/template.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The control tokens of a format, by their place in its table of names. */
enum { OPEN, CLOSE, SEP, END_OF_MSG };
enum { IM_SYSTEM, IM_USER, IM_ASSISTANT, IM_MIDDLE, IM_END };
enum { CONTROLS_MAX = 5 };

static const char *const xtml_controls[CONTROLS_MAX] = {
    "<|open|>", "<|close|>", "<|sep|>", "<|end_of_msg|>", NULL};
static const char *const kimi_controls[CONTROLS_MAX] = {
    "<|im_system|>", "<|im_user|>", "<|im_assistant|>", "<|im_middle|>",
    "<|im_end|>"};

struct writer {
    const struct rt_tokenizer *t;
    struct rt_ids *ids;
    uint32_t control[CONTROLS_MAX];
    enum rt_think think;
    struct lode_error *err;
};

bool
rt_think_parse(const char *text, enum rt_think *out, struct lode_error *err)
{
    static const char *const names[] = {"off", "low", "high", "max"};

    for (int i = RT_THINK_OFF; i <= RT_THINK_MAX; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (enum rt_think)i;
            return true;
        }
    return lode_fail(err, LODE_E_USAGE,
                     "thinking \"%.40s\": off, low, high or max", text);
}

static bool
put(struct writer *w, int control)
{
    return rt_ids_append(w->ids, w->control[control], w->err);
}

/* One segment.  Nothing in it can become a control token. */
static bool
put_text(struct writer *w, const char *text, size_t bytes)
{
    return bytes == 0 ||
           rt_tokenizer_content(w->t, text, bytes, w->ids, w->err);
}

static bool
put_word(struct writer *w, const char *word)
{
    return put_text(w, word, strlen(word));
}

/* An attribute's value: '&' and '"' are escaped, and it is one segment, so its
 * parts are collected first. */
static bool
put_value(struct writer *w, const char *value)
{
    struct lode_buf b = {NULL, 0, 0};
    bool good = true;

    for (; good && *value != '\0'; value++) {
        const char *part = *value == '&'   ? "&amp;"
                           : *value == '"' ? "&quot;"
                                           : NULL;

        good = part != NULL ? lode_buf_append(&b, part, strlen(part), w->err)
                            : lode_buf_append(&b, value, 1, w->err);
    }
    good = good && put_text(w, (const char *)b.data, b.used_bytes);
    lode_buf_fini(&b);
    return good;
}

static bool
put_attribute(struct writer *w, const char *key, const char *value)
{
    return put_word(w, key) && put_word(w, "=\"") && put_value(w, value) &&
           put_word(w, "\"");
}

/* <|open|>message role="..." of a message, without the <|sep|>. */
static bool
open_message(struct writer *w, const char *role)
{
    return put(w, OPEN) && put_word(w, "message") &&
           put_attribute(w, " role", role);
}

static bool
close_message(struct writer *w)
{
    return put(w, CLOSE) && put_word(w, "message") && put(w, SEP) &&
           put(w, END_OF_MSG);
}

static bool
put_element(struct writer *w, const char *tag, const char *text, size_t bytes)
{
    return put(w, OPEN) && put_word(w, tag) && put(w, SEP) &&
           put_text(w, text, bytes) && put(w, CLOSE) && put_word(w, tag) &&
           put(w, SEP);
}

/* The message that says how much to think, in the vendor's words. */
static bool
put_effort(struct writer *w)
{
    static const char *const text[] = {
        [RT_THINK_LOW] = "low", [RT_THINK_HIGH] = "high",
        [RT_THINK_MAX] = "max"};
    char body[320];
    int bytes;

    bytes = snprintf(
        body, sizeof(body),
        "`thinking_effort` guides on how much to think in your thinking"
        " channel (not including the response channel), supported values"
        " include `low`, `medium`, `high`, and `max`.\n"
        "Now the system is invoked with `thinking_effort=%s`.",
        text[w->think]); /* fits: 244 bytes */
    return open_message(w, "system") &&
           put_attribute(w, " type", "thinking-effort") && put(w, SEP) &&
           put_text(w, body, (size_t)bytes) && close_message(w);
}

static bool
is_role(const struct rt_message *m, const char *role)
{
    return strcmp(m->role, role) == 0;
}

/* While thinking is on every past answer has both elements, even when empty;
 * while it is off none has reasoning. */
static bool
put_xtml_message(struct writer *w, const struct rt_message *m)
{
    if (!open_message(w, m->role) ||
        (m->name != NULL && !put_attribute(w, " name", m->name)) ||
        !put(w, SEP))
        return false;
    if (is_role(m, "assistant")) {
        if (w->think != RT_THINK_OFF &&
            !put_element(w, "think", m->reasoning, m->reasoning_bytes))
            return false;
        if (!put_element(w, "response", m->text, m->text_bytes))
            return false;
    } else if (!put_text(w, m->text, m->text_bytes)) {
        return false;
    }
    return close_message(w);
}

static bool
render_xtml(struct writer *w, const struct rt_message *messages,
            size_t message_count)
{
    if (w->think != RT_THINK_OFF && !put_effort(w))
        return false;
    for (size_t i = 0; i < message_count; i++)
        if (!put_xtml_message(w, &messages[i]))
            return lode_fail_in(w->err, "message %zu", i + 1);
    return open_message(w, "assistant") && put(w, SEP) && put(w, OPEN) &&
           put_word(w, w->think != RT_THINK_OFF ? "think" : "response") &&
           put(w, SEP);
}

static bool
put_kimi_message(struct writer *w, const struct rt_message *m)
{
    int control = is_role(m, "system") ? IM_SYSTEM
                  : is_role(m, "user") ? IM_USER
                                       : IM_ASSISTANT;

    if (m->name != NULL)
        return lode_fail(w->err, LODE_E_UNSUPPORTED,
                         "this model's chat format has no speakers' names");
    return put(w, control) && put_word(w, m->role) && put(w, IM_MIDDLE) &&
           put_text(w, m->text, m->text_bytes) && put(w, IM_END);
}

static bool
render_kimi(struct writer *w, const struct rt_message *messages,
            size_t message_count)
{
    if (w->think != RT_THINK_OFF)
        return lode_fail(w->err, LODE_E_UNSUPPORTED,
                         "this model's chat format has no thinking");
    for (size_t i = 0; i < message_count; i++)
        if (!put_kimi_message(w, &messages[i]))
            return lode_fail_in(w->err, "message %zu", i + 1);
    return put(w, IM_ASSISTANT) && put_word(w, "assistant") &&
           put(w, IM_MIDDLE);
}

static bool
check_roles(const struct rt_message *messages, size_t message_count,
            struct lode_error *err)
{
    for (size_t i = 0; i < message_count; i++) {
        const struct rt_message *m = &messages[i];

        if (!is_role(m, "system") && !is_role(m, "user") &&
            !is_role(m, "assistant"))
            return lode_fail(err, LODE_E_USAGE,
                             "message %zu: role \"%.40s\" is none of system,"
                             " user and assistant",
                             i + 1, m->role);
    }
    return true;
}

static bool
find_controls(struct writer *w, enum rt_chat_format format)
{
    const char *const *name =
        format == RT_CHAT_XTML ? xtml_controls : kimi_controls;

    for (int i = 0; i < CONTROLS_MAX && name[i] != NULL; i++)
        if (!rt_tokenizer_special(w->t, name[i], &w->control[i]))
            return lode_fail(w->err, LODE_E_UNSUPPORTED,
                             "the tokenizer has no %s, which the chat format"
                             " needs",
                             name[i]);
    return true;
}

bool
rt_template_render(enum rt_chat_format format, const struct rt_tokenizer *t,
                   const struct rt_message *messages, size_t message_count,
                   enum rt_think think, struct rt_ids *ids,
                   struct lode_error *err)
{
    struct writer w;
    size_t count = ids->count;

    memset(&w, 0, sizeof(w));
    w.t = t;
    w.ids = ids;
    w.think = think;
    w.err = err;
    if (find_controls(&w, format) &&
        check_roles(messages, message_count, err) &&
        (format == RT_CHAT_XTML ? render_xtml(&w, messages, message_count)
                                : render_kimi(&w, messages, message_count)))
        return true;
    ids->count = count;
    return false;
}

void
rt_answer_filter_init(struct rt_answer_filter *f, enum rt_chat_format format,
                      enum rt_think think)
{
    memset(f, 0, sizeof(*f));
    f->format = format;
    f->visible = true;
    f->reasoning = format == RT_CHAT_XTML && think != RT_THINK_OFF;
}

static bool
is_control(const char *name, size_t name_bytes, const char *control)
{
    return strlen(control) == name_bytes &&
           memcmp(name, control, name_bytes) == 0;
}

static bool
tag_is(const struct rt_answer_filter *f, const char *tag)
{
    return is_control(f->tag, f->tag_bytes, tag);
}

/* A tag has ended: only an opened think or response is followed by text. */
static void
end_tag(struct rt_answer_filter *f)
{
    f->in_tag = false;
    f->visible = !f->closing && (tag_is(f, "think") || tag_is(f, "response"));
    f->reasoning = f->visible && tag_is(f, "think");
}

static void
feed_xtml_control(struct rt_answer_filter *f, const char *name, size_t bytes)
{
    if (is_control(name, bytes, xtml_controls[OPEN]) ||
        is_control(name, bytes, xtml_controls[CLOSE])) {
        f->in_tag = true;
        f->closing = is_control(name, bytes, xtml_controls[CLOSE]);
        f->tag_bytes = 0;
    } else if (is_control(name, bytes, xtml_controls[SEP])) {
        if (f->in_tag)
            end_tag(f);
    } else if (is_control(name, bytes, xtml_controls[END_OF_MSG])) {
        f->in_tag = false;
        f->visible = false;
    }
}

/* A tag too long for f->tag is none that matters; it fills f->tag wholly. */
static void
extend_tag(struct rt_answer_filter *f, const char *text, size_t bytes)
{
    size_t room = sizeof(f->tag) - f->tag_bytes;

    if (bytes > room)
        bytes = room;
    memcpy(f->tag + f->tag_bytes, text, bytes);
    f->tag_bytes += bytes;
}

/* Calls of tools are no text to show. */
static void
feed_kimi_control(struct rt_answer_filter *f, const char *name, size_t bytes)
{
    if (is_control(name, bytes, "<|tool_calls_section_begin|>"))
        f->visible = false;
    else if (is_control(name, bytes, "<|tool_calls_section_end|>"))
        f->visible = true;
}

bool
rt_answer_filter_feed(struct rt_answer_filter *f, const struct rt_tokenizer *t,
                      uint32_t id, bool *reasoning)
{
    size_t bytes;
    const char *text = rt_tokenizer_bytes(t, id, &bytes);

    *reasoning = f->reasoning;
    if (text == NULL)
        return false;
    if (rt_tokenizer_is_special(t, id)) {
        if (f->format == RT_CHAT_XTML)
            feed_xtml_control(f, text, bytes);
        else
            feed_kimi_control(f, text, bytes);
        return false;
    }
    if (f->in_tag) {
        extend_tag(f, text, bytes);
        return false;
    }
    return f->visible;
}
