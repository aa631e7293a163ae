/* SPDX-License-Identifier: Apache-2.0
 *
 * Expected times: what runs at once and what does not; and that measuring
 * leaves nothing and survives what cannot be measured. */
#include "config.h"

#include "convert/measure.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "convert/estimate.h"
#include "tests/tap.h"

static const struct cv_speeds speeds = {
    .read = 100, .write = 50, .digest = 1000, .sha256 = 200};

static bool
is_near(double a, double b)
{
    return a > b - 1e-9 && a < b + 1e-9;
}

static void
test_seconds(void)
{
    struct cv_workload w = {.read_bytes = 1000, .jobs = 2};
    struct cv_speeds s = speeds;

    ok(is_near(cv_expected_seconds(&s, &w), 10), "reading alone");
    w.write_bytes = 400;
    ok(is_near(cv_expected_seconds(&s, &w), 10), "two drives: the slower one");
    w.write_bytes = 1000;
    ok(is_near(cv_expected_seconds(&s, &w), 20), "or the other");
    s.same_drive = true;
    ok(is_near(cv_expected_seconds(&s, &w), 30), "one drive: their sum");
    w.digest_bytes = 70000;
    ok(is_near(cv_expected_seconds(&s, &w), 35), "computing takes longer");
    w.packing_bytes = 200;
    w.packing_bytes_per_second = 10;
    ok(is_near(cv_expected_seconds(&s, &w), 45), "packing is added, by jobs");
    w.sha256_bytes = 20000;
    ok(is_near(cv_expected_seconds(&s, &w), 100), "one thread for SHA-256");
    s.write = 0;
    ok(cv_expected_seconds(&s, &w) < 0, "a drive that was not measured");
    s.write = 50;
    s.read = 0;
    ok(cv_expected_seconds(&s, &w) < 0, "nor the other");
}

static uint32_t
entries(const char *folder)
{
    DIR *d = opendir(folder);
    uint32_t n = 0;

    while (d != NULL && readdir(d) != NULL)
        n++;
    if (d != NULL)
        (void)closedir(d);
    return n;
}

static void
test_drives(void)
{
    char folder[] = "/tmp/lode-measure-XXXXXX";
    char in[64];
    char out[64];
    struct cv_speeds s;
    FILE *f;

    if (mkdtemp(folder) == NULL) {
        ok(false, "a folder");
        return;
    }
    (void)snprintf(in, sizeof(in), "%s/in", folder);
    (void)snprintf(out, sizeof(out), "%s/out", folder);
    f = fopen(in, "w");
    for (int i = 0; f != NULL && i < 10000; i++)
        (void)fprintf(f, "%d\n", i);
    ok(f != NULL && fclose(f) == 0, "a file of odd size");
    cv_measure(in, out, &s);
    ok(s.read != 0 && s.digest != 0 && s.sha256 != 0, "measured");
    ok(s.same_drive, "one drive");
    is_u64(entries(folder), 3, "nothing is left");
    cv_measure("/no/such/file", "/no/such/folder/out", &s);
    ok(s.read == 0 && s.write == 0 && !s.same_drive, "nothing to measure");
    (void)unlink(in);
    (void)rmdir(folder);
}

static void
test_needed(void)
{
    const struct cv_estimate e = {.file_bytes = 1000};

    is_u64(cv_estimate_needed(&e, 5000), 1050, "the estimate and a margin");
    is_u64(cv_estimate_needed(&e, 1020), 1020, "but what is certain at most");
}

int
main(void)
{
    test_seconds();
    test_drives();
    test_needed();
    return done_testing();
}
