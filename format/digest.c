/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/digest.h"

#include <stdlib.h>
#include <string.h>

/* lode_seal() cannot fail, so the context lives on the stack: only the older
 * interface allows that. */
#define OPENSSL_API_COMPAT 0x10100000L
#include <openssl/sha.h>

#include "base/mem.h"
#include "format/hash.h"

struct lode_sha256 {
    struct lode_digest_state state;
};

_Static_assert(sizeof(SHA256_CTX) <= sizeof(struct lode_digest_state),
               "lode_digest_state has room for SHA256_CTX");

static SHA256_CTX *
context(struct lode_digest_state *s)
{
    return (SHA256_CTX *)(void *)s->opaque;
}

/* On a context of their own these calls cannot fail. */
void
lode_digest_begin(struct lode_digest_state *s)
{
    (void)SHA256_Init(context(s));
}

void
lode_digest_update(struct lode_digest_state *s, const void *data, size_t bytes)
{
    (void)SHA256_Update(context(s), data, bytes);
}

void
lode_digest_end(struct lode_digest_state *s, uint8_t out[LODE_DIGEST_BYTES])
{
    (void)SHA256_Final(out, context(s));
}

void
lode_digest(const void *data, size_t bytes, uint8_t out[LODE_DIGEST_BYTES])
{
    struct lode_digest_state s;

    lode_digest_begin(&s);
    lode_digest_update(&s, data, bytes);
    lode_digest_end(&s, out);
}

/* Spec 8.2: an inner node is H(01 || left || right). */
static void
digest_node(const uint8_t *left, const uint8_t *right, uint8_t *out)
{
    uint8_t node[1 + 2 * LODE_DIGEST_BYTES] = {1};

    memcpy(node + 1, left, LODE_DIGEST_BYTES);
    memcpy(node + 1 + LODE_DIGEST_BYTES, right, LODE_DIGEST_BYTES);
    lode_digest(node, sizeof(node), out);
}

void
lode_tree_begin(struct lode_tree *t)
{
    t->count = 0;
}

void
lode_tree_push(struct lode_tree *t, const uint8_t digest[LODE_DIGEST_BYTES])
{
    uint8_t carry[LODE_DIGEST_BYTES];
    unsigned level = 0;

    memcpy(carry, digest, sizeof(carry));
    for (uint64_t n = t->count; n % 2 == 1; n /= 2, level++)
        digest_node(t->node[level], carry, carry);
    memcpy(t->node[level], carry, sizeof(carry));
    t->count++;
}

/* A leaf is H(00 || data). */
void
lode_tree_leaf(struct lode_tree *t, const void *data, size_t bytes)
{
    static const uint8_t tag = 0;
    uint8_t digest[LODE_DIGEST_BYTES];
    struct lode_digest_state s;

    lode_digest_begin(&s);
    lode_digest_update(&s, &tag, 1);
    lode_digest_update(&s, data, bytes);
    lode_digest_end(&s, digest);
    lode_tree_push(t, digest);
}

void
lode_tree_data(struct lode_tree *t, const void *data, size_t bytes)
{
    const uint8_t *p = data;

    while (bytes > 0) {
        size_t step = bytes < LODE_LEAF_BYTES ? bytes : LODE_LEAF_BYTES;

        lode_tree_leaf(t, p, step);
        p += step;
        bytes -= step;
    }
}

/* Subtrees are joined from the right: that splits n leaves at the largest
 * power of two below n. */
void
lode_tree_end(const struct lode_tree *t, uint8_t out[LODE_DIGEST_BYTES])
{
    uint8_t carry[LODE_DIGEST_BYTES];
    bool first = true;

    if (t->count == 0) {
        lode_digest(NULL, 0, out);
        return;
    }
    for (unsigned level = 0; level < 64; level++) {
        if ((t->count >> level) % 2 == 0)
            continue;
        if (first)
            memcpy(carry, t->node[level], sizeof(carry));
        else
            digest_node(t->node[level], carry, carry);
        first = false;
    }
    memcpy(out, carry, sizeof(carry));
}

/* Checksum and tree of the same bytes; each MiB meets both hashes while it is
 * in the cache. */
static void
sum(const uint8_t *data, uint32_t bytes, uint64_t *checksum,
    uint8_t root[LODE_DIGEST_BYTES])
{
    struct lode_hash_state hash;
    struct lode_tree tree;

    lode_hash_begin(&hash);
    lode_tree_begin(&tree);
    for (uint32_t at = 0; at < bytes;) {
        uint32_t step = bytes - at;

        if (step > LODE_LEAF_BYTES)
            step = LODE_LEAF_BYTES;
        if (checksum != NULL)
            lode_hash_update(&hash, data + at, step);
        lode_tree_leaf(&tree, data + at, step);
        at += step;
    }
    if (checksum != NULL)
        *checksum = lode_hash_end(&hash);
    lode_tree_end(&tree, root);
}

/* Spec 8.3. */
void
lode_seal(struct lode_parcel *p)
{
    struct lode_seal *s = &p->seal;

    sum(p->stored, p->stored_bytes, &s->hash, s->stored);
    if (p->codec == LODE_CODEC_NONE)
        memcpy(s->content, s->stored, LODE_DIGEST_BYTES);
    else
        sum(p->image, p->raw_bytes, NULL, s->content);
}

bool
lode_sha256_new(struct lode_sha256 **out, struct lode_error *err)
{
    void *p;

    if (!lode_alloc_array(1, sizeof(struct lode_sha256), "SHA-256", &p, err))
        return false;
    *out = p;
    lode_digest_begin(&(*out)->state);
    return true;
}

void
lode_sha256_update(struct lode_sha256 *s, const void *data, size_t bytes)
{
    lode_digest_update(&s->state, data, bytes);
}

void
lode_sha256_final(struct lode_sha256 *s, uint8_t out[LODE_DIGEST_BYTES])
{
    lode_digest_end(&s->state, out);
}

void
lode_sha256_free(struct lode_sha256 *s)
{
    free(s);
}
