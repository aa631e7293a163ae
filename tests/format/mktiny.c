/* SPDX-License-Identifier: Apache-2.0
 *
 * mktiny KIND FILE: write a small container, print the content root that a
 * reader finds in it.  KIND: plain, split, wide (64 KiB alignment), index,
 * packed, or the examples of spec 13: empty, config. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/lode_write.h"
#include "tests/format/tiny.h"

static bool
add_config(struct lode_writer *w, void *image, struct lode_error *err)
{
    uint32_t schema_index;
    uint32_t handle;

    memcpy(image, "{}", 2);
    return lode_writer_schema(w, NULL, 0, 2, &schema_index, err) &&
           lode_writer_group(
                w, &(struct lode_group_spec){
                    .kind = LODE_KIND_META,
                    .layer = -1,
                    .name = "config.json",
                    .object_count = 1,
                    .schema_index = schema_index,
                    .object_raw_bytes = 2},
                &handle, err) &&
           tiny_begin(w, err) &&
           tiny_append(w, 0, image, 2, err);
}

static bool
write_example(const char *path, bool config, struct lode_error *err)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_writer *w = NULL;
    void *image = NULL;
    bool good;

    good = lode_alloc_aligned(4096, "image", &image, err) &&
           lode_writer_new(path, &opt, &w, err) &&
           (config ? add_config(w, image, err) : tiny_begin(w, err)) &&
           lode_writer_finish(w, NULL, err);
    lode_writer_free(w);
    lode_free_aligned(image, 4096);
    return good;
}

static bool
write_kind(const char *kind, const char *path, struct lode_error *err)
{
    struct tiny_options opt = {0};

    if (strcmp(kind, "empty") == 0 || strcmp(kind, "config") == 0)
        return write_example(path, kind[0] == 'c', err);
    opt.split = strcmp(kind, "split") == 0;
    opt.align_log2 = strcmp(kind, "wide") == 0 ? 16 : 12;
    opt.index_only = strcmp(kind, "index") == 0;
    opt.packed = strcmp(kind, "packed") == 0;
    return tiny_write(path, &opt, NULL, err);
}

int
main(int argc, char **argv)
{
    struct lode_reader *r;
    struct lode_error err;
    char hex[65];

    if (argc != 3)
        return 2;
    if (!write_kind(argv[1], argv[2], &err) ||
        !lode_reader_open(argv[2], &r, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    puts(lode_hex(lode_reader_summary(r)->content_root, hex));
    lode_reader_close(r);
    return 0;
}
