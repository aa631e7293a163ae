/* SPDX-License-Identifier: Apache-2.0
 *
 * How long work will take, from a short look at the drives and the processor.
 * Nothing of it influences what is written. */

#ifndef LODE_CONVERT_MEASURE_H
#define LODE_CONVERT_MEASURE_H

#include <stdint.h>

#include "base/error.h"

/* Jobs from this size on are worth a measurement. */
#define CV_MEASURE_BYTES (UINT64_C(2) << 30)

/* Bytes a second; 0: could not be measured. */
struct cv_speeds {
    uint64_t read;
    uint64_t write;
    uint64_t digest; /* trees and checksums of one thread */
    uint64_t sha256;
    bool same_drive; /* what is read and what is written share it */
};

struct cv_workload {
    uint64_t read_bytes;
    uint64_t write_bytes;
    uint64_t digest_bytes;  /* sealed as they are */
    uint64_t packing_bytes; /* packed and sealed */
    uint64_t packing_bytes_per_second;
    uint64_t sha256_bytes; /* digests of sources: one thread */
    uint32_t jobs;
};

/* Read a little of the file in_path and write a little beside out_path, into a
 * file without a name that is gone at once; half a second and 32 MB each at
 * most.  What cannot be measured is 0. */
void cv_measure(const char *in_path, const char *out_path,
                struct cv_speeds *out);

/* Reading, writing and computing go on at the same time, except that one drive
 * does one thing at a time.  Below 0: not known. */
double cv_expected_seconds(const struct cv_speeds *s,
                           const struct cv_workload *w);

#endif
