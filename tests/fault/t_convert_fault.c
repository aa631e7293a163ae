/* SPDX-License-Identifier: Apache-2.0
 *
 * The n-th call fails while a checkpoint is converted, and while it is
 * extracted, for every n: there is a message, no file that seems whole, and
 * nothing is left behind.  Leaks are found by the address sanitizer. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/le.h"
#include "convert/pipeline.h"
#include "convert/plan.h"
#include "convert/restore.h"
#include "convert/vocabulary.h"
#include "format/lode_write.h"
#include "tests/convert/build.h"
#include "tests/convert/small.h"
#include "tests/fault/wrap.h"
#include "tests/tap.h"

enum { RUNS_MAX = 20000 };

static const struct {
    const char *name;
    enum wrap_call call;
    int sys_errno;
    enum lode_code code;
    uint32_t least_convert; /* calls that are certainly made */
    uint32_t least_extract;
} faults[] = {
    {"allocation", WRAP_ALLOC, ENOMEM, LODE_E_NOMEM, 100, 40},
    {"mmap", WRAP_MMAP, ENOMEM, LODE_E_NOMEM, 4, 0},
    {"open", WRAP_OPEN, EMFILE, LODE_E_IO, 6, 3},
    {"read", WRAP_PREAD, EIO, LODE_E_IO, 20, 10},
    {"write, drive full", WRAP_PWRITE, ENOSPC, LODE_E_IO, 10, 8},
    {"write, device error", WRAP_PWRITE, EIO, LODE_E_IO, 10, 8},
    {"sync", WRAP_SYNC, EIO, LODE_E_IO, 3, 3},
    {"rename", WRAP_RENAME, EACCES, LODE_E_IO, 1, 4},
};

static char source[64];
static char out_path[96];
static char wip_path[96];
static char *whole;
static size_t whole_bytes;

static bool
exists(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0;
}

static bool
is_same(const char *path, const char *want, size_t want_bytes)
{
    struct lode_error err;
    size_t bytes;
    char *data;
    bool same;

    if (!lode_file_slurp(path, 1 << 24, &data, &bytes, &err))
        return false;
    same = bytes == want_bytes && memcmp(data, want, bytes) == 0;
    free(data);
    return same;
}

/* Two shards, an index, a tokenizer. */
static void
make_source(void)
{
    static char header[2][8192];
    static char index[8192];
    size_t used = (size_t)snprintf(index, sizeof(index), "{\"weight_map\":{");

    strcpy(source, build_folder());
    build_text("config.json", SMALL_CONFIG);
    build_text("tiktoken.model", "YQ== 0\nYg== 1\n");
    for (int half = 0; half < 2; half++) {
        char name[] = "model-00001-of-00002.safetensors";
        char *h = header[half];
        size_t n = 9;
        uint64_t at = 0;
        uint32_t first = half == 0 ? 0 : SMALL_TENSOR_COUNT / 2;
        uint32_t last = half == 0 ? SMALL_TENSOR_COUNT / 2
                                  : SMALL_TENSOR_COUNT;
        FILE *f;

        name[10] = half == 0 ? '1' : '2';
        h[8] = '{';
        for (uint32_t i = first; i < last; i++) {
            const uint64_t *d = small_tensors[i].dim;
            uint64_t bytes = 2 * d[0] * (d[1] ? d[1] : 1) * (d[2] ? d[2] : 1);

            n += (size_t)snprintf(h + n, sizeof(header[0]) - n,
                                  "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%"
                                  PRIu64, i != first ? "," : "",
                                  small_tensors[i].name, d[0]);
            for (int k = 1; k < 3 && d[k] != 0; k++)
                n += (size_t)snprintf(h + n, sizeof(header[0]) - n,
                                      ",%" PRIu64, d[k]);
            n += (size_t)snprintf(h + n, sizeof(header[0]) - n,
                                  "],\"data_offsets\":[%" PRIu64 ",%" PRIu64
                                  "]}", at, at + bytes);
            at += bytes;
            used += (size_t)snprintf(index + used, sizeof(index) - used,
                                     "%s\"%s\":\"%s\"", i != 0 ? "," : "",
                                     small_tensors[i].name, name);
        }
        h[n++] = '}';
        lode_store_u64((uint8_t *)h, n - 8);
        f = fopen(build_path(name), "wb");
        if (f == NULL || fwrite(h, 1, n, f) != n)
            exit(99);
        for (uint64_t i = 0; i < at; i++)
            fputc((int)(i * 7 % 251), f);
        if (fclose(f) != 0)
            exit(99);
    }
    snprintf(index + used, sizeof(index) - used, "}}");
    build_text("model.safetensors.index.json", index);
    snprintf(out_path, sizeof(out_path), "%s-out.lode", source);
    snprintf(wip_path, sizeof(wip_path), "%s-out.lode.wip", source);
}

/* ---- conversion, as the command does it ---- */

struct work {
    struct cv_checkpoint *c;
    struct cv_model *m;
    struct cv_plan *p;
    struct lode_writer *w;
    struct cv_notes notes;
    json_t *config;
};

static bool
convert_with(struct work *k, struct lode_error *err)
{
    struct cv_checkpoint_options copt = {0};
    struct lode_writer_options wopt = {.align_log2 = 12};
    const struct cv_pipeline_options jobs = {.jobs = 2};
    struct lode_progress progress = {0};
    char *path = NULL;
    char *text = NULL;
    size_t bytes;
    bool ok;

    if (!lode_path_join(source, "config.json", &path, err))
        return false;
    ok = lode_file_slurp(path, 1 << 20, &text, &bytes, err) &&
         lode_json_parse(text, bytes, &k->config, err);
    free(text);
    free(path);
    return ok &&
           cv_checkpoint_open(source, &copt, &k->c, &k->notes, err) &&
           cv_model_build(k->config, k->c, false, &k->m, &k->notes, err) &&
           cv_vocabulary_check(source, k->m->dim[CV_DIM_VOCABULARY], err) &&
           cv_plan_build(k->c, k->m, &k->p, err) &&
           lode_writer_new(out_path, &wopt, &k->w, err) &&
           cv_plan_declare(k->p, k->w, err) &&
           lode_writer_begin(k->w, 0, err) &&
           cv_pipeline_run(k->p, k->w, &jobs, &progress, err) &&
           lode_writer_finish(k->w, NULL, err);
}

static bool
convert(struct lode_error *err)
{
    struct work k = {0};
    bool ok = convert_with(&k, err);

    lode_writer_free(k.w);
    cv_plan_free(k.p);
    cv_model_free(k.m);
    cv_checkpoint_close(k.c);
    cv_notes_fini(&k.notes);
    json_decref(k.config);
    return ok;
}

static bool
failed_well(size_t f, const struct lode_error *err)
{
    bool complete = strstr(err->text, "is complete, but its folder") != NULL;
    bool good = err->text[0] != '\0' && err->code == faults[f].code &&
                !exists(wip_path) &&
                (complete ? is_same(out_path, whole, whole_bytes)
                          : !exists(out_path));

    if (!good)
        printf("# code %d, errno %d, \"%s\", OUT %d, OUT.wip %d\n",
               (int)err->code, err->sys_errno, err->text, exists(out_path),
               exists(wip_path));
    return good;
}

static void
test_convert(size_t f)
{
    uint64_t count = 0;
    uint32_t wrong = 0;
    bool done = false;

    for (uint64_t n = 1; !done && n < RUNS_MAX && wrong < 5; n++) {
        struct lode_error err = {0};
        bool failed;

        (void)unlink(out_path);
        wrap_reset();
        wrap_fail(faults[f].call, n, faults[f].sys_errno);
        done = convert(&err);
        count = wrap_count(faults[f].call);
        failed = wrap_failed();
        wrap_reset();
        wrong += done ? !is_same(out_path, whole, whole_bytes)
                      : !failed_well(f, &err);
        done = done && !failed; /* it may survive one */
    }
    ok(done && wrong == 0 && count >= faults[f].least_convert,
       "convert: %s fails, each of %" PRIu64 " times", faults[f].name, count);
}

/* ---- extraction ---- */

static char target[96];

static bool
extract(struct lode_error *err)
{
    struct lode_progress progress = {0};
    struct lode_reader *r = NULL;
    struct cv_restore *x = NULL;
    uint32_t count;
    bool ok;

    ok = lode_reader_open(out_path, &r, err) && cv_restore_open(r, &x, err);
    if (ok) {
        (void)cv_restore_files(x, &count);
        for (uint32_t i = 0; ok && i < count; i++)
            ok = cv_restore_write(x, i, target, &progress, err);
    }
    cv_restore_close(x);
    lode_reader_close(r);
    return ok;
}

static const char *const names[] = {
    "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    "config.json", "model.safetensors.index.json", "tiktoken.model",
};

enum { NAME_COUNT = sizeof(names) / sizeof(names[0]) };

/* How many files are there; a wrong or unfinished one counts as a hundred. */
static uint32_t
restored(void)
{
    uint32_t count = 0;

    for (size_t i = 0; i < NAME_COUNT; i++) {
        struct lode_error err;
        char path[256];
        size_t bytes;
        char *text;

        snprintf(path, sizeof(path), "%s/%s.wip", target, names[i]);
        count += exists(path) ? 100 : 0;
        path[strlen(path) - 4] = '\0';
        if (!exists(path))
            continue;
        must(lode_file_slurp(build_path(names[i]), 1 << 20, &text, &bytes,
                             &err), &err);
        count += is_same(path, text, bytes) ? 1 : 100;
        free(text);
        (void)unlink(path);
    }
    return count;
}

static void
test_extract(size_t f)
{
    uint64_t count = 0;
    uint32_t wrong = 0;
    bool done = false;

    for (uint64_t n = 1; !done && n < RUNS_MAX && wrong < 5; n++) {
        struct lode_error err = {0};
        uint32_t files;

        wrap_reset();
        wrap_fail(faults[f].call, n, faults[f].sys_errno);
        done = extract(&err);
        count = wrap_count(faults[f].call);
        wrap_reset();
        files = restored();
        if (done ? files != NAME_COUNT
                 : files >= NAME_COUNT || err.code != faults[f].code ||
                       err.text[0] == '\0') {
            printf("# n %" PRIu64 ": %" PRIu32 " files, code %d, \"%s\"\n", n,
                   files, (int)err.code, err.text);
            wrong++;
        }
    }
    ok(done && wrong == 0 && count >= faults[f].least_extract,
       "extract: %s fails, each of %" PRIu64 " times", faults[f].name, count);
}

/* Short reads and writes are no failures. */
static void
test_short(void)
{
    struct lode_error err;

    (void)unlink(out_path);
    wrap_reset();
    wrap_short(4096);
    must(convert(&err), &err);
    ok(is_same(out_path, whole, whole_bytes), "short reads and writes");
    must(extract(&err), &err);
    wrap_reset();
    is_u64(restored(), NAME_COUNT, "also when extracting");
}

int
main(void)
{
    struct lode_error err;

    make_source();
    snprintf(target, sizeof(target), "%s-x", source);
    must(convert(&err), &err);
    must(lode_file_slurp(out_path, 1 << 24, &whole, &whole_bytes, &err), &err);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        test_convert(i);
    if (mkdir(target, 0777) != 0)
        exit(99);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        test_extract(i);
    test_short();
    free(whole);
    (void)unlink(out_path);
    (void)rmdir(target); /* empty again */
    build_remove();
    return done_testing();
}
