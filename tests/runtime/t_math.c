/* SPDX-License-Identifier: Apache-2.0
 *
 * The elementary functions against libm in long double, over all exponents and
 * both signs, with the bounds of runtime/math.h; special values; and the vector
 * functions against the scalar ones. */
#include "config.h"

#include <float.h>
#include <math.h>

#include "runtime/math.h"
#include "tests/tap.h"

static float
from_bits(uint32_t bits)
{
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static bool
same(float a, float b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof(a)) == 0;
}

/* |got - want| in units of float32's last place at want. */
static double
ulps(float got, long double want)
{
    int exponent;

    if (isnan(want))
        return isnan(got) ? 0.0 : INFINITY;
    if (isinf((float)want) || isinf(got))
        return same(got, (float)want) ? 0.0 : INFINITY;
    (void)frexpl(want, &exponent);
    if (exponent < -125)
        exponent = -125;
    return (double)ldexpl(fabsl((long double)got - want), 24 - exponent);
}

static long double
exact_sigmoid(long double x)
{
    return 1.0L / (1.0L + expl(-x));
}

static long double
exact_softplus(long double x)
{
    return x > 0.0L ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

static const struct {
    const char *name;
    float (*ours)(float);
    long double (*exact)(long double);
    float low, high; /* where the bound holds */
    double bound;
} functions[] = {
    {"exp", rt_exp, expl, -INFINITY, INFINITY, 2.0},
    {"log", rt_log, logl, 0.0F, INFINITY, 3.0},
    {"log1p", rt_log1p, log1pl, -1.0F, INFINITY, 3.0},
    {"tanh", rt_tanh, tanhl, -INFINITY, INFINITY, 4.0},
    {"sigmoid", rt_sigmoid, exact_sigmoid, -INFINITY, INFINITY, 4.0},
    {"softplus", rt_softplus, exact_softplus, -INFINITY, INFINITY, 4.0},
};
enum { FUNCTIONS = sizeof(functions) / sizeof(*functions) };

static void
test_error(size_t f)
{
    double worst = 0.0;
    float at = 0.0F;
    size_t count = 0;

    /* A prime, so that all bits vary; some half million values. */
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 7919) {
        float x = from_bits((uint32_t)bits);
        double error;

        if (isnan(x) || x < functions[f].low || x > functions[f].high)
            continue;
        count++;
        error = ulps(functions[f].ours(x), functions[f].exact(x));
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    ok(worst <= functions[f].bound && count > 100000,
       "%s is within %.0f ulp of libm", functions[f].name, functions[f].bound);
    printf("# %s: %.3f ulp at most, at %a; %zu values\n", functions[f].name,
           worst, (double)at, count);
}

/* Where things happen: 1000 neighbours on either side. */
static void
test_neighbours(size_t f)
{
    static const float places[] = {
        1.0F,     -1.0F,    0.625F,   -0.625F,  88.7228F, -87.3365F,
        -103.97F, -104.0F,  0.7071F,  1.4142F,  0.34657F, -0.34657F,
        17.0F,    -17.0F,   90.0F,    -105.0F,  0x1p-25F, -0x1p-25F,
        0x1p-126F, -0x1p-126F, 9.0F,  -9.0F,    0.5F,     2.0F,
    };
    double worst = 0.0;
    float at = 0.0F;

    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        uint32_t bits;

        memcpy(&bits, &places[i], sizeof(bits));
        for (uint32_t b = bits - 1000; b != bits + 1000; b++) {
            float x = from_bits(b);
            double error;

            if (x < functions[f].low || x > functions[f].high)
                continue;
            error = ulps(functions[f].ours(x), functions[f].exact(x));
            if (!(error <= worst)) {
                worst = error;
                at = x;
            }
        }
    }
    if (!ok(worst <= functions[f].bound, "%s around its seams",
            functions[f].name))
        printf("# %.3f ulp at %a\n", worst, (double)at);
}

static void
test_special(void)
{
    static const struct {
        const char *call;
        float (*f)(float);
        float x, want;
    } cases[] = {
        {"exp(0)", rt_exp, 0.0F, 1.0F},
        {"exp(-0)", rt_exp, -0.0F, 1.0F},
        {"exp(inf)", rt_exp, INFINITY, INFINITY},
        {"exp(-inf)", rt_exp, -INFINITY, 0.0F},
        {"exp(88.73)", rt_exp, 88.73F, INFINITY},
        {"exp(-103.98)", rt_exp, -103.98F, 0.0F},
        {"exp(-103.97)", rt_exp, -103.97F, 0x1p-149F},
        {"log(1)", rt_log, 1.0F, 0.0F},
        {"log(0)", rt_log, 0.0F, -INFINITY},
        {"log(-0)", rt_log, -0.0F, -INFINITY},
        {"log(-1)", rt_log, -1.0F, NAN},
        {"log(inf)", rt_log, INFINITY, INFINITY},
        {"log1p(0)", rt_log1p, 0.0F, 0.0F},
        {"log1p(-0)", rt_log1p, -0.0F, -0.0F},
        {"log1p(-1)", rt_log1p, -1.0F, -INFINITY},
        {"log1p(-2)", rt_log1p, -2.0F, NAN},
        {"log1p(inf)", rt_log1p, INFINITY, INFINITY},
        {"tanh(0)", rt_tanh, 0.0F, 0.0F},
        {"tanh(-0)", rt_tanh, -0.0F, -0.0F},
        {"tanh(inf)", rt_tanh, INFINITY, 1.0F},
        {"tanh(-inf)", rt_tanh, -INFINITY, -1.0F},
        {"tanh(1e-40)", rt_tanh, 1e-40F, 1e-40F},
        {"sigmoid(0)", rt_sigmoid, 0.0F, 0.5F},
        {"sigmoid(inf)", rt_sigmoid, INFINITY, 1.0F},
        {"sigmoid(-inf)", rt_sigmoid, -INFINITY, 0.0F},
        {"softplus(inf)", rt_softplus, INFINITY, INFINITY},
        {"softplus(-inf)", rt_softplus, -INFINITY, 0.0F},
        {"softplus(1000)", rt_softplus, 1000.0F, 1000.0F},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        float got = cases[i].f(cases[i].x);

        if (!ok(same(got, cases[i].want), "%s", cases[i].call))
            printf("# got %a, expected %a\n", (double)got,
                   (double)cases[i].want);
    }
    for (size_t f = 0; f < FUNCTIONS; f++)
        ok(isnan(functions[f].ours(NAN)) && isnan(functions[f].ours(-NAN)),
           "%s(NaN) is NaN", functions[f].name);
}

static float
scalar_silu(float x)
{
    return x * rt_sigmoid(x);
}

static void
test_vectors(void)
{
    static const struct {
        const char *name;
        void (*vector)(const float *, float *, size_t);
        float (*scalar)(float);
    } pairs[] = {
        {"exp_n", rt_exp_n, rt_exp},
        {"tanh_n", rt_tanh_n, rt_tanh},
        {"sigmoid_n", rt_sigmoid_n, rt_sigmoid},
        {"silu_n", rt_silu_n, scalar_silu},
    };
    enum { MOST = 70 };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        bool good = true;
        uint32_t bits = 0;

        for (size_t n = 0; n <= MOST; n++) {
            float x[MOST + 1], apart[MOST + 1] = {0}, in_place[MOST + 1];

            for (size_t j = 0; j <= MOST; j++)
                x[j] = in_place[j] = from_bits(bits += 864691);
            pairs[i].vector(x, apart, n);
            pairs[i].vector(in_place, in_place, n);
            for (size_t j = 0; j < n; j++)
                good &= same(apart[j], pairs[i].scalar(x[j])) &&
                        same(in_place[j], apart[j]);
            /* Nothing behind the end. */
            good &= same(apart[n], 0.0F) && same(in_place[n], x[n]);
        }
        ok(good, "%s gives the scalar function's bits", pairs[i].name);
    }
}

/* The bits themselves, so that a compiler or flag that changes them shows:
 * FNV-1a over the results of a million arguments.  Signs of NaN are left
 * out. */
static void
test_fixed_bits(void)
{
    static const uint64_t want[FUNCTIONS] = {
        0xcd2ba03b1c063f77, 0x9ee0dc4e38a8a1c0, 0xdebcff62aef286f9,
        0x2ee1febefc459e9c, 0x6023c3a0980f681a, 0x3c5c44684093c8b8,
    };

    for (size_t f = 0; f < FUNCTIONS; f++) {
        uint64_t hash = 0xcbf29ce484222325U;

        for (uint64_t b = 0; b <= UINT32_MAX; b += 4099) {
            float y = functions[f].ours(from_bits((uint32_t)b));
            uint32_t bits;

            if (isnan(y))
                continue;
            memcpy(&bits, &y, sizeof(bits));
            for (int i = 0; i < 32; i += 8)
                hash = (hash ^ (bits >> i & 255U)) * 0x100000001b3U;
        }
        if (!ok(hash == want[f], "%s has its known bits", functions[f].name))
            printf("# 0x%016" PRIx64 "\n", hash);
    }
}

int
main(void)
{
    for (size_t f = 0; f < FUNCTIONS; f++) {
        test_error(f);
        test_neighbours(f);
    }
    test_special();
    test_vectors();
    test_fixed_bits();
    return done_testing();
}
