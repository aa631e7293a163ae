/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/le.h"
#include "format/filter.h"
#include "format/frame.h"

/* Spec 7.3. */
void
lode_frame_encode(const struct lode_frame *f, uint8_t *out)
{
    lode_store_u32(out, f->raw_bytes);
    lode_store_u32(out + 4, f->stored[0]);
    lode_store_u32(out + 8, f->stored[1]);
    lode_store_u32(out + 12, f->scale_offset);
    lode_store_u32(out + 16, f->raw[0]);
    out[20] = f->filter;
    out[21] = f->threshold;
    lode_store_u16(out + 22, 0);
}

/* What the filter says about the other fields. */
static bool
check_filter(const struct lode_frame *f, struct lode_error *err)
{
    uint32_t unit = lode_filter_unit(f->filter);
    uint32_t want;

    if (f->raw_bytes % unit != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%u raw bytes, expected a multiple of %u for filter "
                         "%u",
                         f->raw_bytes, unit, f->filter);
    if (f->filter == LODE_FILTER_SCALECLASS) {
        if (f->raw[0] > f->raw_bytes || f->raw[0] % unit != 0)
            return lode_fail(err, LODE_E_CORRUPT,
                             "%u raw bytes of plane 0, expected a multiple of "
                             "%u up to %u",
                             f->raw[0], unit, f->raw_bytes);
        return true;
    }
    want = lode_filter_plane0(f->filter, f->raw_bytes);
    if (f->raw[0] != want)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%u raw bytes of plane 0, expected %u for filter %u",
                         f->raw[0], want, f->filter);
    if (f->scale_offset != 0 || f->threshold != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "scale offset %u and threshold %u, expected 0 for "
                         "filter %u",
                         f->scale_offset, f->threshold, f->filter);
    return true;
}

bool
lode_frame_decode(const uint8_t *in, struct lode_frame *out,
                  struct lode_error *err)
{
    struct lode_frame f = {
        .raw_bytes = lode_load_u32(in),
        .stored = {lode_load_u32(in + 4), lode_load_u32(in + 8)},
        .scale_offset = lode_load_u32(in + 12),
        .raw = {lode_load_u32(in + 16), 0},
        .filter = in[20],
        .threshold = in[21],
    };

    if (lode_load_u16(in + 22) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "reserved bytes are not zero");
    if (f.filter >= LODE_FILTER_COUNT)
        return lode_fail(err, LODE_E_CORRUPT, "filter %u, expected at most %u",
                         f.filter, LODE_FILTER_COUNT - 1);
    if (f.raw_bytes == 0 || f.raw_bytes > LODE_FRAME_RAW_BYTES_MAX)
        return lode_fail(err, LODE_E_CORRUPT, "%u raw bytes, expected 1 to %u",
                         f.raw_bytes, LODE_FRAME_RAW_BYTES_MAX);
    if (!check_filter(&f, err))
        return false;
    f.raw[1] = f.raw_bytes - f.raw[0];
    for (uint32_t p = 0; p < LODE_FRAME_PLANES; p++)
        if (f.stored[p] > f.raw[p] || (f.stored[p] == 0) != (f.raw[p] == 0))
            return lode_fail(err, LODE_E_CORRUPT,
                             "%u stored bytes of plane %u, which has %u raw "
                             "bytes",
                             f.stored[p], p, f.raw[p]);
    *out = f;
    return true;
}
