/* SPDX-License-Identifier: Apache-2.0
 *
 * Straight-line code: both sides of every choice are computed and one is
 * selected, so that compilers turn the loops of the _n functions into vector
 * code, and so that one function serves scalars and vectors with the same
 * bits.  Polynomials are minimax fits (Remez exchange) of the functions stated
 * beside them, rounded to float32.
 *
 * Constants: LN2_HIGH has 15 significant bits, so that its product with an
 * exponent is exact; LN2_HIGH + LN2_LOW is ln 2. */
#include "config.h"

#include "runtime/math.h"

#include <float.h>
#include <math.h> /* INFINITY, NAN; sqrt(1/2) needs no call */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Excess precision would change the bits: x87 is not supported. */
_Static_assert(FLT_EVAL_METHOD == 0, "float arithmetic must be float32");

#define LN2_HIGH 0x1.62e4p-1F
#define LN2_LOW 0x1.7f7d1cp-20F

/* Vector loops run over blocks of this many, which compilers unroll. */
enum { BLOCK = 16 };

static inline uint32_t
to_bits(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return bits;
}

static inline float
from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static inline float
magnitude(float x)
{
    return from_bits(to_bits(x) & 0x7fffffffU);
}

/* condition ? a : b by masks: a compiler that honours floating-point traps may
 * not turn the operator itself into vector code. */
static inline float
choose(bool condition, float a, float b)
{
    uint32_t mask = -(uint32_t)condition;

    return from_bits((to_bits(a) & mask) | (to_bits(b) & ~mask));
}

/* 2^k for k in [-126, 127]. */
static inline float
power_of_two(int32_t k)
{
    return from_bits((uint32_t)(k + 127) << 23);
}

/* exp(x) = 2^k exp(r), |r| <= ln(2) / 2, exp(r) = 1 + r + r^2 P(r).
 *
 * Adding 1.5 x 2^23 rounds to an integer, which is then in the low bits.  2^k
 * may be no float32, so it is applied as two factors: only the second product
 * can round, overflow or become subnormal.  Outside the clamp the result is
 * already infinite or zero. */
static inline float
exp_one(float x)
{
    const float round = 0x1.8p23F;
    float t, n, r, p;
    int32_t k, half;

    x = choose(x > 90.0F, 90.0F, x);
    x = choose(x < -105.0F, -105.0F, x);
    t = x * 0x1.715476p+0F + round;
    n = t - round;
    k = (int32_t)((to_bits(t) & 0x1ffU) ^ 0x100U) - 0x100;
    half = k / 2;

    r = (x - n * LN2_HIGH) - n * LN2_LOW;
    p = 0x1.6a1a72p-10F;
    p = p * r + 0x1.123fc6p-7F;
    p = p * r + 0x1.555916p-5F;
    p = p * r + 0x1.55548ap-3F;
    p = p * r + 0x1.fffffcp-2F;
    p = 1.0F + (r + r * r * p);
    return p * power_of_two(half) * power_of_two(k - half);
}

/* log(2^k (1 + f)) + low, sqrt(1/2) <= 1 + f < sqrt(2), |low| tiny.
 * With s = f / (2 + f): log(1 + f) = 2 atanh(s) = f - f^2/2 + s (f^2/2 + R),
 * R = s^2 P(s^2).  The small terms are added first. */
static inline float
log_parts(float k, float f, float low)
{
    float s = f / (2.0F + f);
    float z = s * s;
    float half_square = 0.5F * f * f;
    float p = 0x1.32063ap-2F;

    p = p * z + 0x1.995d84p-2F;
    p = p * z + 0x1.55557cp-1F;
    return k * LN2_HIGH -
           ((half_square - (s * (half_square + z * p) + (k * LN2_LOW + low))) -
            f);
}

/* Cut a normal positive x into 2^k m, sqrt(1/2) <= m < sqrt(2).  Exact. */
static inline float
split(float x, int32_t *k)
{
    /* 0x3f3504f3 is sqrt(1/2): from there on the exponent counts as next. */
    uint32_t bits = to_bits(x) - 0x3f3504f3U;

    *k = (int32_t)bits >> 23;
    return from_bits((bits & 0x7fffffU) + 0x3f3504f3U);
}

static inline float
log_one(float x)
{
    float scaled = choose(x < FLT_MIN, x * 0x1p23F, x); /* subnormals */
    float bias = choose(x < FLT_MIN, 23.0F, 0.0F);
    int32_t k;
    float m = split(scaled, &k);
    float y = log_parts((float)k - bias, m - 1.0F, 0.0F);

    y = choose(x == INFINITY, INFINITY, y);
    y = choose(x == 0.0F, -INFINITY, y);
    y = choose(x < 0.0F, NAN, y);
    return choose(x != x, x, y);
}

/* log(1 + x) = log(u) + c / u, where u is 1 + x rounded and c what the
 * rounding lost. */
static inline float
log1p_one(float x)
{
    float u = 1.0F + x;
    float c = choose(x < 1.0F, x - (u - 1.0F), 1.0F - (u - x));
    int32_t k;
    float m = split(u, &k);
    float y = log_parts((float)k, m - 1.0F, c / u);

    y = choose(magnitude(x) < 0x1p-25F, x, y); /* also keeps -0 */
    y = choose(x == INFINITY, INFINITY, y);
    y = choose(x == -1.0F, -INFINITY, y);
    y = choose(x < -1.0F, NAN, y);
    return choose(x != x, x, y);
}

/* |x| < 0.625: x + x^3 P(x^2); else 1 - 2 / (exp(2 |x|) + 1) with x's sign. */
static inline float
tanh_one(float x)
{
    float a = magnitude(x);
    float z = x * x;
    float big = 1.0F - 2.0F / (exp_one(2.0F * a) + 1.0F);
    float p = -0x1.762d78p-8F;

    p = p * z + 0x1.523bc8p-6F;
    p = p * z + -0x1.b8405ap-5F;
    p = p * z + 0x1.11074cp-3F;
    p = p * z + -0x1.555534p-2F;
    p = x + x * (z * p);
    p = magnitude(choose(a < 0.625F, p, big));
    return from_bits(to_bits(p) | (to_bits(x) & 0x80000000U)); /* also of 0 */
}

/* exp of the negative magnitude: never overflows, and small results keep their
 * precision. */
static inline float
sigmoid_one(float x)
{
    float e = exp_one(-magnitude(x));

    return choose(x < 0.0F, e, 1.0F) / (1.0F + e);
}

float
rt_exp(float x)
{
    return exp_one(x);
}

float
rt_log(float x)
{
    return log_one(x);
}

float
rt_log1p(float x)
{
    return log1p_one(x);
}

float
rt_tanh(float x)
{
    return tanh_one(x);
}

float
rt_sigmoid(float x)
{
    return sigmoid_one(x);
}

float
rt_softplus(float x)
{
    float e = log1p_one(exp_one(-magnitude(x)));

    return choose(x > 0.0F, x, 0.0F) + e;
}

static inline float
silu_one(float x)
{
    return x * sigmoid_one(x);
}

/* A block lives in local arrays, so that nothing can alias. */
#define DEFINE_VECTOR(name, one)                                              \
    void name(const float *x, float *out, size_t n)                           \
    {                                                                         \
        for (size_t i = 0; i < n; i += BLOCK) {                               \
            size_t count = n - i < BLOCK ? n - i : BLOCK;                     \
            float block[BLOCK] = {0};                                         \
                                                                              \
            memcpy(block, x + i, count * sizeof(*x));                         \
            for (size_t j = 0; j < BLOCK; j++)                                \
                block[j] = one(block[j]);                                     \
            memcpy(out + i, block, count * sizeof(*x));                       \
        }                                                                     \
    }

DEFINE_VECTOR(rt_exp_n, exp_one)
DEFINE_VECTOR(rt_tanh_n, tanh_one)
DEFINE_VECTOR(rt_sigmoid_n, sigmoid_one)
DEFINE_VECTOR(rt_silu_n, silu_one)
