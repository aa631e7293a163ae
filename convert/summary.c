/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cli.h"
#include "base/json.h"
#include "convert/plan.h"

void
cv_summary_init(struct cv_summary *s)
{
    static const char *const names[CV_PART_COUNT] = {
        "experts", "trunk", "output", "embedding", "carried", "files",
    };

    memset(s, 0, sizeof(*s));
    for (size_t i = 0; i < CV_PART_COUNT; i++)
        s->parts[i].name = names[i];
}

static enum cv_part_index
part_of(const struct lode_group *g)
{
    switch (g->kind) {
    case LODE_KIND_EXPERT:
        return CV_PART_EXPERTS;
    case LODE_KIND_TRUNK:
    case LODE_KIND_RESIDENT:
        return g->layer < 0 ? CV_PART_OUTPUT : CV_PART_TRUNK;
    case LODE_KIND_ROWS:
        return CV_PART_EMBEDDING;
    case LODE_KIND_META:
    case LODE_KIND_ORIGIN:
        return CV_PART_FILES;
    default:
        return CV_PART_CARRIED;
    }
}

static void
add_share(struct cv_part *p, const char *encoding, uint64_t bytes)
{
    for (uint32_t i = 0; i < p->share_count; i++)
        if (strcmp(p->shares[i].encoding, encoding) == 0) {
            p->shares[i].bytes += bytes;
            return;
        }
    if (p->share_count == CV_SHARES_MAX - 1)
        encoding = "other";
    if (p->share_count == CV_SHARES_MAX)
        p->share_count--; /* "other" is there already */
    else
        p->shares[p->share_count].bytes = 0;
    p->shares[p->share_count].encoding = encoding;
    p->shares[p->share_count++].bytes += bytes;
}

void
cv_summary_add(struct cv_summary *s, const struct lode_group *g,
               const struct lode_tensor *tensors, uint32_t tensor_count)
{
    struct cv_part *p = &s->parts[part_of(g)];
    uint64_t parameters = 0;

    p->object_count += g->object_count;
    p->block_count += (uint64_t)g->object_count * g->blocks_per_object;
    p->raw_bytes += g->object_count * g->object_raw_bytes;
    for (uint32_t i = 0; i < tensor_count; i++) {
        add_share(p, tensors[i].encoding,
                  g->object_count * tensors[i].raw_bytes);
        parameters += cv_tensor_parameters(&tensors[i]);
    }
    p->parameter_count += g->object_count * parameters;
    s->parameter_count += g->object_count * parameters;
}

void
cv_summary_print(const struct cv_summary *s)
{
    char bytes[32];

    printf("  %-10s %9s %9s %10s  %s\n", "part", "objects", "blocks", "bytes",
           "encodings");
    for (size_t i = 0; i < CV_PART_COUNT; i++) {
        const struct cv_part *p = &s->parts[i];

        if (p->object_count == 0)
            continue;
        printf("  %-10s %9" PRIu64 " %9" PRIu64 " %10s  ", p->name,
               p->object_count, p->block_count,
               lode_format_bytes(p->raw_bytes, bytes, sizeof(bytes)));
        for (uint32_t k = 0; k < p->share_count; k++)
            printf("%s%s %s", k != 0 ? ", " : "", p->shares[k].encoding,
                   lode_format_bytes(p->shares[k].bytes, bytes,
                                     sizeof(bytes)));
        printf("%s\n", p->share_count == 0 ? "verbatim" : "");
    }
}

static json_t *
part_json(const struct cv_part *p)
{
    json_t *part = json_object();
    json_t *encodings = json_object();
    bool ok = true;

    for (uint32_t k = 0; k < p->share_count; k++)
        ok = lode_json_set(encodings, p->shares[k].encoding,
                           json_integer((json_int_t)p->shares[k].bytes)) &&
             ok;
    ok = lode_json_set(part, "name", json_string(p->name)) && ok;
    ok = lode_json_set(part, "objects",
                       json_integer((json_int_t)p->object_count)) && ok;
    ok = lode_json_set(part, "blocks",
                       json_integer((json_int_t)p->block_count)) && ok;
    ok = lode_json_set(part, "bytes",
                       json_integer((json_int_t)p->raw_bytes)) && ok;
    ok = lode_json_set(part, "parameters",
                       json_integer((json_int_t)p->parameter_count)) && ok;
    ok = lode_json_set(part, "encodings", encodings) && ok;
    if (ok)
        return part;
    json_decref(part);
    return NULL;
}

json_t *
cv_summary_json(const struct cv_summary *s)
{
    json_t *list = json_array();

    for (size_t i = 0; i < CV_PART_COUNT; i++) {
        if (s->parts[i].object_count == 0)
            continue;
        if (!lode_json_push(list, part_json(&s->parts[i]))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
