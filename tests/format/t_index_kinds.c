/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules for packed blocks (spec 7.2, 8.3), partial containers (7.4), the
 * heads of sets, and volumes (4.3, 4.4, 12.2): as in t_index.c. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/le.h"
#include "format/lode_write.h"
#include "tests/format/rules.h"
#include "tests/tap.h"

/* ---- packed blocks, of which only the index is right ---- */

enum { SCALES = 0x20 }; /* a filter, as a mask */

/* Expert 0 of layer 1 in 300 bytes. */
static void
pack(struct patch *p, bool digests)
{
    struct lode_section s = patch_section(p, CD);
    uint8_t *b = patch_record(p, BL, 0);

    s.type = LODE_SECTION_STORED_DIGESTS;
    s.offset += s.bytes + 64;
    if (digests)
        patch_add_section(p, &s);
    lode_store_u64(p->data + 152, lode_load_u64(p->data + 152) - 220);
    lode_store_u64(p->data + 224, 3);
    lode_store_u64(p->data + 232, SCALES);
    lode_store_u32(b + 16, 300);
    b[44] = 1;
    b[45] = SCALES;
    b[47] = 1;
}

/* clang-format off */
static const struct rule packed_rules[] = {
    {"packed", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"not smaller", {BL, 0, 16, 4, 520}, E_C, "packed from 520 to 520 bytes"},
    {"equal digests claimed", {BL, 0, 47, 1, 3}, E_C, "flags 0x3 with codec 1"},
    {"raw, with a packed block's flags", {BL, 0, 44, 1, 0}, E_C,
     "stored raw, with filters 0x20, in 300 bytes of 520"},
    {"without a filter", {BL, 0, 45, 1, 0}, E_C,
     "codecs 0x3, filters 0x0; the superblock says 0x3, 0x20"},
    {"with filter 0", {BL, 0, 45, 1, SCALES | 1}, E_U, "filters 0x21: unknown"},
    {"with one not in the mask", {BL, 0, 45, 1, SCALES | 2}, E_C,
     "codec 1, filters 0x22: not in the superblock's masks"},
    {"a filter of a raw block", {BL, 1, 45, 1, SCALES}, E_C,
     "stored raw, with filters 0x20, in 520 bytes of 520"},
    {"a mask without the filter", {SB, 0, 232, 8, 0}, E_C,
     "codec 1, filters 0x20: not in the superblock's masks"},
    {"a mask with more", {SB, 0, 232, 8, SCALES | 4}, E_C,
     "filters 0x20; the superblock says 0x3, 0x24"},
    {"a mask without the codec", {SB, 0, 224, 8, 1}, E_C,
     "codec 1, filters 0x20: not in the superblock's masks"},
    {"a mask without raw blocks", {SB, 0, 224, 8, 2}, E_C,
     "codec 0, filters 0x0: not in the superblock's masks"},
    {"stored digests for fewer", {SB, 0, DIR + 6 * 80 + 24, 4, 3}, E_C,
     "3 entries of 32"},
    {"hot stored digests", {SB, 0, DIR + 6 * 80 + 4, 4, 0}, E_C,
     "(STORED DIGESTS): flags 0x0"},
};

static const struct story packed_stories[] = {
    {"stored digests of 3 blocks",
     {{SB, 0, DIR + 6 * 80 + 24, 4, 3}, {SB, 0, DIR + 6 * 80 + 16, 8, 96}},
     E_C, "3 stored digests for 16 blocks"},
    {"stored digests of none",
     {{SB, 0, DIR + 6 * 80 + 24, 4, 0}, {SB, 0, DIR + 6 * 80 + 16, 8, 0}},
     E_C, "packed blocks without stored digests"},
    {"content digests of 15 blocks",
     {{SB, 0, DIR + 5 * 80 + 24, 4, 15}, {SB, 0, DIR + 5 * 80 + 16, 8, 480}},
     E_C, "15 content digests for 16 blocks"},
    {"packed rows",
     {{BL, 9, 44, 1, 1}, {BL, 9, 16, 4, 100}, {BL, 9, 47, 1, 1}}, E_C,
     "rows with codec 1"},
    {"without any filter",
     {{BL, 0, 45, 1, 0}, {SB, 0, 232, 8, 0}}, E_OK, ""},
};
/* clang-format on */

static void
test_packed(const struct patch *base)
{
    const char *path = tiny_path("packed.lode");
    uint8_t image[TINY_EXPERT_BYTES];
    struct lode_reader *r;
    struct lode_error err;
    struct patch p;

    patch_copy(base, &p);
    pack(&p, true);
    RUN(&p, packed_rules);
    TELL(&p, packed_stories);
    patch_seal(&p);
    patch_spill(&p, path);
    must(lode_reader_open(path, &r, &err), &err);
    must(lode_reader_load(r, 1, image, sizeof(image), &err), &err);
    ok(true, "the neighbour of a packed block is read");
    lode_reader_close(r);
    /* raw again, but for the masks */
    memcpy(patch_record(&p, BL, 0), patch_record(base, BL, 0), 64);
    memcpy(p.data + 152, base->data + 152, 8);
    patch_seal(&p);
    expect(&p, "masks of what is not there", E_C,
           "codecs 0x1, filters 0x0; the superblock says 0x3, 0x20");
    patch_free(&p);
    patch_copy(base, &p);
    pack(&p, false);
    patch_seal(&p);
    expect(&p, "no stored digests at all", E_C,
           "packed blocks without stored digests");
    patch_free(&p);
}

/* ---- partial ---- */

/* clang-format off */
static const struct rule absent_rules[] = {
    {"partial", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"without its feature bit", {SB, 0, 16, 8, 0}, E_C,
     "is absent, in a container that is not partial"},
    {"with a content root", {SB, 0, 191, 1, 1}, E_C,
     "\"experts\"): its root is not known, the content root is"},
    {"with a group root", {GR, 0, 64, 1, 1}, E_OK, ""},
    {"blocks here", {SB, 0, 136, 8, 5}, E_C, "4 blocks are here, the"},
    {"raw bytes of what is here", {SB, 0, 144, 8, 5381}, E_C,
     "the superblock says 5381, 5381"},
    {"absent with an offset", {BL, 0, 0, 8, 196608}, E_C, "is absent, with"},
    {"absent with a checksum", {BL, 0, 8, 8, 1}, E_C, "is absent, with"},
    {"absent with bytes", {BL, 0, 16, 4, 520}, E_C, "is absent, with"},
    {"absent, of another size", {BL, 0, 20, 4, 1}, E_C, "1 bytes decoded"},
    {"absent with a reserved byte", {BL, 0, 28, 4, 1}, E_C,
     "reserved byte 28 is 1"},
    {"absent with a volume", {BL, 0, 42, 2, 1}, E_C, "is absent, with"},
    {"absent with a codec", {BL, 0, 44, 1, 1}, E_C, "is absent, with"},
    {"absent with a filter", {BL, 0, 45, 1, 2}, E_C, "is absent, with"},
    {"absent with byte 46", {BL, 0, 46, 1, 1}, E_C, "reserved byte 46 is 1"},
    {"absent with equal digests", {BL, 0, 47, 1, 2}, E_C, "is absent, with"},
    {"also a volume", {SB, 0, 16, 8, 5}, E_C,
     "volume 0 of 1, features 0x5, with 0 volumes listed"},
};

static const struct story absent_stories[] = {
    {"a partial volume",
     {{SB, 0, 16, 8, 5}, {SB, 0, 80, 2, 1}, {SB, 0, 82, 2, 2}}, E_C,
     "volume 1 is partial"},
    /* the root of a volatile group is no part of the content root */
    {"all roots but a volatile group's",
     {{SB, 0, 160, 1, 1}, {GR, 0, 64, 1, 1}, {GR, 1, 64, 1, 1},
      {GR, 2, 64, 1, 1}, {GR, 3, 64, 1, 1}, {GR, 4, 64, 1, 1}}, E_C,
     "group 5 (kind 4, layer -1, \"embedding\"): its root is not known"},
};
/* clang-format on */

/* ---- the head of a set ---- */

/* In the order of the file: VOLUMES GROUPS SCHEMAS TENSORS STRINGS BLOCKS
 * CONTENT DIGESTS, and for reverse ORDER. */
/* clang-format off */
static const struct rule head_rules[] = {
    {"a head", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"of two files", {SB, 0, 82, 2, 2}, E_C,
     "volume 0 of 2, features 0x0, with 2 volumes listed"},
    {"of four files", {SB, 0, 82, 2, 4}, E_C,
     "volume 0 of 4, features 0x0, with 2 volumes listed"},
    {"of one file", {SB, 0, 82, 2, 1}, E_C, "volume 0 of 1, "},
    {"of none", {SB, 0, 82, 2, 0}, E_C, "volume 0 of 0, "},
    {"a volume's number", {SB, 0, 80, 2, 1}, E_C,
     "volume 1 of 3, features 0x0, with 2 volumes listed"},
    {"a volume's feature", {SB, 0, 16, 8, 1}, E_C,
     "volume 0 of 3, features 0x1, with 2 volumes listed"},
    {"partial, nothing absent", {SB, 0, 16, 8, 4}, E_C,
     "partial, with all of its 16 blocks"},
    {"4097 volumes", {SB, 0, DIR + 24, 4, 4097}, E_L,
     "section 0 (VOLUMES): 4097 entries, the limit is 4096"},
    {"cold volumes", {SB, 0, DIR + 4, 4, 2}, E_C, "(VOLUMES): flags 0x2"},
    {"short volumes", {SB, 0, DIR + 28, 4, 127}, E_C,
     "(VOLUMES): entries of 127 bytes, expected 128"},
    {"no name", {VO, 0, 24, 4, 0}, E_C, "volume 1: path is empty"},
    {"a name outside", {VO, 1, 24, 4, 1 << 20}, E_C,
     "volume 2: name at 1048576 of STRINGS"},
    {"a name inside a text", {VO, 1, 24, 4, 2}, E_C,
     "volume 2: name at 2 of STRINGS, inside a text"},
    {"another UUID", {VO, 0, 0, 1, 1}, E_C,
     "v-1.lode: is another file than volume 1 of this set"},
    {"another size", {VO, 0, 16, 8, 1 << 30}, E_C,
     "v-1.lode: is another file than volume 1 of this set"},
    {"a size that does not hold its blocks", {VO, 1, 16, 8, 131072}, E_C,
     "bytes at 196608 pass the end of the file at 131072"},
    {"another index digest", {VO, 1, 32, 1, 1}, E_C,
     "v-2.lode: is another file than volume 2 of this set"},
    {"reserved byte 28", {VO, 0, 28, 1, 1}, E_C,
     "volume 1: reserved byte 28 is 1"},
    {"reserved byte 31", {VO, 0, 31, 1, 1}, E_C, "volume 1: reserved byte 31"},
    {"reserved byte 64", {VO, 1, 64, 1, 1}, E_C, "volume 2: reserved byte 64"},
    {"reserved byte 127", {VO, 1, 127, 1, 1}, E_C,
     "volume 2: reserved byte 127"},
    {"a block in volume 3", {BL, 1, 42, 2, 3}, E_C,
     "expert 1 of layer 1: in volume 3, this is 0 of 3"},
    {"a block in volume 65535", {BL, 1, 42, 2, 65535}, E_C,
     "in volume 65535, this is 0 of 3"},
    {"a block in front of any data", {BL, 1, 0, 8, 65536}, E_C,
     "offset 65536 is no multiple of 4096 from 131072"},
    {"a block behind its volume", {BL, 1, 0, 8, 1 << 30}, E_C,
     "pass the end of the file at"},
    {"two blocks in one place", {BL, 4, 42, 2, 2}, E_C, "overlaps the block"},
    {"no content root", {SB, 0, 160, 1, 0}, E_OK, ""},
    {"stored bytes", {SB, 0, 152, 8, 1}, E_C, "the superblock says"},
    {"blocks here", {SB, 0, 136, 8, 6}, E_C,
     "order of 16 blocks, 6 are here"},
};

/* Only with ORDER. */
static const struct rule order_rules[] = {
    {"an order of the blocks", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"of too many", {SB, 0, DIR + 7 * 80 + 24, 4, 16777217}, E_L,
     "(ORDER): 16777217 entries, the limit is 16777216"},
    {"hot", {SB, 0, DIR + 7 * 80 + 4, 4, 0}, E_C, "(ORDER): flags 0x0"},
    {"entries too short", {SB, 0, DIR + 7 * 80 + 28, 4, 3}, E_C,
     "(ORDER): entries of 3 bytes, expected 4"},
};

static const struct story order_stories[] = {
    {"of fewer blocks",
     {{SB, 0, DIR + 7 * 80 + 24, 4, 15}, {SB, 0, DIR + 7 * 80 + 16, 8, 60}},
     E_C, "order of 15 blocks, 16 are here"},
    {"of none",
     {{SB, 0, DIR + 7 * 80 + 24, 4, 0}, {SB, 0, DIR + 7 * 80 + 16, 8, 0}},
     E_OK, ""},
};

/* What the reader sees of an order when it is asked. */
static const struct {
    const char *name;
    uint32_t index;
    uint32_t value;
    const char *message;
} wrong_orders[] = {
    {"a block that is none", 3, 16,
     "section ORDER: entry 3 is block 16, which is none or not the first time"},
    {"a block twice", 15, 15, "entry 15 is block 15, which is none or not"},
};

static const struct rule volume_rules[] = {
    {"a volume", {SB, 0, 10, 2, 0}, E_OK, ""},
    {"number 0", {SB, 0, 80, 2, 0}, E_C,
     "volume 0 of 3, features 0x1, with 0 volumes listed"},
    {"number 3 of 3", {SB, 0, 80, 2, 3}, E_C,
     "volume 3 of 3, features 0x1, with 0 volumes listed"},
    {"number 2 of 3", {SB, 0, 80, 2, 2}, E_C, "in volume 1, this is 2 of 3"},
    {"without its feature", {SB, 0, 16, 8, 0}, E_C,
     "volume 1 of 3, features 0x0"},
    {"also partial", {SB, 0, 16, 8, 5}, E_C, "volume 1 is partial"},
    {"with a content root", {SB, 0, 160, 1, 1}, E_C,
     "a volume with a content root"},
    {"with the root of a group that is not whole", {GR, 0, 64, 1, 1}, E_C,
     "group 0 (kind 1, layer 1, \"experts\"): blocks are absent, with a root"},
    {"blocks of the model", {SB, 0, 128, 8, 15}, E_C,
     "5 block records, groups have 16, superblock 15"},
    {"blocks here", {SB, 0, 136, 8, 6}, E_C,
     "5 block records, groups have 16, superblock 16"},
    {"a number twice", {BL, 1, 24, 4, 1}, E_C,
     "block record 1 has number 1, expected 2 to 16"},
    {"numbers that descend", {BL, 1, 24, 4, 0}, E_C,
     "block record 1 has number 0, expected 2 to 16"},
    {"a number that is none", {BL, 4, 24, 4, 16}, E_C,
     "block record 4 has number 16, expected 11 to 16"},
    {"a number at the top", {BL, 4, 24, 4, UINT32_MAX}, E_C,
     "has number 4294967295"},
    {"another number's identity", {BL, 0, 24, 4, 0}, E_C,
     "expert 0 of layer 1: record says block 0, group 0, object 1"},
    {"a block of the head", {BL, 0, 42, 2, 0}, E_C,
     "in volume 0, this is 1 of 3"},
    {"a block of another volume", {BL, 0, 42, 2, 2}, E_C,
     "in volume 2, this is 1 of 3"},
    {"an absent block", {BL, 0, 47, 1, 2}, E_C,
     "is absent, in a container that is not partial"},
    {"offset in the index", {BL, 0, 0, 8, 131072}, E_C,
     "offset 131072 is no multiple of 4096 from 196608"},
};

static const struct story volume_stories[] = {
    {"fewer content digests",
     {{SB, 0, DIR + 5 * 80 + 24, 4, 4}, {SB, 0, DIR + 5 * 80 + 16, 8, 128}},
     E_C, "4 content digests for 5 blocks"},
    {"fewer records",
     {{SB, 0, DIR + 4 * 80 + 24, 4, 4}, {SB, 0, DIR + 4 * 80 + 16, 8, 256}},
     E_C, "4 block records, groups have 16, superblock 16"},
};
/* clang-format on */

/* Names that only this head knows where to find. */
static void
test_names(const struct patch *base)
{
    uint64_t first = lode_load_u32(patch_record(base, VO, 0) + 24);
    uint64_t notes = 0;
    struct patch p;

    for (uint32_t i = 7; i < 10; i++) { /* META; "sub/notes.txt" is the last */
        notes = lode_load_u32(patch_record(base, GR, i) + 24);
    }
    patch_copy(base, &p);
    patch_store(patch_record(&p, VO, 1) + 24, 4, first);
    patch_seal(&p);
    expect(&p, "two volumes of one name", E_C,
           "volumes 1 and 2 are both called v-1.lode");
    patch_free(&p);
    patch_copy(base, &p);
    patch_store(patch_record(&p, VO, 1) + 24, 4, notes);
    patch_seal(&p);
    expect(&p, "a name with a folder", E_C,
           "volume 2: name sub/notes.txt is no file name");
    patch_free(&p);
    patch_copy(base, &p);
    memcpy(patch_record(&p, ST, 0) + first, "..\0..\0..", 8);
    patch_seal(&p);
    expect(&p, "the folder above", E_C,
           "volume 1: path .. has an empty, \".\" or \"..\" part");
    patch_free(&p);
}

static void
test_order(const struct patch *base)
{
    const char *path = tiny_path("rule.lode");

    for (size_t i = 0; i < sizeof(wrong_orders) / sizeof(wrong_orders[0]);
         i++) {
        struct lode_reader *r;
        struct lode_error err;
        uint32_t *order;
        uint32_t count;
        struct patch p;

        patch_copy(base, &p);
        patch_store(patch_record(&p, OR, wrong_orders[i].index), 4,
                    wrong_orders[i].value);
        patch_seal(&p);
        patch_spill(&p, path);
        must(lode_reader_open(path, &r, &err), &err);
        fails_with(lode_reader_order(r, &order, &count, &err), &err,
                   LODE_E_CORRUPT, wrong_orders[i].message,
                   wrong_orders[i].name);
        lode_reader_close(r);
        patch_free(&p);
    }
}

static void
test_set(void)
{
    const char *path = tiny_path("rule.lode");
    struct tiny_options opt = {0};
    struct lode_error err;
    struct patch p;

    must(tiny_write_set(path, &opt, false, NULL, &err), &err);
    patch_load(&p, path);
    RUN(&p, head_rules);
    test_names(&p);
    patch_free(&p);
    patch_load(&p, tiny_path(tiny_volume_names[0]));
    RUN(&p, volume_rules);
    TELL(&p, volume_stories);
    patch_free(&p);
    opt.reverse = true;
    must(tiny_write_set(path, &opt, false, NULL, &err), &err);
    patch_load(&p, path);
    RUN(&p, order_rules);
    TELL(&p, order_stories);
    test_order(&p);
    patch_free(&p);
}

int
main(void)
{
    struct tiny_options opt = {0};
    struct patch base;

    patch_make(&base, &opt);
    test_packed(&base);
    patch_free(&base);
    opt.index_only = true;
    patch_make(&base, &opt);
    RUN(&base, absent_rules);
    TELL(&base, absent_stories);
    patch_free(&base);
    test_set();
    tiny_cleanup();
    return done_testing();
}
