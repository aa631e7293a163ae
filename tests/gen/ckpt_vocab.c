/* SPDX-License-Identifier: Apache-2.0
 *
 * A made-up vocabulary in the form of tiktoken.model: the 256 bytes, some
 * English words with the merges that lead to them, then random pairs of earlier
 * tokens.  As in a trained one, each token is made of two with lower ranks. */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { TOKEN_BYTES_MAX = 12, SPECIAL_SLOTS = 256 };

struct token {
    uint8_t byte_count;
    char text[TOKEN_BYTES_MAX];
};

struct vocab {
    struct token *token;
    uint32_t *slot; /* index + 1 of a token, by hash */
    size_t slot_mask;
    size_t count;
    size_t room;
};

static const char words[] =
    " the  of  and  to  in  that  is  was  he  for  it  with  as  his  on  be  "
    "at  by  I  this  had  not  are  but  from  or  have  an  they  which  one "
    " you  were  her  all  she  there  would  their  we  him  been  has  when  "
    "who  will  more  no  if  out  so  said  what  up  its  about  into  than  "
    "them  can  only  other  new  some  could  time  these  two  may  then  do "
    " first  any  my  now  such  like  our  over  man  me  even  most  made "
    "message role user system assistant think response return print int char "
    "void for while if else def class import self ing ion ent er est ment "
    "able";

static uint64_t
hash_of(const char *text, size_t bytes)
{
    uint64_t state = bytes;

    for (size_t i = 0; i < bytes; i++)
        state = (state ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    return ck_next(&state);
}

/* Where text stands or would stand. */
static size_t
find_slot(const struct vocab *v, const char *text, size_t bytes)
{
    size_t at = (size_t)hash_of(text, bytes) & v->slot_mask;

    while (v->slot[at] != 0) {
        const struct token *t = &v->token[v->slot[at] - 1];

        if (t->byte_count == bytes && memcmp(t->text, text, bytes) == 0)
            break;
        at = (at + 1) & v->slot_mask;
    }
    return at;
}

static bool
has(const struct vocab *v, const char *text, size_t bytes)
{
    return v->slot[find_slot(v, text, bytes)] != 0;
}

static void
put(struct vocab *v, const char *text, size_t bytes)
{
    size_t at = find_slot(v, text, bytes);

    if (v->slot[at] != 0 || v->count == v->room)
        return;
    v->token[v->count].byte_count = (uint8_t)bytes;
    memcpy(v->token[v->count].text, text, bytes);
    v->count++;
    v->slot[at] = (uint32_t)v->count;
}

/* The published order of single bytes: the printable ones of Latin-1 first. */
static bool
is_printable(uint32_t byte)
{
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte != 0xad);
}

static void
put_bytes(struct vocab *v)
{
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t b = 0; b < 256; b++) {
            char text = (char)b;

            if (is_printable(b) == (pass == 0))
                put(v, &text, 1);
        }
}

/* A word is a run of letters; a space in front belongs to it when two spaces
 * stand there.  Its prefixes come before it. */
static void
put_words(struct vocab *v)
{
    const char *p = words;

    while (*p != '\0') {
        size_t bytes = *p == ' ' ? 1 : 0;

        while (p[bytes] != '\0' && p[bytes] != ' ')
            bytes++;
        for (size_t n = 2; n <= bytes && n <= TOKEN_BYTES_MAX; n++)
            put(v, p, n);
        p += bytes;
        if (*p == ' ')
            p++;
    }
}

static bool
is_wordlike(const struct token *t)
{
    for (size_t i = 0; i < t->byte_count; i++)
        if (!((t->text[i] >= 'a' && t->text[i] <= 'z') ||
              (i == 0 && t->byte_count > 1 && t->text[i] == ' ')))
            return false;
    return true;
}

static void
put_pairs(struct vocab *v)
{
    uint64_t state = 7;

    while (v->count < v->room) {
        const struct token *a = &v->token[ck_next(&state) % v->count];
        const struct token *b = &v->token[ck_next(&state) % v->count];
        char text[2 * TOKEN_BYTES_MAX];
        size_t bytes = (size_t)a->byte_count + b->byte_count;

        if (bytes > TOKEN_BYTES_MAX || !is_wordlike(a) || !is_wordlike(b) ||
            b->text[0] == ' ')
            continue;
        memcpy(text, a->text, a->byte_count);
        memcpy(text + a->byte_count, b->text, b->byte_count);
        if (!has(v, text, bytes))
            put(v, text, bytes);
    }
}

static void
to_base64(const struct token *t, char *out)
{
    static const char digit[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < t->byte_count; i += 3) {
        size_t left = t->byte_count - i;
        uint32_t w = (uint32_t)(uint8_t)t->text[i] << 16;

        if (left > 1)
            w |= (uint32_t)(uint8_t)t->text[i + 1] << 8;
        if (left > 2)
            w |= (uint8_t)t->text[i + 2];
        *out++ = digit[w >> 18];
        *out++ = digit[w >> 12 & 63];
        *out++ = '=';
        *out++ = '=';
        if (left > 1)
            out[-2] = digit[w >> 6 & 63];
        if (left > 2)
            out[-1] = digit[w & 63];
    }
    *out = '\0';
}

static bool
write_vocab(const struct vocab *v, const char *dir, struct lode_error *err)
{
    FILE *f = NULL;
    char *path = NULL;
    bool good = false;

    if (!lode_path_join(dir, "tiktoken.model", &path, err))
        return false;
    f = fopen(path, "we");
    if (f == NULL)
        goto io;
    for (size_t i = 0; i < v->count; i++) {
        char text[2 * TOKEN_BYTES_MAX];

        to_base64(&v->token[i], text);
        if (fprintf(f, "%s %zu\n", text, i) < 0)
            goto io;
    }
    good = fclose(f) == 0;
    f = NULL;
io:
    if (!good)
        lode_fail_errno(err, "%s", path);
    if (f != NULL)
        (void)fclose(f); /* the failure is reported already */
    free(path);
    return good;
}

bool
ck_write_tokenizer(const struct ck_model *m, const char *dir,
                   struct lode_error *err)
{
    struct vocab v;
    void *tokens = NULL;
    void *slots = NULL;
    bool good = false;

    memset(&v, 0, sizeof(v));
    v.room = (size_t)m->size[CK_VOCAB] - SPECIAL_SLOTS;
    for (v.slot_mask = 1023; v.slot_mask < 2 * v.room;)
        v.slot_mask = 2 * v.slot_mask + 1;
    if (!lode_alloc_array(v.room, sizeof(*v.token), "tokens", &tokens, err) ||
        !lode_alloc_array(v.slot_mask + 1, sizeof(*v.slot), "slots", &slots,
                          err))
        goto out;
    v.token = tokens;
    v.slot = slots;
    put_bytes(&v);
    put_words(&v);
    put_pairs(&v);
    good = write_vocab(&v, dir, err) &&
           ck_write_tokenizer_config(m, dir, err);
out:
    free(slots);
    free(tokens);
    return good;
}
