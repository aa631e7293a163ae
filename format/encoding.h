/* SPDX-License-Identifier: Apache-2.0
 *
 * Numeric encodings (docs/format.md appendix A): names, sizes, and the
 * reference decode that every kernel is tested against. */

#ifndef LODE_FORMAT_ENCODING_H
#define LODE_FORMAT_ENCODING_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum lode_encoding {
    LODE_ENC_UNKNOWN = 0, /* a name this build does not know: carried */
    LODE_ENC_F32,
    LODE_ENC_F16,
    LODE_ENC_BF16,
    LODE_ENC_MXFP4,    /* "mxfp4.e2m1.lo": the nibble plane */
    LODE_ENC_E8M0_G32, /* "e8m0.g32": scales, one per 32 columns */
    LODE_ENC_OPAQUE,   /* a known dtype whose numbers we do not interpret */
};

enum lode_encoding lode_encoding_find(const char *name);

/* Bits of one element of a safetensors dtype word ("F32", "F4", ...), or 0 when
 * the word is unknown.  Always 4, 6 or a multiple of 8. */
uint32_t lode_dtype_bits(const char *dtype);

/* The encoding name that goes with a dtype word when nothing more is known:
 * "BF16" -> "bf16", "F8_E4M3" -> "f8.e4m3"; NULL when the word is unknown. */
const char *lode_dtype_encoding(const char *dtype);

/* count values of a plain encoding (F32, F16, BF16) to float32, exactly. */
void lode_decode_plain(enum lode_encoding e, const void *src, size_t count,
                       float *out);

/* One MXFP4 row of cols columns (a multiple of 32): cols / 2 bytes of nibbles,
 * low nibble first, cols / 32 scale bytes; value = e2m1 x 2^(scale - 127),
 * scale 255 is NaN (OCP Microscaling Formats 1.0, sections 5.2 and 5.4). */
void lode_decode_mxfp4(const uint8_t *nibbles, const uint8_t *scales,
                       size_t cols, float *out);

#endif
