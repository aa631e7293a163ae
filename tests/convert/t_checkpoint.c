/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of shards: what is taken, what is refused, and what is said. */
#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/folder.h"
#include "tests/convert/build.h"
#include "tests/tap.h"

static struct cv_checkpoint_options options;
static struct cv_checkpoint *c;
static struct cv_notes notes;
static struct lode_error err;

static bool
open_it(void)
{
    cv_checkpoint_close(c);
    c = NULL;
    cv_notes_fini(&notes);
    memset(&err, 0, sizeof(err));
    return cv_checkpoint_open(build_path(""), &options, &c, &notes, &err);
}

static bool
noted(const char *part)
{
    for (const char *line = cv_notes_next(&notes, NULL); line != NULL;
         line = cv_notes_next(&notes, line))
        if (strstr(line, part) != NULL)
            return true;
    return false;
}

static void
refuses(const char *name, enum lode_code code, const char *part)
{
    fails_with(open_it(), &err, code, part, name);
}

#define A "model-00001-of-00002.safetensors"
#define B "model-00002-of-00002.safetensors"

static void
two_shards(void)
{
    (void)build_folder();
    memset(&options, 0, sizeof(options));
    build_shard(A, "a b");
    build_shard(B, "c");
}

static void
test_taken(void)
{
    two_shards();
    must(open_it(), &err);
    is_u64(c->shard_count, 2, "two shards without index");
    is_u64(c->tensor_count, 3, "three tensors");
    is_str(c->tensors[2].name, "c", "sorted by name");
    is_u64(c->tensors[2].source, 1, "in the second shard");
    ok(c->complete, "complete");
    build_index("a " A " b " A " c " B);
    must(open_it(), &err);
    is_u64(c->tensor_count, 3, "the same with an index");
    is_u64(c->source_count, 3, "which is carried");
    options.skip_prefixes = (const char *const[]){"a", NULL};
    must(open_it(), &err);
    is_u64(c->tensor_count, 2, "without a prefix");
    is_u64(c->skipped_count, 1, "one is skipped");
    ok(!c->complete, "not complete");
    options.skip_prefixes = (const char *const[]){"c", NULL};
    must(open_it(), &err);
    is_u64(c->shard_count, 1, "a shard that nobody wants");
    ok(!c->complete && noted("left out, no tensor of it is wanted: " B),
       "is told");
    is_str(cv_notes_next(&c->left_out, NULL), B, "and remembered");
}

static void
test_index(void)
{
    two_shards();
    build_index("a " A " c " B);
    refuses("C17 not indexed", LODE_E_CORRUPT, "1 tensors are not indexed");
    options.include_unindexed = true;
    must(open_it(), &err);
    is_u64(c->tensor_count, 3, "included");
    options.include_unindexed = false;
    options.skip_unindexed = true;
    must(open_it(), &err);
    is_u64(c->tensor_count, 2, "skipped");
    ok(!c->complete && noted("left out, not indexed: 1 tensors of " A),
       "and told");
    two_shards();
    build_index("a " B " b " A " c " B);
    refuses("another shard has it", LODE_E_CORRUPT,
            "the index says tensor \"a\" is in " B ", but it is in " A);
    build_index("a " A " b " A " c " B " d " B);
    refuses("nobody has it", LODE_E_CORRUPT,
            "the index names 1 tensors that their shards do not have (" B
            " has no \"d\"");
    options.rebuild_index = true;
    must(open_it(), &err);
    is_u64(c->tensor_count, 3, "by the headers");
    options.rebuild_index = false;
    build_index("a " A " b " A " a " A " c " B);
    refuses("named twice", LODE_E_CORRUPT, "duplicate key \"a\"");
    build_index("a x-00001-of-00003.safetensors");
    refuses("C19 another set", LODE_E_CORRUPT,
            "shards of a set of 3, the folder holds a set of 2");
    build_index("a gone.safetensors b " A);
    refuses("C15 missing", LODE_E_CORRUPT,
            "1 of 2 shards that the index names are missing: "
            "gone.safetensors");
    build_text(CV_INDEX_NAME, "{\"weight_map\":[]}");
    refuses("C21 no object", LODE_E_CORRUPT,
            "weight_map: expected an object, found an array");
    build_text(CV_INDEX_NAME, "{\"weight_map\":{\"a\":1}}");
    refuses("C21 no text", LODE_E_CORRUPT,
            "weight_map: \"a\": expected a string");
    build_text(CV_INDEX_NAME, "{}");
    refuses("C21 no map", LODE_E_CORRUPT, "no tensors in \"weight_map\"");
    build_text(CV_INDEX_NAME, "{\"weight_map\":{},\"weight_map\":{}}");
    refuses("two maps", LODE_E_CORRUPT, "duplicate key \"weight_map\"");
    build_text(CV_INDEX_NAME, "{\"weight_map\":{\"a\":");
    refuses("cut", LODE_E_CORRUPT, "the object does not end");
}

static void
test_names(void)
{
    static const char *const bad[] = {"../x.safetensors", "/etc/hostname",
                                      "sub/../a.safetensors", "a\\\\b",
                                      ".hidden.safetensors", "model.bin", ""};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char text[200];

        two_shards();
        snprintf(text, sizeof(text), "{\"weight_map\":{\"a\":\"%s\"}}",
                 bad[i]);
        build_text(CV_INDEX_NAME, text);
        snprintf(text, sizeof(text), "C21 \"%s\"", bad[i]);
        refuses(text, LODE_E_CORRUPT,
                "which is no *.safetensors file right in the folder");
    }
}

static void
test_sets(void)
{
    two_shards();
    build_shard(B, "b c");
    refuses("in two shards", LODE_E_CORRUPT,
            "tensor \"b\" is in both " A " and " B);
    two_shards();
    (void)unlink(build_path(B));
    refuses("C22 half of a set", LODE_E_CORRUPT, "1 shards here, their names");
    build_shard("model-00002-of-00003.safetensors", "c");
    refuses("two sets", LODE_E_CORRUPT, "shards of two sets");
    (void)build_folder();
    build_text("config.json", "{}");
    refuses("no shard", LODE_E_USAGE, "no *.safetensors file here");
    build_shard("model.safetensors", "");
    refuses("no tensor", LODE_E_CORRUPT, "no tensors");
    build_text("model.safetensors", "short");
    refuses("C14 five bytes", LODE_E_CORRUPT,
            "model.safetensors: cut short: the file has 5 bytes");
    fails_with(cv_checkpoint_open(build_path("none"), &options, &c, &notes,
                                  &err), &err, LODE_E_IO,
               "none: expected the folder of a checkpoint: No such file",
               "no folder");
}

static void
test_folder(void)
{
    two_shards();
    build_text(".hidden", "x");
    build_text("old.lode", "x");
    build_text("README.md", "x");
    if (mkdir(build_path("sub"), 0777) != 0)
        exit(99);
    must(open_it(), &err);
    is_u64(c->source_count, 3, "README.md is carried, .hidden is not");
    ok(noted("not carried: sub (a folder)"), "a folder is told");
    ok(noted("not carried: old.lode (a container)"), "a container, too");
    if (symlink("README.md", build_path("inside.md")) != 0)
        exit(99);
    must(open_it(), &err);
    is_u64(c->source_count, 4, "a link that stays inside is followed");
    if (symlink("/etc/hostname", build_path("outside.md")) != 0)
        exit(99);
    refuses("C21 a link that leaves", LODE_E_IO,
            "outside.md: symbolic link that leaves the folder");
    options.follow_symlinks = true;
    must(open_it(), &err);
    is_u64(c->source_count, 5, "followed on request");
    options.follow_symlinks = false;
    (void)unlink(build_path("outside.md"));
    if (symlink("nowhere", build_path("dangling.md")) != 0)
        exit(99);
    refuses("a link to nowhere", LODE_E_IO, "dangling.md");
    (void)unlink(build_path("dangling.md"));
    build_text("a\\b", "x");
    refuses("an odd name", LODE_E_UNSUPPORTED,
            "a container cannot carry a file of this name");
}

static void
test_change(void)
{
    struct timespec then[2] = {{1000, 0}, {1000, 0}};

    two_shards();
    must(open_it(), &err);
    must(cv_checkpoint_unchanged(c, &err), &err);
    ok(true, "unchanged");
    if (utimensat(AT_FDCWD, build_path(B), then, 0) != 0)
        exit(99);
    fails_with(cv_checkpoint_unchanged(c, &err), &err, LODE_E_IO,
               B ": the file changed while it was read", "another time");
    must(open_it(), &err);
    if (truncate(build_path(A), 3) != 0)
        exit(99);
    fails_with(cv_checkpoint_unchanged(c, &err), &err, LODE_E_IO,
               A ": the file changed while it was read", "another size");
}

int
main(void)
{
    test_taken();
    test_index();
    test_names();
    test_sets();
    test_folder();
    test_change();
    cv_checkpoint_close(c);
    cv_notes_fini(&notes);
    build_remove();
    return done_testing();
}
