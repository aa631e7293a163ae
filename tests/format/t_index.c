/* SPDX-License-Identifier: Apache-2.0
 *
 * Every rule on superblock and index: one value of a good container is changed,
 * its sums are made right again, and the reader must refuse for that reason
 * (spec 2.4, 2.5, 3.1, 3.2, 4.2, 5.1 to 5.3, 6.1 to 6.4, 7.1 to 7.4, 10.1,
 * 12.1, 12.2). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/lode_write.h"
#include "tests/format/rules.h"
#include "tests/tap.h"

/* clang-format off */
static const struct rule superblock_rules[] = {
    {"nothing changed", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"major 2", {SB, 0, 8, 2, 2}, E_U, "format version 2.0"},
    {"major 0", {SB, 0, 8, 2, 0}, E_U, "format version 0.0"},
    {"a later minor", {SB, 0, 10, 2, 7}, E_OK, ""},
    {"superblock of 4095", {SB, 0, 12, 4, 4095}, E_C,
     "superblock of 4095 bytes, expected 4096"},
    {"incompat bit 0, volume 0", {SB, 0, 16, 8, 1}, E_C,
     "volume 0 of 1, features 0x1, with 0 volumes listed"},
    {"incompat bit 1", {SB, 0, 16, 8, 2}, E_U, "needs features 0x2 "},
    {"incompat bit 3", {SB, 0, 16, 8, 8}, E_U, "needs features 0x8 "},
    {"incompat bit 63", {SB, 0, 16, 8, UINT64_C(1) << 63}, E_U,
     "needs features 0x8000000000000000 "},
    {"partial, nothing absent", {SB, 0, 16, 8, 4}, E_C,
     "partial, with all of its 16 blocks"},
    {"ro_compat bits", {SB, 0, 24, 8, UINT64_MAX}, E_OK, ""},
    {"compat bits", {SB, 0, 32, 8, UINT64_MAX}, E_OK, ""},
    {"reserved byte 40", {SB, 0, 40, 1, 1}, E_C, "reserved byte 40 is 1"},
    {"reserved byte 47", {SB, 0, 47, 1, 1}, E_C, "reserved byte 47 is 1"},
    {"volume 1", {SB, 0, 80, 2, 1}, E_C, "volume 1 of 1, features 0x0"},
    {"2 volumes", {SB, 0, 82, 2, 2}, E_C,
     "volume 0 of 2, features 0x0, with 0 volumes listed"},
    {"65535 volumes", {SB, 0, 82, 2, 65535}, E_C, "volume 0 of 65535, "},
    {"0 volumes", {SB, 0, 82, 2, 0}, E_C, "volume 0 of 0, features 0x0"},
    {"alignment 2^11", {SB, 0, 84, 1, 11}, E_L, "alignment 2^11, the limits"},
    {"alignment 2^17", {SB, 0, 84, 1, 17}, E_L, "alignment 2^17, the limits"},
    {"alignment 2^255", {SB, 0, 84, 1, 255}, E_L, "alignment 2^255"},
    {"file no multiple of it", {SB, 0, 84, 1, 16}, E_C,
     "is no multiple of the alignment 65536"},
    {"digest algorithm", {SB, 0, 85, 1, 2}, E_U, "digest algorithm 2, "},
    {"check algorithm", {SB, 0, 86, 1, 0}, E_U, "check algorithm 0;"},
    {"state 0", {SB, 0, 87, 1, 0}, E_C, "state 0: the container was never"},
    {"state 2", {SB, 0, 87, 1, 2}, E_C, "state 2: the container was never"},
    {"33 sections", {SB, 0, 88, 4, 33}, E_L, "33 sections, the limit is 32"},
    {"sections at the top", {SB, 0, 88, 4, UINT32_MAX}, E_L,
     "4294967295 sections, the limit is 32"},
    {"an empty entry", {SB, 0, 88, 4, 7}, E_C, "section 6 (unknown section): "
     "type 0"},
    {"a section missing", {SB, 0, 88, 4, 5}, E_C,
     "section CONTENT DIGESTS is missing"},
    {"reserved byte 92", {SB, 0, 92, 1, 9}, E_C, "reserved byte 92 is 9"},
    {"another file size", {SB, 0, 96, 8, 4096}, E_C, "expected 4096: something"
     " was appended"},
    {"file size at the top", {SB, 0, 96, 8, UINT64_MAX}, E_C, "cut short"},
    {"data before the index", {SB, 0, 104, 8, 65536}, E_C,
     "data offset 65536 in"},
    {"data at no multiple", {SB, 0, 104, 8, 131072 + 4096}, E_C,
     "data offset 135168 in"},
    {"data behind the end", {SB, 0, 104, 8, UINT64_C(1) << 63}, E_C,
     "data offset 9223372036854775808 in"},
    {"hot range in front", {SB, 0, 112, 8, 131008}, E_C, "at 131008 lies"},
    {"hot range too long", {SB, 0, 120, 8, UINT64_MAX}, E_C,
     "hot range of 18446744073709551615 bytes at 131072 lies"},
    {"hot range too short", {SB, 0, 120, 8, 64}, E_C,
     "(GROUPS): lies outside the hot range"},
    {"blocks", {SB, 0, 128, 8, 15}, E_C,
     "16 block records, groups have 16, superblock 15"},
    {"blocks, 2^32 more", {SB, 0, 128, 8, (UINT64_C(1) << 32) + 16}, E_C,
     "superblock 4294967312"},
    {"blocks here", {SB, 0, 136, 8, 15}, E_C,
     "16 blocks are here, the superblock says 15"},
    {"raw bytes", {SB, 0, 144, 8, 1}, E_C, "the superblock says 1, "},
    {"stored bytes", {SB, 0, 152, 8, 1}, E_C, ", 1"},
    {"codec 1 without its digests", {SB, 0, 224, 8, 3}, E_C,
     "packed blocks without stored digests"},
    {"a codec left out", {SB, 0, 224, 8, 0}, E_C,
     "codec 0, filters 0x0: not in the superblock's masks"},
    {"an unknown codec", {SB, 0, 224, 8, 5}, E_U, "codecs 0x5, "},
    {"a filter that is not there", {SB, 0, 232, 8, 2}, E_C,
     "codecs 0x1, filters 0x0; the superblock says 0x1, 0x2"},
    {"filter 0", {SB, 0, 232, 8, 1}, E_U, "filters 0x1: some are unknown"},
    {"an unknown filter", {SB, 0, 232, 8, 64}, E_U, "filters 0x40: some are"},
    {"filter 63", {SB, 0, 232, 8, UINT64_C(1) << 63}, E_U,
     "filters 0x8000000000000000: some are"},
    {"ignored bytes in front", {SB, 0, 240, 8, UINT64_MAX}, E_OK, ""},
    {"ignored bytes to 511", {SB, 0, 504, 8, UINT64_MAX}, E_OK, ""},
    {"ignored bytes from 3264", {SB, 0, 3264, 8, UINT64_MAX}, E_OK, ""},
    {"ignored bytes to 4087", {SB, 0, 4080, 8, UINT64_MAX}, E_OK, ""},
    {"writer behind its end", {SB, 0, 3072 + 63, 1, 'x'}, E_C,
     "writer has a byte at 63, behind its end"},
    {"a control character", {SB, 0, 3136, 1, 7}, E_C,
     "label has a control character at 0"},
    {"label of half a letter", {SB, 0, 3136, 1, 0xc3}, E_C,
     "label is not UTF-8 (byte 0xc3 at 0)"},
    {"an overlong letter", {SB, 0, 3136, 2, 0xafc0}, E_C,
     "label is not UTF-8 (byte 0xc0 at 0)"},
    {"a surrogate", {SB, 0, 3136, 3, 0x80a0ed}, E_C, "label is not UTF-8"},
    {"above U+10FFFF", {SB, 0, 3136, 4, 0x808090f4}, E_C, "label is not UTF-8"},
    {"U+0080", {SB, 0, 3136, 2, 0x80c2}, E_C, "control character at 0"},
    {"U+00A0", {SB, 0, 3136, 2, 0xa0c2}, E_OK, ""},
    {"U+10FFFF", {SB, 0, 3136, 4, 0xbfbf8ff4}, E_OK, ""},
};

/* Entries in the order of the file: GROUPS SCHEMAS TENSORS STRINGS BLOCKS
 * CONTENT DIGESTS. */
static const struct rule directory_rules[] = {
    {"type 0", {SB, 0, DIR, 4, 0}, E_C, "section 0 (unknown section): type 0"},
    {"must be understood", {SB, 0, DIR, 4, 11}, E_U,
     "type 11 must be understood and is not"},
    {"hot order", {SB, 0, DIR, 4, 10}, E_C, "section 0 (ORDER): flags 0x1"},
    {"listed segments", {SB, 0, DIR, 4, 7}, E_L,
     "section 0 (SEGMENTS): 12 entries, the limit is 0"},
    {"twice", {SB, 0, DIR + 160, 4, 3}, E_C,
     "section 2 (SCHEMAS): type occurs twice"},
    {"unknown flags", {SB, 0, DIR + 4, 4, 4}, E_C, "flags 0x4"},
    {"cold groups", {SB, 0, DIR + 4, 4, 3}, E_C, "(GROUPS): flags 0x3"},
    {"hot digests", {SB, 0, DIR + 404, 4, 0}, E_C,
     "(CONTENT DIGESTS): flags 0x0"},
    {"no multiple of 64", {SB, 0, DIR + 8, 8, 131073}, E_C,
     "offset 131073 is not a multiple of 64"},
    {"in front of the index", {SB, 0, DIR + 8, 8, 69632}, E_C,
     "at 69632 lie outside the index"},
    {"behind the index", {SB, 0, DIR + 408, 8, UINT64_C(1) << 62}, E_C,
     "at 4611686018427387904 lie outside the index"},
    {"wraps around", {SB, 0, DIR + 8, 8, UINT64_MAX - 63}, E_C,
     "at 18446744073709551552 lie outside the index"},
    {"bytes", {SB, 0, DIR + 16, 8, 129}, E_C, "(GROUPS): 129 bytes, 12 entries "
     "of 128 make 1536"},
    {"65536 groups", {SB, 0, DIR + 24, 4, 65536}, E_L,
     "65536 entries, the limit is 65535"},
    {"65536 schemas", {SB, 0, DIR + 104, 4, 65536}, E_L,
     "65536 entries, the limit is 65535"},
    {"2^20 + 1 tensors", {SB, 0, DIR + 184, 4, 1048577}, E_L,
     "1048577 entries, the limit is 1048576"},
    {"64 MiB + 1 of strings", {SB, 0, DIR + 264, 4, 67108865}, E_L,
     "67108865 entries, the limit is 67108864"},
    {"2^24 + 1 blocks", {SB, 0, DIR + 344, 4, 16777217}, E_L,
     "16777217 entries, the limit is 16777216"},
    {"2^24 + 1 digests", {SB, 0, DIR + 424, 4, 16777217}, E_L,
     "16777217 entries, the limit is 16777216"},
    {"entries of 0", {SB, 0, DIR + 28, 4, 0}, E_L, "entries of 0 bytes, the "
     "limits are 1 and 4096"},
    {"entries of 4097", {SB, 0, DIR + 28, 4, 4097}, E_L, "entries of 4097"},
    {"entries too short", {SB, 0, DIR + 28, 4, 127}, E_C,
     "entries of 127 bytes, expected 128"},
    {"strings of 2", {SB, 0, DIR + 268, 4, 2}, E_C,
     "(STRINGS): entries of 2 bytes, expected 1"},
    {"overlap", {SB, 0, DIR + 88, 8, 131072}, E_C,
     "section 1 (SCHEMAS): overlaps section GROUPS"},
    {"reserved", {SB, 0, DIR + 79, 1, 1}, E_C, "section 0: reserved byte 79"},
    {"behind the last", {SB, 0, DIR + 480, 1, 1}, E_C,
     "section 6 of 6 is not empty"},
    {"the last entry", {SB, 0, DIR + 2559, 1, 1}, E_C, "section 31: reserved"},
    {"fewer digests", {SB, 0, DIR + 424, 4, 15}, E_C, "15 entries of 32 make"},
};

/* In the order of the file; see tiny.c.  0, 1: experts of layers 1, 2;
 * 2, 3: trunk; 4 resident; 5 rows; 6 aux; 7 to 9 meta; 10 origin; 11 private.
 */
static const struct rule group_rules[] = {
    {"kind 0", {GR, 0, 0, 4, 0}, E_C, "group 0 (kind 0, layer 1, \"experts\"): "
     "kind 0"},
    {"kind 8", {GR, 0, 0, 4, 8}, E_U, "kind 8 is unknown to this version"},
    {"kind 0x7fff", {GR, 11, 0, 4, 0x7fff}, E_U, "kind 32767 is unknown"},
    {"kind 0xffff", {GR, 11, 0, 4, 0xffff}, E_OK, ""},
    {"kind 0x10000", {GR, 11, 0, 4, 0x10000}, E_C, "kind 65536"},
    {"layer -2", {GR, 2, 4, 4, 0xfffffffe}, E_L, "layer -2, the limit"},
    {"layer 65536", {GR, 1, 4, 4, 65536}, E_L, "layer 65536, the limit is "
     "65535"},
    {"layer 65535", {GR, 1, 4, 4, 65535}, E_OK, ""},
    {"experts of no layer", {GR, 0, 4, 4, UINT32_MAX}, E_C,
     "experts without a layer"},
    {"file of a layer", {GR, 7, 4, 4, 0}, E_C, "file with layer 0"},
    {"no objects", {GR, 0, 8, 4, 0}, E_C, "0 objects, expected at least 1"},
    {"two trunks", {GR, 2, 8, 4, 2}, E_C, "2 objects, expected 1"},
    {"too many objects", {GR, 1, 8, 4, UINT32_MAX}, E_L,
     "blocks, the limit is 16777216"},
    {"2 blocks an object", {GR, 0, 12, 4, 2}, E_C,
     "2 blocks an object, expected 1"},
    {"first block", {GR, 1, 16, 4, 4}, E_C, "first block 4, expected 3"},
    {"schema 9 of 9", {GR, 0, 20, 4, 9}, E_C, "schema 9 of 9"},
    {"another schema", {GR, 0, 20, 4, 3}, E_C,
     "objects of 520 bytes, its schema has 5120"},
    {"name behind STRINGS", {GR, 0, 24, 4, UINT32_MAX}, E_C,
     "name at 4294967295 of STRINGS"},
    {"name inside a text", {GR, 0, 24, 4, 3}, E_C,
     "name at 3 of STRINGS, inside a text"},
    {"reserved byte 28", {GR, 3, 28, 1, 1}, E_C, "reserved byte 28"},
    {"reserved byte 63", {GR, 3, 63, 1, 1}, E_C, "reserved byte 63"},
    {"object above 2^40", {GR, 0, 32, 8, (UINT64_C(1) << 40) + 1}, E_L,
     "object of 1099511627777 bytes"},
    {"empty object", {GR, 0, 32, 8, 0}, E_C, "objects of 0 bytes"},
    {"block of 0", {GR, 0, 40, 4, 0}, E_C,
     "blocks of 0 bytes in objects of 520"},
    {"block above the object", {GR, 0, 40, 4, 521}, E_C,
     "blocks of 521 bytes in objects of 520"},
    {"block above 2^30", {GR, 0, 40, 4, (1U << 30) + 1}, E_L,
     "blocks of 1073741825 bytes"},
    {"equal groups", {GR, 1, 4, 4, 1}, E_C,
     "does not come after the group before it"},
    {"kinds unsorted", {GR, 0, 0, 4, 3}, E_C,
     "does not come after the group before it"},
    {"file without a name", {GR, 7, 24, 4, 0}, E_C, "path is empty"},
};

/* 0 expert, 1 trunk, 2 resident, 3 embedding; the others have no tensors. */
static const struct rule schema_rules[] = {
    {"first tensor",
     {SC, 1, 0, 4, 5},
     E_C,
     "schema 1: 2 tensors from 5, expected at most 6 from 6"},
    {"too many tensors",
     {SC, 3, 4, 4, 2},
     E_C,
     "schema 3: 2 tensors from 11, expected at most 1 from 11"},
    {"tensors at the top",
     {SC, 3, 4, 4, UINT32_MAX},
     E_C,
     "4294967295 tensors"},
    {"object above 2^40",
     {SC, 6, 8, 8, (UINT64_C(1) << 40) + 1},
     E_L,
     "object of 1099511627777 bytes"},
    {"object too small",
     {SC, 0, 8, 8, 512},
     E_C,
     "8 bytes at 512 lie outside the object of 512"},
    {"no segments", {SC, 0, 16, 4, 0}, E_L, "0 segments, the limits are 1"},
    {"25 segments", {SC, 0, 16, 4, 25}, E_L, "25 segments, the limits"},
    {"2 of 3 segments",
     {SC, 0, 16, 4, 2},
     E_C,
     "2 segments, the tensors name 3"},
    {"reserved byte 20", {SC, 0, 20, 1, 1}, E_C, "reserved byte 20"},
    {"name", {SC, 0, 24, 4, 2}, E_C, "name at 2 of STRINGS, inside a text"},
    {"reserved byte 31", {SC, 0, 31, 1, 1}, E_C, "reserved byte 31"},
};

/* 0 to 5 expert, 6 and 7 trunk, 8 to 10 resident, 11 embedding. */
static const struct rule tensor_rules[] = {
    {"no name", {TE, 0, 0, 4, 0}, E_C, "name, encoding or dtype is empty"},
    {"name inside a text", {TE, 0, 0, 4, 2}, E_C,
     "tensor record 0: name at 2 of STRINGS"},
    {"no encoding", {TE, 0, 4, 4, 0}, E_C, "name, encoding or dtype is empty"},
    {"encoding outside", {TE, 0, 4, 4, 1 << 30}, E_C,
     "encoding at 1073741824 of STRINGS"},
    {"no dtype", {TE, 0, 8, 4, 0}, E_C, "name, encoding or dtype is empty"},
    {"dtype outside", {TE, 0, 8, 4, 1 << 30}, E_C,
     "dtype at 1073741824 of STRINGS"},
    {"an unknown role", {TE, 0, 12, 2, 65535}, E_OK, ""},
    {"7 dimensions", {TE, 0, 14, 1, 7}, E_L, "7 dimensions, the limit is 6"},
    {"1 dimension of 2", {TE, 0, 14, 1, 1}, E_C, "dimension 1 of 1 is 16"},
    {"segment 1 first", {TE, 0, 15, 1, 1}, E_C, "has segment 1 after 0"},
    {"segment skipped", {TE, 2, 15, 1, 2}, E_C, "has segment 2 after 0"},
    {"segment descends", {TE, 3, 15, 1, 0}, E_C, "has segment 0 after 1"},
    {"offset 32", {TE, 7, 16, 8, 32}, E_C, "offset 32 is not a multiple of 64"},
    {"offset outside", {TE, 7, 16, 8, UINT64_MAX - 63}, E_C,
     "lie outside the object of 1088"},
    {"overlap", {TE, 2, 16, 8, 128}, E_C,
     "offset 128 is below 136, the end of the tensor before"},
    {"bytes outside", {TE, 7, 24, 8, UINT64_MAX}, E_C,
     "18446744073709551615 bytes at 64 lie outside the object"},
    {"bytes against shape", {TE, 7, 24, 8, 1023}, E_C,
     "1023 bytes, dimensions and dtype F32 give 8192 bits"},
    {"flags", {TE, 0, 32, 4, 4}, E_U, "flags 0x4"},
    {"slice", {TE, 0, 32, 4, 1}, E_OK, ""},
    {"a quantisation group", {TE, 7, 36, 4, 128}, E_OK, ""},
    {"dimension", {TE, 7, 40, 8, 17}, E_C, "dtype F32 give 8704 bits"},
    {"dimension 0", {TE, 7, 40, 8, 0}, E_C, "dtype F32 give 0 bits"},
    {"product overflows", {TE, 7, 40, 8, UINT64_C(1) << 62}, E_C,
     "dimensions overflow"},
    {"unused dimension", {TE, 7, 80, 8, 1}, E_C,
     "dimension 5 of 2 is 1, expected 0"},
    {"unknown encodings have any shape", {TE, 9, 40, 8, 99}, E_OK, ""},
    {"reserved byte 95", {TE, 7, 95, 1, 1}, E_C, "reserved byte 95"},
};

static const struct rule block_rules[] = {
    {"offset + 1", {BL, 0, 0, 1, 1}, E_C, "expert 0 of layer 1: offset"},
    {"offset 0", {BL, 0, 0, 8, 0}, E_C, "offset 0 is no multiple of 4096 from"},
    {"offset at the end",
     {BL, 0, 0, 8, UINT64_MAX - 4095},
     E_C,
     "pass the end of the file"},
    {"nothing stored", {BL, 0, 16, 4, 0}, E_L, "0 stored bytes, the limits"},
    {"stored above 2^30",
     {BL, 0, 16, 4, (1U << 30) + 1},
     E_L,
     "1073741825 stored bytes"},
    {"stored behind the end",
     {BL, 15, 16, 4, 1U << 30},
     E_C,
     "pass the end of the file"},
    {"stored, not as decoded",
     {BL, 0, 16, 4, 521},
     E_C,
     "stored raw, with filters 0x0, in 521 bytes of 520"},
    {"decoded", {BL, 0, 20, 4, 521}, E_C, "521 bytes decoded, expected 520"},
    {"number",
     {BL, 4, 24, 4, 5},
     E_C,
     "expert 1 of layer 2: record says block 5, group 1, object 1"},
    {"reserved byte 28", {BL, 0, 28, 1, 255}, E_C, "reserved byte 28 is 255"},
    {"reserved byte 31", {BL, 0, 31, 1, 1}, E_C, "reserved byte 31 is 1"},
    {"group", {BL, 0, 32, 4, 1}, E_C, "record says block 0, group 1"},
    {"object",
     {BL, 1, 36, 4, 2},
     E_C,
     "record says block 1, group 0, object 2"},
    {"part", {BL, 0, 40, 2, 1}, E_C, "object 0, part 1"},
    {"volume", {BL, 0, 42, 2, 1}, E_C, "in volume 1, this is 0 of 1"},
    {"codec 2", {BL, 0, 44, 1, 2}, E_U, "codec 2, filters 0x0: unknown"},
    {"codec 255", {BL, 0, 44, 1, 255}, E_U, "codec 255, filters 0x0: unknown"},
    {"codec 1", {BL, 0, 44, 1, 1}, E_C, "codec 1, filters 0x0: not in the"},
    {"filter 0", {BL, 0, 45, 1, 1}, E_U, "codec 0, filters 0x1: unknown"},
    {"filter 1", {BL, 0, 45, 1, 2}, E_C, "codec 0, filters 0x2: not in the"},
    {"filter 6", {BL, 0, 45, 1, 64}, E_U, "codec 0, filters 0x40: unknown"},
    {"reserved byte 46", {BL, 0, 46, 1, 1}, E_C, "reserved byte 46 is 1"},
    {"flags", {BL, 0, 47, 1, 7}, E_C, "flags 0x7"},
    {"digests differ", {BL, 0, 47, 1, 1}, E_C, "flags 0x1 with codec 0"},
    {"absent",
     {BL, 0, 47, 1, 2},
     E_C,
     "is absent, in a container that is not partial"},
    {"reserved byte 48", {BL, 15, 48, 1, 1}, E_C, "reserved byte 48"},
    {"reserved byte 63", {BL, 15, 63, 1, 1}, E_C, "reserved byte 63"},
};

static const struct rule string_rules[] = {
    {"first byte", {ST, 0, 0, 1, 'a'}, E_C, "begin and end with NUL"},
    {"not UTF-8", {ST, 0, 1, 1, 0xff}, E_C,
     "section STRINGS at 1: text is not UTF-8 (byte 0xff at 0)"},
    {"a control character", {ST, 0, 2, 1, 0x1b}, E_C,
     "section STRINGS at 1: text has a control character at 1"},
    {"DEL", {ST, 0, 2, 1, 0x7f}, E_C, "control character at 1"},
};
/* clang-format on */

/* clang-format off */
static const struct story stories[] = {
    {"expert of two blocks",
     {{GR, 0, 40, 4, 260}, {GR, 0, 12, 4, 2}}, E_C,
     "expert of 2 blocks, expected 1"},
    {"split below 1 MiB",
     {{GR, 2, 40, 4, 1024}, {GR, 2, 12, 4, 2}}, E_C,
     "split into blocks of 1024 bytes, expected a power of two"},
    {"65537 blocks an object",
     {{GR, 2, 32, 8, UINT64_C(65537) << 20}, {GR, 2, 40, 4, 1 << 20},
      {GR, 2, 12, 4, 65537}}, E_L,
     "65537 blocks an object, the limit is 65536"},
    {"split at no power of two",
     {{GR, 2, 32, 8, 8 << 20}, {GR, 2, 40, 4, 3 << 20}, {GR, 2, 12, 4, 3}},
     E_C, "split into blocks of 3145728 bytes"},
    {"a tensor left over",
     {{SC, 3, 4, 4, 0}, {SC, 4, 0, 4, 11}, {SC, 5, 0, 4, 11},
      {SC, 6, 0, 4, 11}, {SC, 7, 0, 4, 11}, {SC, 8, 0, 4, 11}}, E_C,
     "1 tensors belong to no schema"},
    {"empty segment",
     {{TE, 10, 15, 1, 1}, {SC, 2, 16, 4, 2}}, E_C, "segment at 128 is empty"},
};
/* clang-format on */

/* ---- values that depend on the file ---- */

static void
test_dependent(const struct patch *base)
{
    uint64_t first = lode_load_u64(patch_record(base, BL, 0));
    struct rule rules[] = {
        {"overlap",
         {BL, 1, 0, 8, first},
         E_C,
         "expert 1 of layer 1: overlaps the block that ends at"},
        {"dtype of another encoding",
         {TE, 6, 8, 4, lode_load_u32(patch_record(base, TE, 7) + 8)},
         E_C,
         "encoding bf16 with dtype F32"},
        {"unknown dtype",
         {TE, 6, 8, 4, lode_load_u32(patch_record(base, TE, 9) + 8)},
         E_C,
         "encoding bf16 with unknown dtype X9"},
        {"STRINGS' last byte",
         {ST, 0, patch_section(base, ST).count - 1, 1, 'z'},
         E_C,
         "section STRINGS does not begin and end with NUL"},
        {"two files of one name",
         {GR, 9, 24, 4, lode_load_u32(patch_record(base, GR, 8) + 24)},
         E_C,
         "does not come after the group before it"},
    };
    struct patch p;

    RUN(base, rules);
    patch_copy(base, &p);
    memset(p.data + 3072, 'w', 64);
    patch_seal(&p);
    expect(&p, "writer of 64 letters", E_C, "writer does not end with NUL");
    patch_free(&p);
    /* blocks in another order are fine */
    patch_copy(base, &p);
    for (int i = 0; i < 16; i++) {
        uint8_t *a = patch_record(&p, BL, 0);
        uint8_t *b = patch_record(&p, BL, 1);
        uint8_t t = a[i];

        a[i] = b[i];
        b[i] = t;
    }
    patch_seal(&p);
    expect(&p, "blocks out of order", E_OK, "");
    patch_free(&p);
}

/* ---- sections that this version does not know ---- */

static void
test_sections(const struct patch *base)
{
    struct lode_section s = patch_section(base, LODE_SECTION_CONTENT_DIGESTS);
    struct lode_section extra = {.type = 0x8001,
                                 .flags = LODE_SECTION_COLD,
                                 .count = 1,
                                 .record_bytes = 64,
                                 .bytes = 64,
                                 .offset = s.offset + s.bytes};
    struct patch p;

    patch_copy(base, &p);
    patch_add_section(&p, &extra);
    patch_seal(&p);
    expect(&p, "an unknown section", E_OK, "");
    patch_free(&p);

    /* reserved, and empty */
    patch_copy(base, &p);
    extra.type = LODE_SECTION_SEGMENTS;
    extra.record_bytes = 4;
    extra.flags = LODE_SECTION_CRITICAL;
    extra.count = 0;
    extra.bytes = 0;
    extra.offset = 131072;
    patch_add_section(&p, &extra);
    patch_seal(&p);
    expect(&p, "an empty section SEGMENTS", E_OK, "");
    patch_free(&p);
}

/* Groups of 136 bytes: a later minor version made them longer (spec 12.3). */
static void
test_longer(const struct patch *base)
{
    struct lode_section old = patch_section(base, GR);
    struct lode_section s = patch_section(base, LODE_SECTION_CONTENT_DIGESTS);
    struct patch p;
    uint8_t *e;

    patch_copy(base, &p);
    e = p.data + DIR;
    s.offset += s.bytes;
    for (uint32_t i = 0; i < old.count; i++) {
        memcpy(p.data + s.offset + i * 136, p.data + old.offset + i * 128, 128);
        memset(p.data + s.offset + i * 136 + 128, 0xee, 8);
    }
    lode_store_u64(e + 8, s.offset);
    lode_store_u64(e + 16, (uint64_t)old.count * 136);
    lode_store_u32(e + 28, 136);
    lode_store_u64(p.data + 120, s.offset + old.count * 136 - 131072);
    patch_seal(&p);
    expect(&p, "longer entries", E_OK, "");
    patch_free(&p);
}

int
main(void)
{
    struct tiny_options opt = {0};
    struct patch base;

    patch_make(&base, &opt);
    RUN(&base, superblock_rules);
    RUN(&base, directory_rules);
    RUN(&base, group_rules);
    RUN(&base, schema_rules);
    RUN(&base, tensor_rules);
    RUN(&base, block_rules);
    RUN(&base, string_rules);
    TELL(&base, stories);
    test_dependent(&base);
    test_sections(&base);
    test_longer(&base);
    patch_free(&base);
    tiny_cleanup();
    return done_testing();
}
