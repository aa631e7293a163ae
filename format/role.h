/* SPDX-License-Identifier: Apache-2.0
 *
 * What a tensor is for: the words that naming tables (convert/) and forward
 * passes (runtime/) share.  Numbers are written into containers and never
 * change (docs/roles.md, docs/format.md appendix B). */

#ifndef LODE_FORMAT_ROLE_H
#define LODE_FORMAT_ROLE_H

#include <stdint.h>

enum lode_role {
    LODE_ROLE_NONE = 0,
    /* one expert; _SCALE belongs to the weight before it */
    LODE_ROLE_GATE = 1,
    LODE_ROLE_GATE_SCALE = 2,
    LODE_ROLE_UP = 4,
    LODE_ROLE_UP_SCALE = 5,
    LODE_ROLE_DOWN = 7,
    LODE_ROLE_DOWN_SCALE = 8,
    /* routing */
    LODE_ROLE_ROUTER = 16,      /* [experts, hidden] */
    LODE_ROLE_ROUTER_BIAS = 17, /* selection bias, [experts] */
    /* model level */
    LODE_ROLE_EMBEDDING = 20,  /* [vocabulary, hidden] */
    LODE_ROLE_HEAD = 21,       /* [vocabulary, hidden] */
    LODE_ROLE_FINAL_NORM = 22, /* [hidden] */
    LODE_ROLE_OUTPUT_MIX_NORM = 23,
    LODE_ROLE_OUTPUT_MIX_PROJ = 24,
    /* a layer's norms and residual mixes */
    LODE_ROLE_ATTN_NORM = 30,
    LODE_ROLE_MLP_NORM = 31,
    LODE_ROLE_ATTN_MIX_NORM = 32,
    LODE_ROLE_ATTN_MIX_PROJ = 33,
    LODE_ROLE_MLP_MIX_NORM = 34,
    LODE_ROLE_MLP_MIX_PROJ = 35,
    /* attention projections */
    LODE_ROLE_Q = 40,
    LODE_ROLE_K = 41,
    LODE_ROLE_V = 42,
    LODE_ROLE_O = 43,
    LODE_ROLE_G = 44, /* output gate, full rank */
    LODE_ROLE_G_A = 45,
    LODE_ROLE_G_B = 46,
    LODE_ROLE_Q_A = 47,
    LODE_ROLE_Q_A_NORM = 48,
    LODE_ROLE_Q_B = 49,
    LODE_ROLE_KV_A = 50,
    LODE_ROLE_KV_A_NORM = 51,
    LODE_ROLE_KV_B = 52,
    /* KDA */
    LODE_ROLE_Q_CONV = 60,
    LODE_ROLE_K_CONV = 61,
    LODE_ROLE_V_CONV = 62,
    LODE_ROLE_DECAY_A = 63,    /* f_a_proj */
    LODE_ROLE_DECAY_B = 64,    /* f_b_proj */
    LODE_ROLE_DECAY_LOG = 65,  /* A_log */
    LODE_ROLE_DECAY_BIAS = 66, /* dt_bias */
    LODE_ROLE_BETA = 67,       /* b_proj */
    LODE_ROLE_O_NORM = 68,
    /* MLPs that every token needs */
    LODE_ROLE_DENSE_GATE = 80,
    LODE_ROLE_DENSE_UP = 81,
    LODE_ROLE_DENSE_DOWN = 82,
    LODE_ROLE_SHARED_GATE = 83,
    LODE_ROLE_SHARED_UP = 84,
    LODE_ROLE_SHARED_DOWN = 85,
    LODE_ROLE_LATENT_DOWN = 86, /* hidden -> latent, before routed experts */
    LODE_ROLE_LATENT_UP = 87,
    LODE_ROLE_LATENT_NORM = 88,
};

/* "router", "q", ...; "unknown role" for numbers this build does not know. */
const char *lode_role_name(uint16_t role);

#endif
