/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the superblock and its section directory (spec 3). */
#include "config.h"

#include "format/rules.h"

#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "format/pack.h"

/* Spec 4: what this version knows about each section type. */
static const struct {
    const char *name;
    uint32_t record_bytes;
    uint32_t count_max;
    uint32_t flags;
    bool required;
} known[LODE_SECTION_LAST + 1] = {
    [LODE_SECTION_VOLUMES] = {"VOLUMES", LODE_VOLUME_RECORD_BYTES,
                              LODE_VOLUMES_MAX, 0, false},
    [LODE_SECTION_GROUPS] = {"GROUPS", LODE_GROUP_RECORD_BYTES, LODE_GROUPS_MAX,
                             0, true},
    [LODE_SECTION_SCHEMAS] = {"SCHEMAS", LODE_SCHEMA_RECORD_BYTES,
                              LODE_SCHEMAS_MAX, 0, true},
    [LODE_SECTION_TENSORS] = {"TENSORS", LODE_TENSOR_RECORD_BYTES,
                              LODE_TENSORS_MAX, 0, true},
    [LODE_SECTION_STRINGS] = {"STRINGS", 1, (uint32_t)LODE_STRINGS_BYTES_MAX, 0,
                              true},
    [LODE_SECTION_BLOCKS] = {"BLOCKS", LODE_BLOCK_RECORD_BYTES, LODE_BLOCKS_MAX,
                             0, true},
    [LODE_SECTION_SEGMENTS] = {"SEGMENTS", 4, 0, 0, false},
    [LODE_SECTION_CONTENT_DIGESTS] = {"CONTENT DIGESTS", LODE_DIGEST_BYTES,
                                      LODE_BLOCKS_MAX, LODE_SECTION_COLD, true},
    [LODE_SECTION_STORED_DIGESTS] = {"STORED DIGESTS", LODE_DIGEST_BYTES,
                                     LODE_BLOCKS_MAX, LODE_SECTION_COLD, false},
    [LODE_SECTION_ORDER] = {"ORDER", LODE_ORDER_RECORD_BYTES, LODE_BLOCKS_MAX,
                            LODE_SECTION_COLD, false},
};

const char *
lode_rules_section_name(uint32_t type)
{
    return type > 0 && type <= LODE_SECTION_LAST ? known[type].name
                                                 : "unknown section";
}

const struct lode_section *
lode_rules_section(const struct lode_superblock *sb, uint32_t type)
{
    for (uint32_t i = 0; i < sb->section_count; i++)
        if (sb->sections[i].type == type)
            return &sb->sections[i];
    return NULL;
}

/* Limits and flags of a type this version knows. */
static bool
check_known(const struct lode_section *s, struct lode_error *err)
{
    uint32_t bytes = known[s->type].record_bytes;

    if (s->count > known[s->type].count_max)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32 " entries, the limit is %" PRIu32, s->count,
                         known[s->type].count_max);
    if (s->record_bytes < bytes ||
        (s->type == LODE_SECTION_STRINGS && s->record_bytes != bytes))
        return lode_fail(err, LODE_E_CORRUPT,
                         "entries of %" PRIu32 " bytes, expected %" PRIu32,
                         s->record_bytes, bytes);
    if ((s->flags & LODE_SECTION_COLD) != known[s->type].flags)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%" PRIx32, s->flags);
    return true;
}

/* Spec 3.2: one entry of the directory. */
static bool
check_section(const struct lode_superblock *sb, const struct lode_section *s,
              struct lode_error *err)
{
    uint64_t hot_end = sb->hot_offset + sb->hot_bytes; /* checked before */
    bool hot;

    if (s->type == 0)
        return lode_fail(err, LODE_E_CORRUPT, "type 0");
    if ((s->flags & ~(uint32_t)(LODE_SECTION_CRITICAL | LODE_SECTION_COLD)) !=
        0)
        return lode_fail(err, LODE_E_CORRUPT, "flags 0x%" PRIx32, s->flags);
    if (s->type > LODE_SECTION_LAST && (s->flags & LODE_SECTION_CRITICAL) != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "type %" PRIu32 " must be understood and is not",
                         s->type);
    if (s->record_bytes == 0 || s->record_bytes > LODE_ENTRY_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "entries of %" PRIu32 " bytes, the limits are 1 and "
                         "%u",
                         s->record_bytes, LODE_ENTRY_BYTES_MAX);
    if (s->type <= LODE_SECTION_LAST && !check_known(s, err))
        return false;
    if (s->bytes != (uint64_t)s->count * s->record_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu64 " bytes, %" PRIu32 " entries of %" PRIu32
                         " make %" PRIu64,
                         s->bytes, s->count, s->record_bytes,
                         (uint64_t)s->count * s->record_bytes);
    if (s->offset % LODE_SECTION_ALIGN_BYTES != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "offset %" PRIu64 " is not a multiple of %d",
                         s->offset, LODE_SECTION_ALIGN_BYTES);
    if (s->offset < LODE_INDEX_OFFSET ||
        !lode_in_range(s->offset, s->bytes, sb->data_offset))
        return lode_fail(err, LODE_E_CORRUPT,
                         "%" PRIu64 " bytes at %" PRIu64
                         " lie outside the index (%d to %" PRIu64 ")",
                         s->bytes, s->offset, LODE_INDEX_OFFSET,
                         sb->data_offset);
    hot = s->offset >= sb->hot_offset && s->offset + s->bytes <= hot_end;
    if ((s->flags & LODE_SECTION_COLD) == 0 && !hot)
        return lode_fail(err, LODE_E_CORRUPT, "lies outside the hot range");
    return true;
}

static bool
check_overlap(const struct lode_superblock *sb, uint32_t index,
              struct lode_error *err)
{
    const struct lode_section *s = &sb->sections[index];

    for (uint32_t i = 0; i < index; i++) {
        const struct lode_section *t = &sb->sections[i];

        if (s->type == t->type)
            return lode_fail(err, LODE_E_CORRUPT, "type occurs twice");
        if (s->bytes != 0 && t->bytes != 0 &&
            s->offset < t->offset + t->bytes &&
            t->offset < s->offset + s->bytes)
            return lode_fail(err, LODE_E_CORRUPT, "overlaps section %s",
                             lode_rules_section_name(t->type));
    }
    return true;
}

static bool
check_directory(const struct lode_superblock *sb, struct lode_error *err)
{
    for (uint32_t i = 0; i < sb->section_count; i++) {
        const struct lode_section *s = &sb->sections[i];

        if (!check_section(sb, s, err) || !check_overlap(sb, i, err))
            return lode_fail_in(err, "section %" PRIu32 " (%s)", i,
                                lode_rules_section_name(s->type));
    }
    for (uint32_t type = 1; type <= LODE_SECTION_LAST; type++)
        if (known[type].required && lode_rules_section(sb, type) == NULL)
            return lode_fail(err, LODE_E_CORRUPT, "section %s is missing",
                             known[type].name);
    return true;
}

/* Spec 3.1 and 12.2: may this version read the file at all? */
static bool
check_features(const struct lode_superblock *sb, struct lode_error *err)
{
    const uint64_t features = LODE_INCOMPAT_VOLUME | LODE_INCOMPAT_PARTIAL;

    if (sb->major != 1)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "format version %u.%u, this program reads version 1",
                         sb->major, sb->minor);
    if ((sb->incompat & ~features) != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "needs features 0x%" PRIx64
                         " that this version does not have",
                         sb->incompat & ~features);
    if (sb->superblock_bytes != LODE_SUPERBLOCK_BYTES)
        return lode_fail(err, LODE_E_CORRUPT,
                         "superblock of %" PRIu32 " bytes, expected %d",
                         sb->superblock_bytes, LODE_SUPERBLOCK_BYTES);
    if (sb->digest_algorithm != LODE_DIGEST_SHA256_TREE ||
        sb->check_algorithm != LODE_CHECK_XXH3)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "digest algorithm %u, check algorithm %u; this "
                         "version knows 1 and 1",
                         sb->digest_algorithm, sb->check_algorithm);
    if (sb->state != LODE_STATE_FINAL)
        return lode_fail(err, LODE_E_CORRUPT,
                         "state %u: the container was never finished",
                         sb->state);
    if ((sb->codecs & ~UINT64_C(3)) != 0 ||
        (sb->filters & ~LODE_FILTERS_KNOWN) != 0)
        return lode_fail(err, LODE_E_UNSUPPORTED,
                         "codecs 0x%" PRIx64 ", filters 0x%" PRIx64
                         ": some are unknown to this version",
                         sb->codecs, sb->filters);
    return true;
}

/* Spec 4.3: the head of a set lists its volumes, a volume knows its number, a
 * single file has neither. */
static bool
check_volumes(const struct lode_superblock *sb, struct lode_error *err)
{
    const struct lode_section *s = lode_rules_section(sb, LODE_SECTION_VOLUMES);
    uint32_t listed = s != NULL ? s->count : 0;
    bool is_volume = (sb->incompat & LODE_INCOMPAT_VOLUME) != 0;

    if (sb->volume_count == 0 || sb->volume_index >= sb->volume_count ||
        is_volume != (sb->volume_index != 0) ||
        listed != (is_volume ? 0U : sb->volume_count - 1U))
        return lode_fail(err, LODE_E_CORRUPT,
                         "volume %u of %u, features 0x%" PRIx64
                         ", with %" PRIu32 " volumes listed",
                         sb->volume_index, sb->volume_count, sb->incompat,
                         listed);
    if (is_volume && (sb->incompat & LODE_INCOMPAT_PARTIAL) != 0)
        return lode_fail(err, LODE_E_CORRUPT, "volume %u is partial",
                         sb->volume_index);
    return true;
}

/* A text of fixed size: its last byte is NUL, and so is all behind the first
 * NUL. */
static bool
check_text(const char *text, size_t room, const char *what,
           struct lode_error *err)
{
    size_t bytes = strnlen(text, room);

    if (bytes == room)
        return lode_fail(err, LODE_E_CORRUPT, "%s does not end with NUL", what);
    for (size_t i = bytes; i < room; i++)
        if (text[i] != '\0')
            return lode_fail(err, LODE_E_CORRUPT,
                             "%s has a byte at %zu, behind its end", what, i);
    return lode_rules_text(text, bytes, what, err);
}

bool
lode_rules_superblock(const struct lode_superblock *sb, uint64_t file_bytes,
                      struct lode_error *err)
{
    uint64_t align;

    if (!check_features(sb, err))
        return false;
    if (file_bytes != sb->file_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "file has %" PRIu64 " bytes, expected %" PRIu64 ": %s",
                         file_bytes, sb->file_bytes,
                         file_bytes < sb->file_bytes
                             ? "cut short"
                             : "something was appended");
    if (sb->align_log2 < LODE_ALIGN_LOG2_MIN ||
        sb->align_log2 > LODE_ALIGN_LOG2_MAX)
        return lode_fail(
            err, LODE_E_LIMIT, "alignment 2^%u, the limits are 2^%u and 2^%u",
            sb->align_log2, LODE_ALIGN_LOG2_MIN, LODE_ALIGN_LOG2_MAX);
    align = UINT64_C(1) << sb->align_log2;
    if (sb->file_bytes % align != 0)
        return lode_fail(err, LODE_E_CORRUPT,
                         "file of %" PRIu64 " bytes is no multiple of the "
                         "alignment %" PRIu64,
                         sb->file_bytes, align);
    if (sb->data_offset % LODE_DATA_ALIGN_BYTES != 0 ||
        sb->data_offset < LODE_INDEX_OFFSET || sb->data_offset > sb->file_bytes)
        return lode_fail(err, LODE_E_CORRUPT,
                         "data offset %" PRIu64 " in a file of %" PRIu64
                         " bytes",
                         sb->data_offset, sb->file_bytes);
    if (sb->data_offset - LODE_INDEX_OFFSET > LODE_INDEX_BYTES_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "index of %" PRIu64 " bytes, the limit is %" PRIu64,
                         sb->data_offset - LODE_INDEX_OFFSET,
                         LODE_INDEX_BYTES_MAX);
    if (sb->hot_offset < LODE_INDEX_OFFSET ||
        !lode_in_range(sb->hot_offset, sb->hot_bytes, sb->data_offset))
        return lode_fail(err, LODE_E_CORRUPT,
                         "hot range of %" PRIu64 " bytes at %" PRIu64
                         " lies outside the index",
                         sb->hot_bytes, sb->hot_offset);
    if (sb->section_count > LODE_SECTIONS_MAX)
        return lode_fail(err, LODE_E_LIMIT,
                         "%" PRIu32 " sections, the limit is %u",
                         sb->section_count, LODE_SECTIONS_MAX);
    return check_text(sb->writer, LODE_WRITER_TEXT_BYTES, "writer", err) &&
           check_text(sb->label, LODE_LABEL_TEXT_BYTES, "label", err) &&
           check_directory(sb, err) && check_volumes(sb, err);
}
