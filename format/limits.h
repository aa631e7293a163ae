/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit of docs/format.md section 2.4, once.  Writer and reader both
 * enforce them. */

#ifndef LODE_FORMAT_LIMITS_H
#define LODE_FORMAT_LIMITS_H

#include <stdint.h>

#define LODE_BLOCK_BYTES_MAX (UINT64_C(1) << 30)
#define LODE_OBJECT_BYTES_MAX (UINT64_C(1) << 40)
#define LODE_BLOCKS_PER_OBJECT_MAX 65536U
#define LODE_GROUPS_MAX 65535U
#define LODE_SCHEMAS_MAX 65535U
#define LODE_TENSORS_MAX (1U << 20)
#define LODE_BLOCKS_MAX (1U << 24)
#define LODE_LAYERS_MAX 65536U
#define LODE_SEGMENTS_MAX 24U
#define LODE_FRAMES_MAX 16384U
#define LODE_STRINGS_BYTES_MAX (UINT64_C(64) << 20)
#define LODE_INDEX_BYTES_MAX (UINT64_C(512) << 20)
#define LODE_SECTIONS_MAX 32U
#define LODE_VOLUMES_MAX 4096U
#define LODE_ENTRY_BYTES_MAX 4096U
#define LODE_DIMS_MAX 6U
#define LODE_ALIGN_LOG2_MIN 12U
#define LODE_ALIGN_LOG2_MAX 16U
#define LODE_SPLIT_BLOCK_BYTES_MIN (UINT64_C(1) << 20)
#define LODE_NAME_BYTES_MAX 4096U

#endif
