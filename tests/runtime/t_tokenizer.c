/* SPDX-License-Identifier: Apache-2.0
 *
 * Text to ids and back, against the lists that come with the checkpoints; the
 * cuts and limits; files that are wrong, and which check says so. */
#include "config.h"

#include <time.h>

#include "base/json.h"
#include "runtime/tok.h"
#include "tests/runtime/tok_files.h"

static struct lode_error err;

static struct rt_ids
encode(const struct rt_tokenizer *t, const char *text, size_t bytes,
       bool markup)
{
    struct rt_ids ids = {NULL, 0, 0};

    must(markup ? rt_tokenizer_markup(t, text, bytes, &ids, &err)
                : rt_tokenizer_content(t, text, bytes, &ids, &err),
         &err);
    return ids;
}

static bool
decodes_to(const struct rt_tokenizer *t, const struct rt_ids *ids,
           const char *text, size_t bytes)
{
    size_t at = 0;

    for (size_t i = 0; i < ids->count; i++) {
        size_t n;
        const char *p = rt_tokenizer_bytes(t, ids->data[i], &n);

        if (p == NULL || n > bytes - at || memcmp(p, text + at, n) != 0)
            return false;
        at += n;
    }
    return at == bytes;
}

static bool
has_special(const struct rt_tokenizer *t, const struct rt_ids *ids)
{
    for (size_t i = 0; i < ids->count; i++)
        if (rt_tokenizer_is_special(t, ids->data[i]))
            return true;
    return false;
}

/* Content: the same bytes come back, and no special token is in it. */
static bool
round_trip(const struct rt_tokenizer *t, const char *text, size_t bytes)
{
    struct rt_ids ids = encode(t, text, bytes, false);
    bool good = decodes_to(t, &ids, text, bytes) && !has_special(t, &ids);

    rt_ids_fini(&ids);
    return good;
}

static bool
same_ids(const struct rt_ids *ids, const json_t *want)
{
    if (ids->count != json_array_size(want))
        return false;
    for (size_t i = 0; i < ids->count; i++)
        if ((json_int_t)ids->data[i] !=
            json_integer_value(json_array_get(want, i)))
            return false;
    return true;
}

static void
test_golden(const char *dir, const struct rt_tokenizer *t)
{
    size_t bytes;
    char *text = source_file(dir, "tokenizer_expected.json", &bytes);
    json_t *root = NULL, *item;
    size_t i, good = 0;

    must(lode_json_parse(text, bytes, &root, &err), &err);
    json_array_foreach(root, i, item) {
        const char *s = json_string_value(json_object_get(item, "text"));
        struct rt_ids plain = encode(t, s, strlen(s), false);
        struct rt_ids markup = encode(t, s, strlen(s), true);

        if (same_ids(&plain, json_object_get(item, "ids_plain")) &&
            same_ids(&markup, json_object_get(item, "ids_markup")) &&
            decodes_to(t, &plain, s, strlen(s)) &&
            decodes_to(t, &markup, s, strlen(s)))
            good++;
        else
            printf("# \"%s\"\n", s);
        rt_ids_fini(&plain);
        rt_ids_fini(&markup);
    }
    ok(i > 20 && good == i, "%s: %zu texts as listed", dir, i);
    json_decref(root);
    free(text);
}

/* The pieces of text, with '|' between them. */
static void
splits(const char *text, const char *want, const char *name)
{
    struct rt_tok_splitter *s = NULL;
    struct rt_tok_cursor c;
    char got[512];
    size_t bytes = strlen(text), at = 0, n = 0;

    must(rt_tok_splitter_new(&s, &err), &err);
    must(rt_tok_cursor_init(&c, s, &err), &err);
    while (at < bytes) {
        size_t piece_bytes;

        must(rt_tok_cursor_next(&c, text, bytes, at, &piece_bytes, &err), &err);
        if (at > 0)
            got[n++] = '|';
        memcpy(got + n, text + at, piece_bytes);
        n += piece_bytes;
        at += piece_bytes;
    }
    got[n] = '\0';
    is_str(got, want, "%s", name);
    rt_tok_cursor_fini(&c);
    rt_tok_splitter_free(s);
}

/* Where the pattern's dialect differs from that of our engine. */
static void
test_pieces(void)
{
    splits("\u6f22\u3001\u5b57", "\u6f22|\u3001|\u5b57",
           "an ideographic comma is not of the script Han");
    splits("\u6f22\u30fc\u3042", "\u6f22|\u30fc\u3042",
           "nor is the mark of long kana");
    splits("\u3005\u3007\u6f22x", "\u3005\u3007\u6f22|x",
           "but marks and zeros of ideographs are");
    splits("x\u6f22y", "x|\u6f22|y", "Han among letters");
    splits("a!\u180e b", "a|!\u180e| b",
           "the Mongolian separator is no white space");
    splits("a\xc2\x85" "b \u2028 c", "a|\xc2\x85" "b| \u2028| c",
           "white space that is not ASCII");
    splits("1234567 \u0661\u0662\u0663\u0664", "123|456|7| |\u0661\u0662\u0663|"
           "\u0664", "digits by three");
    splits("I'll WE'RE it's x'q", "I'll| WE'RE| it's| x|'q",
           "contractions in either case");
    splits("getHTTPResponse \u01c5a", "get|HTTPResponse| \u01c5a",
           "upper and lower case");
    splits("a   b", "a|  | b", "the last space goes with the word");
    splits("a \n\n  b  ", "a| \n\n| | b|  ", "line ends");
    splits("x != y;\n\nz", "x| !=| y|;\n\n|z", "punctuation takes line ends");
    splits("e\u0301a", "e\u0301a", "combining marks stay");
}

/* The prompts whose ids the reference program printed. */
static void
test_demo(const struct rt_tokenizer *t, const char *dir)
{
    size_t bytes;
    char *text = source_file(dir, "expected.json", &bytes);
    json_t *root = NULL, *value;
    const char *prompt;
    bool good = true;
    size_t count = 0;

    must(lode_json_parse(text, bytes, &root, &err), &err);
    json_object_foreach(json_object_get(root, "continuations"), prompt, value) {
        struct rt_ids ids = encode(t, prompt, strlen(prompt), false);

        good &= same_ids(&ids, json_object_get(value, "prompt_ids"));
        rt_ids_fini(&ids);
        count++;
    }
    ok(good && count > 0, "%s: %zu prompts as listed", dir, count);
    json_decref(root);
    free(text);
    text = source_file(dir, "heldout.txt", &bytes);
    {
        struct rt_ids ids = encode(t, text, bytes, false);

        is_u64(ids.count, 4458, "%s: the tokens of heldout.txt", dir);
        ok(decodes_to(t, &ids, text, bytes), "%s: and back", dir);
        rt_ids_fini(&ids);
    }
    free(text);
}

/* Every special token's name: one id as markup, none as content, also between
 * other text. */
static void
test_specials(const char *dir, const struct rt_tokenizer *t, uint32_t rows)
{
    bool markup = true, content = true;
    size_t count = 0;

    for (uint32_t id = 0; id < rows; id++) {
        char text[RT_TOK_SPECIAL_BYTES_MAX + 8];
        struct rt_ids ids;
        size_t n;
        const char *name = rt_tokenizer_bytes(t, id, &n);

        if (!rt_tokenizer_is_special(t, id))
            continue;
        count++;
        memcpy(text, "a.", 2);
        memcpy(text + 2, name, n);
        memcpy(text + 2 + n, " \n", 2);
        ids = encode(t, text, n + 4, true);
        /* "a" and "." first, " \n" last */
        markup &= ids.count >= 3 && decodes_to(t, &ids, text, n + 4);
        {
            size_t found = 0;

            for (size_t i = 0; i < ids.count; i++) {
                if (rt_tokenizer_is_special(t, ids.data[i]))
                    markup &= ids.data[i] == id && ++found == 1;
            }
            markup &= found == 1;
        }
        rt_ids_fini(&ids);
        content &= round_trip(t, text, n + 4) && round_trip(t, name, n);
    }
    ok(count > 0 && markup, "%s: %zu special tokens in markup", dir, count);
    ok(content, "%s: none of them in content", dir);
}

static uint64_t random_state = 0x9e3779b97f4a7c15U;

static uint8_t
random_byte(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint8_t)(random_state >> 40);
}

static void
test_any_bytes(const struct rt_tokenizer *t)
{
    static const char *const odd[] = {
        "\xff", "\xc3", "\xe3\x81", "\xf0\x9f\x98", "\xc0\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "a\x80z", "\xe3\x81\x82\xe3", "\xf8\x88\x80\x80",
        " \xff ", "\n\xfe\n",
    };
    bool good = true;

    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
        good &= round_trip(t, odd[i], strlen(odd[i]));
    ok(good, "broken UTF-8 and back");
    good = round_trip(t, "", 0) && round_trip(t, "\0", 1) &&
           round_trip(t, "a\0\0b", 4);
    for (int i = 0; i < 256; i++) {
        char c = (char)i;

        good &= round_trip(t, &c, 1);
    }
    ok(good, "every byte, zero bytes, no byte and back");
    good = true;
    for (size_t i = 0; i < 3000; i++) {
        char text[64];
        size_t n = random_byte() % sizeof(text);

        for (size_t j = 0; j < n; j++) /* half of it ASCII, half anything */
            text[j] = (char)(random_byte() & (i % 2 == 0 ? 0x7f : 0xff));
        good &= round_trip(t, text, n);
    }
    ok(good, "random bytes and back");
}

/* n bytes of a repeated unit. */
static char *
repeat(const char *unit, size_t n)
{
    size_t length = strlen(unit);
    char *text = malloc(n + 1);

    if (text == NULL) {
        printf("Bail out! no memory\n");
        exit(99);
    }
    for (size_t i = 0; i < n; i++)
        text[i] = unit[i % length];
    text[n] = '\0';
    return text;
}

/* A million bytes of the kinds that split patterns and merging choke on.  The
 * bound is some ten times what it takes; quadratic work takes minutes. */
static void
test_long(const struct rt_tokenizer *t)
{
    static const char *const units[] = {
        "a", "A", " ", "\n", "1", "\xe3\x81\x82", "\xe6\xbc\xa2", "'", "\xff",
        "aA", " \n", "<|", "e\xcc\x81", "\xe1\xa0\x8e", "\xf0\x9f\x98\x80",
        "'s", "\r",
    };

    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
        size_t n = 1000000 / strlen(units[i]) * strlen(units[i]);
        char *text = repeat(units[i], n);
        clock_t start = clock();
        bool good = round_trip(t, text, n);
        double s = (double)(clock() - start) / CLOCKS_PER_SEC;

        ok(good && s < 30.0, "a million bytes of unit %zu", i);
        if (s > 1.0)
            printf("# %.1f s\n", s);
        free(text);
    }
}

/* ids of a then of b, in one call or two. */
static bool
is_cut(const struct rt_tokenizer *t, const char *text, size_t bytes, size_t at)
{
    struct rt_ids whole = encode(t, text, bytes, false);
    struct rt_ids parts = encode(t, text, at, false);
    bool good;

    must(rt_tokenizer_content(t, text + at, bytes - at, &parts, &err), &err);
    good = whole.count == parts.count &&
           memcmp(whole.data, parts.data, whole.count * sizeof(uint32_t)) == 0;
    rt_ids_fini(&whole);
    rt_ids_fini(&parts);
    return good;
}

/* Where the vendor's code cuts before it splits.  The tokenizer has a token
 * "aa", so that a cut at an odd place shows. */
static void
test_cuts(void)
{
    struct lode_buf b = {NULL, 0, 0};
    static const char config[] = "{\"added_tokens_decoder\": {}}";
    struct rt_tokenizer *t = NULL;
    char *text;

    add_bytes(&b, 256);
    add_line(&b, "aa", 2, 256);
    must(rt_tokenizer_new_tiktoken((char *)b.data, b.used_bytes, config,
                                   strlen(config), 512, &t, &err),
         &err);
    text = repeat("a", 25003);
    ok(is_cut(t, text, 25003, 25000), "a run is cut at 25,000 characters");
    ok(!is_cut(t, text, 24999, 24001), "a shorter run is not");
    ok(!is_cut(t, text, 25003, 25001), "nor elsewhere");
    free(text);
    text = repeat("a ", 400004);
    memset(text + 399998, 'a', 5); /* "aa|aaa" around the cut */
    ok(is_cut(t, text, 400003, 400000), "text is cut at 400,000 characters");
    ok(!is_cut(t, text, 400003, 399999), "and not one before");
    free(text);
    rt_tokenizer_free(t);
    lode_buf_fini(&b);
}

static void
test_utf8_stream(void)
{
    struct rt_utf8_stream s = {{0}, 0};
    char out[64];
    size_t n;

    n = rt_utf8_stream_feed(&s, "a\xe3\x81", 3, false, out);
    ok(n == 1 && out[0] == 'a', "an incomplete character waits");
    n = rt_utf8_stream_feed(&s, "\x82z", 2, false, out);
    ok(n == 4 && memcmp(out, "\xe3\x81\x82z", 4) == 0, "and comes out whole");
    n = rt_utf8_stream_feed(&s, "\xff\x80", 2, false, out);
    ok(n == 6 && memcmp(out, "\xef\xbf\xbd\xef\xbf\xbd", 6) == 0,
       "bytes that are none are replaced");
    n = rt_utf8_stream_feed(&s, "\xf0\x9f", 2, false, out);
    n += rt_utf8_stream_feed(&s, "", 0, true, out + n);
    ok(n == 6 && s.held_bytes == 0, "flushing gives out what is held");
    n = rt_utf8_stream_feed(&s, "\xe3" "b", 2, false, out);
    ok(n == 4 && memcmp(out, "\xef\xbf\xbd" "b", 4) == 0,
       "a character that another cuts off");
}

/* One wrong pair of files and what is said about it. */
static void
refused_text(const char *model, size_t model_bytes, const char *config,
             uint32_t rows, enum lode_code code, const char *part,
             const char *name)
{
    struct rt_tokenizer *t = NULL;

    fails_with(rt_tokenizer_new_tiktoken(model, model_bytes, config,
                                         strlen(config), rows, &t, &err),
               &err, code, part, name);
    ok(t == NULL, "%s: no output", name);
    rt_tokenizer_free(t);
}

#define NO_ADDED "{\"added_tokens_decoder\": {}}"

/* The 256 bytes and another line. */
static void
refused_line(const char *line, enum lode_code code, const char *part,
             const char *name)
{
    struct lode_buf b = {NULL, 0, 0};

    add_bytes(&b, 256);
    must(lode_buf_append(&b, line, strlen(line), &err), &err);
    refused_text((char *)b.data, b.used_bytes, NO_ADDED, 300, code, part,
                 name);
    lode_buf_fini(&b);
}

static void
test_bad_models(void)
{
    struct lode_buf b = {NULL, 0, 0};
    char *line;

    refused_text("", 0, NO_ADDED, 300, LODE_E_CORRUPT,
                 "no token stands for the byte 0x00", "an empty model");
    refused_text("\0\0\0\0", 4, NO_ADDED, 300, LODE_E_CORRUPT,
                 "tiktoken.model: line 1: no space", "zero bytes");
    refused_text("\x7f" "ELF\x02 1\n", 8, NO_ADDED, 300, LODE_E_CORRUPT,
                 "line 1: the token is no base64", "a binary file");
    refused_line("YWE\n", LODE_E_CORRUPT, "line 257: no space", "no rank");
    refused_line("\n", LODE_E_CORRUPT, "line 257: no space", "an empty line");
    refused_line("Y!== 256\n", LODE_E_CORRUPT, "line 257: the token is no",
                 "a letter that is not base64's");
    refused_line("YWE 256\n", LODE_E_CORRUPT, "the token is no base64",
                 "missing padding");
    refused_line("YWF= 256\n", LODE_E_CORRUPT, "the token is no base64",
                 "bits behind the last byte");
    refused_line("=YWE 256\n", LODE_E_CORRUPT, "the token is no base64",
                 "padding in front");
    refused_line("==== 256\n", LODE_E_CORRUPT, "the token is no base64",
                 "padding alone");
    refused_line(" 256\n", LODE_E_CORRUPT, "the token is no base64",
                 "an empty token");
    refused_line("YWE= \n", LODE_E_CORRUPT, "the rank is no whole number",
                 "an empty rank");
    refused_line("YWE= -1\n", LODE_E_CORRUPT, "the rank is no whole number",
                 "a negative rank");
    refused_line("YWE= 0256\n", LODE_E_CORRUPT, "the rank is no whole number",
                 "a rank with a leading zero");
    refused_line("YWE= 256\r\n", LODE_E_CORRUPT, "the rank is no whole number",
                 "carriage returns");
    refused_line("YWE= 18446744073709551872\n", LODE_E_CORRUPT,
                 "the rank is no whole number", "a rank beyond 64 bits");
    refused_line("YWE= 300\n", LODE_E_CORRUPT,
                 "line 257: rank 300 is not below the 300 embedding rows",
                 "a rank beyond the embedding");
    refused_line("YWE= 65\n", LODE_E_CORRUPT,
                 "line 257: rank 65 stands there twice", "a rank twice");
    refused_line("YQ== 256\n", LODE_E_CORRUPT, "have the same bytes",
                 "a token twice");
    add_bytes(&b, 0xe3);
    refused_text((char *)b.data, b.used_bytes, NO_ADDED, 300, LODE_E_CORRUPT,
                 "no token stands for the byte 0xe3", "a byte without a token");
    lode_buf_fini(&b);
    line = repeat("QUFB", 4 << 20);
    refused_line(line, LODE_E_CORRUPT, "line 257: no space", "a huge line");
    line[(4 << 20) - 2] = ' ';
    refused_line(line, LODE_E_LIMIT, "line 257: a token of more than",
                 "a huge token");
    free(line);
}

static void
refused_config(const char *config, enum lode_code code, const char *part,
               const char *name)
{
    struct lode_buf b = {NULL, 0, 0};

    add_bytes(&b, 256);
    add_line(&b, "aa", 2, 256);
    refused_text((char *)b.data, b.used_bytes, config, 300, code, part, name);
    lode_buf_fini(&b);
}

#define ADDED(members) "{\"added_tokens_decoder\": {" members "}}"

static void
test_bad_configs(void)
{
    refused_config("", LODE_E_CORRUPT, "tokenizer_config.json", "no JSON");
    refused_config("[]", LODE_E_CORRUPT, "added_tokens_decoder is missing",
                   "an array");
    refused_config("{}", LODE_E_CORRUPT, "added_tokens_decoder is missing",
                   "no added tokens");
    refused_config("{\"added_tokens_decoder\": 3}", LODE_E_CORRUPT,
                   "expected an object", "added tokens as a number");
    refused_config(ADDED("\"257\": {}"), LODE_E_CORRUPT,
                   "added_tokens_decoder: \"257\"", "a token without a name");
    refused_config(ADDED("\"257\": {\"content\": 1}"), LODE_E_CORRUPT,
                   "content", "a name that is a number");
    refused_config(ADDED("\"x\": {\"content\": \"[A]\"}"), LODE_E_CORRUPT,
                   "\"x\" is no token id", "an id that is none");
    refused_config(ADDED("\"\": {\"content\": \"[A]\"}"), LODE_E_CORRUPT,
                   "\"\" is no token id", "an empty id");
    refused_config(ADDED("\"300\": {\"content\": \"[PAD]\"}"), LODE_E_CORRUPT,
                   "\"[PAD]\": id 300 is not below the 300 embedding rows",
                   "an added id beyond the embedding");
    refused_config(ADDED("\"256\": {\"content\": \"[A]\"}"), LODE_E_CORRUPT,
                   "\"[A]\": id 256 is a token of the vocabulary",
                   "an added id of the vocabulary");
    refused_config(ADDED("\"257\": {\"content\": \"[A]\"}, "
                         "\"258\": {\"content\": \"[A]\"}"),
                   LODE_E_CORRUPT, "have the same bytes", "a name twice");
    refused_config(ADDED("\"257\": {\"content\": \"[A]\"}, "
                         "\"257\": {\"content\": \"[B]\"}"),
                   LODE_E_CORRUPT, "257", "an id twice");
    refused_config(ADDED("\"257\": {\"content\": \"\"}"), LODE_E_LIMIT,
                   "added token 257 has a name of 0 bytes", "an empty name");
    refused_config(ADDED("\"257\": {\"content\": "
                         "\"<|reserved_token_258|>\"}"),
                   LODE_E_CORRUPT, "have the same bytes",
                   "the name of a reserved token");
    refused_text("", 0, NO_ADDED, 0, LODE_E_LIMIT, "0 embedding rows",
                 "no rows");
    refused_text("", 0, NO_ADDED, RT_TOK_ROWS_MAX + 1, LODE_E_LIMIT,
                 "embedding rows, not 1 to", "too many rows");
}

/* Gaps are ids that stand for nothing; nothing is renumbered. */
static void
test_gaps(void)
{
    static const char config[] = ADDED("\"402\": {\"content\": \"[X]\"}, "
                                       "\"702\": {\"content\": \"[Y]\"}");
    struct lode_buf b = {NULL, 0, 0};
    struct rt_tokenizer *t = NULL;
    uint32_t id = 0;
    size_t n;

    add_bytes(&b, 256);
    add_line(&b, "xy", 2, 400); /* 256 .. 399 are missing */
    must(rt_tokenizer_new_tiktoken((char *)b.data, b.used_bytes, config,
                                   strlen(config), 704, &t, &err),
         &err);
    ok(rt_tokenizer_bytes(t, 256, &n) == NULL && n == 0 &&
           rt_tokenizer_bytes(t, 399, &n) == NULL,
       "ids in a gap stand for nothing");
    ok(rt_tokenizer_special(t, "[Y]", &id) && id == 702,
       "an added id far behind keeps its place");
    ok(rt_tokenizer_special(t, "<|reserved_token_401|>", &id) && id == 401 &&
           rt_tokenizer_special(t, "<|reserved_token_656|>", &id) &&
           !rt_tokenizer_special(t, "<|reserved_token_657|>", &id) &&
           rt_tokenizer_bytes(t, 657, &n) == NULL,
       "256 places behind the vocabulary are reserved");
    ok(!rt_tokenizer_special(t, "<|reserved_token_402|>", &id),
       "but for those with a name");
    ok(rt_tokenizer_bytes(t, 704, &n) == NULL && n == 0 &&
           rt_tokenizer_bytes(t, UINT32_MAX, &n) == NULL &&
           !rt_tokenizer_is_special(t, UINT32_MAX),
       "ids beyond the rows stand for nothing");
    ok(!rt_tokenizer_special(t, "", &id) && !rt_tokenizer_special(t, "xy", &id),
       "names that are none");
    ok(rt_tokenizer_memory_bytes(t) > 704 * 4, "the memory is told");
    rt_tokenizer_free(t);
    rt_tokenizer_free(NULL);
    lode_buf_fini(&b);
}

/* The longest name wins, wherever one is the beginning of another. */
static void
test_nested_names(void)
{
    static const char config[] = ADDED("\"300\": {\"content\": \"<a\"}, "
                                       "\"301\": {\"content\": \"<a>\"}, "
                                       "\"302\": {\"content\": \"a>b\"}");
    struct lode_buf b = {NULL, 0, 0};
    struct rt_tokenizer *t = NULL;
    struct rt_ids ids;

    add_bytes(&b, 256);
    must(rt_tokenizer_new_tiktoken((char *)b.data, b.used_bytes, config,
                                   strlen(config), 600, &t, &err),
         &err);
    ids = encode(t, "<a>b<a<a>a>b", 12, true);
    ok(ids.count == 5 && ids.data[0] == 301 && ids.data[1] == 'b' &&
           ids.data[2] == 300 && ids.data[3] == 301 && ids.data[4] == 302,
       "the longest special token at each place");
    rt_ids_fini(&ids);
    rt_tokenizer_free(t);
    lode_buf_fini(&b);
}

int
main(void)
{
    static const struct {
        const char *dir;
        uint32_t rows;
    } checkpoints[] = {{"tests/fixtures/kimi-k3-tiny-a", 768},
                       {"tests/fixtures/kimi-linear-tiny-a", 768},
                       {"tests/models/k3-demo", 2048}};

    for (size_t i = 0; i < 3; i++) {
        const char *dir = checkpoints[i].dir;
        struct rt_tokenizer *t = tokenizer_of(dir, checkpoints[i].rows);

        if (i < 2)
            test_golden(dir, t);
        else
            test_demo(t, dir);
        test_specials(dir, t, checkpoints[i].rows);
        test_any_bytes(t);
        if (i == 2)
            test_long(t);
        rt_tokenizer_free(t);
    }
    test_pieces();
    test_cuts();
    test_utf8_stream();
    test_bad_models();
    test_bad_configs();
    test_gaps();
    test_nested_names();
    return done_testing();
}
