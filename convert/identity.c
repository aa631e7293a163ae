/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/lode_write.h"

enum { PIECE_BYTES = 1 << 20 };

static bool
feed_source(struct lode_sha256 *sha, const struct cv_checkpoint *c,
            uint32_t source, uint8_t *piece, struct lode_error *err)
{
    const struct cv_source *s = &c->sources[source];
    uint64_t bytes = source < c->shard_count ? 8 + s->header_bytes
                                             : s->file_bytes;
    uint8_t size[8];

    lode_store_u64(size, s->file_bytes);
    lode_sha256_update(sha, s->name, strlen(s->name) + 1);
    lode_sha256_update(sha, size, sizeof(size));
    for (uint64_t at = 0; at < bytes;) {
        size_t n = bytes - at < PIECE_BYTES ? (size_t)(bytes - at)
                                            : PIECE_BYTES;

        if (!lode_file_read(s->fd, at, piece, n, err))
            return lode_fail_in(err, "%s/%s", c->path, s->name);
        lode_sha256_update(sha, piece, n);
        at += n;
    }
    return true;
}

bool
cv_identity(const struct cv_checkpoint *c, const char *options,
            uint8_t out[LODE_DIGEST_BYTES], struct lode_error *err)
{
    struct lode_sha256 *sha = NULL;
    void *piece = NULL;
    bool ok;

    if (!lode_alloc_array(PIECE_BYTES, 1, "read buffer", &piece, err))
        return false;
    ok = lode_sha256_new(&sha, err);
    if (ok)
        lode_sha256_update(sha, options, strlen(options) + 1);
    for (uint32_t i = 0; ok && i < c->source_count; i++)
        ok = feed_source(sha, c, i, piece, err);
    if (ok)
        lode_sha256_final(sha, out);
    lode_sha256_free(sha);
    free(piece);
    return ok;
}

void
cv_identity_time(const struct cv_source *s, uint8_t out[LODE_DIGEST_BYTES])
{
    memset(out, 0, LODE_DIGEST_BYTES);
    lode_store_u64(out, (uint64_t)s->changed_s);
    lode_store_u64(out + 8, (uint64_t)s->changed_ns);
}
