/* SPDX-License-Identifier: Apache-2.0
 *
 * No byte of a container can change without a fault that says where (spec
 * 10.4, 4.1, 4.3, 4.4, 6.2, 7.4, 8.1 to 8.8), and faults that only verify looks
 * for. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/le.h"
#include "format/lode_write.h"
#include "tests/format/patch.h"
#include "tests/tap.h"

/* Where each byte of the file belongs. */
struct region {
    uint64_t first;
    uint64_t end;
    uint64_t stride;
    char name[128]; /* some fault begins with it */
};

enum { REGIONS_MAX = 128 };

struct map {
    struct region regions[REGIONS_MAX];
    uint32_t count;
};

static void
add(struct map *m, uint64_t first, uint64_t end, uint64_t stride,
    const char *name)
{
    struct region *g = &m->regions[m->count];

    if (first == end)
        return;
    if (m->count++ == REGIONS_MAX)
        abort();
    g->first = first;
    g->end = end;
    g->stride = stride;
    snprintf(g->name, sizeof(g->name), "%.127s", name);
}

/* From the file's own directory and index; the map covers it without gap. */
static void
make_map(const struct patch *p, const char *path, struct map *m)
{
    struct lode_reader *r;
    struct lode_error err;
    uint64_t at = 131072;
    char name[160];

    m->count = 0;
    add(m, 0, 512, 1, "superblock A");
    add(m, 512, 4096, 7, "superblock A");
    add(m, 4096, 65536, 509, "gap between superblocks");
    add(m, 65536, 66048, 1, "superblock B");
    add(m, 66048, 69632, 7, "superblock B");
    add(m, 69632, 131072, 509, "gap behind superblock B");
    for (uint32_t i = 0; i < 6; i++) {
        struct lode_section s;

        lode_section_decode(p->data + 512 + 80 * i, &s);
        add(m, at, s.offset, 1, "padding of the index");
        snprintf(name, sizeof(name), "section ");
        add(m, s.offset, s.offset + s.bytes, 1, name);
        at = s.offset + s.bytes;
    }
    must(lode_reader_open(path, &r, &err), &err);
    add(m, at, lode_reader_summary(r)->data_offset, 251,
        "padding of the index");
    at = lode_reader_summary(r)->data_offset;
    for (uint32_t i = 0; i < lode_reader_summary(r)->block_count; i++) {
        struct lode_block b;
        char block[128];

        lode_reader_block(r, i, &b);
        lode_reader_block_name(r, i, block, sizeof(block));
        add(m, at, b.offset, 1, "gap");
        add(m, b.offset, b.offset + b.stored_bytes, 13, block);
        snprintf(name, sizeof(name), "padding after %s", block);
        at = b.offset + lode_reader_padded_bytes(r, &b);
        add(m, b.offset + b.stored_bytes, at, 127, name);
    }
    lode_reader_close(r);
    is_u64(at, p->bytes, "the map covers the file");
}

struct found {
    const char *prefix;
    uint32_t match_count;
    char first[600];
};

static void
on_fault(void *user, const struct lode_fault *f)
{
    struct found *x = user;

    if (x->first[0] == '\0')
        snprintf(x->first, sizeof(x->first), "%s: %s", f->where, f->what);
    if (strncmp(f->where, x->prefix, strlen(x->prefix)) == 0)
        x->match_count++;
}

/* One byte on disk, changed and put back. */
static bool
flip(int fd, uint64_t at, uint8_t old, uint8_t mask)
{
    uint8_t v = old ^ mask;

    return pwrite(fd, &v, 1, (off_t)at) == 1;
}

/* Verify finds a fault; the where of one begins with prefix. */
static bool
fault_at(const char *path, const char *prefix)
{
    struct found x = {.prefix = prefix};
    struct lode_verify_options opt = {
        .fault = on_fault, .user = &x, .level = LODE_VERIFY_STRICT};
    struct lode_error err = {0};
    uint64_t count = 0;
    bool good = lode_verify(path, &opt, &count, &err);

    if (x.match_count > 0 && count > 0 && (good || err.text[0] != '\0'))
        return true;
    printf("# %" PRIu64 " faults, the first is %s; expected %s\n", count,
           x.first, prefix);
    return false;
}

static const char *
first_fault(const char *path)
{
    static struct found x;
    struct lode_verify_options opt = {
        .fault = on_fault, .user = &x, .level = LODE_VERIFY_STRICT};
    struct lode_error err;
    uint64_t count;

    memset(&x, 0, sizeof(x));
    x.prefix = "";
    (void)!lode_verify(path, &opt, &count, &err); /* the fault matters */
    return x.first;
}

static void
walk(const char *path, const struct patch *p, const struct map *m, FILE *f)
{
    int fd = fileno(f);

    for (uint32_t i = 0; i < m->count; i++) {
        const struct region *g = &m->regions[i];
        uint32_t tried = 0;
        uint32_t missed = 0;

        for (uint64_t at = g->first; at < g->end && missed < 5;
             at += g->stride) {
            uint8_t mask = (uint8_t)(1 << at % 8);

            /* the last byte too, whatever the stride */
            if (at + g->stride >= g->end)
                at = g->end - 1;
            tried++;
            if (!flip(fd, at, p->data[at], mask) || !fault_at(path, g->name)) {
                printf("# byte %" PRIu64 "\n", at);
                missed++;
            }
            if (!flip(fd, at, p->data[at], 0))
                missed++;
        }
        is_u64(missed, 0, "%u changes from %" PRIu64 ": %s", tried, g->first,
               g->name);
    }
}

static void
test_every_byte(const struct tiny_options *opt)
{
    const char *path = tiny_path("walk.lode");
    struct lode_verify_options vo = {.level = LODE_VERIFY_STRICT};
    static struct map m;
    struct lode_error err;
    uint64_t faults;
    struct patch p;
    FILE *f;

    patch_make(&p, opt);
    patch_spill(&p, path);
    must(lode_verify(path, &vo, &faults, &err), &err);
    is_u64(faults, 0, "a good container has no faults");
    make_map(&p, path, &m);
    f = fopen(path, "r+b");
    if (f == NULL)
        exit(99);
    walk(path, &p, &m, f);
    fclose(f);
    must(lode_verify(path, &vo, &faults, &err), &err);
    is_u64(faults, 0, "and none when all is put back");
    patch_free(&p);
}

/* ---- what only verify sees: all sums of the index are right ---- */

static const struct {
    const char *name;
    uint32_t type;
    uint32_t index;
    uint32_t offset;
    uint64_t value;
    const char *where;
} lies[] = {
    {"schema digest", 2, 0, 96, 1, "group \"experts\" (kind 1, layer 1)"},
    {"group root", 2, 3, 64, 1, "group \"trunk\" (kind 2, layer 1)"},
    {"content root", 0, 0, 160, 1, "content root"},
    {"content digest", 8, 4, 0, 1, "expert 1 of layer 2"},
};

static void
test_lies(const struct patch *base)
{
    const char *path = tiny_path("lie.lode");

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct patch p;

        patch_copy(base, &p);
        patch_store(patch_record(&p, lies[i].type, lies[i].index) +
                        lies[i].offset,
                    8, lies[i].value);
        patch_seal(&p);
        patch_spill(&p, path);
        ok(fault_at(path, lies[i].where), "%s", lies[i].name);
        patch_free(&p);
    }
}

/* Sums in the directory that the reader does not look at. */
static void
test_sums(const struct patch *base)
{
    const char *path = tiny_path("sums.lode");
    struct lode_section s;
    struct patch p;

    patch_copy(base, &p);
    p.data[512 + 5 * 80 + 32] ^= 1;
    patch_seal_directory(&p);
    patch_spill(&p, path);
    is_str(first_fault(path),
           "section CONTENT DIGESTS (type 8): checksum does not match",
           "a wrong checksum of a cold section");
    patch_free(&p);
    patch_copy(base, &p);
    p.data[512 + 40] ^= 1;
    patch_seal_directory(&p);
    patch_spill(&p, path);
    is_str(first_fault(path), "section GROUPS (type 2): SHA-256 does not match",
           "a wrong SHA-256 of a section");
    patch_free(&p);
    patch_copy(base, &p);
    p.data[192] ^= 1;
    patch_seal_superblock(&p);
    patch_spill(&p, path);
    is_str(first_fault(path),
           "index digest: does not match the section directory",
           "a wrong index digest");
    patch_free(&p);
    for (uint32_t at = 48; at < 80; at += 31) {
        patch_copy(base, &p);
        p.data[at] ^= 1;
        patch_seal_superblock(&p);
        patch_spill(&p, path);
        is_str(first_fault(path),
               "superblock: UUIDs do not match content root and index",
               "a wrong UUID");
        patch_free(&p);
    }
    /* raw blocks may have stored digests, too */
    patch_copy(base, &p);
    s = patch_section(&p, LODE_SECTION_CONTENT_DIGESTS);
    memcpy(p.data + s.offset + 4096, p.data + s.offset, s.bytes);
    s.type = LODE_SECTION_STORED_DIGESTS;
    s.offset += 4096;
    patch_add_section(&p, &s);
    patch_seal(&p);
    patch_spill(&p, path);
    is_str(first_fault(path), "", "right stored digests");
    *patch_record(&p, LODE_SECTION_STORED_DIGESTS, 5) ^= 1;
    patch_seal(&p);
    patch_spill(&p, path);
    is_str(first_fault(path),
           "expert 2 of layer 2: SHA-256 tree of the stored bytes does not "
           "match",
           "a wrong stored digest");
    patch_free(&p);
}

/* Of what is not here a digest may be known (spec 7.4), and then roots are. */
static void
test_absent(void)
{
    static const struct {
        const char *name;
        uint32_t known; /* digests of the experts of layer 2, from the first */
        uint32_t type;
        uint32_t index;
        uint32_t offset;
        const char *fault;
    } cases[] = {
        {"one digest of three", 1, 0, 0, 0, ""},
        {"all three, and no root", 3, 0, 0, 0,
         "group \"experts\" (kind 1, layer 2): has no root, and all digests"},
        {"one digest, and a root", 1, LODE_SECTION_GROUPS, 1, 64,
         "group \"experts\" (kind 1, layer 2): has a root, and not all "
         "digests"},
    };
    const char *path = tiny_path("absent.lode");
    struct tiny_options opt = {.index_only = true};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct patch p;

        patch_make(&p, &opt);
        for (uint32_t k = 0; k < cases[i].known; k++)
            *patch_record(&p, LODE_SECTION_CONTENT_DIGESTS, 3 + k) = 1;
        if (cases[i].type != 0)
            patch_record(&p, cases[i].type, cases[i].index)[cases[i].offset] =
                1;
        patch_seal(&p);
        patch_spill(&p, path);
        is_str(first_fault(path), cases[i].fault, "%s", cases[i].name);
        patch_free(&p);
    }
}

/* ---- what each level finds ---- */

static uint64_t
count_at(const char *path, enum lode_verify_level level)
{
    struct lode_verify_options opt = {.level = level};
    struct lode_error err;
    uint64_t count;

    must(lode_verify(path, &opt, &count, &err), &err);
    return count;
}

static void
test_levels(const struct patch *base)
{
    const char *path = tiny_path("level.lode");
    struct patch p;

    patch_copy(base, &p);
    p.data[196608 + 600] = 1; /* behind the first expert */
    patch_spill(&p, path);
    is_u64(count_at(path, LODE_VERIFY_TREE), 0, "padding: nobody looks");
    is_u64(count_at(path, LODE_VERIFY_STRICT), 1, "padding: strict finds it");
    patch_free(&p);
    patch_copy(base, &p);
    *patch_record(&p, LODE_SECTION_CONTENT_DIGESTS, 4) ^= 1;
    patch_seal(&p);
    patch_spill(&p, path);
    is_u64(count_at(path, LODE_VERIFY_FAST), 0, "a digest: fast is no hash");
    is_u64(count_at(path, LODE_VERIFY_TREE), 2, "a digest: of block and group");
    patch_free(&p);
    patch_copy(base, &p);
    p.data[196608] ^= 1;
    p.data[4096 + 5] = 7;
    p.data[65536 + 4000] ^= 1;
    patch_spill(&p, path);
    is_u64(count_at(path, LODE_VERIFY_FAST), 2, "a block and a slot: fast");
    is_u64(count_at(path, LODE_VERIFY_TREE), 3, "the block's digest, too");
    is_u64(count_at(path, LODE_VERIFY_STRICT), 4, "and the gap: strict");
    patch_free(&p);
}

/* ---- sets ---- */

/* Head and volume against each other (spec 4.3, 4.4): sums are right. */
static const struct {
    const char *name;
    uint32_t type;
    uint32_t index;
    uint32_t offset;
    const char *where;
} set_lies[] = {
    {"another block hash in the head", LODE_SECTION_BLOCKS, 1, 8,
     "volume v-1.lode: expert 1 of layer 1"},
    {"another digest in the head", LODE_SECTION_CONTENT_DIGESTS, 4, 0,
     "group \"experts\" (kind 1, layer 2)"},
    {"a block twice in the order", LODE_SECTION_ORDER, 2, 0, "order"},
    {"another encoding's name", LODE_SECTION_STRINGS, 0, 1,
     "volume v-1.lode: STRINGS"},
};

static void
test_sets(void)
{
    struct tiny_options opt = {0};
    struct lode_error err;
    struct patch base;
    char path[512]; /* tiny_path() gives others away in between */
    uint8_t byte;
    FILE *f;

    snprintf(path, sizeof(path), "%s", tiny_path("head.lode"));
    must(tiny_write_set(path, &opt, false, NULL, &err), &err);
    patch_load(&base, path);
    is_str(first_fault(path), "", "a good set");
    for (size_t i = 0; i < sizeof(set_lies) / sizeof(set_lies[0]); i++) {
        struct patch p;

        patch_copy(&base, &p);
        patch_record(&p, set_lies[i].type,
                     set_lies[i].index)[set_lies[i].offset] ^= 1;
        patch_seal(&p);
        patch_spill(&p, path);
        ok(fault_at(path, set_lies[i].where), "%s", set_lies[i].name);
        patch_free(&p);
    }
    patch_spill(&base, path);
    f = fopen(tiny_path(tiny_volume_names[1]), "r+b");
    if (f == NULL || pread(fileno(f), &byte, 1, 196608) != 1)
        exit(99);
    ok(flip(fileno(f), 196608, byte, 4), "damage in volume 2");
    is_str(first_fault(path),
           "volume v-2.lode: expert 2 of layer 1: checksum of 520 bytes at "
           "196608 does not match",
           "is named with its volume");
    ok(flip(fileno(f), 196608, byte, 0) && ftruncate(fileno(f), 150000) == 0,
       "volume 2 is cut");
    fclose(f);
    ok(fault_at(path, "volume v-2.lode: file"), "which is a fault of its own");
    ok(unlink(tiny_path(tiny_volume_names[0])) == 0, "volume 1 is gone");
    is_str(first_fault(path), "volume v-1.lode: is missing", "and named");
    patch_free(&base);
}

/* One valid slot is enough to read, and a fault all the same. */
static void
test_slots(const struct patch *base)
{
    const char *path = tiny_path("slots.lode");
    struct patch p;

    patch_copy(base, &p);
    memset(p.data, 0, 4096);
    patch_spill(&p, path);
    ok(fault_at(path, "superblock A"), "an empty slot A");
    patch_free(&p);
    /* both valid, but different */
    patch_copy(base, &p);
    p.data[3136] = 'x';
    patch_seal(&p);
    memcpy(p.data, base->data, 4096);
    patch_spill(&p, path);
    ok(fault_at(path, "superblock B"), "slots that differ");
    patch_free(&p);
    /* index digest and UUIDs belong to the directory */
    patch_copy(base, &p);
    p.data[48] ^= 1;
    p.data[192] ^= 1;
    patch_spill(&p, path);
    ok(fault_at(path, "superblock A"), "a changed UUID");
    patch_free(&p);
    patch_copy(base, &p);
    p.data[65536] ^= 1;
    patch_spill(&p, path);
    is_str(first_fault(path), "superblock B: magic number is damaged",
           "a changed magic number");
    p.data[65536] ^= 1;
    p.data[65536 + 600] ^= 1;
    patch_spill(&p, path);
    is_str(first_fault(path), "superblock B: checksum does not match",
           "a changed directory");
    patch_free(&p);
}

static uint64_t
fault_count(const char *path, struct lode_error *err, bool *made)
{
    struct lode_verify_options opt = {.level = LODE_VERIFY_STRICT};
    uint64_t count;

    err->text[0] = '\0';
    *made = lode_verify(path, &opt, &count, err);
    return count;
}

/* Damage in several places is reported in all of them. */
static void
test_many(const struct patch *base)
{
    const char *path = tiny_path("many.lode");
    struct lode_error err;
    struct patch p;
    bool made;

    patch_copy(base, &p);
    for (uint32_t i = 0; i < 6; i++)
        p.data[lode_load_u64(patch_record(base, 6, i))] ^= 1;
    patch_spill(&p, path);
    is_u64(fault_count(path, &err, &made), 12,
           "six damaged experts: checksum and digest of each");
    ok(made, "all checks were made");
    patch_free(&p);
    patch_copy(base, &p);
    p.data[196608 + 600] = 3;
    p.data[196608 + 4095] = 4;
    patch_spill(&p, path);
    is_str(first_fault(path),
           "padding after expert 0 of layer 1: byte at 197208 is 0x03, "
           "expected 0 (2 such bytes)",
           "padding: the first byte, its value, and how many");
    patch_free(&p);
}

/* The index is unreadable, the blocks are checked all the same. */
static void
test_bad_index(const struct patch *base)
{
    const char *path = tiny_path("badindex.lode");
    struct lode_error err;
    struct patch p;
    bool made;

    patch_copy(base, &p);
    *patch_record(&p, 2, 0) ^= 1;
    p.data[lode_load_u64(patch_record(base, 6, 2))] ^= 1;
    patch_spill(&p, path);
    ok(fault_at(path, "section GROUPS"), "the section is named");
    ok(fault_at(path, "index"), "the index cannot be used");
    ok(fault_at(path, "block 2"), "a damaged block has its number");
    ok(fault_count(path, &err, &made) >= 3 && !made &&
           err.code == LODE_E_CORRUPT,
       "and verify says that not all could be checked");
    *patch_record(&p, 6, 5) ^= 1;
    patch_spill(&p, path);
    ok(fault_at(path, "blocks"), "without BLOCKS nothing is known of them");
    patch_free(&p);
}

static void
test_size(const struct patch *base)
{
    const char *path = tiny_path("size.lode");
    struct patch p = {.data = base->data, .bytes = base->bytes - 4096};
    struct lode_error err;
    bool made;

    patch_spill(&p, path);
    ok(fault_at(path, "file"), "a file that is cut short");
    ok(fault_at(path, "processing-log"), "its last block is cut off");
    ok(fault_count(path, &err, &made) == 2 && made,
       "which is damage, not a check that could not be made");
    p.bytes = 131072 + 100;
    patch_spill(&p, path);
    ok(fault_count(path, &err, &made) == 9 && !made, "cut in the index");
    p.bytes = 0;
    patch_spill(&p, path);
    ok(fault_count(path, &err, &made) == 1 && !made &&
           strstr(err.text, "is empty") != NULL,
       "an empty file");
    ok(fault_count(tiny_path("none"), &err, &made) == 1 && !made &&
           err.code == LODE_E_IO,
       "a file that is not there");
}

static bool
stop_at(void *user, uint64_t bytes)
{
    uint64_t *left = user;

    *left = *left > bytes ? *left - bytes : 0;
    return *left != 0;
}

static void
test_progress(const struct patch *base)
{
    const char *path = tiny_path("progress.lode");
    uint64_t left = UINT64_C(1) << 40;
    struct lode_verify_options opt = {
        .progress = stop_at, .user = &left, .level = LODE_VERIFY_STRICT};
    struct lode_error err;
    uint64_t faults;

    patch_spill(base, path);
    must(lode_verify(path, &opt, &faults, &err), &err);
    /* all but the superblocks, which are not read in pieces */
    is_u64((UINT64_C(1) << 40) - left, base->bytes - 2 * 4096,
           "progress adds up to the file");
    left = 200000;
    fails_with(lode_verify(path, &opt, &faults, &err), &err, LODE_E_CANCELLED,
               "progress.lode: cancelled", "cancelled by the caller");
    is_u64(faults, 0, "which is no fault");
}

int
main(void)
{
    struct tiny_options opt = {0};
    struct patch base;

    test_every_byte(&opt);
    patch_make(&base, &opt);
    test_lies(&base);
    test_sums(&base);
    test_absent();
    test_levels(&base);
    test_sets();
    test_slots(&base);
    test_many(&base);
    test_bad_index(&base);
    test_size(&base);
    test_progress(&base);
    patch_free(&base);
    tiny_cleanup();
    return done_testing();
}
