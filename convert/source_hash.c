/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/source_hash.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cli.h"
#include "base/file.h"
#include "base/mem.h"
#include "format/lode_write.h"

enum {
    PIECE_BYTES = 1 << 20,
    RANGES_MAX = 4096,        /* of one source; beyond, its rest is re-read */
    DROP_BYTES = 32 << 20,    /* the page cache is given back in such steps */
};

/* Bytes that came before their turn: [start, end). */
struct range {
    uint64_t start;
    uint64_t end;
};

struct progress {
    struct lode_sha256 *sha;
    struct range *ranges; /* sorted, apart from each other */
    uint64_t hashed_bytes;
    uint64_t dropped_bytes;
    uint32_t range_count;
    uint32_t room_count;
    bool known;
    uint8_t digest[LODE_DIGEST_BYTES]; /* when known */
};

struct cv_hashes {
    const struct cv_checkpoint *c;
    struct progress *sources;
    uint8_t *piece;
};

bool
cv_hashes_new(const struct cv_checkpoint *c, struct cv_hashes **out,
              struct lode_error *err)
{
    struct cv_hashes *h;
    void *p;

    if (!lode_alloc_array(1, sizeof(*h), "digests", &p, err))
        return false;
    h = p;
    h->c = c;
    if (!lode_alloc_array(c->source_count, sizeof(h->sources[0]), "digests",
                          &p, err))
        goto fail;
    h->sources = p;
    if (!lode_alloc_array(PIECE_BYTES, 1, "read buffer", &p, err))
        goto fail;
    h->piece = p;
    *out = h;
    return true;
fail:
    cv_hashes_free(h);
    return false;
}

void
cv_hashes_free(struct cv_hashes *h)
{
    if (h == NULL)
        return;
    for (uint32_t i = 0; h->sources != NULL && i < h->c->source_count; i++) {
        lode_sha256_free(h->sources[i].sha);
        free(h->sources[i].ranges);
    }
    free(h->sources);
    free(h->piece);
    free(h);
}

/* What was read once will not be read again, or not soon: its pages are of
 * more use to others. */
static void
drop_behind(struct cv_hashes *h, uint32_t source, bool all)
{
    struct progress *p = &h->sources[source];
    uint64_t bytes = p->hashed_bytes - p->dropped_bytes;

    if (!all && bytes < DROP_BYTES)
        return;
#ifdef HAVE_POSIX_FADVISE
    (void)posix_fadvise(h->c->sources[source].fd, (off_t)p->dropped_bytes,
                        (off_t)bytes, POSIX_FADV_DONTNEED); /* only advice */
#endif
    p->dropped_bytes = p->hashed_bytes;
}

static bool
take(struct cv_hashes *h, uint32_t source, const void *data, uint64_t bytes,
     struct lode_error *err)
{
    struct progress *p = &h->sources[source];

    if (p->sha == NULL && !lode_sha256_new(&p->sha, err))
        return false;
    lode_sha256_update(p->sha, data, (size_t)bytes);
    p->hashed_bytes += bytes;
    drop_behind(h, source, false);
    return true;
}

/* Read the source from where its digest stands up to end. */
static bool
read_again(struct cv_hashes *h, uint32_t source, uint64_t end,
           struct lode_error *err)
{
    const struct cv_source *s = &h->c->sources[source];
    struct progress *p = &h->sources[source];

    while (p->hashed_bytes < end) {
        uint64_t left = end - p->hashed_bytes;
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;

        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "cancelled");
        if (!lode_file_read(s->fd, p->hashed_bytes, h->piece, n, err))
            return lode_fail_in(err, "%s/%s", h->c->path, s->name);
        if (!take(h, source, h->piece, n, err))
            return false;
    }
    return true;
}

static bool
grow(struct progress *p, struct lode_error *err)
{
    uint32_t room = p->room_count != 0 ? 2 * p->room_count : 16;
    void *fresh;

    if (!lode_alloc_array(room, sizeof(p->ranges[0]), "ranges", &fresh, err))
        return false;
    if (p->range_count != 0)
        memcpy(fresh, p->ranges, p->range_count * sizeof(p->ranges[0]));
    free(p->ranges);
    p->ranges = fresh;
    p->room_count = room;
    return true;
}

/* Remember that [start, end) came too early. */
static bool
remember(struct progress *p, uint64_t start, uint64_t end,
         struct lode_error *err)
{
    uint32_t at = p->range_count;

    while (at > 0 && p->ranges[at - 1].start > start)
        at--;
    if (at > 0 && p->ranges[at - 1].end == start) {
        p->ranges[at - 1].end = end;
        if (at < p->range_count && p->ranges[at].start == end) {
            p->ranges[at - 1].end = p->ranges[at].end;
            p->range_count--;
            memmove(&p->ranges[at], &p->ranges[at + 1],
                    (p->range_count - at) * sizeof(p->ranges[0]));
        }
        return true;
    }
    if (at < p->range_count && p->ranges[at].start == end) {
        p->ranges[at].start = start;
        return true;
    }
    if (p->range_count == RANGES_MAX)
        return true; /* forgotten: re-read at the end */
    if (p->range_count == p->room_count && !grow(p, err))
        return false;
    memmove(&p->ranges[at + 1], &p->ranges[at],
            (p->range_count - at) * sizeof(p->ranges[0]));
    p->ranges[at].start = start;
    p->ranges[at].end = end;
    p->range_count++;
    return true;
}

/* Is the next byte one that came too early?  Then its turn is now. */
static bool
catch_up(struct cv_hashes *h, uint32_t source, struct lode_error *err)
{
    struct progress *p = &h->sources[source];

    if (p->range_count == 0 || p->ranges[0].start != p->hashed_bytes)
        return true;
    if (!read_again(h, source, p->ranges[0].end, err))
        return false;
    p->range_count--;
    memmove(&p->ranges[0], &p->ranges[1],
            p->range_count * sizeof(p->ranges[0]));
    return true;
}

bool
cv_hashes_feed(struct cv_hashes *h, uint32_t source, uint64_t offset,
               const void *data, uint64_t bytes, struct lode_error *err)
{
    const struct cv_source *s = &h->c->sources[source];
    struct progress *p = &h->sources[source];
    uint64_t header = source < h->c->shard_count ? 8 + s->header_bytes : 0;

    if (p->known)
        return true;
    if (p->hashed_bytes < header && !read_again(h, source, header, err))
        return false;
    if (!catch_up(h, source, err))
        return false;
    if (offset != p->hashed_bytes)
        return remember(p, offset, offset + bytes, err);
    return take(h, source, data, bytes, err);
}

void
cv_hashes_known(struct cv_hashes *h, uint32_t source,
                const uint8_t digest[LODE_DIGEST_BYTES])
{
    memcpy(h->sources[source].digest, digest, LODE_DIGEST_BYTES);
    h->sources[source].known = true;
}

bool
cv_hashes_finish_source(struct cv_hashes *h, uint32_t source,
                        uint8_t digest[LODE_DIGEST_BYTES],
                        struct lode_error *err)
{
    struct progress *p = &h->sources[source];

    if (!p->known) {
        if (!read_again(h, source, h->c->sources[source].file_bytes, err) ||
            !take(h, source, "", 0, err)) /* an empty file has one, too */
            return false;
        drop_behind(h, source, true);
        lode_sha256_final(p->sha, p->digest);
        p->known = true;
    }
    memcpy(digest, p->digest, LODE_DIGEST_BYTES);
    return true;
}

bool
cv_hashes_finish(struct cv_hashes *h, uint8_t (*digests)[LODE_DIGEST_BYTES],
                 struct lode_error *err)
{
    for (uint32_t i = 0; i < h->c->source_count; i++)
        if (!cv_hashes_finish_source(h, i, digests[i], err))
            return false;
    return true;
}
