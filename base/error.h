/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors as values: a code for the program, a sentence for a person.
 *
 * A fallible function returns bool.  True is success and leaves *err alone;
 * false means *err is filled.  err is never NULL, lives on the caller's stack
 * and needs no allocation, so it works when memory is what failed.  All
 * functions here return false, so that a check is one line. */

#ifndef LODE_BASE_ERROR_H
#define LODE_BASE_ERROR_H

#include <stdbool.h>

#if defined(__GNUC__)
#define LODE_MUST_CHECK __attribute__((warn_unused_result))
#define LODE_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define LODE_MUST_CHECK
#define LODE_PRINTF(a, b)
#endif

enum lode_code {
    LODE_E_NONE = 0,
    LODE_E_USAGE,       /* the command line is wrong */
    LODE_E_IO,          /* the operating system said no; see sys_errno */
    LODE_E_NOMEM,       /* memory, or the memory budget, does not suffice */
    LODE_E_CORRUPT,     /* bytes contradict their specification */
    LODE_E_UNSUPPORTED, /* well-formed, but newer or unknown */
    LODE_E_LIMIT,       /* well-formed, but larger than a stated limit */
    LODE_E_CANCELLED,   /* a signal or the caller asked to stop */
};

enum { LODE_ERROR_TEXT_BYTES = 512 };

struct lode_error {
    enum lode_code code;
    int sys_errno; /* 0 when no system call failed */
    char text[LODE_ERROR_TEXT_BYTES];
};

/* Fill *err.  Always false. */
bool lode_fail(struct lode_error *err, enum lode_code code, const char *fmt,
               ...) LODE_PRINTF(3, 4);

/* The same with LODE_E_IO, the present errno and its text appended. */
bool lode_fail_errno(struct lode_error *err, const char *fmt, ...)
    LODE_PRINTF(2, 3);

/* Put "context: " in front of the text that is there.  Always false. */
bool lode_fail_in(struct lode_error *err, const char *fmt, ...)
    LODE_PRINTF(2, 3);

/* The exit status that goes with a code: 1 failed, 2 usage, 3 damaged,
 * 4 needs a newer program (lode(1), EXIT STATUS). */
int lode_exit_status(enum lode_code code);

#endif
