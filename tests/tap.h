/* SPDX-License-Identifier: Apache-2.0
 *
 * TAP for C tests.  Each check prints one line; done_testing() prints the plan
 * and gives main's status. */

#ifndef LODE_TESTS_TAP_H
#define LODE_TESTS_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int tap_count;
static int tap_failed;

#define ok(cond, ...) tap_ok((cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_u64(got, want, ...)                                                \
    tap_u64((uint64_t)(got), (uint64_t)(want), __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...)                                                \
    tap_str((got), (want), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) static inline bool
tap_ok(bool good, const char *file, int line, const char *fmt, ...)
{
    va_list ap;

    printf("%sok %d - ", good ? "" : "not ", ++tap_count);
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    putchar('\n');
    if (!good) {
        tap_failed++;
        printf("# failed at %s:%d\n", file, line);
    }
    fflush(stdout);
    return good;
}

__attribute__((format(printf, 5, 6))) static inline bool
tap_u64(uint64_t got, uint64_t want, const char *file, int line,
        const char *fmt, ...)
{
    char name[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    if (tap_ok(got == want, file, line, "%s", name))
        return true;
    printf("# got %" PRIu64 ", expected %" PRIu64 "\n", got, want);
    return false;
}

__attribute__((format(printf, 5, 6))) static inline bool
tap_str(const char *got, const char *want, const char *file, int line,
        const char *fmt, ...)
{
    char name[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    if (tap_ok(got != NULL && strcmp(got, want) == 0, file, line, "%s", name))
        return true;
    printf("# got \"%s\", expected \"%s\"\n", got != NULL ? got : "(null)",
           want);
    return false;
}

/* The call failed with this code and its message contains part: which check
 * refused, not only that one did. */
static inline bool
fails_with(bool result, const struct lode_error *err, enum lode_code code,
           const char *part, const char *name)
{
    bool good =
        !result && err->code == code && strstr(err->text, part) != NULL;

    ok(good, "%s", name);
    if (!good)
        printf("# %s, code %d, \"%s\"; expected code %d, \"%s\"\n",
               result ? "succeeded" : "failed", result ? 0 : (int)err->code,
               result ? "" : err->text, (int)code, part);
    return good;
}

/* A step the test needs; the test ends when it fails. */
static inline void
must(bool result, const struct lode_error *err)
{
    if (!result) {
        printf("Bail out! %s\n", err->text);
        exit(99);
    }
}

static inline int
done_testing(void)
{
    printf("1..%d\n", tap_count);
    return tap_failed == 0 ? 0 : 1;
}

#endif
