/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/format/patch.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/le.h"
#include "format/digest.h"
#include "format/hash.h"
#include "format/root.h"
#include "tests/tap.h"

static void
bail(const char *why)
{
    printf("Bail out! %s\n", why);
    exit(99);
}

void
patch_make(struct patch *p, const struct tiny_options *opt)
{
    const char *path = tiny_path("patch.lode");
    struct lode_error err;

    must(tiny_write(path, opt, NULL, &err), &err);
    p->data = tiny_slurp(path, &p->bytes);
}

void
patch_load(struct patch *p, const char *path)
{
    p->data = tiny_slurp(path, &p->bytes);
}

void
patch_copy(const struct patch *p, struct patch *out)
{
    out->bytes = p->bytes;
    out->data = malloc(p->bytes);
    if (out->data == NULL)
        bail("out of memory");
    memcpy(out->data, p->data, p->bytes);
}

void
patch_free(struct patch *p)
{
    free(p->data);
    p->data = NULL;
}

static uint32_t
section_count(const struct patch *p)
{
    return lode_load_u32(p->data + 88);
}

static uint8_t *
entry(const struct patch *p, uint32_t i)
{
    return p->data + LODE_DIRECTORY_OFFSET + i * LODE_SECTION_RECORD_BYTES;
}

struct lode_section
patch_section(const struct patch *p, uint32_t type)
{
    struct lode_section s = {0};

    for (uint32_t i = 0; i < section_count(p); i++) {
        lode_section_decode(entry(p, i), &s);
        if (s.type == type)
            return s;
    }
    bail("no such section");
    return s;
}

uint8_t *
patch_record(const struct patch *p, uint32_t type, uint32_t index)
{
    struct lode_section s;

    if (type == 0)
        return p->data;
    s = patch_section(p, type);
    return p->data + s.offset + (size_t)index * s.record_bytes;
}

void
patch_store(uint8_t *at, uint32_t bytes, uint64_t value)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void
patch_add_section(struct patch *p, const struct lode_section *s)
{
    uint32_t n = section_count(p);

    lode_section_encode(s, entry(p, n));
    lode_store_u32(p->data + 88, n + 1);
}

void
patch_seal(struct patch *p)
{
    uint32_t count = section_count(p);

    for (uint32_t i = 0; i < count && i < LODE_SECTIONS_MAX; i++) {
        struct lode_section s;

        lode_section_decode(entry(p, i), &s);
        if (!lode_in_range(s.offset, s.bytes, p->bytes))
            continue;
        lode_store_u64(entry(p, i) + 32,
                       lode_hash(p->data + s.offset, (size_t)s.bytes));
        lode_digest(p->data + s.offset, (size_t)s.bytes, entry(p, i) + 40);
    }
    patch_seal_directory(p);
}

void
patch_seal_directory(struct patch *p)
{
    struct lode_superblock *sb = calloc(1, sizeof(*sb));

    if (sb == NULL)
        bail("out of memory");
    lode_superblock_decode(p->data, sb);
    if (section_count(p) <= LODE_SECTIONS_MAX) {
        lode_root_index(sb, sb->index_digest);
        memcpy(p->data + 192, sb->index_digest, LODE_DIGEST_BYTES);
        lode_root_uuids(sb, p->data + 48, p->data + 64);
    }
    free(sb);
    patch_seal_superblock(p);
}

void
patch_seal_superblock(struct patch *p)
{
    lode_store_u64(p->data + 4088, lode_hash(p->data, 4088));
    memcpy(p->data + LODE_SLOT_B_OFFSET, p->data, LODE_SUPERBLOCK_BYTES);
}

void
patch_spill(const struct patch *p, const char *path)
{
    tiny_spill(path, p->data, p->bytes);
}
