/* SPDX-License-Identifier: Apache-2.0
 *
 * Headers of shards, good and hostile: which check refuses, and with what
 * numbers. */
#include "config.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cli.h"
#include "base/file.h"
#include "base/le.h"
#include "base/mem.h"
#include "convert/safetensors.h"
#include "tests/tap.h"

/* A file with this length in front, this header, and so much data. */
static int
make_file(uint64_t prefix, const char *header, size_t header_bytes,
          uint64_t data_bytes)
{
    struct lode_error err;
    uint8_t raw[8];
    int fd = memfd_create("shard", MFD_CLOEXEC);

    lode_store_u64(raw, prefix);
    must(lode_file_write(fd, 0, raw, 8, &err), &err);
    must(lode_file_write(fd, 8, header, header_bytes, &err), &err);
    if (ftruncate(fd, (off_t)(8 + header_bytes + data_bytes)) != 0)
        exit(99);
    return fd;
}

static bool
read_file(int fd, uint64_t file_bytes, struct cv_shard *s,
          struct lode_error *err)
{
    bool good = cv_shard_read(fd, file_bytes, s, err);

    (void)close(fd); /* memory */
    return good;
}

static bool
read_header(const char *header, uint64_t data_bytes, struct cv_shard *s,
            struct lode_error *err)
{
    size_t n = strlen(header);

    return read_file(make_file(n, header, n, data_bytes), 8 + n + data_bytes,
                     s, err);
}

#define T(name, dtype, shape, offsets)                                        \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape                  \
    ",\"data_offsets\":" offsets "}"

static const struct {
    const char *name;
    const char *header;
    uint64_t data_bytes;
    uint32_t tensor_count;
} good[] = {
    {"no tensor", "{}", 0, 0},
    {"one tensor", "{" T("a", "F32", "[2,3]", "[0,24]") "}", 24, 1},
    {"C01 unaligned", "{" T("a", "F32", "[1]", "[0,4]") "} ", 4, 1},
    {"C03 leading space", " {" T("a", "U8", "[1]", "[0,1]") "}", 1, 1},
    {"C03 trailing spaces", "{" T("a", "U8", "[1]", "[0,1]") "}     ", 1, 1},
    {"C04 odd before floats",
     "{" T("a", "U8", "[3]", "[0,3]") "," T("b", "F32", "[4]", "[3,19]") ","
     T("c", "BF16", "[5]", "[19,29]") "}", 29, 3},
    {"C05 zero-size at the start",
     "{" T("z", "F8_E4M3", "[0]", "[0,0]") "," T("b", "U8", "[2]", "[0,2]")
     "}", 2, 2},
    {"C05 zero-size in the middle",
     "{" T("a", "U8", "[2]", "[0,2]") "," T("z", "F8_E4M3", "[0,5]", "[2,2]")
     "," T("b", "U8", "[2]", "[2,4]") "}", 4, 3},
    {"C06 scalars",
     "{" T("a", "F32", "[]", "[0,4]") "," T("b", "F32", "[1]", "[4,8]") ","
     T("c", "I64", "[]", "[8,16]") "}", 16, 3},
    {"C12 F4 counts elements", "{" T("a", "F4", "[2,8]", "[0,8]") ","
     T("b", "F8_E8M0", "[2,1]", "[8,10]") "}", 10, 2},
    {"C12 F4 of no row", "{" T("a", "F4", "[0,8]", "[0,0]") "}", 0, 1},
    {"order does not matter",
     "{" T("b", "U8", "[2]", "[2,4]") "," T("a", "U8", "[2]", "[0,2]") "}", 4,
     2},
    {"metadata", "{\"__metadata__\":{\"format\":\"pt\"},"
     T("a", "BOOL", "[1]", "[0,1]") "}", 1, 1},
    {"names with escapes", "{" T("a\\u0041\\n", "U8", "[1]", "[0,1]") "}", 1,
     1},
};

static const struct {
    const char *name;
    const char *header;
    uint64_t data_bytes;
    enum lode_code code;
    const char *part;
} bad[] = {
    {"C05 shape [1] in no bytes", "{" T("z", "F8_E4M3", "[1]", "[0,0]") "}", 0,
     LODE_E_CORRUPT, "tensor \"z\": shape and dtype F8_E4M3 need 1 bytes, "
     "data_offsets [0, 0] hold 0"},
    {"C07 duplicate name",
     "{" T("a", "U8", "[1]", "[0,1]") "," T("a", "U8", "[1]", "[1,2]") "}", 2,
     LODE_E_CORRUPT, "duplicate key: tensor \"a\" occurs twice"},
    {"C07 duplicate behind an escape",
     "{" T("a", "U8", "[1]", "[0,1]") "," T("\\u0061", "U8", "[1]", "[1,2]")
     "}", 2, LODE_E_CORRUPT, "duplicate key: tensor \"a\" occurs twice"},
    {"C07 duplicate key in a tensor",
     "{\"a\":{\"dtype\":\"U8\",\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,1]}}", 1, LODE_E_CORRUPT, "duplicate object key"},
    {"C07 metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
     LODE_E_CORRUPT, "__metadata__ occurs twice"},
    {"C09 end before start", "{" T("a", "U8", "[1]", "[2,1]") "}", 2,
     LODE_E_CORRUPT, "tensor \"a\": data_offsets [2, 1]"},
    {"C09 end past the file", "{" T("a", "U8", "[9]", "[0,9]") "}", 8,
     LODE_E_CORRUPT,
     "tensor \"a\": data_offsets [0, 9] pass the end of the file, whose data "
     "has 8 bytes"},
    {"C09 far past the file",
     "{" T("a", "U8", "[16]", "[1099511627776,1099511627792]") "}", 16,
     LODE_E_CORRUPT, "[1099511627776, 1099511627792] pass the end"},
    {"C09 overlap",
     "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[2,6]") "}", 6,
     LODE_E_CORRUPT,
     "tensor \"b\" at data offset 2 overlaps \"a\", which ends at 4"},
    {"C09 gap",
     "{" T("a", "U8", "[4]", "[0,4]") "," T("b", "U8", "[4]", "[68,72]") "}",
     72, LODE_E_CORRUPT,
     "hole of 64 bytes before tensor \"b\" at data offset 68; safetensors does "
     "not allow padding"},
    {"C09 gap at the start", "{" T("a", "U8", "[4]", "[4,8]") "}", 8,
     LODE_E_CORRUPT, "hole of 4 bytes before tensor \"a\""},
    {"C09 size is not shape times dtype",
     "{" T("a", "F32", "[3]", "[0,8]") "}", 8, LODE_E_CORRUPT,
     "shape and dtype F32 need 12 bytes, data_offsets [0, 8] hold 8"},
    {"C09 product overflows",
     "{" T("a", "F32", "[8589934592,8589934592]", "[0,4]") "}", 4,
     LODE_E_CORRUPT, "tensor \"a\": shape times dtype F32 overflows 64 bits"},
    {"C09 negative offset", "{" T("a", "U8", "[1]", "[-1,0]") "}", 1,
     LODE_E_CORRUPT, "data_offsets: negative number -1"},
    {"C09 negative shape", "{" T("a", "U8", "[-1]", "[0,1]") "}", 1,
     LODE_E_CORRUPT, "shape: negative number -1"},
    {"C09 fraction", "{" T("a", "U8", "[1.5]", "[0,1]") "}", 1, LODE_E_CORRUPT,
     "shape: expected whole numbers, found a fraction"},
    {"C09 exponent", "{" T("a", "U8", "[1e3]", "[0,1000]") "}", 1000,
     LODE_E_CORRUPT, "shape: expected whole numbers, found a fraction"},
    {"C09 2^64", "{" T("a", "U8", "[18446744073709551616]", "[0,1]") "}", 1,
     LODE_E_CORRUPT,
     "shape: expected whole numbers, found a number beyond 64 bits"},
    {"C11 empty dtype", "{" T("lm_head.weight", "", "[]", "[0,0]") "}", 0,
     LODE_E_CORRUPT, "is lm_head tied to the embedding?"},
    {"C12 F4 with an odd row", "{" T("a", "F4", "[2,7]", "[0,7]") "}", 7,
     LODE_E_CORRUPT,
     "last dimension 7 of dtype F4 does not end on a byte"},
    {"C14 bytes behind the last tensor", "{" T("a", "U8", "[1]", "[0,1]") "}",
     2, LODE_E_CORRUPT, "bytes that no tensor owns"},
    {"unknown dtype", "{" T("a", "F5", "[1]", "[0,1]") "}", 1,
     LODE_E_UNSUPPORTED, "tensor \"a\": unknown dtype \"F5\""},
    {"seven dimensions", "{" T("a", "U8", "[1,1,1,1,1,1,1]", "[0,1]") "}", 1,
     LODE_E_LIMIT, "7 dimensions, the limit is 6"},
    {"three offsets", "{" T("a", "U8", "[1]", "[0,1,2]") "}", 1,
     LODE_E_CORRUPT, "data_offsets"},
    {"no shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1,
     LODE_E_CORRUPT, "shape: expected an array, found nothing"},
    {"shape is text", "{" T("a", "U8", "\"1\"", "[0,1]") "}", 1,
     LODE_E_CORRUPT, "shape: expected an array, found a string"},
    {"a tensor is a number", "{\"a\":1}", 0, LODE_E_CORRUPT, "tensor \"a\""},
    {"metadata is no text", "{\"__metadata__\":{\"a\":1}}", 0, LODE_E_CORRUPT,
     "__metadata__: \"a\": expected a string, found an integer"},
    {"an array", "[]", 0, LODE_E_CORRUPT, "expected '{'"},
    {"text behind the object", "{} x", 0, LODE_E_CORRUPT, "expected the end"},
    {"a second object", "{}{}", 0, LODE_E_CORRUPT, "expected the end"},
    {"cut JSON", "{\"a\":", 0, LODE_E_CORRUPT, "the object does not end"},
    {"two commas", "{" T("a", "U8", "[1]", "[0,1]") ",,}", 1, LODE_E_CORRUPT,
     "JSON"},
    {"a comma before the end", "{" T("a", "U8", "[1]", "[0,1]") ",}", 1,
     LODE_E_CORRUPT, "JSON"},
    {"NUL in a name", "{" T("a\\u0000b", "U8", "[1]", "[0,1]") "}", 1,
     LODE_E_CORRUPT, "JSON"},
    {"no UTF-8", "{" T("a\xff", "U8", "[1]", "[0,1]") "}", 1, LODE_E_CORRUPT,
     "JSON"},
};

static void
test_good(void)
{
    struct lode_error err = {0};
    struct cv_shard s;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        if (!ok(read_header(good[i].header, good[i].data_bytes, &s, &err),
                "%s", good[i].name)) {
            printf("# %s\n", err.text);
            continue;
        }
        is_u64(s.tensor_count, good[i].tensor_count, "%s: count",
               good[i].name);
        cv_shard_fini(&s);
    }
    must(read_header(good[4].header, 1, &s, &err), &err);
    is_str(s.tensors[0].name, "a", "the name");
    is_u64(s.tensors[0].offset, 8 + strlen(good[4].header), "the offset");
    cv_shard_fini(&s);
}

static void
test_bad(void)
{
    struct lode_error err = {0};
    struct cv_shard s;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        fails_with(read_header(bad[i].header, bad[i].data_bytes, &s, &err),
                   &err, bad[i].code, bad[i].part, bad[i].name);
}

/* C08 and C14: what the first eight bytes say. */
static void
test_prefix(void)
{
    static const struct {
        const char *name;
        uint64_t prefix;
        uint64_t file_bytes;
        enum lode_code code;
        const char *part;
    } rows[] = {
        {"no byte", 0, 0, LODE_E_CORRUPT, "cut short: the file has 0 bytes"},
        {"seven bytes", 2, 7, LODE_E_CORRUPT,
         "cut short: the file has 7 bytes"},
        {"eight bytes", 2, 8, LODE_E_CORRUPT,
         "cut short: header of 2 bytes, the file has 8"},
        {"length 0", 0, 10, LODE_E_CORRUPT, "header of 0 bytes"},
        {"length 2^63", UINT64_C(1) << 63, 10, LODE_E_LIMIT,
         "the limit is 100000000"},
        {"length 2^64-1", UINT64_MAX, 10, LODE_E_LIMIT,
         "header of 18446744073709551615 bytes"},
        {"one over 100 MB", 100000001, 10, LODE_E_LIMIT,
         "header of 100000001 bytes, the limit is 100000000"},
        {"100 MB", 100000000, 10, LODE_E_CORRUPT,
         "header of 100000000 bytes, the file has 10"},
        {"one past the end", 3, 10, LODE_E_CORRUPT,
         "cut short: header of 3 bytes, the file has 10"},
    };
    struct lode_error err = {0};
    struct cv_shard s;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        fails_with(read_file(make_file(rows[i].prefix, "{}", 2, 0),
                             rows[i].file_bytes, &s, &err),
                   &err, rows[i].code, rows[i].part, rows[i].name);
    /* The file shrank between its stat and its read. */
    fails_with(read_file(make_file(100, "{}", 2, 0), 5000, &s, &err), &err,
               LODE_E_CORRUPT, "ends", "shorter than its size");
}

static void
hostile(const char *name, char fill, size_t lead, size_t bytes,
        enum lode_code code, const char *part)
{
    struct lode_error err = {0};
    struct cv_shard s;
    uint64_t start = lode_now_ns();
    char *text;
    void *p;

    must(lode_alloc_array(bytes, 1, "header", &p, &err), &err);
    text = p;
    memset(text, fill, bytes);
    text[0] = '{';
    if (lead == 2)
        text[1] = '"';
    fails_with(read_file(make_file(bytes, text, bytes, 0), 8 + bytes, &s,
                         &err), &err, code, part, name);
    ok(lode_now_ns() - start < UINT64_C(1000000000), "%s: in a second", name);
    free(p);
}

/* C08: memory and time are bounded whatever the header says. */
static void
test_bounds(void)
{
    struct rusage before;
    struct rusage after;

    (void)getrusage(RUSAGE_SELF, &before);
    hostile("C08 nested 100,000 deep", '[', 1, 100000, LODE_E_LIMIT, "64");
    hostile("C08 a key of 20 MB", 'k', 2, 20 << 20, LODE_E_LIMIT, "limit");
    (void)getrusage(RUSAGE_SELF, &after);
    /* The test's own text and its file are 20 MB each. */
    ok(after.ru_maxrss - before.ru_maxrss < 3 * (20 << 10),
       "C08 memory is bounded");
}

int
main(void)
{
    test_good();
    test_bad();
    test_prefix();
    test_bounds();
    return done_testing();
}
