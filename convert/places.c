/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/places.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/checkpoint.h"

enum { NAMES_BYTES_MAX = 1 << 30 };

struct cv_places {
    struct cv_place *places; /* by name */
    char *names;
    uint32_t count;
};

/* The name's offset stands in for the pointer until no name moves any more. */
static bool
add_tensor(const struct lode_group *g, const struct lode_tensor *t,
           struct cv_place *place, struct lode_buf *places,
           struct lode_buf *names, struct lode_error *err)
{
    char name[LODE_NAME_BYTES_MAX + 32];

    if (!lode_tensor_name(t, g->layer, place->object_index, name, sizeof(name),
                          err))
        return false;
    if (places->used_bytes / sizeof(*place) >= CV_TENSORS_MAX ||
        names->used_bytes + sizeof(name) > NAMES_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "more tensors than the limit of %d, or names longer "
                         "than %d bytes in all", CV_TENSORS_MAX,
                         NAMES_BYTES_MAX);
    place->name = (const char *)(uintptr_t)names->used_bytes;
    return lode_buf_append(names, name, strlen(name) + 1, err) &&
           lode_buf_append(places, place, sizeof(*place), err);
}

static bool
add_group(const struct lode_reader *r, uint32_t group_index,
          struct lode_buf *places, struct lode_buf *names,
          struct lode_error *err)
{
    const struct lode_group *g = lode_reader_group(r, group_index);
    struct cv_place place = {.group_index = group_index};
    const struct lode_tensor *tensors;
    uint32_t count;

    tensors = lode_reader_schema(r, g->schema_index, &count);
    for (place.object_index = 0; place.object_index < g->object_count;
         place.object_index++)
        for (place.tensor_index = 0; place.tensor_index < count;
             place.tensor_index++)
            if (!add_tensor(g, &tensors[place.tensor_index], &place, places,
                            names, err))
                return false;
    return true;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct cv_place *)a)->name,
                  ((const struct cv_place *)b)->name);
}

bool
cv_places_build(const struct lode_reader *r, struct cv_places **out,
                struct lode_error *err)
{
    struct lode_buf places = {0};
    struct lode_buf names = {0};
    struct cv_places *p = NULL;
    void *memory;
    bool ok = true;

    for (uint32_t i = 0; ok && i < lode_reader_summary(r)->group_count; i++)
        ok = add_group(r, i, &places, &names, err);
    if (!ok || !lode_alloc_array(1, sizeof(*p), "places", &memory, err)) {
        lode_buf_fini(&places);
        lode_buf_fini(&names);
        return false;
    }
    p = memory;
    p->places = (void *)places.data;
    p->names = (char *)names.data;
    p->count = (uint32_t)(places.used_bytes / sizeof(p->places[0]));
    for (uint32_t i = 0; i < p->count; i++)
        p->places[i].name = p->names + (uintptr_t)p->places[i].name;
    if (p->count != 0)
        qsort(p->places, p->count, sizeof(p->places[0]), by_name);
    *out = p;
    return true;
}

void
cv_places_free(struct cv_places *p)
{
    if (p == NULL)
        return;
    free(p->places);
    free(p->names);
    free(p);
}

const struct cv_place *
cv_places_find(const struct cv_places *p, const char *name)
{
    struct cv_place key = {.name = name};

    if (p->count == 0)
        return NULL;
    return bsearch(&key, p->places, p->count, sizeof(key), by_name);
}
