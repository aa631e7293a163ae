/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/route.h"

#include <math.h>

#include "runtime/math.h"
#include "runtime/sampler.h"

/* Keeps a renormalised sum of zeros from dividing by zero; the published
 * code's constant. */
#define WEIGHT_EPS 1e-20F

static void
softmax(float *s, size_t n)
{
    float best = s[rt_argmax(s, n)];
    float total = 0;

    for (size_t i = 0; i < n; i++)
        s[i] -= best;
    rt_exp_n(s, s, n);
    for (size_t i = 0; i < n; i++)
        total += s[i];
    for (size_t i = 0; i < n; i++)
        s[i] /= total;
}

/* A group is worth its two best experts together. */
static float
group_score(const float *choice, uint32_t size)
{
    float first = -INFINITY;
    float second = -INFINITY;

    for (uint32_t i = 0; i < size; i++)
        if (choice[i] > first) {
            second = first;
            first = choice[i];
        } else if (choice[i] > second) {
            second = choice[i];
        }
    return size > 1 ? first + second : first;
}

/* Group-limited routing (DeepSeek-V3 technical report, 2.1.2): only experts of
 * the best groups can be chosen.  A group is out when as many groups as may be
 * chosen beat it; ties go to the lower group. */
static void
mask_groups(const struct rt_config *c, float *choice)
{
    uint32_t size = c->expert_count / c->group_count;
    float score[RT_GROUPS_MAX];

    for (uint32_t g = 0; g < c->group_count; g++)
        score[g] = group_score(choice + (size_t)g * size, size);
    for (uint32_t g = 0; g < c->group_count; g++) {
        uint32_t better = 0;

        for (uint32_t i = 0; i < c->group_count; i++)
            better += score[i] > score[g] || (score[i] == score[g] && i < g);
        if (better < c->group_chosen_count)
            continue;
        for (uint32_t i = 0; i < size; i++)
            choice[(size_t)g * size + i] = -INFINITY;
    }
}

static void
sort_ascending(const uint32_t *from, uint32_t count, uint32_t *to)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i;

        for (; at > 0 && to[at - 1] > from[i]; at--)
            to[at] = to[at - 1];
        to[at] = from[i];
    }
}

bool
rt_route(const struct rt_config *c, float *scores, const float *bias,
         float *choice, uint32_t *best, uint32_t *chosen, float *weight)
{
    float total = 0;

    if (c->router_sigmoid)
        rt_sigmoid_n(scores, scores, c->expert_count);
    else
        softmax(scores, c->expert_count);
    for (uint32_t i = 0; i < c->expert_count; i++) {
        choice[i] = scores[i] + bias[i];
        if (isnan(choice[i]))
            return false;
    }
    if (c->group_count > c->group_chosen_count)
        mask_groups(c, choice);
    rt_top_k(choice, c->expert_count, c->chosen_count, best);
    sort_ascending(best, c->chosen_count, chosen);
    for (uint32_t i = 0; i < c->chosen_count; i++)
        total += scores[chosen[i]];
    for (uint32_t i = 0; i < c->chosen_count; i++) {
        weight[i] = scores[chosen[i]];
        if (c->renormalise && c->chosen_count > 1)
            weight[i] /= total + WEIGHT_EPS;
        weight[i] *= c->routed_scale;
    }
    return true;
}
