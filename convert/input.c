/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/input.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "convert/origin.h"

enum { PROVENANCE_BYTES_MAX = 64 << 20 };

bool
cv_input_open(const char *path, const struct lode_opt_list *folders,
              const char *expect_root, struct lode_reader **out,
              struct lode_error *err)
{
    struct lode_reader *r;

    if (!lode_reader_open_in(path, folders->items, &r, err))
        return false;
    if (expect_root != NULL && !lode_reader_expect_root(r, expect_root, err)) {
        lode_reader_close(r);
        return false;
    }
    *out = r;
    return true;
}

bool
cv_input_lossless(const struct lode_reader *r, bool *lossless,
                  struct lode_error *err)
{
    int64_t group =
        lode_reader_find(r, LODE_KIND_ORIGIN, -1, CV_PROVENANCE_NAME);
    struct lode_block first;
    json_t *root = NULL;
    char *text = NULL;
    size_t bytes;
    bool ok;

    *lossless = false;
    if (group < 0 ||
        lode_reader_group(r, (uint32_t)group)->blocks_per_object == 0)
        return true;
    lode_reader_block(
        r, lode_reader_group(r, (uint32_t)group)->first_block_index, &first);
    if (!lode_reader_here(r, &first))
        return true;
    if (!lode_reader_load_file(r, LODE_KIND_ORIGIN, CV_PROVENANCE_NAME,
                               PROVENANCE_BYTES_MAX, &text, &bytes, err))
        return false;
    ok = lode_json_parse(text, bytes, &root, err);
    free(text);
    if (!ok)
        return lode_fail_in(err, "%s: " CV_PROVENANCE_NAME,
                            lode_reader_path(r));
    *lossless = json_is_true(json_object_get(root, "lossless"));
    json_decref(root);
    return true;
}

uint64_t
cv_default_jobs(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > 8 ? 8 : (uint64_t)n;
}
