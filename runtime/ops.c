/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runtime/ops.h"

#include <assert.h>
#include <math.h>

#include "base/cli.h"
#include "runtime/math.h"

/* A piece of work worth handing to a thread, in multiply-adds. */
enum { PIECE_MACS = 1 << 17 };

struct rt_input
rt_ops_input(const float *x, size_t x_stride, size_t width, uint32_t tokens,
             float *prepared, size_t prepared_stride)
{
    struct rt_input in = {x,      x_stride,        width, prepared,
                          prepared_stride, tokens, LODE_ENC_UNKNOWN};

    return in;
}

struct prepare_job {
    const struct rt_kernels *k;
    const struct rt_input *in;
    enum lode_encoding encoding;
};

static void
prepare_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct prepare_job *j = user;

    (void)thread;
    for (size_t t = begin; t < end; t++)
        j->k->prepare(j->encoding, j->in->x + t * j->in->x_stride,
                      j->in->width, j->in->prepared +
                                        t * j->in->prepared_stride);
}

static void
prepare(struct rt_engine *e, struct rt_input *in, enum lode_encoding encoding)
{
    struct prepare_job j = {e->kernels, in, encoding};

    if (in->encoding == encoding)
        return;
    assert(in->prepared_stride >= rt_padded(in->width));
    rt_team_run(e->team, in->tokens, 1, prepare_rows, &j);
    in->encoding = encoding;
}

struct matmul_jobs {
    const struct rt_kernels *k;
    const struct rt_matmul *jobs;
    uint32_t job_count;
    size_t first_piece[RT_JOBS_MAX + 1];
    size_t piece_rows[RT_JOBS_MAX];
};

static void
matmul_pieces(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct matmul_jobs *g = user;
    uint32_t j = 0;

    (void)thread;
    for (size_t piece = begin; piece < end; piece++) {
        struct rt_matmul m;
        size_t row;

        while (piece >= g->first_piece[j + 1])
            j++;
        m = g->jobs[j];
        row = (piece - g->first_piece[j]) * g->piece_rows[j];
        m.w += row * m.w_stride;
        if (m.scale != NULL)
            m.scale += row * m.scale_stride;
        m.y += row;
        m.rows -= row;
        if (m.rows > g->piece_rows[j])
            m.rows = g->piece_rows[j];
        g->k->matmul(&m);
    }
}

void
rt_ops_matmuls(struct rt_engine *e, const struct rt_matmul *jobs,
               uint32_t job_count)
{
    struct matmul_jobs g;

    assert(job_count <= RT_JOBS_MAX);
    g.k = e->kernels;
    g.jobs = jobs;
    g.job_count = job_count;
    g.first_piece[0] = 0;
    for (uint32_t j = 0; j < job_count; j++) {
        size_t rows = PIECE_MACS / (jobs[j].cols * jobs[j].tokens + 1);

        rows = (rows + 7) / 8 * 8; /* kernels take several rows at a time */
        if (rows == 0)
            rows = 8;
        g.piece_rows[j] = rows;
        g.first_piece[j + 1] =
            g.first_piece[j] + (jobs[j].rows + rows - 1) / rows;
    }
    rt_team_run(e->team, g.first_piece[job_count], 1, matmul_pieces, &g);
}

bool
rt_ops_stream(struct rt_engine *e, const struct rt_tensor *t,
              struct rt_input *in, float *y, size_t y_stride,
              struct lode_error *err)
{
    uint32_t row = 0;

    assert(t->cols == in->width);
    prepare(e, in, t->encoding);
    while (row < t->rows) {
        struct rt_slice slice;
        struct rt_matmul m;

        if (lode_cancelled != 0)
            return lode_fail(err, LODE_E_CANCELLED, "interrupted");
        if (!rt_trunk_slice(e->trunk, t, row, &slice, err))
            return false;
        m.w = slice.rows;
        m.scale = NULL;
        m.w_stride = t->row_bytes;
        m.scale_stride = 0;
        m.rows = slice.row_count;
        m.cols = t->cols;
        m.x = in->prepared;
        m.x_stride = in->prepared_stride;
        m.tokens = in->tokens;
        m.y = y + row;
        m.y_stride = y_stride;
        m.encoding = t->encoding;
        rt_ops_matmuls(e, &m, 1);
        row += slice.row_count;
    }
    return true;
}

void
rt_ops_norm_row(const struct rt_kernels *k, const float *x, const float *w,
                size_t width, float eps, float *out)
{
    float mean = k->dot(x, x, width) / (float)width;
    float r = 1.0F / sqrtf(mean + eps);

    for (size_t i = 0; i < width; i++)
        out[i] = w[i] * (x[i] * r);
}

struct norm_job {
    const struct rt_kernels *k;
    const struct rt_norm *norm;
};

static void
norm_rows(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct norm_job *j = user;
    const struct rt_norm *n = j->norm;

    (void)thread;
    for (size_t t = begin; t < end; t++)
        rt_ops_norm_row(j->k, n->x + t * n->x_stride, n->w, n->width, n->eps,
                        n->out + t * n->out_stride);
}

void
rt_ops_norm(struct rt_engine *e, const struct rt_norm *norm, uint32_t tokens)
{
    struct norm_job j = {e->kernels, norm};

    rt_team_run(e->team, tokens, 1, norm_rows, &j);
}

/* SwiGLU: silu(g) u.  SiTU-GLU (Kimi K3): b1 tanh(g/b1) sigmoid(g) times
 * b2 tanh(u/b2), or times u when the up branch has no cap. */
void
rt_ops_activate_row(const struct rt_config *c, float *gate, const float *up,
                    size_t width)
{
    float b1 = c->situ_beta;
    float b2 = c->situ_linear_beta;

    if (!c->situ) {
        rt_silu_n(gate, gate, width);
        for (size_t i = 0; i < width; i++)
            gate[i] *= up[i];
        return;
    }
    for (size_t i = 0; i < width; i++) {
        float g = gate[i];
        float u = b2 > 0 ? b2 * rt_tanh(up[i] / b2) : up[i];

        gate[i] = ((b1 * rt_tanh(g / b1)) * rt_sigmoid(g)) * u;
    }
}

struct activate_job {
    const struct rt_config *c;
    float *gate;
    const float *up;
    size_t stride;
    size_t width;
    size_t part; /* columns of one item */
    size_t parts;
};

static void
activate_parts(void *user, size_t begin, size_t end, unsigned thread)
{
    const struct activate_job *j = user;

    (void)thread;
    for (size_t i = begin; i < end; i++) {
        size_t first = i % j->parts * j->part;
        size_t n = j->width - first < j->part ? j->width - first : j->part;
        size_t at = i / j->parts * j->stride + first;

        rt_ops_activate_row(j->c, j->gate + at, j->up + at, n);
    }
}

void
rt_ops_activate(struct rt_engine *e, float *gate, const float *up,
                size_t stride, size_t width, uint32_t tokens)
{
    struct activate_job j = {&e->model->config, gate, up, stride, width,
                             2048,              0};

    j.parts = (width + j.part - 1) / j.part;
    rt_team_run(e->team, j.parts * tokens, 1, activate_parts, &j);
}
