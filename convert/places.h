/* SPDX-License-Identifier: Apache-2.0
 *
 * Where in a container a tensor is, by its name in the checkpoint. */

#ifndef LODE_CONVERT_PLACES_H
#define LODE_CONVERT_PLACES_H

#include <stdint.h>

#include "format/lode.h"

struct cv_place {
    const char *name;
    uint32_t group_index;
    uint32_t object_index;
    uint32_t tensor_index; /* in the group's schema */
};

struct cv_places;

/* Names of all tensors of r, which must live as long as *out.  Fails with
 * LODE_E_LIMIT when they would not fit a sensible amount of memory. */
LODE_MUST_CHECK
bool cv_places_build(const struct lode_reader *r, struct cv_places **out,
                     struct lode_error *err);
void cv_places_free(struct cv_places *p); /* NULL is allowed */

/* The tensor of this name, or NULL. */
const struct cv_place *cv_places_find(const struct cv_places *p,
                                      const char *name);

#endif
