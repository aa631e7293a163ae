/* SPDX-License-Identifier: Apache-2.0
 *
 * How commands print differences. */

#ifndef LODE_CONVERT_CMD_DIFF_H
#define LODE_CONVERT_CMD_DIFF_H

#include <jansson.h>

#include "convert/diff.h"

/* "tensor", "only in the first", ... */
const char *cmd_diff_kind(const struct cv_difference *d);

/* One line to the standard output. */
void cmd_diff_print(const struct cv_difference *d);

/* Append it as an object; false: out of memory. */
bool cmd_diff_push(json_t *list, const struct cv_difference *d);

#endif
