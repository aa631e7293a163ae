/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's reading of config.json and generation_config.json: no crash,
 * and whatever is accepted keeps the bounds that later arithmetic relies on. */
#include "config.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/budget.h"
#include "runtime/model_config.h"
#include "runtime/work.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct rt_config c;
    struct lode_error err;
    struct rt_work_shape shape = {512, 1U << 30, 256, true};

    if (!rt_config_parse((const char *)data, bytes, &c, &err)) {
        assert(err.code != LODE_E_NONE && err.text[0] != '\0');
        return 0;
    }
    assert(c.layer_count >= 1 && c.layer_count <= RT_LAYERS_MAX);
    assert(c.expert_count == 0 ||
           (c.chosen_count >= 1 && c.chosen_count <= c.expert_count));
    assert(c.stop_count <= RT_STOP_IDS_MAX);
    assert(c.norm_eps >= 0);
    /* Sizes stay far from where 64 bits end. */
    assert(rt_state_bytes(&c, 1U << 30) < UINT64_C(1) << 63);
    assert(rt_work_bytes(&c, &shape) < UINT64_C(1) << 63);
    for (uint32_t i = 0; i < c.layer_count; i++)
        assert(c.is_kda[i] <= 1);
    (void)rt_config_add_generation(&c, (const char *)data, bytes, &err);
    assert(c.stop_count <= RT_STOP_IDS_MAX);
    return 0;
}
