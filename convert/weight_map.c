/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/weight_map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "convert/members.h"

enum { INDEX_BYTES_MAX = 1 << 30 };

struct reading {
    struct cv_weight_map *map;
    struct lode_buf shards;
    cv_weight_map_fn *fn;
    void *user;
    uint32_t last; /* shard of the entry before: most often the same */
};

static bool
shard_number(struct reading *r, const char *name, uint32_t *out,
             struct lode_error *err)
{
    struct cv_weight_map *m = r->map;
    struct cv_map_shard fresh = {NULL, false};

    if (r->last < m->shard_count &&
        strcmp(m->shards[r->last].name, name) == 0) {
        *out = r->last;
        return true;
    }
    for (r->last = 0; r->last < m->shard_count; r->last++)
        if (strcmp(m->shards[r->last].name, name) == 0) {
            *out = r->last;
            return true;
        }
    if (!cv_shard_name_ok(name))
        return lode_fail(err, LODE_E_CORRUPT,
                         "names \"%.200s\", which is no *.safetensors file "
                         "right in the folder",
                         name);
    if (m->shard_count >= CV_SHARDS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "names more shards than the limit of %d",
                         CV_SHARDS_MAX);
    if (!lode_strndup(name, strlen(name), &fresh.name, err))
        return false;
    if (!lode_buf_append(&r->shards, &fresh, sizeof(fresh), err)) {
        free(fresh.name);
        return false;
    }
    m->shards = (void *)r->shards.data;
    *out = m->shard_count++;
    return true;
}

static bool
on_pair(struct reading *r, const char *tensor, const json_t *value,
        struct lode_error *err)
{
    uint32_t shard = 0;

    if (!json_is_string(value))
        return lode_fail(err, LODE_E_CORRUPT,
                         "weight_map: \"%.200s\": expected a string, found %s",
                         tensor, lode_json_type_name(value));
    if (!shard_number(r, json_string_value(value), &shard, err))
        return lode_fail_in(err, "weight_map: \"%.160s\"", tensor);
    return r->fn(r->user, tensor, shard, err);
}

static bool
on_member(void *user, bool inner, const char *key, const json_t *value,
          struct lode_error *err)
{
    struct reading *r = user;
    const char *tensor;
    json_t *shard;

    if (inner) {
        r->map->has_map = true;
        return on_pair(r, key, value, err);
    }
    if (strcmp(key, "weight_map") != 0)
        return true;
    if (!json_is_object(value))
        return lode_fail(err, LODE_E_CORRUPT,
                         "weight_map: expected an object, found %s",
                         lode_json_type_name(value));
    /* Only a key spelled with escapes arrives here; a second map is caught
     * below or as tensors that occur twice. */
    json_object_foreach((json_t *)(uintptr_t)value, tensor, shard)
        if (!on_pair(r, tensor, shard, err))
            return false;
    r->map->has_map = true;
    return true;
}

bool
cv_weight_map_read(const char *path, struct cv_weight_map *map,
                   cv_weight_map_fn *fn, void *user, struct lode_error *err)
{
    struct reading r = {.map = map, .fn = fn, .user = user};
    uint64_t file_bytes;
    bool ok;
    int fd;

    if (!lode_file_open(path, &fd, &file_bytes, err))
        return false;
    if (file_bytes > INDEX_BYTES_MAX)
        ok = lode_fail(err, LODE_E_LIMIT, "%" PRIu64
                       " bytes, the limit is %d", file_bytes, INDEX_BYTES_MAX);
    else
        ok = cv_members_walk(fd, 0, file_bytes, "weight_map", on_member, &r,
                             err);
    (void)close(fd); /* only read */
    if (ok && !map->has_map)
        ok = lode_fail(err, LODE_E_CORRUPT, "no tensors in \"weight_map\"");
    if (!ok)
        return lode_fail_in(err, "%s", path);
    return true;
}

void
cv_weight_map_fini(struct cv_weight_map *map)
{
    for (uint32_t i = 0; i < map->shard_count; i++)
        free(map->shards[i].name);
    free(map->shards);
    memset(map, 0, sizeof(*map));
}

const struct cv_map_shard *
cv_weight_map_find(const struct cv_weight_map *map, const char *name)
{
    for (uint32_t i = 0; i < map->shard_count; i++)
        if (strcmp(map->shards[i].name, name) == 0)
            return &map->shards[i];
    return NULL;
}

/* N of the first numbered shard that the folder holds, or 0. */
static uint32_t
set_here(const struct cv_folder *folder)
{
    uint32_t number;
    uint32_t of;

    for (uint32_t i = 0; i < folder->file_count; i++)
        if (cv_shard_numbers(folder->files[i].name, &number, &of))
            return of;
    return 0;
}

bool
cv_weight_map_check(const struct cv_weight_map *map,
                    const struct cv_folder *folder, struct lode_error *err)
{
    struct cv_list missing = {"", 0};
    uint32_t needed = 0;
    uint32_t number;
    uint32_t here = set_here(folder);
    uint32_t there = 0;

    for (uint32_t i = 0; i < map->shard_count; i++) {
        const struct cv_map_shard *s = &map->shards[i];

        needed += s->needed;
        if (!s->needed || cv_folder_find(folder, s->name) != NULL)
            continue;
        cv_list_add(&missing, s->name);
        if (!cv_shard_numbers(s->name, &number, &there))
            there = 0;
    }
    if (missing.count == 0)
        return true;
    if (here != 0 && there != 0 && here != there)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%s: the index names shards of a set of %" PRIu32
                         ", the folder holds a set of %" PRIu32
                         "; if the headers are right, say --rebuild-index",
                         folder->path, there, here);
    return lode_fail(err, LODE_E_CORRUPT,
                     "%s: %" PRIu32 " of %" PRIu32
                     " shards that the index names are missing: %s",
                     folder->path, missing.count, needed,
                     cv_list_text(&missing));
}
