/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/encoding.h"

enum { LEVEL_MAX = 19, FILE_LEVEL = 9, SCALE_LEVEL = 9, GROUP_BYTES = 16 };

bool
cv_choice_parse(const char *text, struct cv_choice *out, struct lode_error *err)
{
    static const struct {
        const char *name;
        enum cv_codec codec;
    } table[] = {{"none", CV_CODEC_NONE},
                 {"auto", CV_CODEC_AUTO},
                 {"zstd", CV_CODEC_ZSTD},
                 {"archive", CV_CODEC_ARCHIVE}};

    out->level = 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (strcmp(text, table[i].name) == 0) {
            out->codec = table[i].codec;
            return true;
        }
    out->codec = CV_CODEC_ZSTD;
    if (strncmp(text, "zstd:", 5) == 0 && strlen(text) <= 7 &&
        strspn(text + 5, "0123456789") == strlen(text + 5))
        out->level = (int)strtol(text + 5, NULL, 10); /* two digits at most */
    if (out->level >= 1 && out->level <= LEVEL_MAX)
        return true;
    return lode_fail(err, LODE_E_USAGE,
                     "--codec: \"%.40s\" is not auto, none, zstd, zstd:1 to "
                     "zstd:%d, or archive",
                     text, LEVEL_MAX);
}

const char *
cv_choice_name(const struct cv_choice *c, char *out, size_t out_bytes)
{
    static const char *const names[] = {
        [CV_CODEC_NONE] = "none",
        [CV_CODEC_AUTO] = "auto",
        [CV_CODEC_ZSTD] = "zstd",
        [CV_CODEC_ARCHIVE] = "archive",
    };

    if (c->level != 0)
        (void)snprintf(out, out_bytes, "%s:%d", names[c->codec], c->level);
    else
        (void)snprintf(out, out_bytes, "%s", names[c->codec]);
    return out;
}

uint32_t
cv_choice_min_gain(const struct cv_choice *c)
{
    return c->codec == CV_CODEC_ARCHIVE ? LODE_GAIN_ANY : LODE_GAIN_AUTO;
}

/* ---- one tensor ---- */

static void
set(struct cv_method *m, enum lode_filter filter, enum lode_effort effort,
    const char *name, const char *why)
{
    memset(m, 0, sizeof(*m));
    m->filter = (uint8_t)filter;
    m->effort = (uint8_t)effort;
    m->name = name;
    m->why = why;
}

static bool
is_fp8(const struct lode_tensor *t)
{
    return strcmp(t->encoding, "f8.e4m3") == 0;
}

/* Floating-point numbers whose exponents are worth packing. */
static bool
choose_float(const struct lode_tensor *t, struct cv_method *m)
{
    static const char why[] = "exponents repeat, fractions do not";

    switch (lode_encoding_find(t->encoding)) {
    case LODE_ENC_BF16:
        set(m, LODE_FILTER_ROT16SPLIT, LODE_EFFORT_FAST, "zstd + rot16split",
            why);
        return true;
    case LODE_ENC_F16:
        set(m, LODE_FILTER_SPLIT16, LODE_EFFORT_FAST, "zstd + split16", why);
        return true;
    case LODE_ENC_F32:
        set(m, LODE_FILTER_ROT32SPLIT, LODE_EFFORT_FAST, "zstd + rot32split",
            why);
        return true;
    default:
        return false;
    }
}

/* What --codec zstd and archive add to auto. */
static void
choose_rest(const struct cv_choice *c, const struct lode_tensor *t,
            struct cv_method *m)
{
    switch (lode_encoding_find(t->encoding)) {
    case LODE_ENC_MXFP4:
        if (c->codec == CV_CODEC_ARCHIVE)
            set(m, LODE_FILTER_SCALECLASS, LODE_EFFORT_FAST,
                "zstd + scaleclass", "groups of small scale differ");
        else
            set(m, LODE_FILTER_NONE, LODE_EFFORT_FAST, "zstd",
                "values are not equally frequent");
        return;
    case LODE_ENC_E8M0_G32:
        set(m, LODE_FILTER_NONE, LODE_EFFORT_LEVEL, "zstd:9",
            "scales are few and repeat");
        m->level = SCALE_LEVEL;
        return;
    default:
        break;
    }
    if (is_fp8(t))
        set(m, LODE_FILTER_NIBSPLIT8, LODE_EFFORT_FAST, "zstd + nibsplit8",
            "exponents repeat, fractions do not");
    else
        set(m, LODE_FILTER_NONE, LODE_EFFORT_FAST, "zstd", "tried");
}

void
cv_choice_method(const struct cv_choice *c, uint32_t kind,
                 const struct lode_tensor *t, struct cv_method *m)
{
    if (c->codec == CV_CODEC_NONE) {
        set(m, LODE_FILTER_NONE, LODE_EFFORT_RAW, "none", "as asked");
        return;
    }
    if (kind == LODE_KIND_ROWS) {
        set(m, LODE_FILTER_NONE, LODE_EFFORT_RAW, "none",
            "rows are read one by one");
        return;
    }
    if (t == NULL) {
        set(m, LODE_FILTER_NONE, LODE_EFFORT_LEVEL, "zstd:9", "text");
        m->level = FILE_LEVEL;
        return;
    }
    if (!choose_float(t, m)) {
        if (c->codec == CV_CODEC_AUTO) {
            set(m, LODE_FILTER_NONE, LODE_EFFORT_RAW, "none",
                "gains little, and raw needs no decoding");
            return;
        }
        choose_rest(c, t, m);
    }
    m->all_planes = c->codec == CV_CODEC_ARCHIVE;
    if (c->level != 0) {
        m->effort = LODE_EFFORT_LEVEL;
        m->level = (int8_t)c->level;
        m->all_planes = 1;
        if (m->filter == LODE_FILTER_NONE)
            m->name = "zstd";
    }
}

/* ---- one block ---- */

static bool
add_run(struct lode_buf *out, const struct cv_method *m, uint32_t offset,
        uint32_t bytes, uint32_t scale_offset, struct lode_error *err)
{
    const struct lode_run run = {.offset = offset,
                                 .bytes = bytes,
                                 .scale_offset = scale_offset,
                                 .filter = m->filter,
                                 .effort = m->effort,
                                 .level = m->level,
                                 .all_planes = m->all_planes};

    return bytes == 0 || lode_buf_append(out, &run, sizeof(run), err);
}

/* The scales of an MXFP4 tensor, if they are the next tensor and as many as
 * scaleclass needs. */
static const struct lode_tensor *
scales_of(const struct lode_tensor *tensors, uint32_t tensor_count, uint32_t i)
{
    const struct lode_tensor *t = &tensors[i];

    if (i + 1 < tensor_count && t->raw_bytes % GROUP_BYTES == 0 &&
        lode_encoding_find(t[1].encoding) == LODE_ENC_E8M0_G32 &&
        t[1].raw_bytes == t->raw_bytes / GROUP_BYTES)
        return &t[1];
    return NULL;
}

/* The part of tensor i, with the gap behind it, that lies in [start, end) of
 * the object's image. */
static bool
add_tensor(const struct cv_choice *c, const struct lode_group *g,
           const struct lode_tensor *tensors, uint32_t tensor_count, uint32_t i,
           const uint64_t range[2], struct lode_buf *out,
           struct lode_error *err)
{
    const struct lode_tensor *t = &tensors[i];
    const struct lode_tensor *scales = NULL;
    uint64_t from = t->raw_offset;
    uint64_t to =
        i + 1 < tensor_count ? tensors[i + 1].raw_offset : g->object_raw_bytes;
    struct cv_method raw = {.effort = LODE_EFFORT_RAW};
    struct cv_method m;
    uint32_t scale_offset = 0;

    if (to <= range[0] || from >= range[1])
        return true;
    from = from > range[0] ? from : range[0];
    to = to < range[1] ? to : range[1];
    cv_choice_method(c, g->kind, t, &m);
    if (m.filter != LODE_FILTER_SCALECLASS)
        return add_run(out, &m, (uint32_t)(from - range[0]),
                       (uint32_t)(to - from), 0, err);
    if (g->blocks_per_object == 1)
        scales = scales_of(tensors, tensor_count, i);
    if (scales != NULL)
        scale_offset = (uint32_t)scales->raw_offset;
    else
        m.filter = LODE_FILTER_NONE;
    /* The gap has no scales. */
    if (to > t->raw_offset + t->raw_bytes)
        to = t->raw_offset + t->raw_bytes;
    if (!add_run(out, &m, (uint32_t)(from - range[0]), (uint32_t)(to - from),
                 scale_offset, err))
        return false;
    from = to;
    to = i + 1 < tensor_count ? tensors[i + 1].raw_offset : g->object_raw_bytes;
    to = to < range[1] ? to : range[1];
    return add_run(out, &raw, (uint32_t)(from - range[0]),
                   (uint32_t)(to - from), 0, err);
}

bool
cv_choice_runs(const struct cv_choice *c, const struct lode_group *g,
               const struct lode_tensor *tensors, uint32_t tensor_count,
               uint32_t seq, struct lode_buf *out, struct lode_error *err)
{
    uint64_t start = (uint64_t)seq * g->block_raw_bytes;
    uint64_t left = g->object_raw_bytes - start;
    uint64_t bytes = g->blocks_per_object > 1 && left > g->block_raw_bytes
                         ? g->block_raw_bytes
                         : left;
    const uint64_t range[2] = {start, start + bytes};
    struct cv_method m;

    out->used_bytes = 0;
    if (c->codec == CV_CODEC_NONE || g->kind == LODE_KIND_ROWS)
        return true;
    if (tensor_count == 0) {
        cv_choice_method(c, g->kind, NULL, &m);
        return add_run(out, &m, 0, (uint32_t)bytes, 0, err);
    }
    set(&m, LODE_FILTER_NONE, LODE_EFFORT_RAW, "none", "");
    if (tensors[0].raw_offset > start &&
        !add_run(out, &m, 0,
                 (uint32_t)((tensors[0].raw_offset < range[1]
                                 ? tensors[0].raw_offset
                                 : range[1]) -
                            start),
                 0, err))
        return false;
    for (uint32_t i = 0; i < tensor_count; i++)
        if (!add_tensor(c, g, tensors, tensor_count, i, range, out, err))
            return false;
    return true;
}
