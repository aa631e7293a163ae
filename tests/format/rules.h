/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of rules: values of a good container are changed, its sums are made
 * right again, and the reader must refuse the file for that reason. */

#ifndef LODE_TESTS_FORMAT_RULES_H
#define LODE_TESTS_FORMAT_RULES_H

#include <string.h>

#include "tests/format/patch.h"
#include "tests/tap.h"

enum {
    SB = 0,
    VO = LODE_SECTION_VOLUMES,
    GR = LODE_SECTION_GROUPS,
    SC = LODE_SECTION_SCHEMAS,
    TE = LODE_SECTION_TENSORS,
    ST = LODE_SECTION_STRINGS,
    BL = LODE_SECTION_BLOCKS,
    CD = LODE_SECTION_CONTENT_DIGESTS,
    OR = LODE_SECTION_ORDER,
    DIR = 512, /* the directory: 80 bytes an entry */
    E_OK = LODE_E_NONE,
    E_C = LODE_E_CORRUPT,
    E_U = LODE_E_UNSUPPORTED,
    E_L = LODE_E_LIMIT,
};

/* Value at offset of record index of a section (SB: of the superblock). */
struct change {
    uint32_t type;
    uint32_t index;
    uint32_t offset;
    uint32_t bytes;
    uint64_t value;
};

struct rule {
    const char *name;
    struct change change;
    int code; /* E_OK: must be accepted */
    const char *message;
};

/* More than one value. */
struct story {
    const char *name;
    struct change changes[6]; /* one of no bytes ends them */
    int code;
    const char *message;
};

/* Here and not in a file of their own, since tap.h counts by file. */

static inline void
apply(struct patch *p, const struct change *c)
{
    patch_store(patch_record(p, c->type, c->index) + c->offset, c->bytes,
                c->value);
}

/* Does the reader answer so to this file?  It lies beside the volumes. */
static inline void
expect(const struct patch *p, const char *name, int code, const char *message)
{
    const char *path = tiny_path("rule.lode");
    struct lode_reader *r = NULL;
    struct lode_error err = {0};
    bool good;

    patch_spill(p, path);
    good = lode_reader_open(path, &r, &err);
    if (code == E_OK)
        ok(good, "accepted: %s%s%s", name, good ? "" : ": ", err.text);
    else if (fails_with(good, &err, (enum lode_code)code, message, name) &&
             strncmp(err.text, path, strlen(path)) != 0)
        ok(false, "%s: the message begins with the path", name);
    lode_reader_close(r);
}

static inline void
run_rules(const struct patch *base, const struct rule *rules, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct patch p;

        patch_copy(base, &p);
        apply(&p, &rules[i].change);
        patch_seal(&p);
        expect(&p, rules[i].name, rules[i].code, rules[i].message);
        patch_free(&p);
    }
}

static inline void
tell_stories(const struct patch *base, const struct story *stories,
             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct patch p;

        patch_copy(base, &p);
        for (int c = 0; c < 6 && stories[i].changes[c].bytes != 0; c++)
            apply(&p, &stories[i].changes[c]);
        patch_seal(&p);
        expect(&p, stories[i].name, stories[i].code, stories[i].message);
        patch_free(&p);
    }
}

#define RUN(base, rules) \
    run_rules((base), (rules), sizeof(rules) / sizeof((rules)[0]))
#define TELL(base, stories) \
    tell_stories((base), (stories), sizeof(stories) / sizeof((stories)[0]))

#endif
