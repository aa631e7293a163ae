/* SPDX-License-Identifier: Apache-2.0
 *
 * Every table that this machine can run against the numeric contract, bit for
 * bit.  The contract is restated here, one weight at a time.  Any NaN equals
 * any other: IEEE 754 leaves its sign and payload open.  Buffers are exactly as
 * large as the header says, so that a memory checker sees a read too many. */
#include "config.h"

#include <math.h>

#include "runtime/kernels_impl.h"
#include "tests/tap.h"

static uint64_t random_state = 88172645463325252U;

static uint32_t
random_u32(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

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

/* WILD data hold subnormals, both zeros and the largest numbers; infinities and
 * NaN seldom, or little else would come out. */
enum data { TAME, WILD };

static float
random_float(enum data d)
{
    static const uint32_t special[] = {
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff,
        0x80400000, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x3f800000,
        0xbf800000, 0x3f7fffff, 0x00ffffff, 0x80800001, 0x1e3ce508,
    };
    static const uint32_t rare[] = {0x7f800000, 0xff800000, 0x7fc00000,
                                    0xffc00001};
    uint32_t r = random_u32();

    if (d == WILD && r % 512 == 0)
        return from_bits(rare[r / 512 % (sizeof(rare) / sizeof(*rare))]);
    if (d == WILD && r % 4 == 1)
        return from_bits(special[r / 4 % (sizeof(special) / sizeof(*special))]);
    if (d == WILD && r % 4 == 2) /* any exponent but the last */
        return from_bits(random_u32() & 0xbfffffff);
    return ((float)(int32_t)random_u32()) * 0x1p-31F;
}

static void *
room(size_t bytes)
{
    void *p = malloc(bytes > 0 ? bytes : 1);

    if (p == NULL) {
        printf("Bail out! no memory\n");
        exit(99);
    }
    return p;
}

static float *
random_floats(size_t n, enum data d)
{
    float *x = room(n * sizeof(*x));

    for (size_t i = 0; i < n; i++)
        x[i] = random_float(d);
    return x;
}

/* 64-aligned, as prepared rows must be. */
static float *
aligned_floats(size_t n)
{
    void *p = NULL;

    if (posix_memalign(&p, 64, (n > 0 ? n : 1) * sizeof(float)) != 0) {
        printf("Bail out! no memory\n");
        exit(99);
    }
    return p;
}

/* The contract. */
static float
contract_dot(const float *w, const float *x, size_t n)
{
    float lane[64];

    for (size_t l = 0; l < 64; l++) {
        lane[l] = 0.0F;
        for (size_t i = l; i < (n + 63) / 64 * 64; i += 64)
            lane[l] = fmaf(i < n ? w[i] : 0.0F, i < n ? x[i] : 0.0F, lane[l]);
    }
    for (size_t width = 32; width >= 1; width /= 2)
        for (size_t l = 0; l < width; l++)
            lane[l] = lane[l] + lane[l + width];
    return lane[0];
}

static size_t
row_bytes(enum lode_encoding e, size_t cols)
{
    return e == LODE_ENC_F32     ? cols * 4
           : e == LODE_ENC_MXFP4 ? cols / 2
                                 : cols * 2;
}

/* A matrix and what it is multiplied with. */
struct problem {
    struct rt_matmul m;
    uint8_t *w;
    uint8_t *scale;
    float *x;     /* [tokens][cols], unprepared */
    float *want;  /* [tokens][rows] */
    float *ready; /* prepared rows */
    float *got;   /* [tokens][rows + 1], the last untouched */
};

static void
fill_weights(struct problem *p, enum data d)
{
    struct rt_matmul *m = &p->m;

    for (size_t r = 0; r < m->rows; r++) {
        uint8_t *w = p->w + r * m->w_stride;

        for (size_t i = 0; i < row_bytes(m->encoding, m->cols); i++)
            w[i] = (uint8_t)random_u32();
        for (size_t i = 0; i < m->cols && m->encoding != LODE_ENC_MXFP4; i++) {
            float f = random_float(d);
            uint32_t bits;

            memcpy(&bits, &f, sizeof(bits));
            if (m->encoding == LODE_ENC_F32)
                memcpy(w + 4 * i, &bits, 4);
            else if (m->encoding == LODE_ENC_BF16)
                memcpy(w + 2 * i, (uint8_t *)&bits + 2, 2);
            else if (d == TAME) /* binary16: random bits, small exponents */
                w[2 * i + 1] &= 0xbf;
        }
        for (size_t i = 0; i < m->cols / 32 && m->scale != NULL; i++)
            p->scale[r * m->scale_stride + i] =
                (uint8_t)(d == WILD ? random_u32() : 110 + random_u32() % 20);
    }
}

static void
decode_row(const struct rt_matmul *m, size_t r, float *out)
{
    const uint8_t *w = m->w + r * m->w_stride;

    if (m->encoding == LODE_ENC_MXFP4)
        lode_decode_mxfp4(w, m->scale + r * m->scale_stride, m->cols, out);
    else
        lode_decode_plain(m->encoding, w, m->cols, out);
}

/* Strides leave a gap behind each row but the last, whose end is the end of the
 * memory. */
static void
set_up(struct problem *p, enum lode_encoding e, size_t rows, size_t cols,
       size_t tokens, enum data d)
{
    struct rt_matmul *m = &p->m;
    size_t bytes = row_bytes(e, cols);
    float *row = room(cols * sizeof(*row));

    memset(p, 0, sizeof(*p));
    m->encoding = e;
    m->rows = rows;
    m->cols = cols;
    m->tokens = tokens;
    m->w_stride = bytes + (e == LODE_ENC_MXFP4 ? 3 : 4);
    m->scale_stride = e == LODE_ENC_MXFP4 ? cols / 32 + 1 : 0;
    m->x_stride = rt_padded(cols) + 64;
    m->y_stride = rows + 1;
    p->w = room((rows - 1) * m->w_stride + bytes);
    memset(p->w, 0x7f, (rows - 1) * m->w_stride + bytes);
    if (e == LODE_ENC_MXFP4)
        p->scale = room((rows - 1) * m->scale_stride + cols / 32);
    if (e == LODE_ENC_MXFP4)
        memset(p->scale, 0xff, (rows - 1) * m->scale_stride + cols / 32);
    m->w = p->w;
    m->scale = p->scale;
    fill_weights(p, d);
    p->x = random_floats(tokens * cols, d);
    p->want = room(tokens * rows * sizeof(*p->want));
    for (size_t r = 0; r < rows; r++) {
        decode_row(m, r, row);
        for (size_t t = 0; t < tokens; t++)
            p->want[t * rows + r] =
                contract_dot(row, p->x + t * cols, cols);
    }
    p->ready = aligned_floats((tokens - 1) * m->x_stride + rt_padded(cols));
    p->got = room(tokens * m->y_stride * sizeof(*p->got));
    m->x = p->ready;
    m->y = p->got;
    free(row);
}

static void
tear_down(struct problem *p)
{
    free(p->w);
    free(p->scale);
    free(p->x);
    free(p->want);
    free(p->ready);
    free(p->got);
}

static const float untouched = -12345.0F;

static bool
as_wanted(const struct problem *p)
{
    const struct rt_matmul *m = &p->m;

    for (size_t t = 0; t < m->tokens; t++) {
        if (!same(p->got[t * m->y_stride + m->rows], untouched))
            return false;
        for (size_t r = 0; r < m->rows; r++)
            if (!same(p->got[t * m->y_stride + r], p->want[t * m->rows + r]))
                return false;
    }
    return true;
}

static void
clear(struct problem *p)
{
    for (size_t i = 0; i < p->m.tokens * p->m.y_stride; i++)
        p->got[i] = untouched;
}

/* All at once, then one row and token at a time. */
static bool
multiplies(const struct rt_kernels *k, struct problem *p)
{
    struct rt_matmul one = p->m;
    bool good;

    for (size_t t = 0; t < p->m.tokens; t++)
        k->prepare(p->m.encoding, p->x + t * p->m.cols, p->m.cols,
                   p->ready + t * p->m.x_stride);
    clear(p);
    k->matmul(&p->m);
    good = as_wanted(p);
    clear(p);
    one.rows = one.tokens = 1;
    for (size_t t = 0; t < p->m.tokens; t++) {
        for (size_t r = 0; r < p->m.rows; r++) {
            one.w = p->m.w + r * p->m.w_stride;
            if (p->m.scale != NULL)
                one.scale = p->m.scale + r * p->m.scale_stride;
            one.x = p->m.x + t * p->m.x_stride;
            one.y = p->m.y + t * p->m.y_stride + r;
            k->matmul(&one);
        }
    }
    return good && as_wanted(p);
}

static bool
try_shape(const struct rt_kernels *k, enum lode_encoding e, size_t rows,
          size_t cols, size_t tokens)
{
    bool good = true;

    for (int d = TAME; d <= WILD; d++) {
        struct problem p;

        set_up(&p, e, rows, cols, tokens, (enum data)d);
        if (!multiplies(k, &p)) {
            printf("# %s: %zu rows, %zu columns, %zu tokens, %s\n", k->name,
                   rows, cols, tokens, d == TAME ? "tame" : "wild");
            good = false;
        }
        tear_down(&p);
    }
    return good;
}

static void
test_matmul(const struct rt_kernels *k, enum lode_encoding e, const char *name)
{
    size_t step = e == LODE_ENC_MXFP4 ? 32 : 1;
    static const size_t wide[] = {224, 256, 288, 512, 1024, 1056, 2304};
    static const size_t odd[] = {255, 257, 511, 1023, 1025};
    bool good = true;

    for (size_t cols = step; cols <= 200; cols += step)
        good &= try_shape(k, e, 5, cols, 1 + cols % 3);
    ok(good, "%s: %s matrices of 1 to 200 columns", k->name, name);
    good = true;
    for (size_t rows = 1; rows <= 9; rows++)
        for (size_t tokens = 1; tokens <= 9; tokens++)
            good &= try_shape(k, e, rows, rows % 2 == 0 ? 96 : 64, tokens);
    ok(good, "%s: %s, 1 to 9 rows and tokens", k->name, name);
    good = true;
    for (size_t i = 0; i < sizeof(wide) / sizeof(*wide); i++)
        good &= try_shape(k, e, 7, wide[i], 1 + i % 6);
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd) && step == 1; i++)
        good &= try_shape(k, e, 3, odd[i], 1 + i % 6);
    ok(good, "%s: %s, wide matrices", k->name, name);
}

/* Weight i alone, by a row that is zero elsewhere. */
static bool
decodes_one(const struct rt_kernels *k, unsigned scale_byte, unsigned code,
            size_t place)
{
    uint8_t w[32] = {0}, scale[2] = {0};
    float decoded[64], x[64] = {0}, got;
    float *ready = aligned_floats(64);
    struct rt_matmul m = {
        .w = w, .scale = scale, .w_stride = 32, .scale_stride = 2, .rows = 1,
        .cols = 64, .x = ready, .x_stride = 64, .tokens = 1, .y = &got,
        .y_stride = 1, .encoding = LODE_ENC_MXFP4,
    };

    w[place / 2] = (uint8_t)(place % 2 == 0 ? code : code << 4);
    scale[place / 32] = (uint8_t)scale_byte;
    x[place] = 1.0F;
    lode_decode_mxfp4(w, scale, 64, decoded);
    k->prepare(LODE_ENC_MXFP4, x, 64, ready);
    k->matmul(&m);
    free(ready);
    /* A sum of zeros is +0, also when the weight is -0. */
    return same(got, decoded[place] + 0.0F);
}

static void
test_mxfp4_codes(const struct rt_kernels *k)
{
    bool good = true;

    for (unsigned s = 0; s < 256; s++)
        for (unsigned c = 0; c < 16; c++)
            for (size_t i = 0; i < 64; i += 1 + (s + c) % 3)
                good &= decodes_one(k, s, c, i);
    ok(good, "%s: every mxfp4 code at every scale", k->name);
}

#ifndef TABLE
static void
test_mxfp4_table(void)
{
    bool good = true;

    for (unsigned s = 0; s < 256; s++) {
        for (unsigned c = 0; c < 16; c++) {
            uint8_t w[16] = {(uint8_t)c}, scale = (uint8_t)s;
            const uint8_t *bytes = rt_kernels_mxfp4_bytes[s];
            float out[32];

            lode_decode_mxfp4(w, &scale, 32, out);
            good &= same(rt_kernels_mxfp4[s][c], out[0]) &&
                    same(from_bits((uint32_t)bytes[16 + c] << 24 |
                                   (uint32_t)bytes[c] << 16),
                         out[0]);
        }
    }
    ok(good, "the tables of mxfp4 values are the reference decode");
    ok(rt_kernels_mxfp4[127][7] == 6.0F && rt_kernels_mxfp4[0][1] == 0x1p-128F,
       "known values of mxfp4");
}

#endif

/* Every 16-bit pattern, through a one-column matrix. */
static void
test_half_codes(const struct rt_kernels *k, enum lode_encoding e,
                const char *name)
{
    enum { ROWS = 65536 };
    uint16_t *w = room(ROWS * sizeof(*w));
    float *y = room(ROWS * sizeof(*y)), *ready = aligned_floats(64);
    float one = 1.0F;
    struct rt_matmul m = {
        .w = (uint8_t *)w, .w_stride = 2, .rows = ROWS, .cols = 1, .x = ready,
        .x_stride = 64, .tokens = 1, .y = y, .y_stride = ROWS, .encoding = e,
    };
    bool good = true;

    for (unsigned i = 0; i < ROWS; i++)
        w[i] = (uint16_t)i;
    k->prepare(e, &one, 1, ready);
    k->matmul(&m);
    for (unsigned i = 0; i < ROWS; i++) {
        float f;

        lode_decode_plain(e, &w[i], 1, &f);
        good &= same(y[i], f + 0.0F);
    }
    ok(good, "%s: every %s value", k->name, name);
    free(w);
    free(y);
    free(ready);
}

static void
test_dot(const struct rt_kernels *k)
{
    bool good = true;

    for (size_t n = 0; n <= 330; n++) {
        float *a = random_floats(n, n % 2 == 0 ? TAME : WILD);
        float *b = random_floats(n, n % 4 < 2 ? TAME : WILD);

        good &= same(k->dot(a, b, n), contract_dot(a, b, n));
        free(a);
        free(b);
    }
    ok(good, "%s: dot, 0 to 330 long", k->name);
}

static void
test_axpy(const struct rt_kernels *k)
{
    bool good = true;

    for (size_t n = 0; n <= 100; n++) {
        enum data d = n % 2 == 0 ? TAME : WILD;
        float a = random_float(TAME);
        float *x = random_floats(n, d), *y = random_floats(n, d);
        float *want = room(n * sizeof(*want));

        for (size_t i = 0; i < n; i++)
            want[i] = fmaf(a, x[i], y[i]);
        k->axpy(a, x, y, n);
        for (size_t i = 0; i < n; i++)
            good &= same(y[i], want[i]);
        free(x);
        free(y);
        free(want);
    }
    ok(good, "%s: axpy, 0 to 100 long", k->name);
}

/* One column of the delta rule as the header states it. */
static float
contract_kda(float *s, size_t kw, size_t vw, size_t j, const float *in,
             float v, float beta)
{
    const float *decay = in, *k = in + kw, *q = in + 2 * kw;
    float u = 0.0F, o = 0.0F, e;

    for (size_t d = 0; d < kw; d++) {
        s[d * vw + j] = s[d * vw + j] * decay[d];
        u = fmaf(k[d], s[d * vw + j], u);
    }
    e = beta * (v - u);
    for (size_t d = 0; d < kw; d++) {
        s[d * vw + j] = fmaf(k[d], e, s[d * vw + j]);
        o = fmaf(q[d], s[d * vw + j], o);
    }
    return o;
}

static bool
steps(const struct rt_kernels *k, size_t kw, size_t vw, enum data d)
{
    float *s = random_floats(kw * vw, d), *want_s = room(kw * vw * sizeof(*s));
    float *in = random_floats(3 * kw, d), *v = random_floats(vw, d);
    float *o = random_floats(vw, WILD), *want_o = room(vw * sizeof(*o));
    float *scratch = random_floats(2 * vw, WILD);
    float beta = random_float(TAME);
    bool good = true;

    memcpy(want_s, s, kw * vw * sizeof(*s));
    for (size_t j = 0; j < vw; j++)
        want_o[j] = contract_kda(want_s, kw, vw, j, in, v[j], beta);
    k->kda_step(s, kw, vw, in, in + kw, in + 2 * kw, v, beta, o, scratch);
    for (size_t i = 0; i < kw * vw; i++)
        good &= same(s[i], want_s[i]);
    for (size_t j = 0; j < vw; j++)
        good &= same(o[j], want_o[j]);
    free(s);
    free(want_s);
    free(in);
    free(v);
    free(o);
    free(want_o);
    free(scratch);
    return good;
}

static void
test_kda(const struct rt_kernels *k)
{
    bool good = true;

    for (size_t vw = 1; vw <= 80; vw++)
        good &= steps(k, 1 + vw % 19, vw, vw % 2 == 0 ? TAME : WILD);
    good &= steps(k, 128, 128, TAME) && steps(k, 64, 128, WILD);
    ok(good, "%s: delta rule steps", k->name);
}

/* Padding is +0 whatever the row is, and nothing else is zero. */
static void
test_prepare(const struct rt_kernels *k)
{
    bool good = true;

    for (int e = LODE_ENC_F32; e <= LODE_ENC_MXFP4; e++) {
        for (size_t n = 1; n <= 130; n++) {
            float *x = random_floats(n, TAME);
            float *out = aligned_floats(rt_padded(n));
            size_t zeros = 0;

            for (size_t i = 0; i < n; i++)
                x[i] = 1.0F + (float)i;
            k->prepare((enum lode_encoding)e, x, n, out);
            for (size_t i = 0; i < rt_padded(n); i++)
                zeros += same(out[i], 0.0F);
            good &= zeros == rt_padded(n) - n;
            free(x);
            free(out);
        }
    }
    ok(good, "%s: prepared rows are padded with +0", k->name);
}

#ifndef TABLE
static void
test_select(void)
{
    const struct rt_kernels *k = NULL;
    const struct rt_kernels *const *all = rt_kernels_all();
    struct lode_error err;
    bool have_neon = strcmp(all[0]->name, "neon") == 0;

    must(rt_kernels_select(NULL, &k, &err), &err);
    ok(k == all[0], "without a name: the best, %s", k->name);
    must(rt_kernels_select("scalar", &k, &err), &err);
    is_str(k->name, "scalar", "the scalar table is everywhere");
    fails_with(rt_kernels_select("sse9", &k, &err), &err, LODE_E_USAGE,
               "unknown kernels \"sse9\"", "an unknown name");
    fails_with(rt_kernels_select(have_neon ? "avx2" : "neon", &k, &err), &err,
               LODE_E_UNSUPPORTED, "not on this processor",
               "the table of another processor");
    is_str(k->name, "scalar", "a failure leaves the output alone");
}

#endif

static void
test_table(const struct rt_kernels *k)
{
    test_prepare(k);
    test_matmul(k, LODE_ENC_F32, "f32");
    test_matmul(k, LODE_ENC_F16, "f16");
    test_matmul(k, LODE_ENC_BF16, "bf16");
    test_matmul(k, LODE_ENC_MXFP4, "mxfp4");
    test_mxfp4_codes(k);
    test_half_codes(k, LODE_ENC_BF16, "bf16");
    test_half_codes(k, LODE_ENC_F16, "f16");
    test_dot(k);
    test_axpy(k);
    test_kda(k);
}

/* With TABLE: that one alone (avx512_emulated.c). */
int
main(void)
{
#ifdef TABLE
    extern const struct rt_kernels TABLE;

    test_table(&TABLE);
#else
    test_select();
    test_mxfp4_table();
    for (const struct rt_kernels *const *k = rt_kernels_all(); *k; k++)
        test_table(*k);
#endif
    return done_testing();
}
