/* SPDX-License-Identifier: Apache-2.0
 *
 * Chat messages -> token ids, segment by segment, never one joined string:
 * control tokens are placed by id, and text is encoded as content. */

#ifndef LODE_RUNTIME_TEMPLATE_H
#define LODE_RUNTIME_TEMPLATE_H

#include "base/error.h"
#include "runtime/tokenizer.h"

enum rt_chat_format {
    RT_CHAT_XTML, /* kimi_k3: <|open|>message role="user"<|sep|>... */
    RT_CHAT_KIMI, /* kimi_linear: <|im_user|>user<|im_middle|>... */
};

enum rt_think { RT_THINK_OFF, RT_THINK_LOW, RT_THINK_HIGH, RT_THINK_MAX };

struct rt_message {
    const char *role; /* "system", "user", "assistant" */
    const char *text;
    size_t text_bytes;
    const char *reasoning; /* assistant only; NULL: none */
    size_t reasoning_bytes;
    const char *name; /* who speaks, XTML only; NULL: not said */
};

/* "off", "low", "high", "max"; LODE_E_USAGE otherwise. */
LODE_MUST_CHECK
bool rt_think_parse(const char *text, enum rt_think *out,
                    struct lode_error *err);

/* Append the prompt for these messages, ending where the assistant's answer
 * begins.  LODE_E_UNSUPPORTED when the tokenizer lacks a control token of this
 * format (named), or when RT_CHAT_KIMI is to think or to name a speaker;
 * LODE_E_USAGE for an unknown role.  On failure ids is as before. */
LODE_MUST_CHECK
bool rt_template_render(enum rt_chat_format format,
                        const struct rt_tokenizer *t,
                        const struct rt_message *messages,
                        size_t message_count, enum rt_think think,
                        struct rt_ids *ids, struct lode_error *err);

/* Splits a generated answer into reasoning and text by token ids. */
struct rt_answer_filter {
    enum rt_chat_format format;
    bool in_tag;       /* between <|open|>/<|close|> and <|sep|> */
    bool closing;
    char tag[64];
    size_t tag_bytes;
    bool reasoning;    /* what follows belongs to the think element */
    bool visible;      /* what follows is text of think or response */
};

void rt_answer_filter_init(struct rt_answer_filter *f,
                           enum rt_chat_format format, enum rt_think think);

/* Take one generated id.  True when its bytes are text to show; *reasoning
 * says which.  Markup gives false. */
bool rt_answer_filter_feed(struct rt_answer_filter *f,
                           const struct rt_tokenizer *t, uint32_t id,
                           bool *reasoning);

#endif
