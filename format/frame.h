/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of a packed block (spec 7.3), record by record.  What
 * lode_frame_decode() accepts obeys every rule that can be told from the record
 * alone. */

#ifndef LODE_FORMAT_FRAME_H
#define LODE_FORMAT_FRAME_H

#include <stdint.h>

#include "base/error.h"
#include "format/pack.h"

struct lode_frame {
    uint32_t raw_bytes;
    uint32_t stored[LODE_FRAME_PLANES]; /* bytes of each plane as stored */
    uint32_t raw[LODE_FRAME_PLANES];    /* and before the codec */
    uint32_t scale_offset;              /* SCALECLASS, else 0 */
    uint8_t filter;
    uint8_t threshold; /* SCALECLASS, else 0 */
};

void lode_frame_encode(const struct lode_frame *f, uint8_t *out);

/* LODE_E_CORRUPT, without the number of the frame. */
LODE_MUST_CHECK
bool lode_frame_decode(const uint8_t *in, struct lode_frame *out,
                       struct lode_error *err);

#endif
