/* SPDX-License-Identifier: Apache-2.0
 *
 * model.safetensors.index.json: which shard holds which tensor. */

#ifndef LODE_CONVERT_WEIGHT_MAP_H
#define LODE_CONVERT_WEIGHT_MAP_H

#include <stdint.h>

#include "base/error.h"
#include "convert/folder.h"

/* A shard that the index names.  needed is the caller's to set. */
struct cv_map_shard {
    char *name;
    bool needed;
};

struct cv_weight_map {
    struct cv_map_shard *shards; /* in order of first mention */
    uint32_t shard_count;
    bool has_map; /* "weight_map" was there */
};

/* One entry: the tensor's name and the number of its shard. */
typedef bool cv_weight_map_fn(void *user, const char *tensor, uint32_t shard,
                              struct lode_error *err);

/* Read the index at path; names of shards that are no plain file names are
 * refused.  map is zero before and the caller's for cv_weight_map_fini()
 * afterwards, also on failure.  Tensors named twice are not noticed. */
LODE_MUST_CHECK
bool cv_weight_map_read(const char *path, struct cv_weight_map *map,
                        cv_weight_map_fn *fn, void *user,
                        struct lode_error *err);
void cv_weight_map_fini(struct cv_weight_map *map);

/* The needed shards must lie in the folder; the message lists what is missing
 * and notices an index of another set of shards. */
LODE_MUST_CHECK
bool cv_weight_map_check(const struct cv_weight_map *map,
                         const struct cv_folder *folder,
                         struct lode_error *err);

/* The shard of this name, or NULL; borrowed from map. */
const struct cv_map_shard *cv_weight_map_find(const struct cv_weight_map *map,
                                              const char *name);

#endif
