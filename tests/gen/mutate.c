/* SPDX-License-Identifier: Apache-2.0
 *
 * Make one named change to a file, so that tests can have faulty and unusual
 * checkpoints and containers without storing them.
 *
 *   mutate new FILE                    an empty safetensors file
 *   mutate add FILE NAME DTYPE BITS SHAPE
 *                                      a tensor behind the others; SHAPE is a
 *                                      JSON array, BITS those of an element
 *   mutate add-first ...               the same before the others
 *   mutate copy FILE NAME NEW          a second tensor of the same bytes
 *   mutate drop FILE NAME              without that tensor and its bytes
 *   mutate rename FILE FROM TO         FROM in all tensor names becomes TO
 *   mutate zero FILE NAME              all bytes of the tensor become 0
 *   mutate set FILE NAME KEY JSON      header only: change a tensor's member
 *   mutate header FILE TEXT            header only: this text
 *   mutate pad FILE lead|trail N       N spaces before or behind the header
 *   mutate prefix FILE HEX             the header length, as 16 hex digits
 *   mutate json FILE PATH JSON|-       set or delete a member; PATH a/b/c
 *   mutate flip FILE OFFSET            invert one bit
 *   mutate grow FILE N                 N zero bytes behind the end
 */
#include "config.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/le.h"

enum { TENSORS_MAX = 1 << 16 };

static _Noreturn void
die(const char *what, const char *which)
{
    fprintf(stderr, "mutate: %s: %s\n", what, which);
    exit(1);
}

/* All memory, Jansson's too, is kept to the end of this short life. */
struct piece {
    struct piece *next;
    max_align_t data[];
};

static struct piece *pieces;

static void *
take(size_t bytes)
{
    struct piece *p = calloc(1, sizeof(*p) + bytes);

    if (p == NULL)
        die("out of memory", "");
    p->next = pieces;
    pieces = p;
    return p->data;
}

static void
leave(void *p)
{
    (void)p;
}

static void *
need(void *p)
{
    if (p == NULL)
        die("not JSON, or out of memory", "");
    return p;
}

struct bytes {
    uint8_t *data;
    size_t count;
};

static struct bytes
slurp(const char *path)
{
    struct bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");
    long size;

    if (f == NULL || fseek(f, 0, SEEK_END) != 0 || (size = ftell(f)) < 0 ||
        fseek(f, 0, SEEK_SET) != 0)
        die("cannot read", path);
    b.count = (size_t)size;
    b.data = take(b.count + 1);
    if (fread(b.data, 1, b.count, f) != b.count)
        die("cannot read", path);
    b.data[b.count] = 0;
    (void)fclose(f); /* only read */
    return b;
}

static void
spill(const char *path, const struct bytes *parts, size_t part_count)
{
    FILE *f = fopen(path, "wb");

    if (f == NULL)
        die("cannot write", path);
    for (size_t i = 0; i < part_count; i++)
        if (parts[i].count != 0 &&
            fwrite(parts[i].data, 1, parts[i].count, f) != parts[i].count)
            die("cannot write", path);
    if (fclose(f) != 0)
        die("cannot write", path);
}

/* ---- safetensors ---- */

struct tensor {
    const char *name;
    json_t *entry;
    uint64_t start;
    struct bytes data;
};

struct shard {
    struct tensor tensors[TENSORS_MAX];
    size_t count;
    json_t *metadata;
};

static int
by_start(const void *a, const void *b)
{
    const struct tensor *x = a;
    const struct tensor *y = b;

    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    if (x->data.count != y->data.count)
        return x->data.count < y->data.count ? -1 : 1;
    return strcmp(x->name, y->name);
}

static struct shard *
load(const char *path)
{
    struct shard *s = take(sizeof(*s));
    struct bytes file = slurp(path);
    uint64_t header_bytes;
    const char *name;
    json_t *root;
    json_t *entry;

    if (file.count < 8)
        die("no safetensors file", path);
    header_bytes = lode_load_u64(file.data);
    if (header_bytes > file.count - 8)
        die("no safetensors file", path);
    root = json_loadb((char *)file.data + 8, (size_t)header_bytes, 0, NULL);
    if (root == NULL)
        die("no safetensors header", path);
    json_object_foreach(root, name, entry) {
        json_t *offsets = json_object_get(entry, "data_offsets");
        struct tensor *t = &s->tensors[s->count];

        if (strcmp(name, "__metadata__") == 0) {
            s->metadata = entry;
            continue;
        }
        if (s->count++ == TENSORS_MAX)
            die("too many tensors", path);
        t->name = name;
        t->entry = entry;
        t->start = (uint64_t)json_integer_value(json_array_get(offsets, 0));
        t->data.data = file.data + 8 + header_bytes + t->start;
        t->data.count =
            (size_t)json_integer_value(json_array_get(offsets, 1)) -
            (size_t)t->start;
    }
    qsort(s->tensors, s->count, sizeof(s->tensors[0]), by_start);
    return s;
}

static void
write_file(const char *path, const char *header, const struct bytes *data,
           size_t part_count)
{
    struct bytes *parts = take((part_count + 2) * sizeof(*parts));
    uint8_t prefix[8];

    lode_store_u64(prefix, strlen(header));
    parts[0].data = prefix;
    parts[0].count = sizeof(prefix);
    parts[1].data = (uint8_t *)(uintptr_t)header;
    parts[1].count = strlen(header);
    for (size_t i = 0; i < part_count; i++)
        parts[i + 2] = data[i];
    spill(path, parts, part_count + 2);
}

/* Offsets follow from the order of the tensors. */
static void
store(const char *path, const struct shard *s)
{
    struct bytes *data = take((s->count + 1) * sizeof(*data));
    json_t *root = need(json_object());
    uint64_t at = 0;

    if (s->metadata != NULL)
        (void)json_object_set(root, "__metadata__", s->metadata);
    for (size_t i = 0; i < s->count; i++) {
        const struct tensor *t = &s->tensors[i];

        (void)json_object_set_new(
            t->entry, "data_offsets",
            json_pack("[II]", (json_int_t)at,
                      (json_int_t)(at + t->data.count)));
        (void)json_object_set(root, t->name, t->entry);
        at += t->data.count;
        data[i] = t->data;
    }
    write_file(path, need(json_dumps(root, JSON_COMPACT)), data, s->count);
}

static size_t
find(const struct shard *s, const char *name)
{
    for (size_t i = 0; i < s->count; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return i;
    die("no such tensor", name);
}

static void
add(const char *path, char **arg, bool first)
{
    struct shard *s = load(path);
    struct tensor t = {.name = arg[0]};
    json_t *shape = json_loads(arg[3], 0, NULL);
    uint64_t bits = strtoull(arg[2], NULL, 10);

    if (!json_is_array(shape))
        die("no shape", arg[3]);
    for (size_t i = 0; i < json_array_size(shape); i++)
        bits *= (uint64_t)json_integer_value(json_array_get(shape, i));
    t.data.count = (size_t)(bits / 8);
    t.data.data = take(t.data.count + 1);
    for (size_t i = 0; i < t.data.count; i++)
        t.data.data[i] = (uint8_t)(i * 37 + 11);
    t.entry = need(json_pack("{ssso}", "dtype", arg[1], "shape", shape));
    if (first)
        memmove(&s->tensors[1], &s->tensors[0],
                s->count * sizeof(s->tensors[0]));
    s->tensors[first ? 0 : s->count] = t;
    s->count++;
    store(path, s);
}

static void
copy(const char *path, const char *name, char *fresh)
{
    struct shard *s = load(path);
    struct tensor t = s->tensors[find(s, name)];

    t.name = fresh;
    t.entry = need(json_copy(t.entry));
    s->tensors[s->count++] = t;
    store(path, s);
}

static void
drop(const char *path, const char *name)
{
    struct shard *s = load(path);
    size_t i = find(s, name);

    memmove(&s->tensors[i], &s->tensors[i + 1],
            (s->count - i - 1) * sizeof(s->tensors[0]));
    s->count--;
    store(path, s);
}

static void
rename_all(const char *path, const char *from, const char *to)
{
    struct shard *s = load(path);

    for (size_t i = 0; i < s->count; i++) {
        const char *old = s->tensors[i].name;
        const char *at = strstr(old, from);
        char *fresh;
        size_t room = strlen(old) + strlen(to) + 1;

        if (at == NULL)
            continue;
        fresh = take(room);
        (void)snprintf(fresh, room, "%.*s%s%s", (int)(at - old), old, to,
                       at + strlen(from));
        s->tensors[i].name = fresh;
    }
    store(path, s);
}

static void
zero(const char *path, const char *name)
{
    struct shard *s = load(path);
    struct tensor *t = &s->tensors[find(s, name)];

    memset(t->data.data, 0, t->data.count);
    store(path, s);
}

/* ---- the header alone ---- */

static void
replace_header(const char *path, const char *header)
{
    struct bytes file = slurp(path);
    struct bytes data = {file.data, 0};

    if (file.count >= 8 && lode_load_u64(file.data) <= file.count - 8) {
        size_t skip = 8 + (size_t)lode_load_u64(file.data);

        data.data = file.data + skip;
        data.count = file.count - skip;
    }
    write_file(path, header, &data, 1);
}

static char *
header_of(const char *path)
{
    struct bytes file = slurp(path);
    size_t bytes = (size_t)lode_load_u64(file.data);
    char *text = take(bytes + 1);

    memcpy(text, file.data + 8, bytes);
    text[bytes] = '\0';
    return text;
}

static void
set_member(const char *path, const char *name, const char *key,
           const char *value)
{
    json_t *root = json_loads(header_of(path), 0, NULL);
    json_t *entry = json_object_get(root, name);

    if (entry == NULL)
        die("no such tensor", name);
    (void)json_object_set_new(entry, key,
                              need(json_loads(value, JSON_DECODE_ANY, NULL)));
    replace_header(path, need(json_dumps(root, JSON_COMPACT)));
}

static void
pad(const char *path, bool lead, size_t count)
{
    char *old = header_of(path);
    size_t n = strlen(old);
    char *fresh = take(n + count + 1);

    memset(fresh, ' ', n + count);
    memcpy(fresh + (lead ? count : 0), old, n);
    fresh[n + count] = '\0';
    replace_header(path, fresh);
}

/* ---- other files ---- */

static void
edit_json(const char *path, char *place, const char *value)
{
    struct bytes file = slurp(path);
    json_t *root = json_loadb((char *)file.data, file.count, 0, NULL);
    struct bytes out;
    json_t *at;
    char *slash;

    if (root == NULL) /* an integer beyond 64 bits */
        root = need(json_loadb((char *)file.data, file.count,
                               JSON_DECODE_INT_AS_REAL, NULL));
    at = root;
    while ((slash = strchr(place, '/')) != NULL) {
        *slash = '\0';
        at = json_object_get(at, place);
        if (at == NULL)
            die("no such member", place);
        place = slash + 1;
    }
    if (strcmp(value, "-") == 0)
        (void)json_object_del(at, place);
    else if (json_object_set_new(at, place,
                                 json_loads(value, JSON_DECODE_ANY, NULL)) !=
             0)
        die("cannot set", place);
    out.data = need(json_dumps(root, JSON_INDENT(1)));
    out.count = strlen((char *)out.data);
    spill(path, &out, 1);
}

static void
set_prefix(const char *path, const char *hex)
{
    struct bytes file = slurp(path);

    if (file.count < 8)
        die("too short", path);
    lode_store_u64(file.data, strtoull(hex, NULL, 16));
    spill(path, &file, 1);
}

static void
flip(const char *path, const char *offset)
{
    struct bytes file = slurp(path);
    uint64_t at = strtoull(offset, NULL, 10);

    if (at >= file.count)
        die("offset behind the end", offset);
    file.data[at] ^= 1;
    spill(path, &file, 1);
}

static void
grow(const char *path, const char *count)
{
    struct bytes parts[2] = {slurp(path), {NULL, 0}};

    parts[1].count = (size_t)strtoull(count, NULL, 10);
    parts[1].data = take(parts[1].count + 1);
    spill(path, parts, 2);
}

static bool
is(int argc, char **argv, const char *name, int arguments)
{
    return strcmp(argv[1], name) == 0 && argc == arguments + 2;
}

int
main(int argc, char **argv)
{
    if (argc < 3)
        die("usage", "mutate WHAT FILE ...; see tests/gen/mutate.c");
    json_set_alloc_funcs(take, leave);
    if (is(argc, argv, "new", 1))
        write_file(argv[2], "{}", NULL, 0);
    else if (is(argc, argv, "add", 5))
        add(argv[2], argv + 3, false);
    else if (is(argc, argv, "add-first", 5))
        add(argv[2], argv + 3, true);
    else if (is(argc, argv, "copy", 3))
        copy(argv[2], argv[3], argv[4]);
    else if (is(argc, argv, "drop", 2))
        drop(argv[2], argv[3]);
    else if (is(argc, argv, "rename", 3))
        rename_all(argv[2], argv[3], argv[4]);
    else if (is(argc, argv, "zero", 2))
        zero(argv[2], argv[3]);
    else if (is(argc, argv, "set", 4))
        set_member(argv[2], argv[3], argv[4], argv[5]);
    else if (is(argc, argv, "header", 2))
        replace_header(argv[2], argv[3]);
    else if (is(argc, argv, "pad", 3))
        pad(argv[2], argv[3][0] == 'l', (size_t)strtoull(argv[4], NULL, 10));
    else if (is(argc, argv, "prefix", 2))
        set_prefix(argv[2], argv[3]);
    else if (is(argc, argv, "json", 3))
        edit_json(argv[2], argv[3], argv[4]);
    else if (is(argc, argv, "flip", 2))
        flip(argv[2], argv[3]);
    else if (is(argc, argv, "grow", 2))
        grow(argv[2], argv[3]);
    else
        die("unknown change, or wrong number of arguments", argv[1]);
    return 0;
}
