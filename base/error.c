/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool
lode_fail(struct lode_error *err, enum lode_code code, const char *fmt, ...)
{
    va_list ap;

    err->code = code;
    err->sys_errno = 0;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* may be cut */
    va_end(ap);
    return false;
}

bool
lode_fail_errno(struct lode_error *err, const char *fmt, ...)
{
    int saved = errno;
    size_t used;
    va_list ap;

    err->code = LODE_E_IO;
    err->sys_errno = saved;
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* may be cut */
    va_end(ap);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s",
                   strerror(saved));
    return false;
}

bool
lode_fail_in(struct lode_error *err, const char *fmt, ...)
{
    char old[LODE_ERROR_TEXT_BYTES];
    size_t used;
    va_list ap;

    memcpy(old, err->text, sizeof(old));
    va_start(ap, fmt);
    (void)vsnprintf(err->text, sizeof(err->text), fmt, ap); /* may be cut */
    va_end(ap);
    used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", old);
    return false;
}

int
lode_exit_status(enum lode_code code)
{
    switch (code) {
    case LODE_E_NONE:
        return 0;
    case LODE_E_USAGE:
        return 2;
    case LODE_E_CORRUPT:
        return 3;
    case LODE_E_UNSUPPORTED:
        return 4;
    case LODE_E_IO:
    case LODE_E_NOMEM:
    case LODE_E_LIMIT:
    case LODE_E_CANCELLED:
        break;
    }
    return 1;
}
