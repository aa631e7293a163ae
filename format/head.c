/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/head.h"

#include <inttypes.h>
#include <string.h>

#include "base/le.h"
#include "format/rules.h"

static bool
is_zero(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i] != 0)
            return false;
    return true;
}

static bool
begins(const uint8_t *head, size_t head_bytes, const char *text, size_t bytes)
{
    return head_bytes >= bytes && memcmp(head, text, bytes) == 0;
}

/* Spec 3.3: what a transfer in text mode or as UTF-8 makes of the magic. */
static bool
is_text_damage(const uint8_t *head, size_t head_bytes)
{
    return begins(head, head_bytes, "\x8fLOD", 4) ||
           begins(head, head_bytes, "\x0fLOD", 4) ||
           begins(head, head_bytes, "\xc2\x8fLOD", 5) ||
           begins(head, head_bytes, "\xef\xbf\xbdLOD", 6);
}

/* No valid superblock: tell the user what the file looks like instead. */
static bool
fail_stranger(const uint8_t *head, size_t head_bytes, struct lode_error *err)
{
    if (head_bytes == 0)
        return lode_fail(err, LODE_E_CORRUPT, "is empty, no container");
    if (begins(head, head_bytes, (const char *)lode_magic, sizeof(lode_magic)))
        return lode_fail(err, LODE_E_CORRUPT,
                         "both superblocks are damaged or cut off");
    if (is_text_damage(head, head_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "container damaged by a transfer in text mode; "
                         "transfer it again as binary");
    if (begins(head, head_bytes, "GGUF", 4))
        return lode_fail(err, LODE_E_CORRUPT, "is a GGUF file, no container");
    if (begins(head, head_bytes, "PK\003\004", 4))
        return lode_fail(err, LODE_E_CORRUPT,
                         "is a zip archive (a PyTorch checkpoint?), no "
                         "container");
    if (head_bytes > 8 && head[8] == '{' && lode_load_u64(head) < 1U << 30)
        return lode_fail(err, LODE_E_CORRUPT,
                         "is a safetensors file, no container; lode convert "
                         "makes one");
    if (begins(head, head_bytes, "version https://git-lfs", 23))
        return lode_fail(err, LODE_E_CORRUPT,
                         "is a Git LFS pointer; the file itself was never "
                         "downloaded");
    if (is_zero(head, head_bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "begins with zeros: a container that was never "
                         "finished");
    return lode_fail(err, LODE_E_CORRUPT,
                     "is no container (it begins with %02x %02x %02x %02x)",
                     head[0], head_bytes > 1 ? head[1] : 0,
                     head_bytes > 2 ? head[2] : 0,
                     head_bytes > 3 ? head[3] : 0);
}

bool
lode_head_check_slot(const uint8_t raw[LODE_SUPERBLOCK_BYTES],
                     struct lode_error *err)
{
    if (memcmp(raw, lode_magic, sizeof(lode_magic)) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "magic number is damaged");
    if (!lode_superblock_valid(raw))
        return lode_fail(err, LODE_E_CORRUPT, "checksum does not match");
    return true;
}

/* Reserved bytes of the superblock and of the directory, used and unused. */
static bool
check_reserved(const uint8_t *raw, const struct lode_superblock *sb,
               struct lode_error *err)
{
    if (!lode_reserved_check(LODE_RECORD_SUPERBLOCK, raw, err))
        return false;
    for (uint32_t i = 0; i < LODE_SECTIONS_MAX; i++) {
        const uint8_t *record =
            raw + LODE_DIRECTORY_OFFSET + i * LODE_SECTION_RECORD_BYTES;

        if (!lode_reserved_check(LODE_RECORD_SECTION, record, err))
            return lode_fail_in(err, "section %" PRIu32, i);
        if (i >= sb->section_count &&
            !is_zero(record, LODE_SECTION_RECORD_BYTES))
            return lode_fail(err, LODE_E_CORRUPT,
                             "section %" PRIu32 " of %" PRIu32 " is not empty",
                             i, sb->section_count);
    }
    return true;
}

/* Spec 3.3: A when it is valid, else B. */
const uint8_t *
lode_head_choose(const uint8_t *head, size_t head_bytes)
{
    if (head_bytes >= LODE_SUPERBLOCK_BYTES && lode_superblock_valid(head))
        return head;
    if (head_bytes >= LODE_SLOT_B_OFFSET + LODE_SUPERBLOCK_BYTES &&
        lode_superblock_valid(head + LODE_SLOT_B_OFFSET))
        return head + LODE_SLOT_B_OFFSET;
    return NULL;
}

bool
lode_head_decode(const uint8_t *head, size_t head_bytes, uint64_t file_bytes,
                 struct lode_superblock *out, struct lode_error *err)
{
    const uint8_t *raw = lode_head_choose(head, head_bytes);

    if (raw == NULL)
        return fail_stranger(head, head_bytes, err);
    lode_superblock_decode(raw, out);
    /* What a newer version reserves or adds is judged by its masks first. */
    return lode_rules_superblock(out, file_bytes, err) &&
           check_reserved(raw, out, err);
}
