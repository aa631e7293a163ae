/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"

bool
lode_alloc_array(uint64_t count, uint64_t item_bytes, const char *what,
                 void **out, struct lode_error *err)
{
    uint64_t total;
    void *p;

    if (!lode_mul(count, item_bytes, &total) || total > SIZE_MAX / 2)
        return lode_fail(err, LODE_E_NOMEM,
                         "%s: %" PRIu64 " items of %" PRIu64
                         " bytes are more than this machine can address",
                         what, count, item_bytes);
    p = calloc(1, total != 0 ? (size_t)total : 1);
    if (p == NULL)
        return lode_fail(err, LODE_E_NOMEM,
                         "%s: out of memory (%" PRIu64 " bytes)", what, total);
    *out = p;
    return true;
}

bool
lode_alloc_aligned(uint64_t bytes, const char *what, void **out,
                   struct lode_error *err)
{
    void *p;

    if (bytes > SIZE_MAX / 2)
        return lode_fail(err, LODE_E_NOMEM, "%s: %" PRIu64 " bytes", what,
                         bytes);
    p = mmap(NULL, bytes != 0 ? (size_t)bytes : 1, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return lode_fail(err, LODE_E_NOMEM,
                         "%s: out of memory (%" PRIu64 " bytes)", what, bytes);
    *out = p;
    return true;
}

void
lode_free_aligned(void *p, uint64_t bytes)
{
    if (p != NULL)
        (void)munmap(p, bytes != 0 ? (size_t)bytes : 1); /* ours: cannot fail */
}

bool
lode_strndup(const char *text, uint64_t bytes, char **out,
             struct lode_error *err)
{
    void *p;

    if (bytes >= SIZE_MAX / 2)
        return lode_fail(err, LODE_E_NOMEM, "text of %" PRIu64 " bytes", bytes);
    if (!lode_alloc_array(bytes + 1, 1, "text", &p, err))
        return false;
    if (bytes != 0)
        memcpy(p, text, (size_t)bytes);
    *out = p;
    return true;
}

bool
lode_buf_append(struct lode_buf *b, const void *data, size_t bytes,
                struct lode_error *err)
{
    size_t room = b->room_bytes != 0 ? b->room_bytes : 256;
    uint8_t *p;

    if (bytes > SIZE_MAX / 4 - b->used_bytes)
        return lode_fail(err, LODE_E_NOMEM, "buffer of %zu bytes", bytes);
    while (room < b->used_bytes + bytes)
        room *= 2;
    if (room != b->room_bytes) {
        p = realloc(b->data, room);
        if (p == NULL)
            return lode_fail(err, LODE_E_NOMEM,
                             "out of memory (buffer of %zu bytes)", room);
        b->data = p;
        b->room_bytes = room;
    }
    if (bytes != 0)
        memcpy(b->data + b->used_bytes, data, bytes);
    b->used_bytes += bytes;
    return true;
}

void
lode_buf_fini(struct lode_buf *b)
{
    free(b->data);
    memset(b, 0, sizeof(*b));
}
