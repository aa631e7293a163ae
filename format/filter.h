/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters (spec 7.2): a frame's bytes are taken apart into two planes, of which
 * one packs well, and put together again.  Pure functions over memory that the
 * caller has sized; they look at no table and trust their arguments. */

#ifndef LODE_FORMAT_FILTER_H
#define LODE_FORMAT_FILTER_H

#include <stdint.h>

enum { LODE_GROUP_BYTES = 16 }; /* of nibbles that share a scale */

/* A frame with this filter is a multiple of so many bytes. */
uint32_t lode_filter_unit(uint8_t filter);

/* Bytes of plane 0 of a frame of so many bytes; plane 1 has the others.  Not
 * for SCALECLASS, where the scales decide. */
uint32_t lode_filter_plane0(uint8_t filter, uint32_t bytes);

/* bytes, a multiple of the unit, from in to the planes and back.  All filters
 * but NONE and SCALECLASS. */
void lode_filter_split(uint8_t filter, const uint8_t *in, uint32_t bytes,
                       uint8_t *plane0, uint8_t *plane1);
void lode_filter_merge(uint8_t filter, const uint8_t *plane0,
                       const uint8_t *plane1, uint32_t bytes, uint8_t *out);

/* SCALECLASS.  groups x 16 bytes; group g has scale scales[g] and goes to plane
 * 0 when that is at least threshold.  The planes have exactly the bytes that
 * lode_scales_count() says. */
void lode_scales_split(const uint8_t *scales, uint32_t groups,
                       uint8_t threshold, const uint8_t *in, uint8_t *plane0,
                       uint8_t *plane1);
void lode_scales_merge(const uint8_t *scales, uint32_t groups,
                       uint8_t threshold, const uint8_t *plane0,
                       const uint8_t *plane1, uint8_t *out);

/* How many scales are at least threshold. */
uint32_t lode_scales_count(const uint8_t *scales, uint32_t groups,
                           uint8_t threshold);

/* The most common scale, the smallest of several. */
uint8_t lode_scales_mode(const uint8_t *scales, uint32_t groups);

#endif
