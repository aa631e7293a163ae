/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/checked.h"
#include "base/cli.h"
#include "base/file.h"
#include "base/json.h"
#include "convert/cmd.h"
#include "convert/input.h"
#include "convert/restore.h"

struct options {
    const char *file;
    const char *folder;
    const char *expect_root;
    struct lode_opt_list folders;
    bool json;
    bool force;
    bool quiet;
};

static bool
parse(int argc, char **argv, struct options *o, bool *help,
      struct lode_error *err)
{
    const struct lode_opt table[] = {
        {"force", 'f', LODE_OPT_FLAG, &o->force, NULL,
         "replace files that exist"},
        CV_OPT_DIR(&o->folders),
        CV_OPT_EXPECT(&o->expect_root),
        {"json", 0, LODE_OPT_FLAG, &o->json, NULL,
         "list the files as JSON"},
        {"quiet", 'q', LODE_OPT_FLAG, &o->quiet, NULL, "print errors only"},
        {NULL, 0, LODE_OPT_FLAG, NULL, NULL, NULL},
    };
    const struct lode_usage usage = {
        table, "lode extract [OPTION]... FILE DIR",
        "Write the checkpoint that container FILE was made from into folder "
        "DIR,\nbit for bit."};
    int first;

    if (!lode_cli_parse(argc, argv, &usage, &first, help, err))
        return false;
    if (*help)
        return true;
    if (argc - first != 2)
        return lode_fail(err, LODE_E_USAGE,
                         "expected a container and a folder, found %d "
                         "arguments", argc - first);
    o->file = argv[first];
    o->folder = argv[first + 1];
    return true;
}

static bool
check_folder(const struct options *o, const struct cv_restored *files,
             uint32_t count, uint64_t total_bytes, struct lode_error *err)
{
    struct statvfs fs;
    struct stat st;
    char *path = NULL;

    if (mkdir(o->folder, 0777) != 0 && errno != EEXIST)
        return lode_fail_errno(err, "%s", o->folder);
    if (stat(o->folder, &st) != 0)
        return lode_fail_errno(err, "%s", o->folder);
    if (!S_ISDIR(st.st_mode))
        return lode_fail(err, LODE_E_USAGE, "%s is not a folder", o->folder);
    for (uint32_t i = 0; i < count && !o->force; i++) {
        bool exists;

        if (!lode_path_join(o->folder, files[i].name, &path, err))
            return false;
        exists = lstat(path, &st) == 0;
        free(path);
        if (exists)
            return lode_fail(err, LODE_E_USAGE,
                             "%s/%s exists; --force replaces it", o->folder,
                             files[i].name);
    }
    if (statvfs(o->folder, &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize < total_bytes)
        return lode_fail(err, LODE_E_IO,
                         "%s: not enough space on the drive: %" PRIu64
                         " bytes are needed, %" PRIu64 " are available",
                         o->folder, total_bytes,
                         (uint64_t)fs.f_bavail * fs.f_frsize);
    return true;
}

static bool
print_json(const struct options *o, const struct cv_restored *files,
           uint32_t count, uint64_t total_bytes, struct lode_error *err)
{
    json_t *root = json_object();
    json_t *list = json_array();
    bool ok = true;

    for (uint32_t i = 0; i < count; i++) {
        char hex[2 * LODE_DIGEST_BYTES + 1];
        json_t *f = json_object();

        ok = lode_json_set(f, "path", json_string(files[i].name)) &&
             lode_json_set(f, "bytes",
                           json_integer((json_int_t)files[i].file_bytes)) &&
             lode_json_set(f, "sha256",
                           json_string(lode_hex(files[i].sha256, hex))) && ok;
        ok = lode_json_push(list, f) && ok;
    }
    ok = lode_json_set(root, "file", json_string(o->file)) && ok;
    ok = lode_json_set(root, "folder", json_string(o->folder)) && ok;
    ok = lode_json_set(root, "bytes",
                       json_integer((json_int_t)total_bytes)) && ok;
    ok = lode_json_set(root, "files", list) && ok;
    if (!ok) {
        json_decref(root);
        root = NULL;
    }
    return lode_json_print(root, err);
}

static bool
extract(const struct options *o, struct cv_restore *x, struct lode_error *err)
{
    struct lode_progress progress;
    const struct cv_restored *files;
    uint64_t total = 0;
    uint32_t count;
    char text[32];
    bool ok = true;

    files = cv_restore_files(x, &count);
    for (uint32_t i = 0; i < count; i++)
        if (!lode_add(total, files[i].file_bytes, &total))
            return lode_fail(err, LODE_E_LIMIT,
                             "%s: its files would have more than 2^64 bytes",
                             o->file);
    if (!check_folder(o, files, count, total, err))
        return false;
    lode_cli_catch_signals(); /* from here on there are files to remove */
    lode_progress_begin(&progress, o->folder, total, o->quiet || o->json);
    for (uint32_t i = 0; ok && i < count; i++)
        ok = cv_restore_write(x, i, o->folder, &progress, err);
    lode_progress_end(&progress);
    if (!ok)
        return false;
    if (count != 0) {
        char *path = NULL;

        if (!lode_path_join(o->folder, files[0].name, &path, err))
            return false;
        ok = lode_file_sync_directory(path, err);
        free(path);
    }
    if (!ok)
        return false;
    if (o->json)
        return print_json(o, files, count, total, err);
    if (!o->quiet)
        printf("%s: %" PRIu32 " files, %s, each with its original SHA-256\n",
               o->folder, count, lode_format_bytes(total, text, sizeof(text)));
    return true;
}

int
cmd_extract(int argc, char **argv)
{
    struct options o = {0};
    struct lode_error err = {0};
    struct lode_reader *r = NULL;
    struct cv_restore *x = NULL;
    bool help = false;
    bool ok = parse(argc, argv, &o, &help, &err);

    if (ok && help)
        return 0;
    ok = ok && cv_input_open(o.file, &o.folders, o.expect_root, &r, &err) &&
         lode_reader_whole(r, &err) && cv_restore_open(r, &x, &err) &&
         extract(&o, x, &err);
    cv_restore_close(x);
    lode_reader_close(r);
    if (ok)
        return 0;
    (void)lode_cli_report("lode extract", &err);
    if (err.code == LODE_E_CANCELLED)
        lode_cli_reraise();
    return lode_exit_status(err.code);
}
