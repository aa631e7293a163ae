/* SPDX-License-Identifier: Apache-2.0
 *
 * Reader and verify on arbitrary containers.  The first byte of an input says
 * what the rest is:
 *   even  the file itself;
 *   odd   a list of changes to a good container, 12 bytes each, after which
 *         (bit 1) all sums are made right again: without that no mutant would
 *         pass the first checksum.  Bits 2 and 3 choose the container.
 * A change: u16 place, u8 kind, u8 bytes, u64 value; place counts through the
 * superblock, then the index. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/le.h"
#include "format/lode_write.h"
#include "tests/fault/wrap.h"
#include "tests/format/patch.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tap.h"

enum { BASE_COUNT = 4, CHANGE_BYTES = 12, BLOCK_MAX = 1 << 22 };

const uint32_t fuzz_mutant_count = 60;

static struct patch bases[BASE_COUNT];
static uint8_t *edited;
static char path[64];
static int fd = -1;

static void
prepare(void)
{
    const struct tiny_options options[BASE_COUNT] = {
        {0}, {.align_log2 = 13, .label = "x"}, {.index_only = true},
        {.packed = true}};
    size_t room = 0;

    if (fd >= 0)
        return;
    for (int i = 0; i < BASE_COUNT; i++) {
        patch_make(&bases[i], &options[i]);
        room = bases[i].bytes > room ? bases[i].bytes : room;
    }
    tiny_cleanup();
    edited = malloc(room);
    fd = memfd_create("container", MFD_CLOEXEC);
    if (fd < 0 || edited == NULL)
        exit(99);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
}

static void
change(struct patch *p, uint32_t used_bytes, const uint8_t *c)
{
    uint64_t value = lode_load_u64(c + 4);
    uint32_t bytes = 1 + c[3] % 8;
    uint32_t at = lode_load_u16(c) % used_bytes;

    if (at >= 4096)
        at += LODE_INDEX_OFFSET - 4096;
    if (at + 8 > p->bytes)
        return;
    if (c[2] % 4 == 1) /* add */
        value += lode_load_u64(p->data + at);
    else if (c[2] % 4 == 2) /* a power of two, and near it */
        value = (UINT64_C(1) << (value % 64)) + (value >> 60) - 8;
    patch_store(p->data + at, bytes, value);
}

/* The file that an input stands for. */
static void
build(const uint8_t *data, size_t bytes, struct patch *p)
{
    uint8_t mode = bytes != 0 ? data[0] : 0;
    const struct patch *base = &bases[(mode >> 2) % BASE_COUNT];
    struct lode_section s;

    if (mode % 2 == 0) {
        p->bytes = bytes != 0 ? bytes - 1 : 0;
        p->data = malloc(p->bytes + 1);
        if (p->data == NULL)
            exit(99);
        if (p->bytes != 0)
            memcpy(p->data, data + 1, p->bytes);
        return;
    }
    s = patch_section(base, LODE_SECTION_CONTENT_DIGESTS);
    p->data = edited; /* one buffer for all runs: they are many */
    p->bytes = base->bytes;
    memcpy(p->data, base->data, base->bytes);
    for (size_t at = 1; at + CHANGE_BYTES <= bytes; at += CHANGE_BYTES)
        change(p, (uint32_t)(s.offset + s.bytes) - LODE_INDEX_OFFSET + 4096,
               data + at);
    if ((mode & 2) != 0)
        patch_seal(p);
}

#define check(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static void
check_groups(const struct lode_reader *r)
{
    const struct lode_summary *s = lode_reader_summary(r);
    uint64_t block_count = 0;

    for (uint32_t i = 0; i < s->group_count; i++) {
        const struct lode_group *g = lode_reader_group(r, i);
        const struct lode_tensor *t;
        uint32_t tensor_count;

        check(lode_reader_find(r, g->kind, g->layer, g->name) == i);
        check(g->first_block_index == block_count);
        block_count += (uint64_t)g->object_count * g->blocks_per_object;
        t = lode_reader_schema(r, g->schema_index, &tensor_count);
        for (uint32_t k = 0; k < tensor_count; k++) {
            struct lode_error err;
            char name[64];

            check(lode_in_range(t[k].raw_offset, t[k].raw_bytes,
                                g->object_raw_bytes));
            if (!lode_tensor_name(&t[k], g->layer, 1, name, sizeof(name), &err))
                check(err.text[0] != '\0');
        }
    }
    check(block_count == s->block_count);
}

/* True when all blocks that are here were read. */
static bool
load_blocks(const struct lode_reader *r, uint64_t file_bytes)
{
    static uint8_t image[BLOCK_MAX];
    uint32_t count = lode_reader_summary(r)->block_count;
    bool all = true;

    for (uint32_t i = 0; i < count; i++) {
        struct lode_block b;
        struct lode_error err;
        char name[256];

        lode_reader_block(r, i, &b);
        lode_reader_block_name(r, i, name, sizeof(name));
        check(name[0] != '\0');
        check(!b.present ||
              lode_in_range(b.offset, b.stored_bytes, file_bytes));
        if (!b.present || b.raw_bytes > BLOCK_MAX)
            continue;
        if (!lode_reader_load(r, i, image, sizeof(image), &err)) {
            check(strncmp(err.text, path, strlen(path)) == 0);
            all = false;
        }
    }
    return all;
}

static void
count_fault(void *user, const struct lode_fault *f)
{
    check(f->where[0] != '\0' && f->what[0] != '\0');
    ++*(uint64_t *)user;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint64_t reported = 0;
    struct lode_verify_options opt = {.fault = count_fault,
                                      .user = &reported,
                                      .level = LODE_VERIFY_STRICT};
    struct lode_reader *r = NULL;
    struct lode_error err = {0};
    uint64_t faults = 0;
    bool all = true;
    bool opened;
    bool verified;
    struct patch p;

    prepare();
    build(data, bytes, &p);
    check(ftruncate(fd, (off_t)p.bytes) == 0 &&
          pwrite(fd, p.data, p.bytes, 0) == (ssize_t)p.bytes);
    if (p.data != edited)
        free(p.data);
    wrap_reset();
    opened = lode_reader_open(path, &r, &err);
    /* never more than the file justifies, nor than its head */
    check(wrap_largest_bytes() <= 2 * p.bytes + LODE_INDEX_OFFSET);
    if (opened) {
        check_groups(r);
        all = load_blocks(r, p.bytes);
    } else {
        check(strncmp(err.text, path, strlen(path)) == 0);
    }
    lode_reader_close(r);
    verified = lode_verify(path, &opt, &faults, &err);
    check(faults == reported);
    check(verified || (faults > 0 && err.text[0] != '\0'));
    /* what the reader refuses, verify finds fault with */
    check((opened && all) || faults > 0);
    return 0;
}

void
fuzz_seeds(void (*emit)(const uint8_t *data, size_t bytes))
{
    uint8_t seed[1 + 3 * CHANGE_BYTES] = {0};

    prepare();
    emit(seed, 0);
    for (uint8_t base = 0; base < BASE_COUNT; base++) {
        uint8_t *whole = malloc(bases[base].bytes + 1);

        if (whole == NULL)
            exit(99);
        whole[0] = 0;
        memcpy(whole + 1, bases[base].data, bases[base].bytes);
        emit(whole, bases[base].bytes + 1);
        free(whole);
        for (uint8_t sums = 0; sums < 2; sums++)
            for (uint8_t n = 1; n <= 3; n++) {
                seed[0] = (uint8_t)(1 | sums << 1 | base << 2);
                emit(seed, 1 + (size_t)n * CHANGE_BYTES);
            }
    }
    /* one change in each part of superblock and index, sums right */
    for (uint32_t place = 8; place < 10000; place += 137) {
        memset(seed, 0, sizeof(seed));
        seed[0] = 3;
        lode_store_u16(seed + 1, (uint16_t)place);
        seed[3] = (uint8_t)place % 3;
        seed[4] = (uint8_t)place % 8;
        lode_store_u64(seed + 5, UINT64_C(0x0123456789abcdef) * place);
        emit(seed, 1 + CHANGE_BYTES);
    }
}
