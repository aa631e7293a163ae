/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "format/role.h"

#include <stdio.h>

static const char *const names[] = {
    [LODE_ROLE_NONE] = "none",
    [LODE_ROLE_GATE] = "gate",
    [LODE_ROLE_GATE_SCALE] = "gate scale",
    [LODE_ROLE_UP] = "up",
    [LODE_ROLE_UP_SCALE] = "up scale",
    [LODE_ROLE_DOWN] = "down",
    [LODE_ROLE_DOWN_SCALE] = "down scale",
    [LODE_ROLE_ROUTER] = "router",
    [LODE_ROLE_ROUTER_BIAS] = "router bias",
    [LODE_ROLE_EMBEDDING] = "embedding",
    [LODE_ROLE_HEAD] = "head",
    [LODE_ROLE_FINAL_NORM] = "final norm",
    [LODE_ROLE_OUTPUT_MIX_NORM] = "output mix norm",
    [LODE_ROLE_OUTPUT_MIX_PROJ] = "output mix projection",
    [LODE_ROLE_ATTN_NORM] = "attention norm",
    [LODE_ROLE_MLP_NORM] = "mlp norm",
    [LODE_ROLE_ATTN_MIX_NORM] = "attention mix norm",
    [LODE_ROLE_ATTN_MIX_PROJ] = "attention mix projection",
    [LODE_ROLE_MLP_MIX_NORM] = "mlp mix norm",
    [LODE_ROLE_MLP_MIX_PROJ] = "mlp mix projection",
    [LODE_ROLE_Q] = "q",
    [LODE_ROLE_K] = "k",
    [LODE_ROLE_V] = "v",
    [LODE_ROLE_O] = "o",
    [LODE_ROLE_G] = "output gate",
    [LODE_ROLE_G_A] = "output gate a",
    [LODE_ROLE_G_B] = "output gate b",
    [LODE_ROLE_Q_A] = "q a",
    [LODE_ROLE_Q_A_NORM] = "q a norm",
    [LODE_ROLE_Q_B] = "q b",
    [LODE_ROLE_KV_A] = "kv a",
    [LODE_ROLE_KV_A_NORM] = "kv a norm",
    [LODE_ROLE_KV_B] = "kv b",
    [LODE_ROLE_Q_CONV] = "q convolution",
    [LODE_ROLE_K_CONV] = "k convolution",
    [LODE_ROLE_V_CONV] = "v convolution",
    [LODE_ROLE_DECAY_A] = "decay a",
    [LODE_ROLE_DECAY_B] = "decay b",
    [LODE_ROLE_DECAY_LOG] = "decay log",
    [LODE_ROLE_DECAY_BIAS] = "decay bias",
    [LODE_ROLE_BETA] = "beta",
    [LODE_ROLE_O_NORM] = "o norm",
    [LODE_ROLE_DENSE_GATE] = "dense gate",
    [LODE_ROLE_DENSE_UP] = "dense up",
    [LODE_ROLE_DENSE_DOWN] = "dense down",
    [LODE_ROLE_SHARED_GATE] = "shared gate",
    [LODE_ROLE_SHARED_UP] = "shared up",
    [LODE_ROLE_SHARED_DOWN] = "shared down",
    [LODE_ROLE_LATENT_DOWN] = "latent down",
    [LODE_ROLE_LATENT_UP] = "latent up",
    [LODE_ROLE_LATENT_NORM] = "latent norm",
};

const char *
lode_role_name(uint16_t role)
{
    if (role < sizeof(names) / sizeof(names[0]) && names[role] != NULL)
        return names[role];
    return "unknown role";
}
