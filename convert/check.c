/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts pass through the ring of flow.c: workers check them, each with memory
 * of its own, and the caller's thread tells what they found. */
#include "config.h"

#include "convert/check.h"

#include "convert/flow.h"

/* Nothing is read ahead: who checks a block reads it. */
static bool
read_part(void *user, uint32_t i, struct cv_slot *s, struct lode_error *err)
{
    (void)user;
    (void)i;
    (void)err;
    s->pieces.used_bytes = 0;
    return true;
}

static bool
check_part(void *user, uint32_t i, struct cv_slot *s, struct cv_worker *w,
           struct lode_error *err)
{
    return lode_verifier_check(user, i, &w->scratch, s->image, &s->pieces, err);
}

static bool
tell_part(void *user, uint32_t i, struct cv_slot *s, struct lode_error *err)
{
    return lode_verifier_tell(user, i, &s->pieces) ||
           lode_fail(err, LODE_E_CANCELLED, "cancelled");
}

bool
cv_check(const char *path, const struct lode_verify_options *opt, uint32_t jobs,
         uint64_t *fault_count, struct lode_error *err)
{
    struct lode_verifier *v;
    struct cv_job job = {
        .read = read_part, .make = check_part, .write = tell_part};
    bool ok;

    *fault_count = 0;
    if (!lode_verifier_open(path, opt, &v, err))
        return false;
    job.user = v;
    job.count = lode_verifier_part_count(v);
    job.largest_bytes = lode_verifier_image_bytes(v);
    ok = (job.count == 0 || cv_flow_run(&job, jobs, err) ||
          lode_fail_in(err, "%s", path)) &&
         lode_verifier_result(v, fault_count, err);
    if (!ok)
        (void)!lode_verifier_result(v, fault_count, &(struct lode_error){0});
    lode_verifier_close(v);
    return ok;
}
