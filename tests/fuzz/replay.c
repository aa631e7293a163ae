/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target without libFuzzer: its seeds, then mutants from a fixed
 * sequence of random numbers.  With arguments: those files alone, to see a
 * finding again.  With -d FOLDER: writes the seeds there, for libFuzzer. */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/tap.h"

static const char *dump_folder;
static uint32_t seed_count;
static uint64_t mutant_count;
static uint64_t state = 1;

static uint32_t
next(uint32_t below)
{
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return below != 0 ? (uint32_t)(state >> 33) % below : 0;
}

/* Change data in place; returns its new length, at most room. */
static size_t
mutate(uint8_t *data, size_t bytes, size_t room)
{
    static const uint8_t special[] = {0, 1, 0x7f, 0x80, 0xff, 0xfe, 0x20, 0x40};
    uint32_t rounds = 1 + next(4);

    for (uint32_t i = 0; i < rounds; i++) {
        uint32_t at = next((uint32_t)bytes);

        switch (next(6)) {
        case 0: /* one bit */
            if (bytes != 0)
                data[at] ^= (uint8_t)(1U << next(8));
            break;
        case 1: /* one special byte */
            if (bytes != 0)
                data[at] = special[next(8)];
            break;
        case 2: /* a random run */
            for (uint32_t n = next(12); n > 0 && at < bytes; n--)
                data[at++] = (uint8_t)next(256);
            break;
        case 3: /* more bytes at the end */
            for (uint32_t n = next(36); n > 0 && bytes < room; n--)
                data[bytes++] = (uint8_t)next(256);
            break;
        case 4: /* cut */
            if (next(4) == 0)
                bytes = at;
            break;
        default: /* a run from elsewhere */
            if (bytes > 16) {
                size_t from = next((uint32_t)bytes - 8);

                memmove(data + next((uint32_t)bytes - 8), data + from, 8);
            }
            break;
        }
    }
    return bytes;
}

static void
dump(const uint8_t *data, size_t bytes)
{
    char path[1024];
    FILE *f;

    snprintf(path, sizeof(path), "%s/seed-%02" PRIu32, dump_folder, seed_count);
    f = fopen(path, "wb");
    if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
        exit(99);
}

static void
run_seed(const uint8_t *data, size_t bytes)
{
    size_t room = bytes + 200;
    uint8_t *copy = malloc(room);

    seed_count++;
    if (copy == NULL)
        exit(99);
    if (dump_folder != NULL) {
        dump(data, bytes);
        free(copy);
        return;
    }
    (void)LLVMFuzzerTestOneInput(data, bytes); /* always 0 */
    for (uint32_t i = 0; i < fuzz_mutant_count; i++) {
        uint8_t *exact;
        size_t n;

        if (bytes != 0)
            memcpy(copy, data, bytes);
        n = mutate(copy, bytes, room);
        /* of its own size, so that a read behind the end is seen */
        exact = malloc(n != 0 ? n : 1);
        if (exact == NULL)
            exit(99);
        memcpy(exact, copy, n);
        (void)LLVMFuzzerTestOneInput(exact, n); /* always 0 */
        free(exact);
        mutant_count++;
    }
    free(copy);
}

static int
run_files(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct lode_error err;
        size_t bytes;
        char *data;

        must(lode_file_slurp(argv[i], UINT64_C(1) << 30, &data, &bytes, &err),
             &err);
        (void)LLVMFuzzerTestOneInput((const uint8_t *)data, bytes);
        free(data);
        ok(true, "%s", argv[i]);
    }
    return done_testing();
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "-d") == 0) {
        dump_folder = argv[2];
        (void)mkdir(dump_folder, 0777); /* may be there */
        fuzz_seeds(run_seed);
        return 0;
    }
    if (argc > 1)
        return run_files(argc, argv);
    fuzz_seeds(run_seed);
    ok(seed_count > 0, "%" PRIu32 " seeds", seed_count);
    ok(mutant_count > 0, "%" PRIu64 " mutants", mutant_count);
    return done_testing();
}
