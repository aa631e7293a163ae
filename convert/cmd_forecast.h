/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plan says beyond its certain figures: expected sizes and time, for a
 * person or as JSON, and the refusal of what does not fit. */

#ifndef LODE_CONVERT_CMD_FORECAST_H
#define LODE_CONVERT_CMD_FORECAST_H

#include <jansson.h>

#include "convert/estimate.h"
#include "convert/measure.h"

struct cv_forecast {
    struct cv_estimate estimate;
    struct cv_speeds speeds;
    struct cv_workload load;
    double seconds; /* below 0: not known */
    bool measured;
};

/* Look at the drives; the estimate and load are filled. */
void cv_forecast_measure(struct cv_forecast *f, const char *in_path,
                         const char *out_path);
void cv_forecast_fini(struct cv_forecast *f);

/* On stdout: with rows the whole table, else what was measured at most. */
void cv_forecast_print(const struct cv_forecast *f, bool rows);

/* Members roles, file_bytes_estimate, seconds_estimate,
 * read_bytes_per_second, write_bytes_per_second of o; null: not known. */
bool cv_forecast_json(const struct cv_forecast *f, json_t *o);

/* Space that is asked for and there, and what would help. */
struct cv_space {
    const char *path;
    uint64_t needed_bytes;
    uint64_t there_bytes;   /* 0: the drive does not say */
    uint64_t consume_bytes; /* needed with --consume; 0: it is no help */
    uint64_t zstd_bytes;    /* needed with --codec zstd; 0: it is no help */
    const char *consumed;   /* "the shards", "IN" */
};

/* LODE_E_IO, with needed, available and missing bytes and what to change,
 * unless it fits. */
LODE_MUST_CHECK
bool cv_space_check(const struct cv_space *s, struct lode_error *err);

/* What the drive of a file to be written has free; 0: it does not say. */
uint64_t cv_space_free(const char *out_path);

#endif
