/* SPDX-License-Identifier: Apache-2.0
 *
 * A draw is: weights relative to the best candidate, exp((logit - best) /
 * temperature), their sum in float64 in the order of the candidates, and the
 * first candidate at which the running sum exceeds u times the sum.  Taking the
 * difference first keeps every temperature and an infinite logit harmless.
 *
 * u comes from Philox4x32-10 with the seed as key and the count of draws as
 * counter: no state but the count, so step n is the same however it was
 * reached. */
#include "config.h"

#include "runtime/sampler.h"

#include <math.h> /* isnan, isfinite: macros, no calls */
#include <stdlib.h>

#include "base/mem.h"
#include "runtime/math.h"

/* What is known of an id. */
enum { MARK_SEEN = 1, MARK_FORBIDDEN = 2 };

struct rt_sampler {
    struct rt_sampler_options opt;
    uint32_t vocab_rows;
    uint64_t step;   /* picks so far */
    uint8_t *marks;  /* [vocab_rows] bits */
    uint32_t *ids;   /* [vocab_rows] candidates */
    float *weights;  /* [vocab_rows] of the candidates, in the same order */
};

/* Candidates ids[0 .. count) with their weights, which add up to total. */
struct candidates {
    size_t count;
    double total;
};

/* Ten rounds of the generator; the first two of its four words. */
static uint64_t
philox(uint64_t key, uint64_t counter)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = 0, c3 = 0;

    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * 0xd2511f53U;
        uint64_t p1 = (uint64_t)c2 * 0xcd9e8d57U;

        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9e3779b9U;
        k1 += 0xbb67ae85U;
    }
    return (uint64_t)c1 << 32 | c0;
}

/* In [0, 1), a multiple of 2^-53. */
static double
uniform(uint64_t key, uint64_t counter)
{
    return (double)(philox(key, counter) >> 11) * 0x1p-53;
}

static bool
check_options(const struct rt_sampler_options *o, struct lode_error *err)
{
    /* Written so that NaN is refused. */
    if (!(o->temperature >= 0.0) || !isfinite(o->temperature))
        return lode_fail(err, LODE_E_USAGE,
                         "temperature %g: expected 0 or more", o->temperature);
    if (!(o->top_p > 0.0 && o->top_p <= 1.0))
        return lode_fail(err, LODE_E_USAGE,
                         "top-p %g: expected more than 0, at most 1", o->top_p);
    if (!(o->min_p >= 0.0 && o->min_p < 1.0))
        return lode_fail(err, LODE_E_USAGE,
                         "min-p %g: expected 0 or more, less than 1", o->min_p);
    if (!(o->repetition_penalty > 0.0) || !isfinite(o->repetition_penalty))
        return lode_fail(err, LODE_E_USAGE,
                         "repetition penalty %g: expected more than 0",
                         o->repetition_penalty);
    return true;
}

bool
rt_sampler_new(const struct rt_sampler_options *opt, uint32_t vocab_rows,
               struct rt_sampler **out, struct lode_error *err)
{
    struct rt_sampler *s;
    void *p;

    if (!check_options(opt, err))
        return false;
    if (vocab_rows == 0)
        return lode_fail(err, LODE_E_USAGE, "sampler: an empty vocabulary");
    if (!lode_alloc_array(1, sizeof(*s), "sampler", &p, err))
        return false;
    s = p;
    s->opt = *opt;
    s->vocab_rows = vocab_rows;
    if (!lode_alloc_array(vocab_rows, sizeof(*s->marks), "sampler", &p, err))
        goto fail;
    s->marks = p;
    if (!lode_alloc_array(vocab_rows, sizeof(*s->ids), "sampler", &p, err))
        goto fail;
    s->ids = p;
    if (!lode_alloc_array(vocab_rows, sizeof(*s->weights), "sampler", &p, err))
        goto fail;
    s->weights = p;
    *out = s;
    return true;

fail:
    rt_sampler_free(s);
    return false;
}

void
rt_sampler_free(struct rt_sampler *s)
{
    if (s == NULL)
        return;
    free(s->weights);
    free(s->ids);
    free(s->marks);
    free(s);
}

void
rt_sampler_saw(struct rt_sampler *s, uint32_t id)
{
    if (id < s->vocab_rows)
        s->marks[id] |= MARK_SEEN;
}

void
rt_sampler_forbid(struct rt_sampler *s, uint32_t id)
{
    if (id < s->vocab_rows)
        s->marks[id] |= MARK_FORBIDDEN;
}

/* What is forbidden gets the weight 0, and even that is no NaN before. */
static bool
check_logits(const struct rt_sampler *s, float *logits, struct lode_error *err)
{
    size_t finite_count = 0;

    for (size_t i = 0; i < s->vocab_rows; i++) {
        if (isnan(logits[i]))
            return lode_fail(err, LODE_E_CORRUPT,
                             "logit of token %zu is not a number", i);
        if ((s->marks[i] & MARK_FORBIDDEN) != 0)
            logits[i] = -INFINITY;
        finite_count += isfinite(logits[i]) != 0;
    }
    if (finite_count == 0)
        return lode_fail(err, LODE_E_CORRUPT, "no logit is finite");
    return true;
}

static void
penalise(const struct rt_sampler *s, float *logits)
{
    double penalty = s->opt.repetition_penalty;

    if (!(penalty < 1.0 || penalty > 1.0))
        return;
    for (size_t i = 0; i < s->vocab_rows; i++)
        if ((s->marks[i] & MARK_SEEN) != 0)
            logits[i] = (float)(logits[i] > 0.0F ? logits[i] / penalty
                                                 : logits[i] * penalty);
}

/* exp((x - best) / temperature); equal infinities differ by 0. */
static float
weigh(float x, float best, double temperature)
{
    double below = x >= best ? 0.0 : ((double)x - (double)best) / temperature;

    /* Outside of float32's range a cast is not defined; the result is 0. */
    return rt_exp(below < -1000.0 ? -1000.0F : (float)below);
}

/* Top-k, in the order of ids unless a later step needs best first. */
static struct candidates
choose_candidates(struct rt_sampler *s, const float *logits)
{
    struct candidates c = {s->vocab_rows, 0.0};
    float best = logits[rt_argmax(logits, s->vocab_rows)];
    bool by_k = s->opt.top_k > 0 && s->opt.top_k < s->vocab_rows;

    if (by_k)
        c.count = (size_t)s->opt.top_k;
    if (by_k || s->opt.top_p < 1.0) {
        rt_top_k(logits, s->vocab_rows, c.count, s->ids);
    } else {
        for (size_t i = 0; i < c.count; i++)
            s->ids[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < c.count; i++) {
        s->weights[i] = weigh(logits[s->ids[i]], best, s->opt.temperature);
        c.total += (double)s->weights[i];
    }
    return c;
}

/* The fewest best candidates that have at least top_p of the whole. */
static void
cut_top_p(const struct rt_sampler *s, struct candidates *c)
{
    double wanted = s->opt.top_p * c->total;
    double sum = 0.0;

    if (!(s->opt.top_p < 1.0))
        return;
    for (size_t i = 0; i < c->count; i++) {
        sum += (double)s->weights[i];
        if (sum >= wanted) {
            c->count = i + 1;
            c->total = sum;
            return;
        }
    }
}

/* Those with at least min_p of the best one's weight, which is 1. */
static void
cut_min_p(struct rt_sampler *s, struct candidates *c)
{
    size_t kept = 0;

    if (!(s->opt.min_p > 0.0))
        return;
    c->total = 0.0;
    for (size_t i = 0; i < c->count; i++) {
        if ((double)s->weights[i] < s->opt.min_p)
            continue;
        s->ids[kept] = s->ids[i];
        s->weights[kept] = s->weights[i];
        c->total += (double)s->weights[kept++];
    }
    c->count = kept;
}

static uint32_t
draw(const struct rt_sampler *s, const struct candidates *c, double u)
{
    double target = u * c->total;
    double sum = 0.0;
    uint32_t last = s->ids[0];

    for (size_t i = 0; i < c->count; i++) {
        sum += (double)s->weights[i];
        if (s->weights[i] > 0.0F)
            last = s->ids[i];
        if (target < sum)
            break;
    }
    return last; /* rounding may have put target at the very end */
}

bool
rt_sampler_pick(struct rt_sampler *s, float *logits, uint32_t *id,
                struct lode_error *err)
{
    struct candidates c;

    if (!check_logits(s, logits, err))
        return false;
    penalise(s, logits);
    if (!(s->opt.temperature > 0.0)) {
        *id = (uint32_t)rt_argmax(logits, s->vocab_rows);
    } else {
        c = choose_candidates(s, logits);
        cut_top_p(s, &c);
        cut_min_p(s, &c);
        *id = draw(s, &c, uniform(s->opt.seed, s->step));
    }
    s->step++;
    return true;
}

size_t
rt_argmax(const float *x, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best])
            best = i;
    return best;
}

static bool
is_better(const float *x, uint32_t a, uint32_t b)
{
    return x[a] > x[b] || (!(x[a] < x[b]) && a < b);
}

/* ids[0 .. k) is a heap with its worst on top, but for what is at place at. */
static void
sift_down(const float *x, uint32_t *ids, size_t k, size_t at)
{
    uint32_t id = ids[at];

    while (2 * at + 1 < k) {
        size_t child = 2 * at + 1;

        if (child + 1 < k && is_better(x, ids[child], ids[child + 1]))
            child++;
        if (!is_better(x, id, ids[child]))
            break;
        ids[at] = ids[child];
        at = child;
    }
    ids[at] = id;
}

void
rt_top_k(const float *x, size_t n, size_t k, uint32_t *ids)
{
    if (k == 0)
        return;
    for (size_t i = 0; i < k; i++)
        ids[i] = (uint32_t)i;
    for (size_t i = k / 2; i > 0; i--)
        sift_down(x, ids, k, i - 1);
    for (size_t i = k; i < n; i++) {
        if (x[i] > x[ids[0]]) { /* ties stay with the lower index */
            ids[0] = (uint32_t)i;
            sift_down(x, ids, k, 0);
        }
    }
    /* The worst goes to the end, again and again. */
    for (size_t left = k - 1; left > 0; left--) {
        uint32_t worst = ids[0];

        ids[0] = ids[left];
        ids[left] = worst;
        sift_down(x, ids, left, 0);
    }
}

/* log(s) = k log 2 + log(m): the cut keeps float32's error at that of m. */
double
rt_log_probability(const float *logits, size_t n, uint32_t id)
{
    const double log_2 = 0x1.62e42fefa39efp-1;
    float best = logits[rt_argmax(logits, n)];
    double sum = 0.0, k = 0.0;

    for (size_t i = 0; i < n; i++)
        sum += (double)weigh(logits[i], best, 1.0);
    while (sum >= 0x1.6p0) {
        sum *= 0.5;
        k += 1.0;
    }
    return (logits[id] >= best ? 0.0 : (double)logits[id] - (double)best) -
           (k * log_2 + (double)rt_log((float)sum));
}
