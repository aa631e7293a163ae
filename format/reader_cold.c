/* SPDX-License-Identifier: Apache-2.0
 *
 * The cold sections of an index, for those who write and check. */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "format/hash.h"
#include "format/lode_write.h"
#include "format/reader_state.h"
#include "format/rules.h"

/* A whole section, one record of record_bytes bytes for each block of the model
 * (zeros for one that is not listed), or NULL when the section is empty. */
static bool
load_by_block(const struct lode_reader *r, uint32_t type, uint8_t **out,
              struct lode_error *err)
{
    const struct lode_section *s = lode_rules_section(&r->index.sb, type);
    void *raw = NULL;
    void *p = NULL;
    bool ok;

    *out = NULL;
    if (s == NULL || s->count == 0)
        return true;
    if (!lode_alloc_array(s->bytes, 1, "digests", &raw, err))
        return false;
    ok = lode_file_read(r->volumes[0].fd, s->offset, raw, (size_t)s->bytes,
                        err) &&
         (lode_hash(raw, (size_t)s->bytes) == s->hash ||
          lode_fail(err, LODE_E_CORRUPT, "section %s: checksum does not match",
                    lode_rules_section_name(type))) &&
         lode_alloc_array(r->index.summary.block_count, LODE_DIGEST_BYTES,
                          "digests", &p, err);
    for (uint32_t i = 0; ok && i < r->index.summary.block_count; i++) {
        int64_t at = lode_index_record(&r->index, i);

        if (at != LODE_NO_INDEX)
            memcpy((uint8_t *)p + (size_t)i * LODE_DIGEST_BYTES,
                   (uint8_t *)raw + (uint64_t)at * s->record_bytes,
                   LODE_DIGEST_BYTES);
    }
    free(raw);
    *out = p;
    return ok || lode_fail_in(err, "%s", r->path);
}

bool
lode_reader_digests(const struct lode_reader *r, uint8_t **content,
                    uint8_t **stored, struct lode_error *err)
{
    *stored = NULL;
    if (!load_by_block(r, LODE_SECTION_CONTENT_DIGESTS, content, err))
        return false;
    if (load_by_block(r, LODE_SECTION_STORED_DIGESTS, stored, err))
        return true;
    free(*content);
    return false;
}

bool
lode_index_order(const struct lode_index *x, const uint8_t *raw, uint32_t *out,
                 struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&x->sb, LODE_SECTION_ORDER);
    uint32_t block_count = x->summary.block_count;
    void *seen = NULL;
    bool ok = lode_alloc_array(block_count, 1, "order", &seen, err);

    for (uint32_t i = 0; ok && i < s->count; i++) {
        uint32_t b = lode_load_u32(raw + (uint64_t)i * s->record_bytes);
        struct lode_block_record record;

        if (b < block_count)
            lode_index_block(x, b, &record);
        if (b >= block_count || !record.block.present ||
            ((uint8_t *)seen)[b] != 0)
            ok = lode_fail(err, LODE_E_CORRUPT,
                           "entry %" PRIu32 " is block %" PRIu32
                           ", which is none or not the first time",
                           i, b);
        else
            ((uint8_t *)seen)[b] = 1;
        out[i] = b;
    }
    free(seen);
    return ok;
}

/* What the head of a set remembers. */
static bool
load_order(const struct lode_reader *r, const struct lode_section *s,
           uint32_t *out, struct lode_error *err)
{
    void *raw = NULL;
    bool ok = lode_alloc_array(s->bytes, 1, "order", &raw, err) &&
              lode_file_read(r->volumes[0].fd, s->offset, raw,
                             (size_t)s->bytes, err);

    if (ok && lode_hash(raw, (size_t)s->bytes) != s->hash)
        ok = lode_fail(err, LODE_E_CORRUPT, "checksum does not match");
    ok = ok && lode_index_order(&r->index, raw, out, err);
    free(raw);
    return ok || lode_fail_in(err, "%s: section ORDER", r->path);
}

bool
lode_reader_order(const struct lode_reader *r, uint32_t **blocks,
                  uint32_t *count, struct lode_error *err)
{
    const struct lode_section *s =
        lode_rules_section(&r->index.sb, LODE_SECTION_ORDER);

    *count = r->index.summary.present_count;
    if (!lode_index_by_offset(&r->index, blocks, err))
        return false;
    if (s == NULL || s->count == 0)
        return true;
    if (load_order(r, s, *blocks, err))
        return true;
    free(*blocks);
    return false;
}
