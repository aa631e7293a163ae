/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of the reader share. */

#ifndef LODE_FORMAT_READER_STATE_H
#define LODE_FORMAT_READER_STATE_H

#include "format/index.h"
#include "format/lode.h"

struct lode_reader {
    char *path;
    struct lode_index index;
    struct lode_volume *volumes; /* [0] is the file opened */
};

#endif
