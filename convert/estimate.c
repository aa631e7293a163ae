/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/estimate.h"

#include <string.h>

#include "base/cli.h"
#include "convert/flow.h"
#include "format/role.h"

enum {
    GOAL_BYTES = 1 << 19, /* of a row; files are looked at whole */
    MARGIN_PERCENT = 5,   /* a sample is not the whole */
};

struct work {
    const struct cv_estimate_input *in;
    struct cv_estimate *out;
    struct cv_slot slot; /* of the largest block sampled */
    uint32_t slot_bytes;
    struct lode_packer *packer;
    struct lode_buf runs;
    uint64_t tried_bytes;
    uint64_t start_ns;
    uint64_t packed_bytes;
    uint64_t packing_ns;
};

struct cv_estimate_row *
cv_estimate_rows(const struct cv_estimate *e, size_t *count)
{
    *count = e->rows.used_bytes / sizeof(struct cv_estimate_row);
    return (void *)e->rows.data;
}

/* ---- rows ---- */

/* What tensor t of g gets; t NULL: g is a file. */
static void
method_of(const struct work *k, const struct cv_estimate_group *g,
          const struct lode_tensor *t, struct cv_method *m)
{
    cv_choice_method(&k->in->choice, g->group.kind, t, m);
    if (g->kept) {
        m->name = "kept";
        m->why = "copied as it is";
    }
}

static bool
find_row(struct work *k, const struct cv_estimate_group *g,
         const struct lode_tensor *t, struct cv_estimate_row **out,
         struct lode_error *err)
{
    const char *encoding = t != NULL ? t->encoding : "file";
    uint16_t role = t != NULL ? t->role : (uint16_t)LODE_ROLE_NONE;
    struct cv_estimate_row new = {
        .encoding = encoding, .kind = g->group.kind, .role = role};
    struct cv_estimate_row *rows;
    struct cv_method m;
    size_t count;

    method_of(k, g, t, &m);
    rows = cv_estimate_rows(k->out, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].kind == new.kind &&
            rows[i].role == role &&strcmp(rows[i].encoding, encoding) == 0 &&
            strcmp(rows[i].codec, m.name) == 0) {
            *out = &rows[i];
            return true;
        }
    new.codec = m.name;
    new.why = m.why;
    new.packing = g->kept || m.effort != LODE_EFFORT_RAW;
    if (!lode_buf_append(&k->out->rows, &new, sizeof(new), err))
        return false;
    rows = cv_estimate_rows(k->out, &count);
    *out = &rows[count - 1];
    return true;
}

static bool
count_tensors(struct work *k, struct lode_error *err)
{
    for (uint32_t i = 0; i < k->in->group_count; i++) {
        const struct cv_estimate_group *g = &k->in->groups[i];
        uint64_t objects = g->group.object_count;
        struct cv_estimate_row *row;

        for (uint32_t t = 0; t < g->tensor_count; t++) {
            if (!find_row(k, g, &g->tensors[t], &row, err))
                return false;
            row->tensor_count += objects;
            row->raw_bytes += objects * g->tensors[t].raw_bytes;
        }
        if (g->tensor_count != 0)
            continue;
        if (!find_row(k, g, NULL, &row, err))
            return false;
        row->tensor_count += objects;
        row->raw_bytes += objects * g->group.object_raw_bytes;
    }
    return true;
}

/* ---- blocks ---- */

static uint32_t
block_bytes(const struct lode_group *g, uint32_t seq)
{
    uint64_t at = (uint64_t)seq * g->block_raw_bytes;
    uint64_t left = g->object_raw_bytes - at;

    return (uint32_t)(g->blocks_per_object > 1 && left > g->block_raw_bytes
                          ? g->block_raw_bytes
                          : left);
}

/* A file is one piece without a name. */
static uint32_t
piece_count(const struct cv_estimate_group *g)
{
    return g->tensor_count != 0 ? g->tensor_count : 1;
}

/* Bytes that piece i of g's image has in [from, from + bytes). */
static uint64_t
overlap(const struct cv_estimate_group *g, uint32_t i, uint64_t from,
        uint64_t bytes)
{
    uint64_t start = 0;
    uint64_t end = g->group.object_raw_bytes;

    if (g->tensor_count != 0) {
        start = g->tensors[i].raw_offset;
        end = start + g->tensors[i].raw_bytes;
    }
    start = start > from ? start : from;
    end = end < from + bytes ? end : from + bytes;
    return end > start ? end - start : 0;
}

static bool
piece_row(struct work *k, const struct cv_estimate_group *g, uint32_t i,
          struct cv_estimate_row **out, struct lode_error *err)
{
    return find_row(k, g, g->tensor_count != 0 ? &g->tensors[i] : NULL, out,
                    err);
}

/* ---- samples ---- */

static bool
is_zero(const uint8_t *data, size_t bytes)
{
    return bytes == 0 ||
           (data[0] == 0 && memcmp(data, data + 1, bytes - 1) == 0);
}

/* Stored bytes for [from, from + bytes) of the object, shared among what lies
 * there.  Holes and zeros tell nothing about weights: they do not count. */
static bool
credit(struct work *k, const struct cv_estimate_group *g, uint64_t from,
       uint32_t bytes, uint64_t stored_bytes, struct lode_error *err)
{
    for (uint32_t i = 0; i < piece_count(g); i++) {
        uint64_t n = overlap(g, i, from, bytes);
        struct cv_estimate_row *row;

        if (n == 0)
            continue;
        if (!piece_row(k, g, i, &row, err))
            return false;
        row->sampled_bytes += n;
        row->sample_stored_bytes += stored_bytes * n / bytes;
    }
    return true;
}

/* What packing made of a block, frame by frame. */
static bool
credit_frames(struct work *k, const struct cv_estimate_group *g, uint64_t from,
              const struct cv_sample *s, bool look, struct lode_error *err)
{
    struct lode_frames frames;

    if (!lode_frames_open(s->packed, s->stored_bytes, s->raw_bytes, s->filters,
                          &frames, err))
        return false;
    for (uint32_t i = 0; i < frames.count; i++) {
        struct lode_frame_place p;

        lode_frames_place(&frames, i, &p);
        if (look && is_zero(s->image + p.offset, p.bytes))
            continue;
        if (!credit(k, g, from + p.offset, p.bytes,
                    p.stored_bytes + LODE_FRAME_RECORD_BYTES, err))
            return false;
    }
    return true;
}

static bool
pack_sample(struct work *k, const struct cv_estimate_group *g, uint32_t seq,
            struct cv_sample *s, struct lode_error *err)
{
    uint64_t from = (uint64_t)seq * g->group.block_raw_bytes;
    struct lode_parcel parcel = {.image = s->image, .raw_bytes = s->raw_bytes};
    uint64_t start;

    if (is_zero(s->image, s->raw_bytes))
        return true;
    if (!cv_choice_runs(&k->in->choice, &g->group, g->tensors, g->tensor_count,
                        seq, &k->runs, err))
        return false;
    start = lode_now_ns();
    if (k->runs.used_bytes == 0 ||
        !lode_pack(k->packer, s->image, s->raw_bytes,
                   (const void *)k->runs.data,
                   (uint32_t)(k->runs.used_bytes / sizeof(struct lode_run)),
                   cv_choice_min_gain(&k->in->choice), s->packed,
                   &s->stored_bytes, &s->filters, err))
        return k->runs.used_bytes == 0;
    parcel.codec = s->stored_bytes != 0 ? LODE_CODEC_ZSTD : LODE_CODEC_NONE;
    parcel.stored = s->stored_bytes != 0 ? s->packed : s->image;
    parcel.stored_bytes = s->stored_bytes != 0 ? s->stored_bytes : s->raw_bytes;
    lode_seal(&parcel);
    k->packing_ns += lode_now_ns() - start;
    k->packed_bytes += s->raw_bytes;
    if (s->stored_bytes == 0)
        return credit(k, g, from, s->raw_bytes, s->raw_bytes, err);
    return credit_frames(k, g, from, s, true, err);
}

/* Is there something in this block of which we have not seen enough? */
static bool
is_wanted(struct work *k, const struct cv_estimate_group *g, uint32_t seq,
          bool *wanted, struct lode_error *err)
{
    uint64_t from = (uint64_t)seq * g->group.block_raw_bytes;

    *wanted = false;
    for (uint32_t i = 0; i < piece_count(g) && !*wanted; i++) {
        struct cv_estimate_row *row;

        if (overlap(g, i, from, block_bytes(&g->group, seq)) == 0)
            continue;
        if (!piece_row(k, g, i, &row, err))
            return false;
        *wanted = row->packing &&
                  (g->tensor_count == 0 || row->tried_bytes < GOAL_BYTES);
    }
    return true;
}

static bool
note_tried(struct work *k, const struct cv_estimate_group *g, uint32_t seq,
           struct lode_error *err)
{
    uint64_t from = (uint64_t)seq * g->group.block_raw_bytes;
    uint32_t bytes = block_bytes(&g->group, seq);

    k->tried_bytes += bytes;
    for (uint32_t i = 0; i < piece_count(g); i++) {
        uint64_t n = overlap(g, i, from, bytes);
        struct cv_estimate_row *row;

        if (n == 0)
            continue;
        if (!piece_row(k, g, i, &row, err))
            return false;
        row->tried_bytes += n;
    }
    return true;
}

static bool
sample_block(struct work *k, uint32_t group, uint32_t seq,
             struct lode_error *err)
{
    const struct cv_estimate_group *g = &k->in->samples[group];
    struct cv_sample s = {.image = k->slot.image,
                          .packed = k->slot.packed,
                          .raw_bytes = block_bytes(&g->group, seq)};
    uint64_t from = (uint64_t)seq * g->group.block_raw_bytes;

    if (!note_tried(k, g, seq, err) ||
        !k->in->load(k->in->user, group, g->group.object_count / 2, seq, &s,
                     err))
        return false;
    if (s.state == CV_SAMPLE_ABSENT)
        return true;
    k->out->sampled_bytes += s.raw_bytes;
    if (s.state == CV_SAMPLE_PACKED)
        return credit_frames(k, g, from, &s, false, err);
    if (g->kept)
        return credit(k, g, from, s.raw_bytes, s.raw_bytes, err);
    return pack_sample(k, g, seq, &s, err);
}

static bool
sample_group(struct work *k, uint32_t group, struct lode_error *err)
{
    const struct cv_estimate_group *g = &k->in->samples[group];

    for (uint32_t seq = 0; seq < g->group.blocks_per_object; seq++) {
        bool wanted;

        if (!is_wanted(k, g, seq, &wanted, err))
            return false;
        if (!wanted)
            continue;
        if (k->tried_bytes + block_bytes(&g->group, seq) > CV_SAMPLE_BYTES ||
            lode_now_ns() - k->start_ns > CV_SAMPLE_NS)
            return true;
        if (!sample_block(k, group, seq, err))
            return false;
    }
    return true;
}

/* Most of a model are its experts: they come first, in case time runs out. */
static bool
sample_all(struct work *k, struct lode_error *err)
{
    uint32_t largest = 0;

    if (k->in->load == NULL)
        return true;
    for (uint32_t i = 0; i < k->in->sample_count; i++) {
        const struct lode_group *g = &k->in->samples[i].group;

        if (g->blocks_per_object != 0 && block_bytes(g, 0) > largest)
            largest = block_bytes(g, 0);
    }
    k->slot_bytes = largest;
    if (!cv_slot_init(&k->slot, largest, true, err) ||
        !lode_packer_new(&k->packer, err))
        return false;
    k->start_ns = lode_now_ns();
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < k->in->sample_count; i++)
            if ((k->in->samples[i].group.kind == LODE_KIND_EXPERT) ==
                    (pass == 0) &&
                !sample_group(k, i, err))
                return false;
    return true;
}

/* ---- sizes ---- */

/* Stored bytes a byte: its own sample's, or that of all its like. */
static double
ratio_of(const struct work *k, const struct cv_estimate_row *row)
{
    uint64_t sampled = row->sampled_bytes;
    uint64_t stored = row->sample_stored_bytes;
    const struct cv_estimate_row *rows;
    size_t count;

    if (!row->packing)
        return 1;
    rows = cv_estimate_rows(k->out, &count);
    for (size_t i = 0; row->sampled_bytes == 0 && i < count; i++)
        if (rows[i].packing && strcmp(rows[i].codec, row->codec) == 0 &&
            strcmp(rows[i].encoding, row->encoding) == 0) {
            sampled += rows[i].sampled_bytes;
            stored += rows[i].sample_stored_bytes;
        }
    return sampled != 0 ? (double)stored / (double)sampled : 1;
}

static uint64_t
padded(const struct work *k, uint64_t bytes)
{
    return (bytes + k->in->align_bytes - 1) / k->in->align_bytes *
           k->in->align_bytes;
}

/* One block as flow.c will make it: packed, or raw where that does not pay. */
static bool
add_block(struct work *k, const struct cv_estimate_group *g, uint32_t seq,
          struct lode_error *err)
{
    uint64_t from = (uint64_t)seq * g->group.block_raw_bytes;
    uint32_t raw = block_bytes(&g->group, seq);
    uint64_t gap = raw;
    double sum = LODE_PACK_HEADER_BYTES;
    bool packing = false;
    struct cv_estimate_row *row;

    for (uint32_t i = 0; i < piece_count(g); i++) {
        uint64_t n = overlap(g, i, from, raw);

        if (n == 0)
            continue;
        if (!piece_row(k, g, i, &row, err))
            return false;
        packing = packing || row->packing;
        gap -= n;
        sum += (double)n * ratio_of(k, row);
    }
    sum += (double)gap;
    if (packing)
        k->out->packing_bytes += g->group.object_count * (uint64_t)raw;
    packing = packing &&
              sum < raw * (1 - cv_choice_min_gain(&k->in->choice) / 1e3) &&
              padded(k, (uint64_t)sum) < padded(k, raw);
    for (uint32_t i = 0; i < piece_count(g); i++) {
        uint64_t n = overlap(g, i, from, raw);

        if (n == 0)
            continue;
        if (!piece_row(k, g, i, &row, err))
            return false;
        row->stored_bytes +=
            g->group.object_count *
            (packing ? (uint64_t)((double)n * ratio_of(k, row)) : n);
    }
    k->out->file_bytes +=
        g->group.object_count * padded(k, packing ? (uint64_t)sum : raw);
    return true;
}

/* The whole is known; the sample tells how it is shared. */
static bool
add_kept(struct work *k, const struct cv_estimate_group *g,
         struct lode_error *err)
{
    struct cv_estimate_row *row;
    double sum = 0;

    k->out->file_bytes += g->known_extent_bytes;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < piece_count(g); i++) {
            uint64_t n = overlap(g, i, 0, g->group.object_raw_bytes);
            double part;

            if (!piece_row(k, g, i, &row, err))
                return false;
            part = (double)n * ratio_of(k, row);
            if (pass == 0)
                sum += part;
            else if (sum > 0)
                row->stored_bytes +=
                    (uint64_t)(part / sum * (double)g->known_stored_bytes);
        }
    return true;
}

static bool
add_groups(struct work *k, struct lode_error *err)
{
    k->out->file_bytes = k->in->index_bytes;
    for (uint32_t i = 0; i < k->in->group_count; i++) {
        const struct cv_estimate_group *g = &k->in->groups[i];

        if (g->kept && !add_kept(k, g, err))
            return false;
        for (uint32_t seq = 0; !g->kept && seq < g->group.blocks_per_object;
             seq++)
            if (!add_block(k, g, seq, err))
                return false;
    }
    return true;
}

/* A reader of the table should know what was only guessed. */
static void
mark_unsampled(struct work *k)
{
    struct cv_estimate_row *rows;
    size_t count;

    rows = cv_estimate_rows(k->out, &count);
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].packing || rows[i].sampled_bytes != 0 ||
            rows[i].raw_bytes == 0 || strcmp(rows[i].codec, "kept") == 0)
            continue;
        if (ratio_of(k, &rows[i]) < 1) {
            rows[i].why = "not sampled: as others of its encoding";
        } else {
            rows[i].why = "no data to sample: taken as raw";
            k->out->unsampled = true;
        }
    }
}

bool
cv_estimate_make(const struct cv_estimate_input *in, struct cv_estimate *out,
                 struct lode_error *err)
{
    struct work k = {.in = in, .out = out};
    bool ok =
        count_tensors(&k, err) && sample_all(&k, err) && add_groups(&k, err);

    if (ok)
        mark_unsampled(&k);
    if (k.packing_ns != 0)
        out->packing_bytes_per_second =
            (uint64_t)((double)k.packed_bytes * 1e9 / (double)k.packing_ns);
    cv_slot_fini(&k.slot, k.slot_bytes);
    lode_packer_free(k.packer);
    lode_buf_fini(&k.runs);
    return ok;
}

void
cv_estimate_fini(struct cv_estimate *e)
{
    lode_buf_fini(&e->rows);
}

uint64_t
cv_estimate_needed(const struct cv_estimate *e, uint64_t at_most)
{
    uint64_t bytes = e->file_bytes + e->file_bytes / 100 * MARGIN_PERCENT;

    return bytes < at_most ? bytes : at_most;
}
