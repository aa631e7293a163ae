/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/tok.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

/* The pattern is published for an engine whose classes intersect (&&), whose
 * \s is the property White_Space and whose \p{Han} is the script.  Here:
 *
 * - [A&&[^\p{Han}]] is [^BH], where B is every general category that is not in
 *   A: categories partition the characters, so this is exact, and unlike a
 *   look-ahead before each character it needs no memory for backtracking;
 * - \p{Han} alone would be Script_Extensions, which takes in kana and
 *   ideographic punctuation; \p{sc:Han} is the script;
 * - \s here would match U+180E as well, so white space is spelled out. */
#define SPACES                                                                \
    "\\x{09}-\\x{0d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"        \
    "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define NEVER "\\p{N}\\p{P}\\p{S}\\p{Z}\\p{C}\\p{sc:Han}"
#define UPPER "[^\\p{Ll}" NEVER "]"
#define LOWER "[^\\p{Lu}\\p{Lt}" NEVER "]"
#define LEAD "[^\\r\\n\\p{L}\\p{N}]?"
#define TAIL "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

static const char pattern[] =
    "\\p{sc:Han}+"
    "|" LEAD UPPER "*" LOWER "+" TAIL
    "|" LEAD UPPER "+" LOWER "*" TAIL
    "|\\p{N}{1,3}"
    "|\\x{20}?[^" SPACES "\\p{L}\\p{N}]+[\\r\\n]*"
    "|[" SPACES "]*[\\r\\n]+"
    "|[" SPACES "]+(?![^" SPACES "])"
    "|[" SPACES "]+";

/* Far above what a piece of 50,000 characters needs, and still well below a
 * second. */
enum { MATCH_LIMIT = 10000000, HEAP_LIMIT_KIB = 16384 };

struct rt_tok_splitter {
    pcre2_code *code;
    pcre2_match_context *limits;
};

static bool
fail_pcre(struct lode_error *err, int code, const char *what)
{
    PCRE2_UCHAR text[160];

    if (code == PCRE2_ERROR_NOMEMORY)
        return lode_fail(err, LODE_E_NOMEM, "%s: out of memory", what);
    (void)pcre2_get_error_message(code, text, sizeof(text)); /* cut is fine */
    return lode_fail(err,
                     code == PCRE2_ERROR_MATCHLIMIT ||
                             code == PCRE2_ERROR_HEAPLIMIT ||
                             code == PCRE2_ERROR_DEPTHLIMIT
                         ? LODE_E_LIMIT
                         : LODE_E_UNSUPPORTED,
                     "%s: %s", what, (const char *)text);
}

bool
rt_tok_splitter_new(struct rt_tok_splitter **out, struct lode_error *err)
{
    struct rt_tok_splitter *s;
    void *p;
    int code;
    PCRE2_SIZE at;

    if (!lode_alloc_array(1, sizeof(*s), "split pattern", &p, err))
        return false;
    s = p;
    s->code = pcre2_compile((PCRE2_SPTR)pattern, sizeof(pattern) - 1,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, NULL);
    if (s->code == NULL) {
        fail_pcre(err, code, "split pattern");
        goto fail;
    }
    /* Where no memory may be executable, matching is only slower. */
    (void)pcre2_jit_compile(s->code, PCRE2_JIT_COMPLETE);
    s->limits = pcre2_match_context_create(NULL);
    if (s->limits == NULL) {
        lode_fail(err, LODE_E_NOMEM, "split pattern: out of memory");
        goto fail;
    }
    (void)pcre2_set_match_limit(s->limits, MATCH_LIMIT);   /* always 0 */
    (void)pcre2_set_heap_limit(s->limits, HEAP_LIMIT_KIB); /* always 0 */
    *out = s;
    return true;
fail:
    rt_tok_splitter_free(s);
    return false;
}

void
rt_tok_splitter_free(struct rt_tok_splitter *s)
{
    if (s == NULL)
        return;
    pcre2_match_context_free(s->limits);
    pcre2_code_free(s->code);
    free(s);
}

uint64_t
rt_tok_splitter_memory_bytes(const struct rt_tok_splitter *s)
{
    size_t code_bytes = 0;
    size_t jit_bytes = 0;

    /* Neither can fail for a compiled pattern; without JIT its size is 0. */
    (void)pcre2_pattern_info(s->code, PCRE2_INFO_SIZE, &code_bytes);
    (void)pcre2_pattern_info(s->code, PCRE2_INFO_JITSIZE, &jit_bytes);
    return sizeof(*s) + code_bytes + jit_bytes;
}

bool
rt_tok_cursor_init(struct rt_tok_cursor *c, const struct rt_tok_splitter *s,
                   struct lode_error *err)
{
    c->splitter = s;
    c->match = pcre2_match_data_create(1, NULL);
    if (c->match == NULL)
        return lode_fail(err, LODE_E_NOMEM, "splitting text: out of memory");
    return true;
}

void
rt_tok_cursor_fini(struct rt_tok_cursor *c)
{
    pcre2_match_data_free(c->match);
    c->match = NULL;
}

bool
rt_tok_cursor_next(struct rt_tok_cursor *c, const char *text, size_t bytes,
                   size_t offset, size_t *piece_bytes, struct lode_error *err)
{
    const struct rt_tok_splitter *s = c->splitter;
    const PCRE2_SIZE *range;
    int result;

    /* Not PCRE2_ANCHORED, which would turn off JIT: every character begins a
     * piece, so a match is at offset, and that is checked. */
    result = pcre2_match(s->code, (PCRE2_SPTR)text, bytes, offset,
                         PCRE2_NO_UTF_CHECK, c->match, s->limits);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
        result = pcre2_match(s->code, (PCRE2_SPTR)text, bytes, offset,
                             PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, c->match,
                             s->limits);
    if (result < 0)
        return fail_pcre(err, result, "splitting text");
    range = pcre2_get_ovector_pointer(c->match);
    if (range[0] != offset || range[1] <= offset)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "the split pattern passes over byte %zu", offset);
    *piece_bytes = range[1] - offset;
    return true;
}
