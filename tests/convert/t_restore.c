/* SPDX-License-Identifier: Apache-2.0
 *
 * Extraction against containers whose record of their origin is wrong or
 * hostile (spec 9.3): it is refused by the check that should, the message names
 * what is wrong, and no file appears. */
#include "config.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/le.h"
#include "base/mem.h"
#include "convert/origin.h"
#include "convert/restore.h"
#include "format/lode_write.h"
#include "tests/convert/build.h"
#include "tests/tap.h"

enum { IMAGE_BYTES = 76, ROOM_BYTES = 1 << 16, RECORDS_MAX = 2 };

#define SHARD "model.safetensors"
#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define B "\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[4,16]}"

static struct lode_error err;

/* Two tensors with a gap between them. */
static const struct lode_tensor tensors[] = {
    {.name = "a",
     .encoding = "u8",
     .dtype = "U8",
     .raw_bytes = 4,
     .dim = {4},
     .dim_count = 1},
    {.name = "b",
     .encoding = "bf16",
     .dtype = "BF16",
     .raw_offset = 64,
     .raw_bytes = 12,
     .dim = {2, 3},
     .dim_count = 2},
};

/* One record of source-headers.  What is NULL or 0 is as it should be. */
struct record {
    const char *name;
    const char *header;
    uint64_t name_bytes;
    uint64_t file_bytes;
    uint64_t header_bytes;
    size_t kept_bytes; /* what is there of it; 0: all */
};

struct row {
    const char *what;
    struct record records[RECORDS_MAX]; /* up to one without a name */
    enum lode_code code;
    const char *message;
};

/* The name is a shard's, the rest follows. */
#define NAMED(n) .records = {{.name = (n)}}
#define HEADED(h) .records = {{.name = SHARD, .header = (h)}}

static const struct row rows[] = {
    {"cut in the name's length", .records = {{.name = "", .kept_bytes = 1}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0 is cut short"},
    {"name beyond the end", .records = {{.name = SHARD, .name_bytes = 65535}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0 is cut short"},
    {"name to the very end", .records = {{.name = SHARD, .name_bytes = 127}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0"},
    {"header cut by a byte", .records = {{.name = SHARD, .kept_bytes = 176}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0 is cut short"},
    {"header of one byte more",
     .records = {{.name = SHARD, .header_bytes = sizeof("{" A "," B "}")}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0 is cut short"},
    {"header of 2^64 - 1 bytes",
     .records = {{.name = SHARD, .header_bytes = UINT64_MAX}}, LODE_E_CORRUPT,
     "source-headers: the record at byte 0 is cut short"},
    {"header of 2^63 bytes",
     .records = {{.name = SHARD, .header_bytes = UINT64_C(1) << 63}},
     LODE_E_CORRUPT, "source-headers: the record at byte 0 is cut short"},
    {"a second record that is cut",
     .records = {{.name = SHARD}, {.name = "n.safetensors", .kept_bytes = 70}},
     LODE_E_CORRUPT, "source-headers: the record at byte 177 is cut short"},
    {"a byte behind the last record",
     .records = {{.name = SHARD}, {.name = "", .kept_bytes = 1}},
     LODE_E_CORRUPT, "source-headers: the record at byte 177 is cut short"},

    {"no name", NAMED(""), LODE_E_CORRUPT, "\"\" is no name of a shard"},
    {"one folder up", NAMED("../x.safetensors"), LODE_E_CORRUPT,
     "\"../x.safetensors\" is no name of a shard"},
    {"absolute", NAMED("/tmp/x.safetensors"), LODE_E_CORRUPT,
     "\"/tmp/x.safetensors\" is no name of a shard"},
    {"in a folder", NAMED("a/x.safetensors"), LODE_E_CORRUPT,
     "\"a/x.safetensors\" is no name of a shard"},
    {"up in the middle", NAMED("a/../../x.safetensors"), LODE_E_CORRUPT,
     "\"a/../../x.safetensors\" is no name of a shard"},
    {"a backslash", NAMED("..\\x.safetensors"), LODE_E_CORRUPT,
     "\"..\\x.safetensors\" is no name of a shard"},
    {"hidden", NAMED(".safetensors"), LODE_E_CORRUPT,
     "\".safetensors\" is no name of a shard"},
    {"no shard", NAMED("profile"), LODE_E_CORRUPT,
     "\"profile\" is no name of a shard"},
    {"two dots", NAMED(".."), LODE_E_CORRUPT, "\"..\" is no name of a shard"},
    {"a NUL", .records = {{.name = "x\0.safetensors", .name_bytes = 14}},
     LODE_E_CORRUPT, "byte 0 has a control character in its name"},
    {"an escape sequence", NAMED("\033[2Jx.safetensors"), LODE_E_CORRUPT,
     "byte 0 has a control character in its name"},
    {"a shard twice", .records = {{.name = SHARD}, {.name = SHARD}},
     LODE_E_CORRUPT, "shard \"" SHARD "\" is out of order"},
    {"shards out of order",
     .records = {{.name = SHARD}, {.name = "a.safetensors"}}, LODE_E_CORRUPT,
     "shard \"a.safetensors\" is out of order"},
    {"the name of a file", NAMED("notes.safetensors"), LODE_E_CORRUPT,
     "\"notes.safetensors\" is the name of a file and of a shard"},
    {"but for case", NAMED("Notes.safetensors"), LODE_E_CORRUPT,
     "\"notes.safetensors\" is the name of a file and of a shard"},

    {"header empty", HEADED(""), LODE_E_CORRUPT,
     "shard " SHARD ": header of 0 bytes"},
    {"no JSON", HEADED("{\"a\":"), LODE_E_CORRUPT, "shard " SHARD ": header"},
    {"a list", HEADED("[1,2]"), LODE_E_CORRUPT, "shard " SHARD ": header"},
    {"binary", HEADED("\x80\xff\xfe"), LODE_E_CORRUPT,
     "shard " SHARD ": header"},
    {"a tensor twice", HEADED("{" A "," A "}"), LODE_E_CORRUPT,
     "tensor \"a\" occurs twice"},
    {"nested without end",
     HEADED("{\"a\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
            "[[[[[[[[[[[[[[[[[[[[]}"),
     LODE_E_LIMIT, "nests deeper"},
    {"offsets beyond the file",
     HEADED("{\"a\":{\"dtype\":\"U8\",\"shape\":[17],"
            "\"data_offsets\":[0,17]}}"),
     LODE_E_CORRUPT, "tensor \"a\": data_offsets [0, 17] pass the end"},
    {"offsets of 2^63 - 1",
     HEADED("{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],"
            "\"data_offsets\":[0,9223372036854775807]}}"),
     LODE_E_CORRUPT,
     "tensor \"a\": data_offsets [0, 9223372036854775807] pass the end"},
    {"a size beyond 64 bits",
     HEADED("{\"a\":{\"dtype\":\"U8\",\"shape\":[18446744073709551616],"
            "\"data_offsets\":[0,4]}}"),
     LODE_E_CORRUPT, "tensor \"a\": shape: expected whole numbers, found a "
                     "number beyond 64 bits"},
    {"a size whose product overflows",
     HEADED("{\"a\":{\"dtype\":\"U8\",\"shape\":[4294967296,4294967297],"
            "\"data_offsets\":[0,4]}}"),
     LODE_E_CORRUPT, "tensor \"a\": shape times dtype U8 overflows 64 bits"},
    {"overlapping tensors",
     HEADED("{" A ",\"b\":{\"dtype\":\"BF16\",\"shape\":[2,3],"
            "\"data_offsets\":[2,14]}}"),
     LODE_E_CORRUPT, "overlaps \"a\""},
    {"bytes of no tensor", HEADED("{" A "}"), LODE_E_CORRUPT,
     "shard " SHARD ": the tensors end at byte"},
    {"a file shorter than its header",
     .records = {{.name = SHARD, .file_bytes = 20}}, LODE_E_CORRUPT,
     "shard " SHARD ": cut short: header of"},
    {"a file of 1 byte", .records = {{.name = SHARD, .file_bytes = 1}},
     LODE_E_CORRUPT, "shard " SHARD ": cut short: the file has 1 bytes"},
    {"a file of 2^64 - 1 bytes",
     .records = {{.name = SHARD, .file_bytes = UINT64_MAX}}, LODE_E_CORRUPT,
     "the file at 18446744073709551615"},
    {"a file of 2^60 bytes",
     .records = {{.name = SHARD, .file_bytes = UINT64_C(1) << 60}},
     LODE_E_CORRUPT, "the file at 1152921504606846976"},

    {"a tensor that no block holds",
     HEADED("{" A ",\"c\":{\"dtype\":\"BF16\",\"shape\":[2,3],"
            "\"data_offsets\":[4,16]}}"),
     LODE_E_UNSUPPORTED,
     "1 of 1 shards cannot be restored, since tensors of them were left out "
     "when it was made: " SHARD},
    {"a tensor of another dtype",
     HEADED("{" A ",\"b\":{\"dtype\":\"F16\",\"shape\":[2,3],"
            "\"data_offsets\":[4,16]}}"),
     LODE_E_CORRUPT,
     "shard " SHARD ": tensor \"b\" is F16 of 12 bytes by its header, but BF16 "
     "of 12 bytes in the container"},
    {"a tensor of another shape",
     HEADED("{" A ",\"b\":{\"dtype\":\"BF16\",\"shape\":[3,2],"
            "\"data_offsets\":[4,16]}}"),
     LODE_E_CORRUPT, "shard " SHARD ": tensor \"b\" is BF16 of 12 bytes"},
    {"a tensor that is larger",
     HEADED("{\"a\":{\"dtype\":\"U8\",\"shape\":[16],"
            "\"data_offsets\":[0,16]}}"),
     LODE_E_CORRUPT,
     "tensor \"a\" is U8 of 16 bytes by its header, but U8 of 4 bytes"},
};

/* ---- building ---- */

static const char good_header[] = "{" A "," B "}";

static size_t
add_record(uint8_t *out, const struct record *r, const uint8_t *digest)
{
    const char *header = r->header != NULL ? r->header : good_header;
    size_t name_bytes = r->name_bytes != 0 && r->name_bytes < 64
                            ? (size_t)r->name_bytes
                            : strlen(r->name);
    size_t header_bytes = strlen(header);
    uint8_t *p = out;

    lode_store_u16(p, (uint16_t)(r->name_bytes != 0 ? r->name_bytes
                                                    : name_bytes));
    memcpy(p + 2, r->name, name_bytes);
    p += 2 + name_bytes;
    lode_store_u64(p, r->file_bytes != 0 ? r->file_bytes
                                         : 8 + header_bytes + 16);
    memcpy(p + 8, digest, LODE_DIGEST_BYTES);
    p += 8 + LODE_DIGEST_BYTES;
    lode_store_u64(p, r->header_bytes != 0 ? r->header_bytes : header_bytes);
    memcpy(p + 8, header, header_bytes);
    return r->kept_bytes != 0 ? r->kept_bytes
                              : (size_t)(p + 8 - out) + header_bytes;
}

static void
sha256(const void *data, size_t bytes, uint8_t out[LODE_DIGEST_BYTES])
{
    struct lode_sha256 *s = NULL;

    must(lode_sha256_new(&s, &err), &err);
    lode_sha256_update(s, data, bytes);
    lode_sha256_final(s, out);
    lode_sha256_free(s);
}

static void
fill_image(uint8_t *image)
{
    memset(image, 0, IMAGE_BYTES);
    for (uint8_t i = 0; i < 4; i++)
        image[i] = (uint8_t)(i + 1);
    for (uint8_t i = 0; i < 12; i++)
        image[64 + i] = (uint8_t)(i + 5);
}

/* The digest of the shard that good_header describes. */
static void
good_digest(uint8_t out[LODE_DIGEST_BYTES])
{
    uint8_t file[512];
    size_t bytes = sizeof(good_header) - 1;

    lode_store_u64(file, bytes);
    memcpy(file + 8, good_header, bytes);
    for (uint8_t i = 0; i < 16; i++)
        file[8 + bytes + i] = (uint8_t)(i + 1);
    sha256(file, 8 + bytes + 16, out);
}

struct part {
    uint32_t kind;
    const char *name;
    const void *data;
    size_t bytes;
    uint32_t handle;
};

static void
declare(struct lode_writer *w, struct part *p)
{
    bool is_trunk = p->kind == LODE_KIND_TRUNK;
    struct lode_group_spec spec = {.name = p->name,
                                   .object_raw_bytes = p->bytes,
                                   .kind = p->kind,
                                   .layer = -1,
                                   .object_count = 1};

    must(lode_writer_schema(w, is_trunk ? tensors : NULL, is_trunk ? 2 : 0,
                            p->bytes, &spec.schema_index, &err),
         &err);
    must(lode_writer_group(w, &spec, &p->handle, &err), &err);
}

static void
append(struct lode_writer *w, const struct part *p)
{
    struct lode_parcel parcel = {.stored_bytes = (uint32_t)p->bytes,
                                 .raw_bytes = (uint32_t)p->bytes};
    void *image = NULL;

    must(lode_alloc_aligned(ROOM_BYTES, "image", &image, &err), &err);
    memcpy(image, p->data, p->bytes);
    parcel.stored = image;
    parcel.image = image;
    lode_seal(&parcel);
    must(lode_writer_append(w, lode_writer_block_index(w, p->handle, 0, 0),
                            &parcel, &err),
         &err);
    lode_free_aligned(image, ROOM_BYTES);
}

static void
write_container(const void *headers, size_t headers_bytes)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    uint8_t digest[LODE_DIGEST_BYTES];
    uint8_t image[IMAGE_BYTES];
    char provenance[512];
    char hex[2 * LODE_DIGEST_BYTES + 1];
    struct lode_writer *w = NULL;
    uint32_t count;
    struct part parts[] = {
        {LODE_KIND_TRUNK, "trunk", image, IMAGE_BYTES, 0},
        {LODE_KIND_META, "notes.safetensors", "{}", 2, 0},
        {LODE_KIND_ORIGIN, CV_HEADERS_NAME, headers, headers_bytes, 0},
        {LODE_KIND_ORIGIN, CV_PROVENANCE_NAME, provenance, 0, 0},
    };

    sha256("{}", 2, digest);
    parts[3].bytes = (size_t)snprintf(
        provenance, sizeof(provenance),
        "{\"format\":\"lode-provenance-1\",\"source\":{\"files\":["
        "{\"path\":\"notes.safetensors\",\"sha256\":\"%s\"}]}}",
        lode_hex(digest, hex));
    fill_image(image);
    must(lode_writer_new(build_path("c.lode"), &opt, &w, &err), &err);
    for (size_t i = 0; i < 4; i++)
        declare(w, &parts[i]);
    must(lode_writer_number(w, &count, &err) && lode_writer_begin(w, 0, &err),
         &err);
    for (size_t i = 0; i < 4; i++)
        if (parts[i].bytes != 0) /* empty files have no block */
            append(w, &parts[i]);
    must(lode_writer_finish(w, NULL, &err), &err);
    lode_writer_free(w);
}

/* ---- extracting ---- */

/* As lode extract does, into folder "out", which is there. */
static bool
extract(void)
{
    struct lode_progress progress;
    struct lode_reader *r = NULL;
    struct cv_restore *x = NULL;
    const struct cv_restored *files;
    uint32_t count = 0;
    char out[512];
    bool good;

    (void)snprintf(out, sizeof(out), "%s", build_path("out"));
    must(lode_reader_open(build_path("c.lode"), &r, &err), &err);
    good = cv_restore_open(r, &x, &err);
    if (good) {
        files = cv_restore_files(x, &count);
        good = files != NULL;
    }
    lode_progress_begin(&progress, out, 1, true);
    for (uint32_t i = 0; good && i < count; i++)
        good = cv_restore_write(x, i, out, &progress, &err);
    lode_progress_end(&progress);
    cv_restore_close(x);
    lode_reader_close(r);
    return good;
}

static uint32_t
entry_count(const char *path)
{
    const struct dirent *e;
    uint32_t count = 0;
    DIR *d = opendir(path);

    if (d == NULL)
        return UINT32_MAX;
    while ((e = readdir(d)) != NULL)
        count += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    (void)closedir(d); /* only read */
    return count;
}

static void
fresh_folder(const void *headers, size_t bytes)
{
    (void)build_folder();
    if (mkdir(build_path("out"), 0777) != 0)
        exit(99);
    write_container(headers, bytes);
}

static void
test_row(const struct row *row)
{
    static uint8_t headers[ROOM_BYTES];
    uint8_t digest[LODE_DIGEST_BYTES];
    size_t bytes = 0;

    good_digest(digest);
    for (size_t i = 0; i < RECORDS_MAX && row->records[i].name != NULL; i++)
        bytes += add_record(headers + bytes, &row->records[i], digest);
    fresh_folder(headers, bytes);
    fails_with(extract(), &err, row->code, row->message, row->what);
    is_u64(entry_count(build_path("out")), 0, "%s: no file", row->what);
    is_u64(entry_count(build_path("")), 2, "%s: nor beside the folder",
           row->what);
}

/* Whether what the rows change is the only thing that is wrong in them. */
static void
test_good(void)
{
    static const struct record record = {.name = SHARD};
    uint8_t headers[1024];
    uint8_t digest[LODE_DIGEST_BYTES];

    good_digest(digest);
    fresh_folder(headers, add_record(headers, &record, digest));
    must(extract(), &err);
    is_u64(entry_count(build_path("out")), 2, "a good record gives two files");
    ok(access(build_path("out/" SHARD), F_OK) == 0, "one is the shard");
    (void)unlink(build_path("out/" SHARD));
    (void)unlink(build_path("out/notes.safetensors"));
    fresh_folder(NULL, 0);
    must(extract(), &err);
    is_u64(entry_count(build_path("out")), 1, "no record gives no shard");
    (void)unlink(build_path("out/notes.safetensors"));
}

/* Spec 9.3: the shard's recorded SHA-256, with one bit of it wrong. */
static void
test_digest(void)
{
    static const struct record record = {.name = SHARD};
    static const size_t wrong_bytes[] = {0, 15, 31};

    for (size_t i = 0; i < 3; i++) {
        char found[2 * LODE_DIGEST_BYTES + 1];
        uint8_t digest[LODE_DIGEST_BYTES];
        uint8_t headers[1024];

        good_digest(digest);
        (void)lode_hex(digest, found);
        digest[wrong_bytes[i]] ^= 0x10;
        fresh_folder(headers, add_record(headers, &record, digest));
        fails_with(extract(), &err, LODE_E_CORRUPT, "the original had ",
                   "a wrong SHA-256");
        ok(strstr(err.text, "/out/" SHARD ": SHA-256 ") != NULL,
           "names the shard");
        ok(strstr(err.text, found) != NULL, "says what was found");
        is_u64(entry_count(build_path("out")), 0, "nothing is left");
    }
}

int
main(void)
{
    test_good();
    test_digest();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        test_row(&rows[i]);
    build_remove();
    return done_testing();
}
