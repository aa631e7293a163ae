/* SPDX-License-Identifier: Apache-2.0
 *
 * What convert reads before it plans.  The first byte of an input says what
 * the rest is: 'S' a shard, 'I' an index, anything else a config.json that
 * goes with a fixed catalogue of tensors.  Whatever is accepted keeps the
 * bounds that later arithmetic relies on. */
#include "config.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/le.h"
#include "base/mem.h"
#include "convert/naming.h"
#include "convert/plan.h"
#include "convert/safetensors.h"
#include "convert/weight_map.h"
#include "tests/convert/small.h"
#include "tests/fuzz/fuzz.h"

const uint32_t fuzz_mutant_count = 1500;

enum { TENSOR_COUNT = SMALL_TENSOR_COUNT };

static const char *const seeds[] = {
    "C" SMALL_CONFIG,
    "C{\"model_type\":\"kimi_k3\",\"text_config\":{\"hidden_size\":8,"
    "\"vocab_size\":16,"
    "\"num_hidden_layers\":2,\"attn_res_block_size\":2,"
    "\"routed_expert_hidden_size\":4,\"quantization_config\":"
    "{\"format\":\"mxfp4-pack-quantized\"}},\"tie_word_embeddings\":true}",
    "I{\"metadata\":{\"total_size\":4},\"weight_map\":"
    "{\"a\":\"model-00001-of-00002.safetensors\","
    "\"b\":\"model-00002-of-00002.safetensors\"}}",
    "S{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\","
    "\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F4\","
    "\"shape\":[1,8],\"data_offsets\":[8,12]},\"c\":{\"dtype\":\"U8\","
    "\"shape\":[],\"data_offsets\":[12,13]}}",
};

/* A shard's seed has its length in front and its data behind. */
void
fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes))
{
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
        size_t n = strlen(seeds[i]);
        uint8_t raw[1024] = {0};

        if (seeds[i][0] != 'S') {
            emit((const uint8_t *)seeds[i], n);
            continue;
        }
        raw[0] = 'S';
        lode_store_u64(raw + 1, n - 1);
        memcpy(raw + 9, seeds[i] + 1, n - 1);
        emit(raw, 9 + n - 1 + 13);
    }
}

static int
as_file(const uint8_t *data, size_t bytes)
{
    static int fd = -1;

    if (fd < 0)
        fd = memfd_create("input", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, 0) != 0 ||
        pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
        abort();
    return fd;
}

static void
check_message(const struct lode_error *err)
{
    assert(err->code != LODE_E_NONE && err->text[0] != '\0');
    (void)err;
}

static void
try_shard(const uint8_t *data, size_t bytes)
{
    struct lode_error err = {0};
    struct cv_shard s;
    uint64_t at;

    if (!cv_shard_read(as_file(data, bytes), bytes, &s, &err)) {
        check_message(&err);
        return;
    }
    at = s.data_offset;
    for (uint32_t i = 0; i < s.tensor_count; i++) {
        const struct cv_shard_tensor *t = &s.tensors[i];

        assert(t->offset == at && lode_in_range(at, t->raw_bytes, bytes));
        assert(t->dim_count <= LODE_DIMS_MAX);
        assert(strlen(t->dtype) < sizeof(t->dtype));
        at += t->raw_bytes;
    }
    assert(at == bytes);
    cv_shard_fini(&s);
}

static bool
on_entry(void *user, const char *name, uint32_t shard, struct lode_error *err)
{
    const struct cv_weight_map *m = user;

    (void)err;
    (void)name;
    assert(shard < m->shard_count && cv_shard_name_ok(m->shards[shard].name));
    (void)m;
    (void)shard;
    return true;
}

static void
try_index(const uint8_t *data, size_t bytes)
{
    struct cv_weight_map m = {0};
    struct lode_error err = {0};
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", as_file(data, bytes));
    if (!cv_weight_map_read(path, &m, on_entry, &m, &err))
        check_message(&err);
    cv_weight_map_fini(&m);
}

static void
make_catalogue(struct cv_checkpoint *c, struct cv_source *source,
               struct cv_tensor *list)
{
    memset(c, 0, sizeof(*c));
    memset(source, 0, sizeof(*source));
    memset(list, 0, TENSOR_COUNT * sizeof(*list));
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        struct cv_tensor *t = &list[i];

        t->name = small_tensors[i].name;
        strcpy(t->dtype, "BF16");
        t->raw_bytes = 2;
        while (t->dim_count < 3 && small_tensors[i].dim[t->dim_count] != 0) {
            t->dim[t->dim_count] = small_tensors[i].dim[t->dim_count];
            t->raw_bytes *= t->dim[t->dim_count++];
        }
        t->offset = source->file_bytes;
        source->file_bytes += t->raw_bytes;
    }
    source->name = (char *)(uintptr_t)"model.safetensors";
    source->fd = -1;
    c->path = (char *)(uintptr_t)"folder";
    c->sources = source;
    c->tensors = list;
    c->source_count = c->shard_count = 1;
    c->tensor_count = TENSOR_COUNT;
    c->complete = true;
}

static void
check_plan(const struct cv_plan *p)
{
    struct lode_buf pieces = {0};
    struct lode_error err;

    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct cv_piece *piece;

        if (!cv_plan_pieces(p, &p->blocks[i], &pieces, &err))
            abort();
        piece = (const void *)pieces.data;
        for (size_t k = 0; k < pieces.used_bytes / sizeof(*piece); k++) {
            assert(lode_in_range(piece[k].image_offset, piece[k].bytes,
                                 p->blocks[i].raw_bytes));
            assert(lode_in_range(piece[k].source_offset, piece[k].bytes,
                                 p->c->sources[0].file_bytes));
        }
        (void)piece;
    }
    lode_buf_fini(&pieces);
}

static void
try_config(const uint8_t *data, size_t bytes)
{
    static struct cv_tensor list[TENSOR_COUNT];
    struct cv_notes notes = {0};
    struct lode_error err = {0};
    struct cv_checkpoint c;
    struct cv_source source;
    struct cv_model *m = NULL;
    struct cv_plan *p = NULL;
    json_t *config = NULL;

    if (!lode_json_parse((const char *)data, bytes, &config, &err)) {
        check_message(&err);
        return;
    }
    make_catalogue(&c, &source, list);
    if (!cv_model_build(config, &c, false, &m, &notes, &err)) {
        check_message(&err);
        m = NULL;
    } else if (!cv_plan_build(&c, m, &p, &err)) {
        check_message(&err);
    } else {
        check_plan(p);
        cv_plan_free(p);
    }
    cv_model_free(m);
    cv_notes_fini(&notes);
    json_decref(config);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    if (data[0] == 'S')
        try_shard(data + 1, bytes - 1);
    else if (data[0] == 'I')
        try_index(data + 1, bytes - 1);
    else
        try_config(data + 1, bytes - 1);
    return 0;
}
