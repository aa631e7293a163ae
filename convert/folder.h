/* SPDX-License-Identifier: Apache-2.0
 *
 * What lies in a checkpoint's folder, and which of it may be opened. */

#ifndef LODE_CONVERT_FOLDER_H
#define LODE_CONVERT_FOLDER_H

#include <stdint.h>

#include "base/error.h"
#include "convert/notes.h"

#define CV_INDEX_NAME "model.safetensors.index.json"

enum {
    CV_SHARDS_MAX = 4096,
    CV_META_FILES_MAX = 1024,
    CV_META_FILE_BYTES_MAX = 256 << 20,
};

struct cv_file {
    char *name;
    uint64_t file_bytes;
    bool is_shard; /* *.safetensors; everything else is carried verbatim */
    bool consumed; /* lies there as NAME.consumed (convert/consume.h) */
};

struct cv_folder {
    char *path;
    struct cv_file *files; /* by name */
    uint32_t file_count;
};

/* How to list a folder. */
struct cv_folder_options {
    bool follow_symlinks; /* also those that leave the folder */
    bool take_consumed;   /* shards that unfinished work has given up; else
                             they are refused */
};

/* List the folder at path.  Hidden files, sub-folders, containers and what is
 * too large to carry are left out, with a note.  A symbolic link that leaves
 * the folder is refused unless opt allows it.  On success *out is the
 * caller's, for cv_folder_fini(). */
LODE_MUST_CHECK
bool cv_folder_list(const char *path, const struct cv_folder_options *opt,
                    struct cv_folder *out, struct cv_notes *notes,
                    struct lode_error *err);
void cv_folder_fini(struct cv_folder *f);

/* The file of this name, or NULL; borrowed from f. */
const struct cv_file *cv_folder_find(const struct cv_folder *f,
                                     const char *name);

/* Is name the name of a file right in a folder, ending in ".safetensors"? */
bool cv_shard_name_ok(const char *name);

/* N of "...-00001-of-0000N.safetensors" and the number before it; false when
 * the name has no such form. */
bool cv_shard_numbers(const char *name, uint32_t *number, uint32_t *of);

#endif
