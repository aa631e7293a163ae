/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "runtime/budget.h"

bool
rt_state_new(const struct rt_config *c, uint64_t context_tokens,
             struct rt_state *out, struct lode_error *err)
{
    size_t kda = (size_t)c->kda_heads * c->kda_width;
    struct rt_state s;
    float *next;
    void *p = NULL;

    memset(&s, 0, sizeof(s));
    s.context_tokens = context_tokens;
    s.bytes = rt_state_bytes(c, context_tokens);
    if (!lode_alloc_array(c->layer_count, sizeof(*s.layers), "state", &p, err))
        return false;
    s.layers = p;
    if (!lode_alloc_aligned(s.bytes, "state", &p, err)) {
        free(s.layers);
        return false;
    }
    s.memory = p;
    next = p;
    for (uint32_t i = 0; i < c->layer_count; i++) {
        struct rt_layer_state *l = &s.layers[i];

        if (c->is_kda[i] != 0) {
            l->s = next;
            next += kda * c->kda_width;
            l->history = next;
            next += 3 * (size_t)(c->conv_taps - 1) * kda;
        } else {
            l->latent = next;
            next += context_tokens * (c->kv_latent_width + c->rope_width);
        }
    }
    *out = s;
    return true;
}

void
rt_state_free(struct rt_state *s)
{
    lode_free_aligned(s->memory, s->bytes);
    free(s->layers);
    memset(s, 0, sizeof(*s));
}

void
rt_state_reset(const struct rt_config *c, struct rt_state *s)
{
    size_t kda = (size_t)c->kda_heads * c->kda_width;

    /* Latents beyond the position are never read, so they may stay. */
    for (uint32_t i = 0; i < c->layer_count; i++) {
        if (c->is_kda[i] == 0)
            continue;
        memset(s->layers[i].s, 0, kda * c->kda_width * sizeof(float));
        memset(s->layers[i].history, 0,
               3 * (size_t)(c->conv_taps - 1) * kda * sizeof(float));
    }
    s->position = 0;
}
