/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors compared across encodings: what is equal, and how large the error
 * is where it is not. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/values.h"
#include "format/lode_write.h"
#include "format/role.h"
#include "tests/format/tiny.h"
#include "tests/tap.h"

enum { COLUMNS = 64, IMAGE_BYTES = 512, ROOM_BYTES = 4096 };

/* 64 values three times: as bf16, as f32, and as nibbles with two scales. */
static const struct lode_tensor tensors[] = {
    {.name = "a",
     .encoding = "bf16",
     .dtype = "BF16",
     .raw_offset = 0,
     .raw_bytes = 128,
     .dim = {64},
     .dim_count = 1},
    {.name = "b",
     .encoding = "f32",
     .dtype = "F32",
     .raw_offset = 128,
     .raw_bytes = 256,
     .dim = {8, 8},
     .dim_count = 2},
    {.name = "c",
     .encoding = "mxfp4.e2m1.lo",
     .dtype = "U8",
     .raw_offset = 384,
     .raw_bytes = 32,
     .dim = {1, 32},
     .dim_count = 2,
     .role = LODE_ROLE_GATE},
    {.name = "d",
     .encoding = "e8m0.g32",
     .dtype = "U8",
     .raw_offset = 448,
     .raw_bytes = 2,
     .dim = {1, 2},
     .dim_count = 2,
     .role = LODE_ROLE_GATE_SCALE},
};

enum { BF16, F32, MXFP4, SCALES };

/* 1, 2, 4 and 6 in turn, times 2^(scale - 127). */
static void
fill(uint8_t *image)
{
    static const uint8_t nibbles[4] = {2, 4, 6, 7};
    static const float values[4] = {1, 2, 4, 6};

    memset(image, 0, IMAGE_BYTES);
    for (uint32_t i = 0; i < COLUMNS; i++) {
        float v = values[i % 4] * (i < 32 ? 1.0F : 8.0F);
        uint32_t bits;

        memcpy(&bits, &v, 4);
        image[2 * i] = (uint8_t)(bits >> 16);
        image[2 * i + 1] = (uint8_t)(bits >> 24);
        memcpy(image + 128 + 4 * (size_t)i, &v, 4);
        image[384 + i / 2] |= (uint8_t)(nibbles[i % 4] << (i % 2 == 0 ? 0 : 4));
    }
    image[448] = 127;
    image[449] = 130;
}

static void
write_container(const char *path, uint8_t *image)
{
    struct lode_writer_options wo = {.align_log2 = 12};
    struct lode_group_spec g = {.kind = LODE_KIND_RESIDENT,
                                .layer = -1,
                                .name = "all",
                                .object_count = 1,
                                .object_raw_bytes = IMAGE_BYTES};
    struct lode_writer *w;
    struct lode_error err;
    uint32_t handle;

    must(lode_writer_new(path, &wo, &w, &err), &err);
    must(lode_writer_schema(w, tensors, 4, IMAGE_BYTES, &g.schema_index, &err),
         &err);
    must(lode_writer_group(w, &g, &handle, &err), &err);
    must(tiny_begin(w, &err), &err);
    must(tiny_append(w, 0, image, IMAGE_BYTES, &err), &err);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
}

static void
expect(struct cv_window *w, uint32_t a, uint32_t b, enum cv_verdict verdict,
       const char *text)
{
    struct cv_delta d;
    struct cv_side x;
    struct cv_side y;
    struct lode_error err;
    char found[200];

    if (!cv_side_of(w, 0, 0, a, &x) || !cv_side_of(w, 0, 0, b, &y))
        exit(99);
    must(cv_values_compare(&x, &y, &d, &err), &err);
    is_u64(d.verdict, verdict, "%s against %s", x.encoding, y.encoding);
    is_str(cv_delta_text(&d, found, sizeof(found)), text, "and says so");
}

static void
with_image(uint8_t *image, void (*test)(struct cv_window *w))
{
    const char *path = tiny_path("values.lode");
    struct lode_reader *r;
    struct cv_window *w;
    struct lode_error err;

    write_container(path, image);
    must(lode_reader_open(path, &r, &err), &err);
    must(cv_window_open(r, &w, &err), &err);
    test(w);
    cv_window_close(w);
    lode_reader_close(r);
}

static void
test_equal(struct cv_window *w)
{
    static const char same[] = "equal values in another encoding";

    expect(w, BF16, BF16, CV_SAME, "equal");
    expect(w, BF16, F32, CV_SAME_VALUES, same);
    expect(w, MXFP4, F32, CV_SAME_VALUES, same);
    expect(w, F32, MXFP4, CV_SAME_VALUES, same);
    expect(w, MXFP4, BF16, CV_SAME_VALUES, same);
    expect(w, SCALES, F32, CV_DIFFERENT_BYTES, "bytes differ, first at 0");
}

/* The second group's scale is 2^2 and not 2^3: half of each value is missing.
 * The squares add up to 456 and 64 x 456. */
static void
test_scale(struct cv_window *w)
{
    expect(w, MXFP4, F32, CV_DIFFERENT,
           "32 values differ, first at element 32: 4 against 8; relative "
           "error 0.496");
}

/* A number that is none: on one side alone it is infinitely wrong, on both it
 * is equal. */
static void
test_nan(struct cv_window *w)
{
    expect(w, BF16, F32, CV_DIFFERENT,
           "1 values differ, first at element 5: nan against 2; relative "
           "error inf");
    expect(w, BF16, BF16, CV_SAME, "equal");
}

int
main(void)
{
    struct lode_error err;
    void *image = NULL;

    must(lode_alloc_aligned(ROOM_BYTES, "image", &image, &err), &err);
    fill(image);
    with_image(image, test_equal);
    ((uint8_t *)image)[449] = 129;
    with_image(image, test_scale);
    fill(image);
    ((uint8_t *)image)[10] = 0xc0;
    ((uint8_t *)image)[11] = 0x7f;
    with_image(image, test_nan);
    lode_free_aligned(image, ROOM_BYTES);
    tiny_cleanup();
    return done_testing();
}
