/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/tok.h"

#include <string.h>

/* Unicode table 3-7: the bounds of the second byte exclude overlong forms,
 * surrogates and what lies above U+10FFFF. */
int
rt_tok_utf8_length(const char *text, size_t bytes)
{
    const uint8_t *p = (const uint8_t *)text;
    uint8_t low = 0x80;
    uint8_t high = 0xbf;
    int length;

    if (bytes == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return -1;
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        low = 0xa0;
    else if (p[0] == 0xed)
        high = 0x9f;
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f;
    for (int i = 1; i < length; i++) {
        if ((size_t)i == bytes)
            return 0;
        if (p[i] < low || p[i] > high)
            return -1;
        low = 0x80;
        high = 0xbf;
    }
    return length;
}

uint32_t
rt_tok_utf8_value(const char *text, int length)
{
    const uint8_t *p = (const uint8_t *)text;
    uint32_t value;

    if (length == 1)
        return p[0];
    value = p[0] & (0x7fU >> length);
    for (int i = 1; i < length; i++)
        value = value << 6 | (p[i] & 0x3fU);
    return value;
}

static size_t
emit(char *out, const char *text, size_t bytes)
{
    memcpy(out, text, bytes);
    return bytes;
}

/* Give out of held what can be: whole characters, and U+FFFD for each byte that
 * cannot begin one. */
static size_t
drain(struct rt_utf8_stream *s, bool flush, char *out)
{
    size_t out_bytes = 0;

    while (s->held_bytes > 0) {
        int length = rt_tok_utf8_length(s->held, s->held_bytes);
        size_t taken = length > 0 ? (size_t)length : 1;

        if (length == 0 && !flush)
            break;
        out_bytes += length > 0 ? emit(out + out_bytes, s->held, taken)
                                : emit(out + out_bytes, "\xef\xbf\xbd", 3);
        s->held_bytes -= taken;
        memmove(s->held, s->held + taken, s->held_bytes);
    }
    return out_bytes;
}

size_t
rt_utf8_stream_feed(struct rt_utf8_stream *s, const char *text, size_t bytes,
                    bool flush, char *out)
{
    size_t out_bytes = 0;

    for (size_t i = 0; i < bytes; i++) {
        s->held[s->held_bytes++] = text[i];
        out_bytes += drain(s, false, out + out_bytes);
    }
    if (flush)
        out_bytes += drain(s, true, out + out_bytes);
    return out_bytes;
}
