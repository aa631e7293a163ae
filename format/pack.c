/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing.  Frames follow from the runs alone; whether a plane, a frame and the
 * block are worth packing is seen by doing it.  Nothing is written behind the
 * size from which packing no longer pays, so that out needs no more room than
 * the image. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/checked.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/filter.h"
#include "format/frame.h"
#include "format/limits.h"
#include "format/pack.h"

enum {
    /* Frames are cut to this size: smaller ones decode no faster, and each
     * costs a record and its own tables (docs/decisions.md). */
    FRAME_BYTES = LODE_FRAME_RAW_BYTES_MAX,
    PACKED_BYTES = ZSTD_COMPRESSBOUND(LODE_FRAME_RAW_BYTES_MAX),
    /* What libzstd allocates for level 19 and the largest frame; t_pack
     * compares. */
    CONTEXT_BYTES = 24 << 20,
    LEVEL_MAX = 19,
};

struct lode_packer {
    ZSTD_CCtx *context;
    uint8_t *planes; /* a frame taken apart */
    uint8_t *packed; /* a plane packed */
    int effort;      /* what the context is set to; -1: to nothing */
    int level;
};

/* One call of lode_pack(). */
struct pack_job {
    struct lode_packer *p;
    const uint8_t *image;
    uint8_t *out;
    uint32_t min_gain;
    uint32_t at;          /* where the next plane goes in out */
    uint32_t limit_bytes; /* a packed block is not larger */
    uint32_t frame_index;
    uint8_t filters;
    bool full; /* limit_bytes does not suffice */
};

void
lode_packer_free(struct lode_packer *p)
{
    if (p == NULL)
        return;
    (void)ZSTD_freeCCtx(p->context); /* NULL is allowed; always 0 */
    free(p->planes);
    free(p->packed);
    free(p);
}

bool
lode_packer_new(struct lode_packer **out, struct lode_error *err)
{
    struct lode_packer *p = NULL;

    if (!lode_alloc_array(1, sizeof(*p), "a packer", (void **)&p, err))
        return false;
    p->effort = -1;
    p->context = ZSTD_createCCtx();
    if (p->context == NULL) {
        (void)lode_fail(err, LODE_E_NOMEM, "no memory for a zstd context");
        goto fail;
    }
    if (!lode_alloc_array(FRAME_BYTES, 1, "planes of a frame",
                          (void **)&p->planes, err) ||
        !lode_alloc_array(PACKED_BYTES, 1, "a packed plane",
                          (void **)&p->packed, err))
        goto fail;
    *out = p;
    return true;
fail:
    lode_packer_free(p);
    return false;
}

const char *
lode_pack_version(void)
{
    return ZSTD_versionString();
}

uint64_t
lode_packer_bytes(void)
{
    return sizeof(struct lode_packer) + FRAME_BYTES + PACKED_BYTES +
           CONTEXT_BYTES;
}

/* Bytes that must be saved of so many for packing to pay. */
static uint32_t
wanted_gain(uint32_t bytes, uint32_t min_gain)
{
    uint32_t want = (uint32_t)(((uint64_t)bytes * min_gain + 999) / 1000);

    return want != 0 ? want : 1;
}

/* Bytes of a run that its filter can take; what remains is a frame of its own,
 * without filter. */
static uint32_t
filtered_bytes(const struct lode_run *r)
{
    return r->bytes - r->bytes % lode_filter_unit(r->filter);
}

static uint64_t
count_frames(const struct lode_run *runs, uint32_t run_count)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < run_count; i++) {
        uint32_t bytes = filtered_bytes(&runs[i]);

        count += ((uint64_t)bytes + FRAME_BYTES - 1) / FRAME_BYTES;
        count += bytes != runs[i].bytes;
    }
    return count;
}

/* The scales of a run lie in runs that are decoded before it. */
static bool
check_scales(const struct lode_run *runs, uint32_t run_count,
             uint32_t raw_bytes, uint32_t i, struct lode_error *err)
{
    uint64_t from = runs[i].scale_offset;
    uint64_t groups = runs[i].bytes / LODE_GROUP_BYTES;

    if (!lode_in_range(from, groups, raw_bytes))
        return lode_fail(err, LODE_E_USAGE,
                         "run %u: scales end behind the image", i);
    for (uint32_t k = 0; k < run_count; k++)
        if (runs[k].filter == LODE_FILTER_SCALECLASS &&
            from < (uint64_t)runs[k].offset + runs[k].bytes &&
            runs[k].offset < from + groups)
            return lode_fail(err, LODE_E_USAGE,
                             "run %u: scales lie in run %u, which needs scales "
                             "itself",
                             i, k);
    return true;
}

static bool
check_runs(const struct lode_run *runs, uint32_t run_count, uint32_t raw_bytes,
           struct lode_error *err)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < run_count; i++) {
        const struct lode_run *r = &runs[i];

        if (r->offset != end || r->bytes == 0)
            return lode_fail(err, LODE_E_USAGE,
                             "run %u: %u bytes at %u, expected to begin at "
                             "%llu and not to be empty",
                             i, r->bytes, r->offset, (unsigned long long)end);
        end += r->bytes;
        if (r->filter >= LODE_FILTER_COUNT || r->effort > LODE_EFFORT_LEVEL ||
            (r->effort == LODE_EFFORT_LEVEL &&
             (r->level < 1 || r->level > LEVEL_MAX)))
            return lode_fail(err, LODE_E_USAGE,
                             "run %u: filter %u, effort %u, level %d", i,
                             r->filter, r->effort, r->level);
        if (r->filter == LODE_FILTER_SCALECLASS &&
            !check_scales(runs, run_count, raw_bytes, i, err))
            return false;
    }
    if (end != raw_bytes)
        return lode_fail(err, LODE_E_USAGE, "runs end at %llu, the image at %u",
                         (unsigned long long)end, raw_bytes);
    return true;
}

static bool
zstd_fail(size_t result, struct lode_error *err)
{
    bool memory = ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation;

    return lode_fail(err, memory ? LODE_E_NOMEM : LODE_E_UNSUPPORTED,
                     "zstd: %s", ZSTD_getErrorName(result));
}

/* Of EFFORT_FAST: a hash table of 64 entries for matches of 7 bytes finds next
 * to none in weights, which have none; what remains is entropy coding. */
static bool
set_effort(struct lode_packer *p, const struct lode_run *r,
           struct lode_error *err)
{
    static const struct {
        ZSTD_cParameter name;
        int value;
    } fast[] = {
        {ZSTD_c_strategy, ZSTD_fast}, {ZSTD_c_minMatch, 7},
        {ZSTD_c_hashLog, 6},          {ZSTD_c_windowLog, 17},
        {ZSTD_c_targetLength, 0},     {ZSTD_c_compressionLevel, 1},
    };
    int level = r->effort == LODE_EFFORT_LEVEL ? r->level : 0;
    size_t result;

    if (p->effort == r->effort && p->level == level)
        return true;
    p->effort = -1;
    result = ZSTD_CCtx_reset(p->context, ZSTD_reset_session_and_parameters);
    if (r->effort == LODE_EFFORT_LEVEL && !ZSTD_isError(result))
        result =
            ZSTD_CCtx_setParameter(p->context, ZSTD_c_compressionLevel, level);
    if (r->effort == LODE_EFFORT_FAST)
        for (size_t i = 0; i < sizeof(fast) / sizeof(*fast); i++)
            if (!ZSTD_isError(result))
                result = ZSTD_CCtx_setParameter(p->context, fast[i].name,
                                                fast[i].value);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setParameter(p->context, ZSTD_c_contentSizeFlag, 1);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setParameter(p->context, ZSTD_c_checksumFlag, 0);
    if (!ZSTD_isError(result))
        result = ZSTD_CCtx_setParameter(p->context, ZSTD_c_dictIDFlag, 0);
    if (ZSTD_isError(result))
        return zstd_fail(result, err);
    p->effort = r->effort;
    p->level = level;
    return true;
}

/* Append bytes to out, unless packing then no longer pays. */
static void
append(struct pack_job *j, const uint8_t *data, uint32_t bytes)
{
    if (j->full || bytes > j->limit_bytes - j->at) {
        j->full = true;
        return;
    }
    if (bytes != 0)
        memcpy(j->out + j->at, data, bytes);
    j->at += bytes;
}

/* Append a plane, packed if that is wanted and pays.  *stored is its size. */
static bool
append_plane(struct pack_job *j, bool try_it, const uint8_t *plane,
             uint32_t bytes, uint32_t *stored, struct lode_error *err)
{
    *stored = bytes;
    if (try_it && bytes != 0) {
        size_t n = ZSTD_compress2(j->p->context, j->p->packed, PACKED_BYTES,
                                  plane, bytes);

        if (ZSTD_isError(n))
            return zstd_fail(n, err);
        if (n < bytes && bytes - n >= wanted_gain(bytes, j->min_gain)) {
            *stored = (uint32_t)n;
            plane = j->p->packed;
        }
    }
    append(j, plane, *stored);
    return true;
}

/* Take f apart.  Its filter, raw_bytes and scale_offset are set; here raw[] and
 * threshold are. */
static void
split_frame(const struct pack_job *j, const uint8_t *in, struct lode_frame *f)
{
    const uint8_t *scales = j->image + f->scale_offset;
    uint32_t groups = f->raw_bytes / LODE_GROUP_BYTES;

    if (f->filter == LODE_FILTER_SCALECLASS) {
        f->threshold = lode_scales_mode(scales, groups);
        f->raw[0] =
            LODE_GROUP_BYTES * lode_scales_count(scales, groups, f->threshold);
        lode_scales_split(scales, groups, f->threshold, in, j->p->planes,
                          j->p->planes + f->raw[0]);
    } else {
        f->raw[0] = lode_filter_plane0(f->filter, f->raw_bytes);
        lode_filter_split(f->filter, in, f->raw_bytes, j->p->planes,
                          j->p->planes + f->raw[0]);
    }
    f->raw[1] = f->raw_bytes - f->raw[0];
}

/* The frame at offset, within run r. */
static bool
pack_frame(struct pack_job *j, const struct lode_run *r, uint8_t filter,
           uint32_t offset, uint32_t bytes, struct lode_error *err)
{
    const uint8_t *in = j->image + offset;
    const uint8_t *planes = in;
    struct lode_frame f = {
        .raw_bytes = bytes, .raw = {bytes, 0}, .filter = filter};
    bool both = r->all_planes || filter == LODE_FILTER_SCALECLASS;
    uint32_t start = j->at;

    if (filter == LODE_FILTER_SCALECLASS)
        f.scale_offset =
            r->scale_offset + (offset - r->offset) / LODE_GROUP_BYTES;
    if (filter != LODE_FILTER_NONE) {
        split_frame(j, in, &f);
        planes = j->p->planes;
    }
    if (!append_plane(j, r->effort != LODE_EFFORT_RAW, planes, f.raw[0],
                      &f.stored[0], err) ||
        !append_plane(j, r->effort != LODE_EFFORT_RAW && both,
                      planes + f.raw[0], f.raw[1], &f.stored[1], err))
        return false;
    if (j->full)
        return true;
    if (f.stored[0] == f.raw[0] && f.stored[1] == f.raw[1]) {
        f = (struct lode_frame){
            .raw_bytes = bytes, .raw = {bytes, 0}, .stored = {bytes, 0}};
        j->at = start;
        append(j, in, bytes);
    }
    if (f.filter != LODE_FILTER_NONE)
        j->filters |= (uint8_t)(1U << f.filter);
    lode_frame_encode(&f, j->out + LODE_PACK_HEADER_BYTES +
                              (size_t)j->frame_index * LODE_FRAME_RECORD_BYTES);
    j->frame_index++;
    return true;
}

static bool
pack_run(struct pack_job *j, const struct lode_run *r, struct lode_error *err)
{
    uint8_t filter =
        r->effort == LODE_EFFORT_RAW ? LODE_FILTER_NONE : r->filter;
    uint32_t filtered = filtered_bytes(r);
    uint32_t done = 0;

    if (r->effort != LODE_EFFORT_RAW && !set_effort(j->p, r, err))
        return false;
    while (done < r->bytes && !j->full) {
        uint32_t end = done < filtered ? filtered : r->bytes;
        uint32_t n = end - done < FRAME_BYTES ? end - done : FRAME_BYTES;

        if (!pack_frame(j, r, done < filtered ? filter : LODE_FILTER_NONE,
                        r->offset + done, n, err))
            return false;
        done += n;
    }
    return true;
}

bool
lode_pack(struct lode_packer *p, const void *image, uint32_t raw_bytes,
          const struct lode_run *runs, uint32_t run_count, uint32_t min_gain,
          void *out, uint32_t *stored_bytes, uint8_t *filters,
          struct lode_error *err)
{
    struct pack_job j = {
        .p = p, .image = image, .out = out, .min_gain = min_gain};
    uint64_t frames, table_bytes;

    if (raw_bytes == 0 || min_gain > 1000)
        return lode_fail(err, LODE_E_USAGE,
                         "an image of %u bytes, a gain of %u thousandths",
                         raw_bytes, min_gain);
    if (!check_runs(runs, run_count, raw_bytes, err))
        return false;
    *stored_bytes = 0;
    *filters = 0;
    frames = count_frames(runs, run_count);
    table_bytes = LODE_PACK_HEADER_BYTES + frames * LODE_FRAME_RECORD_BYTES;
    j.limit_bytes = raw_bytes - wanted_gain(raw_bytes, min_gain);
    if (frames > LODE_FRAMES_MAX || table_bytes > j.limit_bytes)
        return true;
    lode_store_u32(j.out, (uint32_t)frames);
    lode_store_u32(j.out + 4, 0);
    j.at = (uint32_t)table_bytes;
    for (uint32_t i = 0; i < run_count && !j.full; i++)
        if (!pack_run(&j, &runs[i], err))
            return false;
    if (j.full)
        return true;
    *stored_bytes = j.at;
    *filters = j.filters;
    return true;
}
