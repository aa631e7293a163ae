/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH3 (spec 8.1), SHA-256 and its tree (spec 8.2, 8.3), object, group and
 * content roots (spec 8.4, 8.6), schema digest (spec 8.5), UUIDs (spec 8.8). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "format/digest.h"
#include "format/hash.h"
#include "format/root.h"
#include "tests/tap.h"

enum { LEAF = LODE_LEAF_BYTES, DATA_BYTES = 7 * LEAF + 17 };

static uint8_t *data;

static void
is_hex(const uint8_t *digest, const char *want, const char *name)
{
    char hex[65];

    is_str(lode_hex(digest, hex), want, "%s", name);
}

static void
test_known(void)
{
    uint8_t out[LODE_DIGEST_BYTES];

    /* FIPS 180-4 and the xxHash documentation. */
    lode_digest("abc", 3, out);
    is_hex(out,
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
           "SHA-256 of abc");
    is_u64(lode_hash("", 0), 0x2d06800538d394c2, "XXH3-64 of nothing");
    is_u64(lode_hash("abc", 3), 0x78af5f94892f3950, "XXH3-64 of abc");
}

static void
test_pieces(void)
{
    static const size_t cuts[] = {1, 63, 64, 65, 255, 257, 4096, LEAF};
    uint64_t want = lode_hash(data, LEAF + 5);
    uint8_t whole[LODE_DIGEST_BYTES];

    lode_digest(data, LEAF + 5, whole);
    for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
        struct lode_digest_state sha;
        struct lode_hash_state hash;
        uint8_t out[LODE_DIGEST_BYTES];

        lode_hash_begin(&hash);
        lode_digest_begin(&sha);
        for (size_t at = 0; at < LEAF + 5; at += cuts[c]) {
            size_t n = LEAF + 5 - at < cuts[c] ? LEAF + 5 - at : cuts[c];

            lode_hash_update(&hash, data + at, n);
            lode_digest_update(&sha, data + at, n);
        }
        lode_digest_end(&sha, out);
        ok(lode_hash_end(&hash) == want && memcmp(out, whole, sizeof(out)) == 0,
           "in pieces of %zu bytes", cuts[c]);
    }
}

/* The definition, by recursion. */
static void
plain_tree(const uint8_t *p, size_t bytes, uint8_t *out)
{
    size_t leaves = (bytes + LEAF - 1) / LEAF;
    uint8_t node[65] = {1};
    uint8_t *copy;
    size_t left = 1;

    if (bytes == 0) {
        lode_digest("", 0, out);
        return;
    }
    if (leaves == 1) {
        copy = malloc(bytes + 1);
        if (copy == NULL)
            exit(99);
        copy[0] = 0;
        memcpy(copy + 1, p, bytes);
        lode_digest(copy, bytes + 1, out);
        free(copy);
        return;
    }
    while (left * 2 < leaves)
        left *= 2;
    plain_tree(p, left * LEAF, node + 1);
    plain_tree(p + left * LEAF, bytes - left * LEAF, node + 33);
    lode_digest(node, sizeof(node), out);
}

static void
test_tree(void)
{
    static const size_t sizes[] = {
        0,        1,        LEAF - 1, LEAF,         LEAF + 1,
        2 * LEAF, 3 * LEAF, 4 * LEAF, 5 * LEAF + 9, 7 * LEAF + 17};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t want[LODE_DIGEST_BYTES];
        uint8_t got[LODE_DIGEST_BYTES];
        struct lode_parcel p = {.stored = data,
                                .stored_bytes = (uint32_t)sizes[i]};
        struct lode_tree t;

        plain_tree(data, sizes[i], want);
        lode_tree_begin(&t);
        lode_tree_data(&t, data, sizes[i]);
        lode_tree_end(&t, got);
        ok(memcmp(got, want, sizeof(got)) == 0, "tree of %zu bytes", sizes[i]);
        lode_seal(&p);
        ok(memcmp(p.seal.content, want, sizeof(want)) == 0 &&
               memcmp(p.seal.stored, want, sizeof(want)) == 0 &&
               p.seal.hash == lode_hash(data, sizes[i]),
           "seal of %zu bytes", sizes[i]);
    }
}

/* Cutting an object otherwise does not change its root (spec 8.4). */
static void
test_blocks(void)
{
    uint8_t first[LODE_DIGEST_BYTES];

    for (uint32_t block_bytes = LEAF; block_bytes <= 8 * LEAF;
         block_bytes *= 2) {
        uint8_t contents[8][LODE_DIGEST_BYTES];
        uint8_t root[LODE_DIGEST_BYTES];
        struct lode_group g = {.kind = LODE_KIND_TRUNK,
                               .layer = 3,
                               .object_count = 1,
                               .name = "trunk",
                               .object_raw_bytes = DATA_BYTES,
                               .block_raw_bytes = block_bytes};

        g.blocks_per_object = (DATA_BYTES - 1) / block_bytes + 1;
        for (uint32_t i = 0; i < g.blocks_per_object; i++) {
            uint32_t at = i * block_bytes;
            uint32_t n =
                DATA_BYTES - at < block_bytes ? DATA_BYTES - at : block_bytes;
            struct lode_parcel p = {.stored = data + at, .stored_bytes = n};

            lode_seal(&p);
            memcpy(contents[i], p.seal.content, LODE_DIGEST_BYTES);
        }
        lode_root_group(&g, contents[0], LODE_DIGEST_BYTES, root);
        if (block_bytes == LEAF)
            memcpy(first, root, sizeof(first));
        else
            ok(memcmp(root, first, sizeof(root)) == 0,
               "the same group root in blocks of %u bytes", block_bytes);
    }
}

static bool
root_differs(const struct lode_group *a, const struct lode_group *b)
{
    uint8_t one[LODE_DIGEST_BYTES];
    uint8_t other[LODE_DIGEST_BYTES];

    lode_root_content(a, 1, one);
    lode_root_content(b, 1, other);
    return memcmp(one, other, sizeof(one)) != 0;
}

/* What the content root binds, and what it does not (spec 8.6). */
static void
test_root(void)
{
    struct lode_group g = {.kind = 2,
                           .layer = 1,
                           .object_count = 1,
                           .name = "a",
                           .object_raw_bytes = 5,
                           .blocks_per_object = 1,
                           .block_raw_bytes = 5};
    struct lode_group h = g;
    uint8_t none[LODE_DIGEST_BYTES];
    uint8_t out[LODE_DIGEST_BYTES];

    lode_root_content(NULL, 0, none);
    h.kind = 3;
    ok(root_differs(&g, &h), "the kind is bound");
    h = g;
    h.layer = 2;
    ok(root_differs(&g, &h), "the layer is bound");
    h = g;
    h.object_count = 2;
    ok(root_differs(&g, &h), "the number of objects is bound");
    h = g;
    h.name = "b";
    ok(root_differs(&g, &h), "the name is bound");
    h = g;
    h.object_raw_bytes = 6;
    ok(root_differs(&g, &h), "the size is bound");
    h = g;
    h.root[31] = 1;
    ok(root_differs(&g, &h), "the group root is bound");
    h = g;
    h.schema_digest[0] = 1;
    ok(root_differs(&g, &h), "the schema is bound");
    h = g;
    h.first_block_index = 7;
    h.schema_index = 3;
    ok(!root_differs(&g, &h), "numbers in the file are not");
    h.kind = 0x8000;
    lode_root_content(&h, 1, out);
    ok(memcmp(out, none, sizeof(out)) == 0, "a volatile group is not");
}

static void
test_schema(void)
{
    struct lode_tensor t = {.name = "n",
                            .encoding = "bf16",
                            .dtype = "BF16",
                            .raw_bytes = 4,
                            .dim = {2},
                            .dim_count = 1};
    struct lode_tensor u = t;
    uint8_t a[LODE_DIGEST_BYTES];
    uint8_t b[LODE_DIGEST_BYTES];

    lode_root_schema(&t, 1, a);
    u.segment = 1;
    lode_root_schema(&u, 1, b);
    ok(memcmp(a, b, sizeof(a)) == 0, "segments are not in the schema digest");
    u.role = 9;
    lode_root_schema(&u, 1, b);
    ok(memcmp(a, b, sizeof(a)) != 0, "roles are");
    u = t;
    u.name = "nb";
    u.encoding = "f16";
    lode_root_schema(&u, 1, b);
    ok(memcmp(a, b, sizeof(a)) != 0, "texts cannot trade bytes");
}

static void
test_uuids(void)
{
    static struct lode_superblock sb;
    uint8_t set[16];
    uint8_t volume[16];
    uint8_t other[16];

    lode_root_uuids(&sb, set, volume);
    ok(set[6] >> 4 == 8 && volume[6] >> 4 == 8, "UUIDs of version 8");
    ok(set[8] >> 6 == 2 && volume[8] >> 6 == 2, "and of variant 1");
    sb.index_digest[5] = 1;
    lode_root_uuids(&sb, other, volume);
    ok(memcmp(set, other, 16) == 0, "the set's follows the content alone");
}

static void
test_streaming(void)
{
    struct lode_sha256 *s;
    struct lode_error err;
    uint8_t out[LODE_DIGEST_BYTES];

    must(lode_sha256_new(&s, &err), &err);
    lode_sha256_update(s, "a", 1);
    lode_sha256_update(s, "bc", 2);
    lode_sha256_final(s, out);
    lode_sha256_free(s);
    lode_sha256_free(NULL);
    is_hex(out,
           "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
           "streaming SHA-256");
}

int
main(void)
{
    uint32_t x = 1;

    data = malloc(DATA_BYTES);
    if (data == NULL)
        return 99;
    for (size_t i = 0; i < DATA_BYTES; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = (uint8_t)(x >> 24);
    }
    test_known();
    test_pieces();
    test_tree();
    test_blocks();
    test_root();
    test_schema();
    test_uuids();
    test_streaming();
    free(data);
    return done_testing();
}
