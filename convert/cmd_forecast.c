/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "convert/cmd_forecast.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cli.h"
#include "base/json.h"
#include "format/role.h"

/* ---- rows ---- */

static const char *
kind_name(uint32_t kind)
{
    static const char *const names[] = {
        [LODE_KIND_EXPERT] = "expert",     [LODE_KIND_TRUNK] = "trunk",
        [LODE_KIND_RESIDENT] = "resident", [LODE_KIND_ROWS] = "rows",
        [LODE_KIND_AUX] = "aux",           [LODE_KIND_META] = "meta",
        [LODE_KIND_ORIGIN] = "origin"};

    return kind < sizeof(names) / sizeof(names[0]) && names[kind] != NULL
               ? names[kind]
               : "other";
}

static const char *
role_name(const struct cv_estimate_row *row)
{
    return row->role == LODE_ROLE_NONE ? kind_name(row->kind)
                                       : lode_role_name(row->role);
}

static void
print_rows(const struct cv_estimate *e)
{
    const struct cv_estimate_row *rows;
    size_t count;
    char a[32];
    char b[32];

    rows = cv_estimate_rows(e, &count);
    printf("  %-21s %8s  %-13s -> %-17s %9s %9s  %s\n", "role", "tensors",
           "encoding", "codec", "bytes", "estimate", "why");
    for (size_t i = 0; i < count; i++)
        if (rows[i].tensor_count != 0)
            printf("  %-21s %8" PRIu64 "  %-13s -> %-17s %9s %9s  %s\n",
                   role_name(&rows[i]), rows[i].tensor_count, rows[i].encoding,
                   rows[i].codec,
                   lode_format_bytes(rows[i].raw_bytes, a, sizeof(a)),
                   lode_format_bytes(rows[i].stored_bytes, b, sizeof(b)),
                   rows[i].why);
}

static json_t *
row_json(const struct cv_estimate_row *row)
{
    json_t *o = json_object();

    if (lode_json_set(o, "kind", json_string(kind_name(row->kind))) &&
        lode_json_set(o, "role", json_string(role_name(row))) &&
        lode_json_set(o, "count",
                      json_integer((json_int_t)row->tensor_count)) &&
        lode_json_set(o, "source_encoding", json_string(row->encoding)) &&
        lode_json_set(o, "target_encoding", json_string(row->encoding)) &&
        lode_json_set(o, "codec", json_string(row->codec)) &&
        lode_json_set(o, "why", json_string(row->why)) &&
        lode_json_set(o, "raw_bytes",
                      json_integer((json_int_t)row->raw_bytes)) &&
        lode_json_set(o, "stored_bytes_estimate",
                      json_integer((json_int_t)row->stored_bytes)))
        return o;
    json_decref(o);
    return NULL;
}

static json_t *
rows_json(const struct cv_estimate *e)
{
    const struct cv_estimate_row *rows;
    json_t *list = json_array();
    size_t count;

    rows = cv_estimate_rows(e, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].tensor_count != 0 &&
            !lode_json_push(list, row_json(&rows[i]))) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* ---- the whole ---- */

void
cv_forecast_measure(struct cv_forecast *f, const char *in_path,
                    const char *out_path)
{
    f->load.write_bytes = f->estimate.file_bytes;
    f->load.packing_bytes = f->estimate.packing_bytes;
    f->load.packing_bytes_per_second = f->estimate.packing_bytes_per_second;
    if (f->load.packing_bytes > f->load.digest_bytes)
        f->load.packing_bytes = f->load.digest_bytes;
    f->load.digest_bytes -= f->load.packing_bytes;
    cv_measure(in_path, out_path, &f->speeds);
    f->seconds = cv_expected_seconds(&f->speeds, &f->load);
    f->measured = true;
}

void
cv_forecast_fini(struct cv_forecast *f)
{
    cv_estimate_fini(&f->estimate);
}

static void
print_seconds(double seconds)
{
    if (seconds < 0)
        printf("not known");
    else if (seconds < 1)
        printf("under 1 s");
    else if (seconds < 120)
        printf("%.0f s", seconds);
    else if (seconds < 7200)
        printf("%.0f min", seconds / 60);
    else
        printf("%.1f h", seconds / 3600);
}

void
cv_forecast_print(const struct cv_forecast *f, bool rows)
{
    char a[32];
    char b[32];

    if (rows)
        print_rows(&f->estimate);
    printf("  estimate   %s%s\n",
           lode_format_bytes(f->estimate.file_bytes, a, sizeof(a)),
           f->estimate.unsampled ? ", parts without data taken as raw" : "");
    if (!f->measured)
        return;
    printf("  time       ");
    print_seconds(f->seconds);
    printf(": reading %s/s, writing %s/s%s\n",
           lode_format_bytes(f->speeds.read, a, sizeof(a)),
           lode_format_bytes(f->speeds.write, b, sizeof(b)),
           f->speeds.same_drive ? ", one drive for both" : "");
}

static json_t *
speed_json(uint64_t bytes_per_second)
{
    return bytes_per_second != 0 ? json_integer((json_int_t)bytes_per_second)
                                 : json_null();
}

bool
cv_forecast_json(const struct cv_forecast *f, json_t *o)
{
    if (!lode_json_set(o, "roles", rows_json(&f->estimate)) ||
        !lode_json_set(o, "file_bytes_estimate",
                       json_integer((json_int_t)f->estimate.file_bytes)))
        return false;
    return lode_json_set(o, "seconds_estimate",
                         f->measured && f->seconds >= 0 ? json_real(f->seconds)
                                                        : json_null()) &&
           lode_json_set(o, "read_bytes_per_second",
                         speed_json(f->speeds.read)) &&
           lode_json_set(o, "write_bytes_per_second",
                         speed_json(f->speeds.write));
}

/* ---- space ---- */

uint64_t
cv_space_free(const char *out_path)
{
    const char *slash = strrchr(out_path, '/');
    struct statvfs fs;
    char *folder;
    struct lode_error ignored;
    uint64_t bytes = 0;

    if (slash == NULL
            ? !lode_strndup(".", 1, &folder, &ignored)
            : !lode_strndup(out_path, (uint64_t)(slash - out_path) + 1, &folder,
                            &ignored))
        return 0;
    if (statvfs(folder, &fs) == 0)
        bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    free(folder);
    return bytes;
}

bool
cv_space_check(const struct cv_space *s, struct lode_error *err)
{
    bool zstd = s->zstd_bytes != 0 && s->zstd_bytes <= s->there_bytes;
    bool consume = s->consume_bytes != 0 && s->consume_bytes <= s->there_bytes;
    char advice[160] = "; choose another drive";

    if (s->there_bytes == 0 || s->needed_bytes <= s->there_bytes)
        return true;
    if (zstd)
        (void)snprintf(advice, sizeof(advice),
                       "; --codec zstd is expected to fit, in %" PRIu64
                       " bytes",
                       s->zstd_bytes);
    if (consume)
        (void)snprintf(advice + (zstd ? strlen(advice) : 0),
                       sizeof(advice) - (zstd ? strlen(advice) : 0),
                       "%s --consume gives up %s on the way and fits",
                       zstd ? ", and" : ";", s->consumed);
    return lode_fail(err, LODE_E_IO,
                     "%s: not enough space on the drive: %" PRIu64
                     " bytes are needed, %" PRIu64 " are available, %" PRIu64
                     " are missing%s",
                     s->path, s->needed_bytes, s->there_bytes,
                     s->needed_bytes - s->there_bytes, advice);
}
