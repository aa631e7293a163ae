/* SPDX-License-Identifier: Apache-2.0
 *
 * Routing against a plain restatement with full sorting. */
#include "config.h"

#include "tests/tap.h"

#include <math.h>

#include "runtime/math.h"
#include "runtime/route.h"

enum { EXPERTS = 24, K = 4 };

static uint32_t random_state = 1;

static uint32_t
next_random(void)
{
    random_state = random_state * 1664525U + 1013904223U;
    return random_state >> 8;
}

static struct rt_config
make_config(uint32_t groups, uint32_t chosen_groups)
{
    struct rt_config c;

    memset(&c, 0, sizeof(c));
    c.expert_count = EXPERTS;
    c.chosen_count = K;
    c.router_sigmoid = true;
    c.renormalise = true;
    c.routed_scale = 2.5F;
    c.group_count = groups;
    c.group_chosen_count = chosen_groups;
    return c;
}

/* Is a a better choice than b?  Ties go to the lower number. */
static bool
better(const float *v, uint32_t a, uint32_t b)
{
    return v[a] > v[b] || (v[a] == v[b] && a < b);
}

static void
rank(const float *v, uint32_t n, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i + 1; j < n; j++)
            if (better(v, order[j], order[i])) {
                uint32_t swap = order[i];

                order[i] = order[j];
                order[j] = swap;
            }
}

/* The choice by definition: rank groups by their two best, rank experts of
 * the groups kept. */
static void
expected_choice(const struct rt_config *c, const float *choice, uint32_t *best)
{
    uint32_t size = EXPERTS / c->group_count;
    float group[EXPERTS];
    float masked[EXPERTS];
    uint32_t order[EXPERTS];

    for (uint32_t g = 0; g < c->group_count; g++) {
        rank(choice + g * size, size, order);
        group[g] = choice[g * size + order[0]];
        if (size > 1)
            group[g] += choice[g * size + order[1]];
    }
    for (uint32_t i = 0; i < EXPERTS; i++)
        masked[i] = -INFINITY;
    rank(group, c->group_count, order);
    for (uint32_t g = 0; g < c->group_count && g < c->group_chosen_count; g++)
        memcpy(masked + order[g] * size, choice + order[g] * size,
               size * sizeof(float));
    rank(masked, EXPERTS, order);
    memcpy(best, order, K * sizeof(*best));
}

static bool
one_case(const struct rt_config *c, bool ties)
{
    float logits[EXPERTS];
    float scores[EXPERTS];
    float bias[EXPERTS];
    float choice[EXPERTS];
    float want[EXPERTS];
    float weight[K];
    uint32_t best[K];
    uint32_t chosen[K];
    uint32_t want_best[K];
    float total = 0;

    for (uint32_t i = 0; i < EXPERTS; i++) {
        logits[i] = ties ? (float)(next_random() % 3)
                         : (float)(next_random() % 4096) / 512 - 4;
        bias[i] = ties ? 0 : (float)(next_random() % 1024) / 4096;
        scores[i] = logits[i];
        want[i] = rt_sigmoid(logits[i]) + bias[i];
    }
    if (!rt_route(c, scores, bias, choice, best, chosen, weight))
        return false;
    expected_choice(c, want, want_best);
    if (memcmp(best, want_best, sizeof(best)) != 0)
        return false;
    for (uint32_t k = 0; k < K; k++) {
        if (k > 0 && chosen[k] <= chosen[k - 1])
            return false;
        total += rt_sigmoid(logits[chosen[k]]);
    }
    for (uint32_t k = 0; k < K; k++) {
        float w = rt_sigmoid(logits[chosen[k]]) / (total + 1e-20F) *
                  c->routed_scale;
        bool found = false;

        for (uint32_t j = 0; j < K; j++)
            found = found || best[j] == chosen[k];
        if (weight[k] != w || !found)
            return false;
    }
    return true;
}

static void
test_against_definition(void)
{
    static const uint32_t groups[][2] = {{1, 1}, {4, 2}, {8, 3}, {12, 2},
                                         {4, 4}, {24, 6}, {4, 9}};

    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        struct rt_config c = make_config(groups[i][0], groups[i][1]);
        unsigned good = 0;
        unsigned good_ties = 0;

        for (unsigned n = 0; n < 500; n++) {
            good += one_case(&c, false);
            good_ties += one_case(&c, true);
        }
        is_u64(good, 500, "%u of %u groups", groups[i][1], groups[i][0]);
        is_u64(good_ties, 500, "%u of %u groups, with ties", groups[i][1],
               groups[i][0]);
    }
}

static void
test_edges(void)
{
    struct rt_config c = make_config(1, 1);
    float scores[EXPERTS] = {0};
    float bias[EXPERTS] = {0};
    float choice[EXPERTS];
    float weight[K];
    uint32_t best[K];
    uint32_t chosen[K];
    float sum = 0;

    c.router_sigmoid = false;
    c.renormalise = false;
    c.routed_scale = 1;
    ok(rt_route(&c, scores, bias, choice, best, chosen, weight), "softmax");
    for (uint32_t k = 0; k < K; k++)
        sum += weight[k];
    ok(best[0] == 0 && best[3] == 3, "all equal: the lowest numbers");
    ok(fabsf(sum - (float)K / EXPERTS) < 1e-6F, "weights are probabilities");

    memset(scores, 0, sizeof(scores));
    scores[5] = NAN;
    ok(!rt_route(&c, scores, bias, choice, best, chosen, weight),
       "NaN is refused");

    c = make_config(1, 1);
    memset(scores, 0, sizeof(scores));
    bias[7] = 100;
    ok(rt_route(&c, scores, bias, choice, best, chosen, weight) && best[0] == 7,
       "the bias decides the choice");
    ok(weight[0] == weight[3], "but not the weight");
    c.chosen_count = 1;
    ok(rt_route(&c, scores, bias, choice, best, chosen, weight) &&
           weight[0] == rt_sigmoid(rt_sigmoid(0)) * c.routed_scale,
       "one expert's weight is not divided by itself");
}

/* Experts that a layer lacks have the score and the bias -inf: they change
 * nothing for the others. */
static void
test_left_out(void)
{
    for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        struct rt_config c = make_config(1, 1);
        float few[EXPERTS];
        float all[EXPERTS];
        float bias[EXPERTS];
        float choice[EXPERTS];
        float weight[K];
        float want[K];
        uint32_t best[K];
        uint32_t want_best[K];
        uint32_t chosen[K];

        c.router_sigmoid = sigmoid != 0;
        for (uint32_t i = 0; i < EXPERTS; i++) {
            bool here = i < K + 1;

            all[i] = here ? -50 - (float)(next_random() % 64) : -INFINITY;
            bias[i] = here ? -3 : -INFINITY;
            few[i] = all[i];
        }
        ok(rt_route(&c, all, bias, choice, best, chosen, weight),
           "scores of experts that are not there are no failure");
        c.expert_count = K + 1;
        ok(rt_route(&c, few, bias, choice, want_best, chosen, want),
           "the same without them");
        ok(memcmp(best, want_best, sizeof(best)) == 0 &&
               memcmp(weight, want, sizeof(weight)) == 0,
           "the same choice and weights");
    }
}

int
main(void)
{
    test_left_out();
    test_against_definition();
    test_edges();
    return done_testing();
}
