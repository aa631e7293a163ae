/* SPDX-License-Identifier: Apache-2.0
 *
 * Digests of sources from bytes in any order, and what ends a conversion. */
#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "convert/pipeline.h"
#include "convert/source_hash.h"
#include "format/lode_write.h"
#include "tests/convert/build.h"
#include "tests/tap.h"

enum { DATA_BYTES = 3 << 20, PIECES_MAX = 20000 };

static struct lode_error err;
static uint8_t *data;
static uint64_t state = 1;

static uint32_t
next(uint32_t below)
{
    state = state * UINT64_C(6364136223846793005) +
            UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % below;
}

static void
digest_of(const uint8_t *bytes, size_t count, uint8_t out[LODE_DIGEST_BYTES])
{
    struct lode_sha256 *s = NULL;

    must(lode_sha256_new(&s, &err), &err);
    lode_sha256_update(s, bytes, count);
    lode_sha256_final(s, out);
    lode_sha256_free(s);
}

/* Cut the data behind the header into pieces and feed them in the order that
 * permute gives; leave one piece in skip out (0: none). */
static bool
digests_agree(struct cv_checkpoint *c, uint32_t piece_bytes, uint32_t skip,
              void (*permute)(uint32_t *order, uint32_t count))
{
    static uint32_t order[PIECES_MAX];
    uint64_t header = 8 + c->sources[0].header_bytes;
    uint32_t count = (uint32_t)((DATA_BYTES - header - 1) / piece_bytes + 1);
    uint8_t found[1][LODE_DIGEST_BYTES];
    uint8_t want[LODE_DIGEST_BYTES];
    struct cv_hashes *h = NULL;

    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    permute(order, count);
    must(cv_hashes_new(c, &h, &err), &err);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = header + (uint64_t)order[i] * piece_bytes;
        uint64_t n = DATA_BYTES - at < piece_bytes ? DATA_BYTES - at
                                                   : piece_bytes;

        if (skip == 0 || order[i] % skip != 0)
            must(cv_hashes_feed(h, 0, at, data + at, n, &err), &err);
    }
    must(cv_hashes_finish(h, found, &err), &err);
    cv_hashes_free(h);
    digest_of(data, DATA_BYTES, want);
    return memcmp(found[0], want, sizeof(want)) == 0;
}

static void
in_order(uint32_t *order, uint32_t count)
{
    (void)order;
    (void)count;
}

static void
backwards(uint32_t *order, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = count - 1 - i;
}

static void
shuffled(uint32_t *order, uint32_t count)
{
    for (uint32_t i = count - 1; i > 0; i--) {
        uint32_t k = next(i + 1);
        uint32_t other = order[k];

        order[k] = order[i];
        order[i] = other;
    }
}

/* Every other piece first: more ranges than are remembered. */
static void
interleaved(uint32_t *order, uint32_t count)
{
    uint32_t n = 0;

    for (uint32_t i = 1; i < count; i += 2)
        order[n++] = i;
    for (uint32_t i = 0; i < count; i += 2)
        order[n++] = i;
}

static void
test_digests(void)
{
    struct cv_source source = {.file_bytes = DATA_BYTES, .header_bytes = 1000};
    struct cv_checkpoint c = {.sources = &source,
                              .source_count = 1,
                              .shard_count = 1};
    void *p;

    must(lode_alloc_array(DATA_BYTES, 1, "data", &p, &err), &err);
    data = p;
    for (size_t i = 0; i < DATA_BYTES; i++)
        data[i] = (uint8_t)next(256);
    c.path = (char *)(uintptr_t)build_folder();
    source.name = (char *)(uintptr_t)"file";
    source.fd = open(build_path("file"), O_RDWR | O_CREAT, 0600);
    must(lode_file_write(source.fd, 0, data, DATA_BYTES, &err), &err);
    ok(digests_agree(&c, 1 << 18, 0, in_order), "in order");
    ok(digests_agree(&c, 1 << 18, 0, backwards), "backwards");
    ok(digests_agree(&c, 1000, 0, shuffled), "shuffled");
    ok(digests_agree(&c, 1000, 7, in_order), "with pieces that nobody reads");
    ok(digests_agree(&c, 1000, 7, shuffled), "both");
    ok(digests_agree(&c, 300, 0, interleaved),
       "more ranges than are remembered");
    ok(digests_agree(&c, 300, 1, in_order), "nothing at all is fed");
    source.header_bytes = DATA_BYTES - 8 - 1;
    ok(digests_agree(&c, 300, 0, in_order), "hardly anything but a header");
    (void)close(source.fd);
    free(p);
}

/* ---- the end of a conversion ---- */

static char out_path[512];

static bool
nothing_left(void)
{
    char wip[600];

    snprintf(wip, sizeof(wip), "%s.wip", out_path);
    return access(out_path, F_OK) != 0 && access(wip, F_OK) != 0;
}

static bool
convert(struct cv_checkpoint *c, const json_t *config)
{
    struct lode_writer_options opt = {.align_log2 = 12};
    struct lode_progress progress = {0};
    struct cv_notes notes = {0};
    struct lode_writer *w = NULL;
    struct cv_model *m = NULL;
    struct cv_plan *p = NULL;
    const struct cv_pipeline_options jobs = {.jobs = 3};
    bool good;

    must(cv_model_build(config, c, false, &m, &notes, &err), &err);
    must(cv_plan_build(c, m, &p, &err), &err);
    must(lode_writer_new(out_path, &opt, &w, &err), &err);
    must(cv_plan_declare(p, w, &err), &err);
    must(lode_writer_begin(w, 0, &err), &err);
    good = cv_pipeline_run(p, w, &jobs, &progress, &err);
    ok(!good || progress.done_bytes == p->raw_bytes,
       "progress counts every byte");
    lode_writer_free(w);
    cv_plan_free(p);
    cv_model_free(m);
    cv_notes_fini(&notes);
    return good;
}

static void
test_end(void)
{
    json_t *config = NULL;
    struct cv_checkpoint *c = build_open_fixture("kimi-linear-tiny-a",
                                                 &config);

    snprintf(out_path, sizeof(out_path), "%s", build_path("out.lode"));
    must(convert(c, config), &err);
    ok(nothing_left(), "a writer that is not finished leaves nothing");
    c->sources[1].changed_ns++;
    fails_with(convert(c, config), &err, LODE_E_IO,
               "model-00002-of-00004.safetensors: the file changed while it "
               "was read", "a source that changed");
    ok(nothing_left(), "leaves nothing");
    c->sources[1].changed_ns--;
    lode_cancelled = SIGTERM;
    fails_with(convert(c, config), &err, LODE_E_CANCELLED, "cancelled",
               "cancelled");
    lode_cancelled = 0;
    ok(nothing_left(), "leaves nothing");
    (void)close(c->sources[2].fd);
    c->sources[2].fd = open("/dev/null", O_RDONLY);
    fails_with(convert(c, config), &err, LODE_E_CORRUPT,
               "model-00003-of-00004.safetensors: ", "a source cut short");
    ok(nothing_left(), "leaves nothing");
    json_decref(config);
    cv_checkpoint_close(c);
}

int
main(void)
{
    test_digests();
    test_end();
    build_remove();
    return done_testing();
}
