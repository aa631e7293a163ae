/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of synthetic tensors: twelve random bits choose one of 4096
 * prepared items, which is fast enough to write gigabytes.  A tensor depends on
 * the seed and its own name only, so the cut into shards changes nothing.  No
 * libm: equal bytes on every machine. */
#include "config.h"

#include "tests/gen/ckpt.h"

#include <math.h>
#include <string.h>

uint64_t
ck_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
ck_hash(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text != '\0'; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* Nearly normal: the sum of twelve uniform numbers.  Each value stands there
 * with both signs, so the mean is zero and matrices have no constant part. */
void
ck_filler_init(struct ck_filler *f)
{
    uint64_t state = 1;

    memset(f, 0, sizeof(*f));
    f->table_key = UINT64_MAX;
    for (size_t i = 0; i < CK_TABLE_COUNT / 2; i++) {
        float sum = -6;

        for (size_t k = 0; k < 12; k++)
            sum += (float)(ck_next(&state) >> 40) * 0x1p-24f;
        f->normal[i] = sum;
        f->normal[i + CK_TABLE_COUNT / 2] = -sum;
    }
}

static uint32_t
float_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static uint32_t
to_bf16(float x) /* finite */
{
    uint32_t bits = float_bits(x);

    return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

/* The E2M1 code nearest to x. */
static uint32_t
to_code(float x)
{
    static const float between[] = {0.25f, 0.75f, 1.25f, 1.75f,
                                    2.5f,  3.5f,  5.0f};
    uint32_t code = 0;
    float size = x < 0 ? -x : x;

    while (code < 7 && size > between[code])
        code++;
    return x < 0 ? code + 8 : code;
}

static void
fill_table_floats(struct ck_filler *f, enum ck_dtype dtype, float mean,
                  float spread)
{
    for (size_t i = 0; i < CK_TABLE_COUNT; i++) {
        float x = mean + spread * f->normal[i];

        f->table[i] = dtype == CK_F32 ? float_bits(x) : to_bf16(x);
    }
}

/* Codes as often as in the published experts (5.7 % are minus zero); scale
 * bytes 118 to 122. */
static void
fill_table_bytes(struct ck_filler *f, enum ck_values values)
{
    static const float code_spread = 1.74f;

    for (size_t i = 0; i < CK_TABLE_COUNT; i++) {
        size_t j = (i * 1237 + 611) % CK_TABLE_COUNT; /* odd: a permutation */

        if (values == CK_SCALE_BYTES)
            f->table[i] = 118 + (uint32_t)(i % 5);
        else
            f->table[i] = to_code(code_spread * f->normal[i]) |
                          to_code(code_spread * f->normal[j]) << 4;
    }
}

static void
spread_of(const struct ck_model *m, const struct ck_tensor *t, float *mean,
          float *spread)
{
    float columns = (float)t->dim[t->dim_count - 1];

    *mean = 0;
    *spread = 0;
    switch (t->values) {
    case CK_WEIGHT:
        *spread = (float)m->scale / sqrtf(columns);
        break;
    case CK_EMBED:
        *spread = 0.02f;
        break;
    case CK_HEAD: /* logits with a spread of 2 */
        *spread = 2.0f / sqrtf(columns);
        break;
    case CK_NORM:
        *mean = 1;
        *spread = 0.05f;
        break;
    case CK_CONV:
        *spread = 0.5f;
        break;
    case CK_DECAY:
        *spread = 0.3f;
        break;
    case CK_DT: /* decays between nothing and half a state per token */
        *mean = -3;
        *spread = 1;
        break;
    case CK_BIAS:
    case CK_CODES:
    case CK_SCALE_BYTES:
        *spread = 0.02f;
        break;
    }
}

void
ck_filler_begin(struct ck_filler *f, const struct ck_model *m, const char *name,
                const struct ck_tensor *t)
{
    uint64_t state = m->seed ^ ck_hash(name);
    uint64_t key = t->dim[t->dim_count - 1] << 8 | (uint64_t)t->values << 4 |
                   (uint64_t)t->dtype;
    float mean;
    float spread;

    for (size_t i = 0; i < 4; i++)
        f->state[i] = ck_next(&state);
    f->item_bytes = t->dtype == CK_F32 ? 4 : t->dtype == CK_BF16 ? 2 : 1;
    f->items_left = t->bytes / f->item_bytes;
    if (t->values == CK_DECAY && m->family == CK_KIMI_K3)
        f->items_left = m->size[CK_KDA_HEADS]; /* the rest is padding */
    if (key == f->table_key)
        return;
    f->table_key = key;
    if (t->dtype == CK_U8) {
        fill_table_bytes(f, t->values);
    } else {
        spread_of(m, t, &mean, &spread);
        fill_table_floats(f, t->dtype, mean, spread);
    }
}

static uint64_t
rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* xoshiro256++ (Blackman and Vigna). */
static inline uint64_t
next(uint64_t s[4])
{
    uint64_t result = rotate(s[0] + s[3], 23) + s[0];
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* Five items from each random word; the odd ones at the end take one each. */
#define FILL(type)                                                            \
    do {                                                                      \
        type *p = out;                                                        \
                                                                              \
        for (; i + 5 <= count; i += 5) {                                      \
            uint64_t r = next(s);                                             \
                                                                              \
            p[i] = (type)f->table[r & 4095];                                  \
            p[i + 1] = (type)f->table[r >> 12 & 4095];                        \
            p[i + 2] = (type)f->table[r >> 24 & 4095];                        \
            p[i + 3] = (type)f->table[r >> 36 & 4095];                        \
            p[i + 4] = (type)f->table[r >> 48 & 4095];                        \
        }                                                                     \
        for (; i < count; i++)                                                \
            p[i] = (type)f->table[next(s) & 4095];                            \
    } while (0)

/* out is aligned for its items and bytes a multiple of them; little-endian
 * hosts only, which mkckpt's main() checks. */
void
ck_filler_fill(struct ck_filler *f, void *out, size_t bytes)
{
    uint64_t s[4];
    size_t count = bytes / f->item_bytes;
    size_t i = 0;

    if (count > f->items_left)
        count = (size_t)f->items_left;
    f->items_left -= count;
    memcpy(s, f->state, sizeof(s));
    if (f->item_bytes == 4)
        FILL(uint32_t);
    else if (f->item_bytes == 2)
        FILL(uint16_t);
    else
        FILL(uint8_t);
    memcpy(f->state, s, sizeof(s));
    memset((uint8_t *)out + count * f->item_bytes, 0,
           bytes - count * f->item_bytes);
}
