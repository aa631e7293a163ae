/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/values.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/cli.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/encoding.h"

/* A multiple of every group of scales. */
enum { PIECE_ELEMENTS = 64 << 10, PIECE_BYTES = 4 * PIECE_ELEMENTS };

/* ---- sides ---- */

static bool
count_elements(const uint64_t *dims, uint32_t dim_count, uint64_t *out)
{
    uint64_t n = 1;

    for (uint32_t i = 0; i < dim_count; i++)
        if (!lode_mul(n, dims[i], &n))
            return false;
    *out = n;
    return true;
}

bool
cv_side_of(struct cv_window *w, uint32_t group_index, uint32_t object_index,
           uint32_t tensor_index, struct cv_side *out)
{
    const struct lode_reader *r = cv_window_reader(w);
    const struct lode_group *g = lode_reader_group(r, group_index);
    uint32_t count;
    const struct lode_tensor *tensors =
        lode_reader_schema(r, g->schema_index, &count);
    const struct lode_tensor *t = &tensors[tensor_index];

    memset(out, 0, sizeof(*out));
    out->data.w = w;
    out->data.group_index = group_index;
    out->data.object_index = object_index;
    out->data.offset = t->raw_offset;
    out->scales = out->data;
    out->encoding = t->encoding;
    out->dtype = t->dtype;
    out->raw_bytes = t->raw_bytes;
    if (!count_elements(t->dim, t->dim_count, &out->element_count))
        return false;
    if (lode_encoding_find(t->encoding) != LODE_ENC_MXFP4)
        return true;
    out->element_count = 2 * t->raw_bytes; /* an object has at most 2^40 */
    for (uint32_t i = 0; i < count; i++)
        if (t->role != 0 && tensors[i].role == t->role + 1 &&
            lode_encoding_find(tensors[i].encoding) == LODE_ENC_E8M0_G32 &&
            tensors[i].raw_bytes == t->raw_bytes / 16) {
            out->scales.offset = tensors[i].raw_offset;
            out->has_scales = true;
        }
    return true;
}

void
cv_side_of_file(int fd, uint64_t offset, uint64_t raw_bytes, const char *dtype,
                const uint64_t *dims, uint32_t dim_count, struct cv_side *out)
{
    const char *encoding = lode_dtype_encoding(dtype);

    memset(out, 0, sizeof(*out));
    out->data.fd = fd;
    out->data.offset = offset;
    out->encoding = encoding != NULL ? encoding : dtype;
    out->dtype = dtype;
    out->raw_bytes = raw_bytes;
    if (!count_elements(dims, dim_count, &out->element_count))
        out->element_count = 0; /* has no bytes, or was refused before */
}

/* ---- reading ---- */

static bool
read_bytes(const struct cv_bytes *s, uint64_t at, void *dst, size_t bytes,
           struct lode_error *err)
{
    if (lode_cancelled != 0)
        return lode_fail(err, LODE_E_CANCELLED, "cancelled");
    if (s->w == NULL)
        return lode_file_read(s->fd, s->offset + at, dst, bytes, err);
    return cv_window_copy(s->w, s->group_index, s->object_index, s->offset + at,
                          dst, bytes, err);
}

/* Bytes of an element of a plain float encoding, or 0. */
static uint32_t
plain_bytes(const struct cv_side *s)
{
    switch (lode_encoding_find(s->encoding)) {
    case LODE_ENC_F32:
        return 4;
    case LODE_ENC_F16:
    case LODE_ENC_BF16:
        return 2;
    default:
        return 0;
    }
}

static bool
has_numbers(const struct cv_side *s)
{
    return plain_bytes(s) != 0 ||
           (lode_encoding_find(s->encoding) == LODE_ENC_MXFP4 &&
            s->has_scales && s->element_count % 32 == 0);
}

/* Elements [first, first + count), count at most a piece; raw has room for
 * PIECE_BYTES. */
static bool
read_numbers(const struct cv_side *s, uint64_t first, size_t count,
             uint8_t *raw, float *out, struct lode_error *err)
{
    uint32_t bytes = plain_bytes(s);
    uint8_t *scales = raw + PIECE_ELEMENTS / 2;

    if (bytes != 0) {
        if (!read_bytes(&s->data, first * bytes, raw, count * bytes, err))
            return false;
        lode_decode_plain(lode_encoding_find(s->encoding), raw, count, out);
        return true;
    }
    if (!read_bytes(&s->data, first / 2, raw, count / 2, err) ||
        !read_bytes(&s->scales, first / 32, scales, count / 32, err))
        return false;
    lode_decode_mxfp4(raw, scales, count, out);
    return true;
}

/* ---- comparing ---- */

struct buffers {
    uint8_t *raw;
    float *a;
    float *b;
};

static bool
make_buffers(struct buffers *m, struct lode_error *err)
{
    void *p = NULL;

    if (!lode_alloc_array(3, PIECE_BYTES, "values", &p, err))
        return false;
    m->raw = p;
    m->a = (float *)(void *)(m->raw + PIECE_BYTES);
    m->b = m->a + PIECE_ELEMENTS;
    return true;
}

/* Sets *first to the first byte that differs, or to raw_bytes. */
static bool
compare_bytes(const struct cv_side *a, const struct cv_side *b,
              const struct buffers *m, uint64_t *first, struct lode_error *err)
{
    uint8_t *ours = (uint8_t *)m->a;
    uint8_t *theirs = (uint8_t *)m->b;

    for (uint64_t at = 0; at < a->raw_bytes;) {
        size_t n = a->raw_bytes - at < PIECE_BYTES ? (size_t)(a->raw_bytes - at)
                                                   : PIECE_BYTES;

        if (!read_bytes(&a->data, at, ours, n, err) ||
            !read_bytes(&b->data, at, theirs, n, err))
            return false;
        for (size_t i = memcmp(ours, theirs, n) == 0 ? n : 0; i < n; i++)
            if (ours[i] != theirs[i]) {
                *first = at + i;
                return true;
            }
        at += n;
    }
    *first = a->raw_bytes;
    return true;
}

/* Sums over what differs; no number on both sides is equal. */
static bool
compare_numbers(const struct cv_side *a, const struct cv_side *b,
                const struct buffers *m, struct cv_delta *d,
                struct lode_error *err)
{
    double error = 0;
    double norm = 0;

    for (uint64_t at = 0; at < a->element_count; at += PIECE_ELEMENTS) {
        uint64_t left = a->element_count - at;
        size_t n = left < PIECE_ELEMENTS ? (size_t)left : PIECE_ELEMENTS;

        if (!read_numbers(a, at, n, m->raw, m->a, err) ||
            !read_numbers(b, at, n, m->raw, m->b, err))
            return false;
        for (size_t i = 0; i < n; i++) {
            double x = (double)m->a[i];
            double y = (double)m->b[i];

            norm += isfinite(y) ? y * y : 0;
            if (x == y || (isnan(x) && isnan(y)))
                continue;
            error += isfinite(x - y) ? (x - y) * (x - y) : (double)INFINITY;
            if (d->different_count++ == 0) {
                d->first_element = at + i;
                d->a = x;
                d->b = y;
            }
        }
    }
    d->relative = error == 0 ? 0 : sqrt(error / norm);
    return true;
}

bool
cv_values_compare(const struct cv_side *a, const struct cv_side *b,
                  struct cv_delta *out, struct lode_error *err)
{
    bool one_encoding =
        strcmp(a->encoding, b->encoding) == 0 && a->raw_bytes == b->raw_bytes;
    struct buffers m;
    bool ok = true;

    memset(out, 0, sizeof(*out));
    if (!make_buffers(&m, err))
        return false;
    out->verdict = CV_DIFFERENT_BYTES;
    if (one_encoding) {
        ok = compare_bytes(a, b, &m, &out->first_element, err);
        if (ok && out->first_element == a->raw_bytes)
            out->verdict = CV_SAME;
    }
    if (ok && out->verdict != CV_SAME && has_numbers(a) && has_numbers(b) &&
        a->element_count == b->element_count) {
        ok = compare_numbers(a, b, &m, out, err);
        /* In one encoding 0 and -0, say, are still other bytes. */
        if (out->different_count != 0)
            out->verdict = CV_DIFFERENT;
        else if (!one_encoding)
            out->verdict = CV_SAME_VALUES;
    }
    free(m.raw);
    return ok;
}

const char *
cv_delta_text(const struct cv_delta *d, char *out, size_t out_bytes)
{
    switch (d->verdict) {
    case CV_SAME:
        (void)snprintf(out, out_bytes, "equal");
        break;
    case CV_SAME_VALUES:
        (void)snprintf(out, out_bytes, "equal values in another encoding");
        break;
    case CV_DIFFERENT_BYTES:
        (void)snprintf(out, out_bytes, "bytes differ, first at %" PRIu64,
                       d->first_element);
        break;
    case CV_DIFFERENT:
        (void)snprintf(out, out_bytes,
                       "%" PRIu64 " values differ, first at element %" PRIu64
                       ": %.9g against %.9g; relative error %.3g",
                       d->different_count, d->first_element, d->a, d->b,
                       d->relative);
        break;
    }
    return out;
}
