/* SPDX-License-Identifier: Apache-2.0
 *
 * What all commands that read a container have in common: where volumes may
 * lie, and which content root it must have. */

#ifndef LODE_CONVERT_INPUT_H
#define LODE_CONVERT_INPUT_H

#include "base/cli.h"
#include "format/lode.h"

/* For tables of options. */
#define CV_OPT_DIR(list)                                  \
    {"dir", 0, LODE_OPT_LIST, (list), "FOLDER",           \
     "where volumes of a set may lie; may be repeated"}
#define CV_OPT_EXPECT(text)                               \
    {"expect-root", 0, LODE_OPT_TEXT, (text), "HEX",      \
     "refuse a container with another content root"}

/* Open a container; expect_root may be NULL. */
LODE_MUST_CHECK
bool cv_input_open(const char *path, const struct lode_opt_list *folders,
                   const char *expect_root, struct lode_reader **out,
                   struct lode_error *err);

/* Does it say that it gives its source back bit for bit?  False also where
 * nothing is recorded, or not here. */
LODE_MUST_CHECK
bool cv_input_lossless(const struct lode_reader *r, bool *lossless,
                       struct lode_error *err);

/* As many threads as there are processors, at most 8. */
uint64_t cv_default_jobs(void);

#endif
