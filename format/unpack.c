/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacking (spec 7.3).  A packed block is as hostile as the file it came from:
 * the table is checked as a whole before any frame is decoded, and each zstd
 * frame's header before libzstd sees it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/le.h"
#include "base/mem.h"
#include "format/filter.h"
#include "format/frame.h"
#include "format/limits.h"
#include "format/pack.h"

enum {
    WINDOW_BYTES_MAX = 1 << 20,
    CONTEXT_BYTES = 192 << 10, /* libzstd's own; t_pack compares */
};

struct lode_unpacker {
    ZSTD_DCtx *context;
    uint8_t *planes; /* room for both planes of a frame */
};

/* Where a frame is: its bytes, and its place in the image. */
struct frame_at {
    uint32_t stored_offset;
    uint32_t image_offset;
    uint32_t index;
};

void
lode_unpacker_free(struct lode_unpacker *u)
{
    if (u == NULL)
        return;
    (void)ZSTD_freeDCtx(u->context); /* NULL is allowed; always 0 */
    free(u->planes);
    free(u);
}

bool
lode_unpacker_new(struct lode_unpacker **out, struct lode_error *err)
{
    struct lode_unpacker *u = NULL;

    if (!lode_alloc_array(1, sizeof(*u), "an unpacker", (void **)&u, err))
        return false;
    u->context = ZSTD_createDCtx();
    if (u->context == NULL) {
        (void)lode_fail(err, LODE_E_NOMEM, "no memory for a zstd context");
        goto fail;
    }
    if (!lode_alloc_array(LODE_FRAME_RAW_BYTES_MAX, 1, "planes of a frame",
                          (void **)&u->planes, err))
        goto fail;
    *out = u;
    return true;
fail:
    lode_unpacker_free(u);
    return false;
}

uint64_t
lode_unpacker_bytes(void)
{
    return sizeof(struct lode_unpacker) + LODE_FRAME_RAW_BYTES_MAX +
           CONTEXT_BYTES;
}

static const uint8_t *
record(const struct lode_frames *f, uint32_t index)
{
    return f->stored + LODE_PACK_HEADER_BYTES +
           (size_t)index * LODE_FRAME_RECORD_BYTES;
}

static uint32_t
data_offset(const struct lode_frames *f)
{
    return LODE_PACK_HEADER_BYTES + f->count * LODE_FRAME_RECORD_BYTES;
}

static uint8_t
record_filter(const struct lode_frames *f, uint32_t index)
{
    return record(f, index)[20];
}

/* From one frame to the next, in a table that was checked. */
static void
advance(const struct lode_frames *f, struct frame_at *at)
{
    const uint8_t *r = record(f, at->index);

    at->image_offset += lode_load_u32(r);
    at->stored_offset += lode_load_u32(r + 4) + lode_load_u32(r + 8);
    at->index++;
}

static void
find_frame(const struct lode_frames *f, uint32_t index, struct frame_at *at)
{
    *at = (struct frame_at){.stored_offset = data_offset(f)};
    while (at->index < index)
        advance(f, at);
}

/* Each record by itself, their sums, and the filters in use. */
static bool
check_records(const struct lode_frames *f, uint8_t filters,
              struct lode_error *err)
{
    uint64_t raw = 0;
    uint64_t stored = data_offset(f);
    uint8_t used = 0;

    for (uint32_t i = 0; i < f->count; i++) {
        struct lode_frame r;

        if (!lode_frame_decode(record(f, i), &r, err))
            return lode_fail_in(err, "frame %u", i);
        raw += r.raw_bytes;
        stored += (uint64_t)r.stored[0] + r.stored[1];
        used |= (uint8_t)(1U << r.filter);
    }
    used &= (uint8_t)~1U;
    if (raw != f->raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "frames have %llu raw bytes, the block %u",
                         (unsigned long long)raw, f->raw_bytes);
    if (stored != f->stored_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "frames end at stored byte %llu, the block at %u",
                         (unsigned long long)stored, f->stored_bytes);
    if (used != filters)
        return lode_fail(err, LODE_E_CORRUPT,
                         "frames have filters 0x%02x, the block record 0x%02x",
                         used, filters);
    return true;
}

/* Frame i's scales lie in the image, and in frames that need none: so they are
 * there when it is decoded, whatever the order within a phase. */
static bool
check_scales(const struct lode_frames *f, uint32_t i, struct lode_error *err)
{
    uint64_t from = lode_load_u32(record(f, i) + 12);
    uint64_t end = from + lode_load_u32(record(f, i)) / LODE_GROUP_BYTES;
    uint64_t offset = 0;

    if (end > f->raw_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "frame %u: scales end at %llu, the image at %u", i,
                         (unsigned long long)end, f->raw_bytes);
    for (uint32_t k = 0; k < f->count && offset < end; k++) {
        offset += lode_load_u32(record(f, k));
        if (offset > from && record_filter(f, k) == LODE_FILTER_SCALECLASS)
            return lode_fail(err, LODE_E_CORRUPT,
                             "frame %u: scales lie in frame %u, which needs "
                             "scales itself",
                             i, k);
    }
    return true;
}

bool
lode_frames_open(const void *stored, uint32_t stored_bytes, uint32_t raw_bytes,
                 uint8_t filters, struct lode_frames *out,
                 struct lode_error *err)
{
    struct lode_frames f = {
        .stored = stored, .stored_bytes = stored_bytes, .raw_bytes = raw_bytes};

    if (stored_bytes < LODE_PACK_HEADER_BYTES + LODE_FRAME_RECORD_BYTES)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%u stored bytes, too few for a table of frames",
                         stored_bytes);
    f.count = lode_load_u32(f.stored);
    if (f.count == 0 || f.count > LODE_FRAMES_MAX ||
        f.count >
            (stored_bytes - LODE_PACK_HEADER_BYTES) / LODE_FRAME_RECORD_BYTES)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%u frames, expected 1 to %u, in %u stored bytes",
                         f.count, LODE_FRAMES_MAX, stored_bytes);
    if (lode_load_u32(f.stored + 4) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "reserved bytes behind the frame count are not zero");
    if (!check_records(&f, filters, err))
        return false;
    for (uint32_t i = 0; i < f.count; i++) {
        if (record_filter(&f, i) != LODE_FILTER_SCALECLASS)
            continue;
        f.second_phase = true;
        if (!check_scales(&f, i, err))
            return false;
    }
    *out = f;
    return true;
}

static uint32_t
frame_phase(const struct lode_frames *f, uint32_t index)
{
    return record_filter(f, index) == LODE_FILTER_SCALECLASS;
}

void
lode_frames_place(const struct lode_frames *f, uint32_t frame_index,
                  struct lode_frame_place *out)
{
    struct frame_at at;

    find_frame(f, frame_index, &at);
    out->offset = at.image_offset;
    out->bytes = lode_load_u32(record(f, frame_index));
    out->stored_bytes = lode_load_u32(record(f, frame_index) + 4) +
                        lode_load_u32(record(f, frame_index) + 8);
    out->phase = frame_phase(f, frame_index);
}

/* The header of a zstd frame (RFC 8878, 3.1.1.1) is one that we allow: content
 * size there and equal to raw, a small window, no dictionary, no checksum. */
static bool
check_zstd_header(const uint8_t *in, uint32_t bytes, uint32_t raw,
                  struct lode_error *err)
{
    static const uint8_t size_bytes[4] = {0, 2, 4, 8};
    uint32_t descriptor, used, size_field;
    uint64_t window, size;

    /* the longest header is 4 + 1 + 1 + 8 bytes, then there is a block */
    if (bytes < 6 || lode_load_u32(in) != ZSTD_MAGICNUMBER)
        return lode_fail(err, LODE_E_CORRUPT, "not a zstd frame");
    descriptor = in[4];
    if ((descriptor & 0x0fU) != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd frame header descriptor 0x%02x asks for a "
                         "dictionary, a checksum or a reserved bit",
                         descriptor);
    used = 5;
    size_field = size_bytes[descriptor >> 6];
    window = 0;
    if ((descriptor & 0x20U) == 0) {
        uint64_t base = UINT64_C(1) << (10 + (in[5] >> 3));

        window = base + base / 8 * (in[5] & 7U);
        used++;
    } else if (size_field == 0) {
        size_field = 1;
    }
    if (window > WINDOW_BYTES_MAX)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd window of %llu bytes, expected at most %d",
                         (unsigned long long)window, WINDOW_BYTES_MAX);
    if (size_field == 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd frame without its content size");
    if (bytes - used < size_field)
        return lode_fail(err, LODE_E_CORRUPT, "zstd frame header cut off");
    size = 0;
    for (uint32_t i = 0; i < size_field; i++)
        size |= (uint64_t)in[used + i] << (8 * i);
    if (size_field == 2)
        size += 256;
    if (size != raw)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd content size %llu, expected %u",
                         (unsigned long long)size, raw);
    return true;
}

/* Exactly raw bytes to out, from exactly bytes. */
static bool
decode_zstd(struct lode_unpacker *u, const uint8_t *in, uint32_t bytes,
            uint32_t raw, uint8_t *out, struct lode_error *err)
{
    size_t n;

    if (!check_zstd_header(in, bytes, raw, err))
        return false;
    n = ZSTD_findFrameCompressedSize(in, bytes);
    if (ZSTD_isError(n))
        return lode_fail(err, LODE_E_CORRUPT, "zstd frame: %s",
                         ZSTD_getErrorName(n));
    if (n != bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd frame of %zu bytes, expected %u", n, bytes);
    n = ZSTD_decompressDCtx(u->context, out, raw, in, bytes);
    if (ZSTD_isError(n))
        return lode_fail(err, LODE_E_CORRUPT, "zstd frame: %s",
                         ZSTD_getErrorName(n));
    if (n != raw)
        return lode_fail(err, LODE_E_CORRUPT,
                         "zstd frame gave %zu bytes, expected %u", n, raw);
    return true;
}

/* Where plane p of a frame is: in the block, or decoded in scratch. */
static bool
open_plane(struct lode_unpacker *u, const struct lode_frame *r, uint32_t p,
           const uint8_t *in, const uint8_t **plane, struct lode_error *err)
{
    uint8_t *scratch = u->planes + (p != 0 ? r->raw[0] : 0);

    in += p != 0 ? r->stored[0] : 0;
    *plane = in;
    if (r->stored[p] == r->raw[p])
        return true;
    *plane = scratch;
    if (!decode_zstd(u, in, r->stored[p], r->raw[p], scratch, err))
        return lode_fail_in(err, "plane %u", p);
    return true;
}

static bool
decode_frame(struct lode_unpacker *u, const struct lode_frame *r,
             const uint8_t *in, uint8_t *image, uint8_t *out,
             struct lode_error *err)
{
    uint32_t groups = r->raw_bytes / LODE_GROUP_BYTES;
    const uint8_t *scales = image + r->scale_offset;
    const uint8_t *plane[LODE_FRAME_PLANES];

    if (r->filter == LODE_FILTER_NONE && r->stored[0] != r->raw[0])
        return decode_zstd(u, in, r->stored[0], r->raw[0], out, err);
    if (r->filter == LODE_FILTER_NONE) {
        memcpy(out, in, r->raw_bytes);
        return true;
    }
    for (uint32_t p = 0; p < LODE_FRAME_PLANES; p++)
        if (!open_plane(u, r, p, in, &plane[p], err))
            return false;
    if (r->filter != LODE_FILTER_SCALECLASS) {
        lode_filter_merge(r->filter, plane[0], plane[1], r->raw_bytes, out);
        return true;
    }
    /* the planes hold as many groups as the scales say, or the merge would
     * read beyond them */
    if (lode_scales_count(scales, groups, r->threshold) !=
        r->raw[0] / LODE_GROUP_BYTES)
        return lode_fail(err, LODE_E_CORRUPT,
                         "plane 0 has %u groups, the scales put %u there",
                         r->raw[0] / LODE_GROUP_BYTES,
                         lode_scales_count(scales, groups, r->threshold));
    lode_scales_merge(scales, groups, r->threshold, plane[0], plane[1], out);
    return true;
}

static bool
unpack_at(struct lode_unpacker *u, const struct lode_frames *f,
          const struct frame_at *at, uint8_t *image, struct lode_error *err)
{
    struct lode_frame r;

    if (!lode_frame_decode(record(f, at->index), &r, err) ||
        !decode_frame(u, &r, f->stored + at->stored_offset, image,
                      image + at->image_offset, err))
        return lode_fail_in(err, "frame %u", at->index);
    return true;
}

bool
lode_unpack_frame(struct lode_unpacker *u, const struct lode_frames *f,
                  uint32_t frame_index, void *image, struct lode_error *err)
{
    struct frame_at at;

    find_frame(f, frame_index, &at);
    return unpack_at(u, f, &at, image, err);
}

bool
lode_unpack(struct lode_unpacker *u, const void *stored, uint32_t stored_bytes,
            uint8_t filters, void *image, uint32_t raw_bytes,
            struct lode_error *err)
{
    struct lode_frames f;

    if (!lode_frames_open(stored, stored_bytes, raw_bytes, filters, &f, err))
        return false;
    for (uint32_t phase = 0; phase < (f.second_phase ? 2 : 1); phase++) {
        struct frame_at at;

        find_frame(&f, 0, &at);
        for (uint32_t i = 0; i < f.count; i++) {
            if (frame_phase(&f, i) == phase &&
                !unpack_at(u, &f, &at, image, err))
                return false;
            advance(&f, &at);
        }
    }
    return true;
}
