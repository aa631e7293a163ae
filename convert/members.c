/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/members.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"

enum { PIECE_BYTES = 64 << 10 };

enum place { BEFORE, INSIDE, AFTER };

struct walk {
    struct lode_json_guard guard;
    struct lode_buf text; /* "{" and the member so far */
    cv_member_fn *fn;
    void *user;
    const char *descend;
    uint64_t offset; /* of the present byte, from the start of the text */
    uint32_t depth;
    uint32_t level; /* depth at which members are cut: 1, or 2 when inside
                     * the descended object */
    enum place place;
    bool in_string;
    bool escaped;
    bool after_inner; /* the descended object ended: no more in its member */
    bool any;         /* this object has had a member already */
    bool descended;   /* once is allowed: keys are unique */
};

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool
keep(struct walk *w, char c, struct lode_error *err)
{
    if (w->text.used_bytes == 1 && is_space(c))
        return true;
    if (w->text.used_bytes > CV_MEMBER_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "JSON member longer than the limit of %d bytes at "
                         "byte %" PRIu64,
                         CV_MEMBER_BYTES_MAX, w->offset);
    if (w->text.used_bytes < w->text.room_bytes) { /* headers are long */
        w->text.data[w->text.used_bytes++] = (uint8_t)c;
        return true;
    }
    return lode_buf_append(&w->text, &c, 1, err);
}

static void
restart(struct walk *w)
{
    w->text.used_bytes = 1; /* the brace stays */
}

/* What a message can quote of a member that does not parse. */
static bool
fail_member(const struct walk *w, struct lode_error *err)
{
    size_t bytes = w->text.used_bytes - 1;

    return lode_fail_in(err, "member %.*s", (int)(bytes < 120 ? bytes : 120),
                        (const char *)w->text.data + 1);
}

static bool
report(struct walk *w, struct lode_error *err)
{
    json_t *root = NULL;
    const char *key;
    json_t *value;
    bool ok;

    if (!lode_buf_append(&w->text, "}", 1, err))
        return false;
    ok = lode_json_parse((const char *)w->text.data, w->text.used_bytes, &root,
                         err);
    w->text.used_bytes--;
    if (!ok)
        return fail_member(w, err);
    key = json_object_iter_key(json_object_iter(root));
    value = json_object_iter_value(json_object_iter(root));
    if (json_object_size(root) != 1)
        ok = lode_fail(err, LODE_E_CORRUPT, "JSON: expected a member at byte %"
                       PRIu64, w->offset);
    else if (strlen(key) > CV_KEY_BYTES_MAX)
        ok = lode_fail(err, LODE_E_LIMIT,
                       "JSON key longer than the limit of %d bytes at byte %"
                       PRIu64, CV_KEY_BYTES_MAX, w->offset);
    else
        ok = w->fn(w->user, w->level == 2, key, value, err);
    json_decref(root);
    return ok;
}

/* A comma or the closing brace at the level of members. */
static bool
end_member(struct walk *w, bool last, struct lode_error *err)
{
    bool empty = w->text.used_bytes == 1;

    if (w->after_inner && w->level == 1) {
        if (!empty)
            return lode_fail(err, LODE_E_CORRUPT,
                             "JSON: unexpected text at byte %" PRIu64,
                             w->offset);
        w->after_inner = false;
    } else if (!(empty && last && !w->any)) { /* "{}" has no member */
        if (!report(w, err))
            return false;
    }
    w->any = true;
    restart(w);
    return true;
}

/* Is the text so far  "descend" :  and nothing else? */
static bool
at_descend(const struct walk *w)
{
    const char *p = (const char *)w->text.data + 1;
    const char *end = (const char *)w->text.data + w->text.used_bytes;
    size_t n;

    if (w->descend == NULL || w->level != 1 || w->depth != 1)
        return false;
    n = strlen(w->descend);
    if ((size_t)(end - p) < n + 2 || p[0] != '"' ||
        memcmp(p + 1, w->descend, n) != 0 || p[n + 1] != '"')
        return false;
    p += n + 2;
    while (p < end && is_space(*p))
        p++;
    if (p == end || *p != ':')
        return false;
    p++;
    while (p < end && is_space(*p))
        p++;
    return p == end;
}

static bool
close_bracket(struct walk *w, char c, struct lode_error *err)
{
    if (w->depth > w->level) {
        w->depth--;
        return keep(w, c, err);
    }
    if (c != '}')
        return lode_fail(err, LODE_E_CORRUPT,
                         "JSON: ']' closes an object at byte %" PRIu64,
                         w->offset);
    if (!end_member(w, true, err))
        return false;
    w->depth--;
    if (w->level == 2) {
        w->level = 1;
        w->after_inner = true;
        w->any = true;
    } else {
        w->place = AFTER;
    }
    return true;
}

static bool
inside(struct walk *w, char c, struct lode_error *err)
{
    if (w->in_string) {
        if (w->escaped)
            w->escaped = false;
        else if (c == '\\')
            w->escaped = true;
        else if (c == '"')
            w->in_string = false;
        return keep(w, c, err);
    }
    switch (c) {
    case '{':
        if (at_descend(w)) {
            if (w->descended)
                return lode_fail(err, LODE_E_CORRUPT,
                                 "JSON: duplicate key \"%s\" at byte %" PRIu64,
                                 w->descend, w->offset);
            w->descended = true;
            w->level = w->depth = 2;
            w->any = false;
            restart(w);
            return true;
        }
        w->depth++;
        break;
    case '[':
        w->depth++;
        break;
    case '}':
    case ']':
        return close_bracket(w, c, err);
    case ',':
        if (w->depth == w->level)
            return end_member(w, false, err);
        break;
    case '"':
        w->in_string = true;
        break;
    default:
        break;
    }
    return keep(w, c, err);
}

static bool
step(struct walk *w, char c, struct lode_error *err)
{
    if (w->place == INSIDE)
        return inside(w, c, err);
    if (is_space(c))
        return true;
    if (w->place == AFTER || c != '{')
        return lode_fail(err, LODE_E_CORRUPT,
                         "JSON: expected %s, found byte 0x%02x at byte %"
                         PRIu64,
                         w->place == AFTER ? "the end" : "'{'",
                         (unsigned)(unsigned char)c, w->offset);
    w->place = INSIDE;
    w->depth = w->level = 1;
    return true;
}

bool
cv_members_walk(int fd, uint64_t offset, uint64_t bytes, const char *descend,
                cv_member_fn *fn, void *user, struct lode_error *err)
{
    struct walk w = {.fn = fn, .user = user, .descend = descend};
    void *piece = NULL;
    bool ok = false;

    lode_json_guard_init(&w.guard, LODE_JSON_STRING_BYTES_MAX);
    if (!lode_alloc_array(PIECE_BYTES, 1, "JSON buffer", &piece, err) ||
        !lode_buf_append(&w.text, "{", 1, err))
        goto out;
    while (w.offset < bytes) {
        uint64_t left = bytes - w.offset;
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;

        if (!lode_file_read(fd, offset + w.offset, piece, n, err) ||
            !lode_json_guard_feed(&w.guard, piece, n, err))
            goto out;
        for (size_t i = 0; i < n; i++, w.offset++)
            if (!step(&w, ((const char *)piece)[i], err))
                goto out;
    }
    if (w.place != AFTER)
        lode_fail(err, LODE_E_CORRUPT,
                  "JSON: the object does not end within its %" PRIu64 " bytes",
                  bytes);
    else
        ok = true;
out:
    lode_buf_fini(&w.text);
    free(piece);
    return ok;
}
