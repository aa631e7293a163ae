/* SPDX-License-Identifier: Apache-2.0
 *
 * Do the tokenizer's ids fit the embedding's rows?  Ids that no token has are
 * fine; an id without a row would read past the embedding at run time. */

#ifndef LODE_CONVERT_VOCABULARY_H
#define LODE_CONVERT_VOCABULARY_H

#include <stdint.h>

#include "base/error.h"

/* Check tiktoken.model and tokenizer_config.json of the folder, those that are
 * there, against the number of rows.  Fails with LODE_E_CORRUPT naming the
 * token. */
LODE_MUST_CHECK
bool cv_vocabulary_check(const char *folder, uint64_t row_count,
                         struct lode_error *err);

#endif
