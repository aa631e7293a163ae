/* SPDX-License-Identifier: Apache-2.0
 *
 *   rewrite CONTAINER FILE FROM TO
 *
 * Replace the first FROM in a file inside a container by TO, of the same
 * length, and sum everything again: a container that no converter would write,
 * so that tests reach the checks of those who run it.  The digests of content
 * stay, since running does not look at them. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/hash.h"
#include "format/lode.h"
#include "tests/format/patch.h"

enum { BLOCK_HASH_AT = 8 };

static void
die(const char *what)
{
    fprintf(stderr, "rewrite: %s\n", what);
    exit(99);
}

static struct lode_block
find_block(const char *path, const char *file, uint32_t *index)
{
    struct lode_reader *r = NULL;
    struct lode_error err;
    struct lode_block b;
    int64_t group;

    if (!lode_reader_open(path, &r, &err))
        die(err.text);
    group = lode_reader_find(r, LODE_KIND_META, -1, file);
    if (group == LODE_NO_INDEX)
        die("no such file inside");
    *index = lode_reader_group(r, (uint32_t)group)->first_block_index;
    lode_reader_block(r, *index, &b);
    lode_reader_close(r);
    return b;
}

int
main(int argc, char **argv)
{
    struct lode_block b;
    struct patch p;
    uint32_t index;
    uint8_t *at;

    if (argc != 5 || strlen(argv[3]) != strlen(argv[4]))
        die("usage: rewrite CONTAINER FILE FROM TO, both of one length");
    b = find_block(argv[1], argv[2], &index);
    p.data = tiny_slurp(argv[1], &p.bytes);
    at = memmem(p.data + b.offset, b.stored_bytes, argv[3], strlen(argv[3]));
    if (at == NULL)
        die("FROM is not in the file");
    memcpy(at, argv[4], strlen(argv[4]));
    patch_store(patch_record(&p, LODE_SECTION_BLOCKS, index) + BLOCK_HASH_AT, 8,
                lode_hash(p.data + b.offset, b.stored_bytes));
    patch_seal(&p);
    patch_spill(&p, argv[1]);
    patch_free(&p);
    return 0;
}
