/* SPDX-License-Identifier: Apache-2.0
 *
 * First everything but blocks, file by file, so that the index can be read;
 * then all faults are looked for; then blocks, one by one; then again. */
#include "config.h"

#include "convert/repair.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "convert/check.h"
#include "convert/supply.h"

/* A damaged block. */
struct spot {
    uint32_t block_index;
    uint32_t volume_index;
};

struct repair {
    const char *path;
    const struct cv_repair_options *opt;
    struct cv_repair_figures *figures;
    struct lode_buf spots;
    bool unread;          /* of a dry run: blocks could not be looked at */
    bool telling;
    bool no_memory;
};

__attribute__((format(printf, 3, 4))) static void
tell(const struct repair *x, bool good, const char *fmt, ...)
{
    char line[900];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap); /* may be cut */
    va_end(ap);
    x->opt->tell(x->opt->user, good, line);
}

/* ---- frames ---- */

/* The source itself, and the volumes of it that can be found, as far as they
 * may have the index of a file of ours.  A list that NULL ends, for
 * lode_reader_close(*r) and free(). */
static bool
list_sources(const struct repair *x, struct lode_reader **r, const char ***out,
             struct lode_error *err)
{
    struct lode_error ignored; /* a checkpoint, say */
    uint32_t count = 1;
    void *p = NULL;

    *r = NULL;
    if (lode_reader_open_in(x->opt->source, x->opt->folders->items, r,
                            &ignored) &&
        lode_reader_summary(*r)->volume_index == 0)
        count = lode_reader_summary(*r)->volume_count;
    if (!lode_alloc_array((uint64_t)count + 1, sizeof(char *), "sources", &p,
                          err))
        return false;
    *out = p;
    (*out)[0] = x->opt->source;
    for (uint32_t i = 1, n = 1; i < count; i++)
        if (lode_reader_volume(*r, i)->path != NULL)
            (*out)[n++] = lode_reader_volume(*r, i)->path;
    return true;
}

static bool
mend_file(struct repair *x, const char *path, const char *const *sources,
          struct lode_error *err)
{
    const char *would = x->opt->dry_run ? "would be " : "";
    struct cv_repair_figures *f = x->figures;
    struct lode_mended done = {0};
    struct lode_mender *m;
    bool ok;

    if (!lode_mender_open(path, x->opt->dry_run, &m, err))
        return false;
    ok = lode_mender_frame(m, sources, &done, err);
    lode_mender_close(m);
    if (done.size)
        tell(x, true, "%s: %sbrought to its size", path, would);
    if (done.section_count != 0)
        tell(x, true, "%s: %" PRIu32 " sections of the index %staken from %s",
             path, done.section_count, would, x->opt->source);
    if (done.zeroed_bytes != 0)
        tell(x, true, "%s: %" PRIu64 " bytes of padding %szeroed", path,
             done.zeroed_bytes, would);
    if (done.slot)
        tell(x, true, "%s: a superblock %swritten again", path, would);
    f->section_count += done.section_count;
    f->slot_count += done.slot;
    f->zeroed_bytes += done.zeroed_bytes;
    x->unread = x->unread ||
                (x->opt->dry_run && (done.size || done.section_count != 0));
    return ok;
}

/* The head, or only, file; then the volumes that it names. */
static bool
mend_files(struct repair *x, struct lode_error *err)
{
    const struct lode_verify_options fast = {.level = LODE_VERIFY_FAST,
                                             .folders = x->opt->folders->items};
    struct lode_verifier *v = NULL;
    struct lode_reader *r = NULL;
    const char **sources = NULL;
    uint32_t volume_index;
    const char *path;
    bool ok = list_sources(x, &r, &sources, err) &&
              mend_file(x, x->path, sources, err) &&
              lode_verifier_open(x->path, &fast, &v, err);

    for (uint32_t i = 1;
         ok && (path = lode_verifier_file(v, i, &volume_index)) != NULL; i++)
        ok = mend_file(x, path, sources, err);
    lode_verifier_close(v);
    lode_reader_close(r);
    free(sources);
    return ok;
}

/* ---- faults ---- */

static void
on_fault(void *user, const struct lode_fault *f)
{
    struct repair *x = user;
    const struct spot s = {.block_index = (uint32_t)f->block_index,
                           .volume_index = f->volume_index};
    struct lode_error ignored; /* no_memory says it */
    struct spot last;

    if (x->telling)
        tell(x, false, "%s: %s", f->where, f->what);
    if (f->block_index == LODE_NO_INDEX)
        return;
    if (x->spots.used_bytes != 0) {
        memcpy(&last, x->spots.data + x->spots.used_bytes - sizeof(last),
               sizeof(last));
        if (last.block_index == s.block_index)
            return; /* faults of one block come one behind the other */
    }
    if (!lode_buf_append(&x->spots, &s, sizeof(s), &ignored))
        x->no_memory = true;
}

static bool
on_progress(void *user, uint64_t bytes)
{
    (void)user;
    (void)bytes;
    return lode_cancelled == 0;
}

static bool
look(struct repair *x, uint64_t *fault_count, struct lode_error *err)
{
    const struct lode_verify_options opt = {.fault = on_fault,
                                            .progress = on_progress,
                                            .user = x,
                                            .folders = x->opt->folders->items,
                                            .level = LODE_VERIFY_STRICT};

    x->spots.used_bytes = 0;
    if (!cv_check(x->path, &opt, x->opt->jobs, fault_count, err) &&
        (err->code != LODE_E_CORRUPT || *fault_count == 0))
        return false;
    return !x->no_memory || lode_fail(err, LODE_E_NOMEM, "out of memory");
}

/* ---- blocks ---- */

/* Menders of the files of a set, opened when first wanted. */
struct menders {
    struct lode_mender **m; /* by volume */
    uint32_t count;
};

static bool
get_mender(struct menders *all, const struct repair *x,
           const struct lode_reader *r, uint32_t volume_index,
           struct lode_mender **out, struct lode_error *err)
{
    uint32_t i = lode_reader_summary(r)->volume_index != 0 ? 0 : volume_index;
    struct lode_mended ignored;

    if (i >= all->count)
        return lode_fail(err, LODE_E_CORRUPT, "no volume %" PRIu32, i);
    if (all->m[i] == NULL &&
        (!lode_mender_open(lode_reader_volume(r, i)->path, x->opt->dry_run,
                           &all->m[i], err) ||
         !lode_mender_frame(all->m[i], NULL, &ignored, err)))
        return false;
    *out = all->m[i];
    return true;
}

static bool
mend_block(struct repair *x, const struct lode_reader *r, struct cv_supply *s,
           struct menders *all, const struct spot *spot, struct lode_error *err)
{
    struct lode_mender *m = NULL;
    const void *stored;
    uint32_t stored_bytes;

    return get_mender(all, x, r, spot->volume_index, &m, err) &&
           cv_supply_block(s, spot->block_index, &stored, &stored_bytes, err) &&
           lode_mender_block(m, spot->block_index, stored, stored_bytes, err);
}

static bool
mend_blocks(struct repair *x, const struct lode_reader *r, struct cv_supply *s,
            struct menders *all, struct lode_error *err)
{
    const struct spot *spots = (const void *)x->spots.data;
    uint32_t count = (uint32_t)(x->spots.used_bytes / sizeof(*spots));

    x->figures->block_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct lode_error why;
        char name[256];

        lode_reader_block_name(r, spots[i].block_index, name, sizeof(name));
        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "cancelled");
        if (mend_block(x, r, s, all, &spots[i], &why)) {
            x->figures->repaired_count++;
            tell(x, true, "%s: %srepaired", name,
                 x->opt->dry_run ? "would be " : "");
        } else if (why.code == LODE_E_NOMEM || why.code == LODE_E_CANCELLED) {
            *err = why;
            return false;
        } else {
            tell(x, false, "%s: not repaired: %s", name, why.text);
        }
    }
    return true;
}

static bool
repair_blocks(struct repair *x, struct lode_error *err)
{
    struct lode_reader *r = NULL;
    struct cv_supply *s = NULL;
    struct menders all = {0};
    uint8_t *contents = NULL;
    uint8_t *stored = NULL;
    void *p = NULL;
    bool ok;

    ok = lode_reader_open_in(x->path, x->opt->folders->items, &r, err) &&
         lode_reader_digests(r, &contents, &stored, err) &&
         cv_supply_open(x->opt->source, x->opt->folders->items, r, contents,
                        stored, &s, err);
    if (ok) {
        all.count = lode_reader_summary(r)->volume_index != 0
                        ? 1
                        : lode_reader_summary(r)->volume_count;
        ok = lode_alloc_array(all.count, sizeof(struct lode_mender *), "files",
                              &p, err);
        all.m = p;
    }
    ok = ok && mend_blocks(x, r, s, &all, err);
    for (uint32_t i = 0; all.m != NULL && i < all.count; i++)
        lode_mender_close(all.m[i]);
    free(all.m);
    cv_supply_close(s);
    free(contents);
    free(stored);
    lode_reader_close(r);
    return ok;
}

/* ---- the whole ---- */

static bool
run(struct repair *x, struct lode_error *err)
{
    struct cv_repair_figures *f = x->figures;
    uint64_t faults;

    if (!look(x, &f->fault_count, err) && err->code != LODE_E_CORRUPT)
        return false;
    if (f->fault_count == 0)
        return true;
    if (!mend_files(x, err))
        return false;
    if (x->unread) {
        f->left_count = f->fault_count;
        tell(x, false, "blocks are looked at only when the index is whole");
        return true;
    }
    if (!look(x, &faults, err))
        return false;
    if (x->spots.used_bytes != 0 && !repair_blocks(x, err))
        return false;
    if (x->opt->dry_run) {
        f->left_count = f->block_count - f->repaired_count;
        return true;
    }
    x->telling = true;
    return look(x, &f->left_count, err);
}

bool
cv_repair(const char *path, const struct cv_repair_options *opt,
          struct cv_repair_figures *out, struct lode_error *err)
{
    struct repair x = {.path = path, .opt = opt, .figures = out};
    bool ok;

    memset(out, 0, sizeof(*out));
    ok = run(&x, err);
    lode_buf_fini(&x.spots);
    return ok;
}
