/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/convert/build.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/le.h"
#include "convert/folder.h"
#include "tests/tap.h"

static char folder[64];

void
build_remove(void)
{
    struct dirent *e;
    DIR *d = folder[0] != '\0' ? opendir(folder) : NULL;

    if (d == NULL)
        return;
    while ((e = readdir(d)) != NULL) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        if (unlink(build_path(e->d_name)) != 0)
            (void)rmdir(build_path(e->d_name)); /* an empty folder, then */
    }
    (void)closedir(d);
    (void)rmdir(folder); /* it is empty now */
    folder[0] = '\0';
}

const char *
build_folder(void)
{
    build_remove();
    strcpy(folder, "/tmp/lode-test-XXXXXX");
    if (mkdtemp(folder) == NULL)
        exit(99);
    return folder;
}

const char *
build_path(const char *name)
{
    static char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void
spill(const char *name, const void *data, size_t bytes)
{
    FILE *f = fopen(build_path(name), "wb");

    if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        exit(99);
}

void
build_text(const char *name, const char *text)
{
    spill(name, text, strlen(text));
}

void
build_shard(const char *name, const char *tensors)
{
    char text[8192] = "{";
    size_t used = 1;
    size_t count = 0;
    size_t n;

    for (; *tensors != '\0'; tensors += n + (tensors[n] == ' '), count++) {
        n = strcspn(tensors, " ");
        used += (size_t)snprintf(
            text + 8 + used, sizeof(text) - 8 - used,
            "%s\"%.*s\":{\"dtype\":\"U8\",\"shape\":[4],"
            "\"data_offsets\":[%zu,%zu]}",
            count != 0 ? "," : "", (int)n, tensors, 4 * count, 4 * count + 4);
    }
    text[8] = '{';
    text[8 + used++] = '}';
    lode_store_u64((uint8_t *)text, used);
    memset(text + 8 + used, 7, 4 * count);
    spill(name, text, 8 + used + 4 * count);
}

void
build_index(const char *pairs)
{
    char text[8192];
    size_t used = (size_t)snprintf(text, sizeof(text), "{\"weight_map\":{");
    bool first = true;

    while (*pairs != '\0') {
        size_t a = strcspn(pairs, " ");
        size_t b = strcspn(pairs + a + 1, " ");

        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%s\"%.*s\":\"%.*s\"", first ? "" : ",",
                                 (int)a, pairs, (int)b, pairs + a + 1);
        pairs += a + 1 + b + (pairs[a + 1 + b] == ' ');
        first = false;
    }
    snprintf(text + used, sizeof(text) - used, "}}");
    build_text(CV_INDEX_NAME, text);
}

struct cv_checkpoint *
build_open_fixture(const char *name, json_t **config)
{
    struct cv_checkpoint_options opt = {0};
    struct cv_checkpoint *c = NULL;
    struct cv_notes notes = {0};
    struct lode_error err;
    char path[1024];
    size_t bytes;
    char *text;

    snprintf(path, sizeof(path), "%s/tests/fixtures/%s", getenv("srcdir"),
             name);
    must(cv_checkpoint_open(path, &opt, &c, &notes, &err), &err);
    cv_notes_fini(&notes);
    strcat(path, "/config.json");
    must(lode_file_slurp(path, 1 << 20, &text, &bytes, &err), &err);
    must(lode_json_parse(text, bytes, config, &err), &err);
    free(text);
    return c;
}
