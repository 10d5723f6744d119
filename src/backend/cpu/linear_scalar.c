/* linear_scalar.c - the kernels in plain C: the specification of every float and integer operation (kernels.h), and
 * what machines without an instruction set of their own run. Written to be read; a compiler may vectorize across rows,
 * which changes no result.
 */
#include "backend/cpu/kernels.h"

#include <math.h>
#include <string.h>

/* The largest magnitude; NaN if there is one (its bits compare above infinity's). */
static float largest(const float *x) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < AF_BLOCK; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffff;
        if (bits > most) most = bits;
    }
    float value;
    memcpy(&value, &most, sizeof value);
    return value;
}

static float round_or_zero(float v) { /* NaN gives 0: the block's scale says it */
    return v == v ? rintf(v) : 0.0f;
}

/* `steps`: of the quantized form in the largest magnitude. */
static float inverse_of(float steps, float most) {
    return most >= AF_ACTS_SMALLEST ? steps / most : 0.0f;
}

static void quantize_token(af_acts *a, uint32_t token) {
    const float *x = af_acts_row(a, token), steps = a->fine ? 127 * AF_FINE : 127;
    for (uint32_t b = a->block_begin; b < a->block_end; b++, x += AF_BLOCK) {
        const size_t at = af_acts_at(a, token, b);
        int8_t *q = af_acts_q(a, at);
        const float most = largest(x), inverse = inverse_of(steps, most);
        int32_t sums[2] = {0, 0};
        for (uint32_t i = 0; i < AF_BLOCK; i++) {
            const int32_t v = (int32_t)round_or_zero(x[i] * inverse), coarse = (v + AF_FINE / 2) >> AF_FINE_BITS;
            sums[i / 16] += v;
            q[i] = (int8_t)(a->fine ? coarse : v);
            if (a->fine) q[AF_BLOCK + i] = (int8_t)(v - AF_FINE * coarse);
        }
        af_acts_finish_block(a, at, most / steps, sums[0], sums[1]);
    }
}

static void quantize(af_acts *a, uint32_t token_begin, uint32_t token_end) {
    for (uint32_t t = token_begin; t < token_end; t++) quantize_token(a, t);
}

/* The integers that the entry `at` stands for. */
static void integers_of(const af_acts *a, size_t at, int32_t integers[AF_BLOCK]) {
    const int8_t *q = af_acts_q(a, at);
    for (uint32_t i = 0; i < AF_BLOCK; i++) integers[i] = a->fine ? AF_FINE * q[i] + q[AF_BLOCK + i] : q[i];
}

/* The codes of a block, or what they stand for, group by group: row r's four columns of group g at codes[g][4 * r]. */
AF_LAYOUT_INLINE void unpack(af_layout l, const unsigned char *block, uint8_t codes[8][AF_VECTOR]) {
    uint32_t below = 0;
    memset(codes, 0, 8 * AF_VECTOR);
    for (uint32_t p = 8; p; p /= 2) {
        if (!(l.bits & p)) continue;
        for (uint32_t g = 0; g < 8; g++) {
            const unsigned char *vector = block + g % p * AF_VECTOR;
            uint32_t shift = p * (g / p), mask = (1u << p) - 1;
            for (uint32_t i = 0; i < AF_VECTOR; i++)
                codes[g][i] = (uint8_t)(codes[g][i] | (vector[i] >> shift & mask) << below);
        }
        block += p * AF_VECTOR;
        below += p;
    }
    for (uint32_t g = 0; l.book != AF_BOOK_NONE && g < 8; g++) {
        for (uint32_t i = 0; i < AF_VECTOR; i++) codes[g][i] = af_books[l.book][codes[g][i]];
    }
}

/* Adds code * integer over groups first .. last - 1 to the 16 rows. */
static void dot(uint8_t codes[8][AF_VECTOR], uint32_t first, uint32_t last, const int32_t *x, int32_t *rows) {
    for (uint32_t g = first; g < last; g++) {
        for (uint32_t r = 0; r < AF_PANEL; r++) {
            for (uint32_t i = 0; i < 4; i++) rows[r] += codes[g][4 * r + i] * x[4 * g + i];
        }
    }
}

/* The scales and minima of a block of row r. With a scale for 32 columns only the first of each is set. */
typedef struct row_scales {
    float scale[2], minimum[2];
} row_scales;

static uint16_t bits_at(const unsigned char *p, uint32_t r) {
    uint16_t half;
    memcpy(&half, p + 2 * r, sizeof half);
    return half;
}

static float half_at(const unsigned char *p, uint32_t r) {
    return af_f16_to_f32(bits_at(p, r));
}

AF_LAYOUT_INLINE row_scales scales_of(af_layout l, const unsigned char *head, uint32_t block, uint32_t r) {
    row_scales s = {{0, 0}, {0, 0}};
    if (!l.super) {
        s.scale[0] = l.bfloat ? af_bf16_to_f32(bits_at(head + block * 32, r)) : half_at(head + block * 32, r);
        if (l.minimum) s.minimum[0] = half_at(head + 64 + block * 32, r);
        return s;
    }
    float d = half_at(head, r) * af_layout_unit(l), dmin = half_at(head + 32, r);
    uint32_t count = AF_BLOCK / l.columns;
    for (uint32_t i = 0; i < count; i++) {
        unsigned char scale = head[af_layout_scales_at(l, block * count + i) + r];
        if (!l.minimum) {
            s.scale[i] = d * (float)(int8_t)scale;
        } else {
            unsigned char minimum = head[af_layout_minima_at(l, block * count + i) + r];
            bool nibbles = af_layout_nibble_scales(l);
            s.scale[i] = d * (float)(nibbles ? scale & 15 : scale);
            s.minimum[i] = -(dmin * (float)(nibbles ? minimum >> 4 : minimum));
        }
    }
    return s;
}

/* What 16 rows are made of: sums of dots and of minima. */
typedef struct row_sums {
    float dots[AF_PANEL], minima[AF_PANEL];
} row_sums;

/* Adds what a block contributes to the 16 rows for the token whose entry is `at`. */
AF_LAYOUT_INLINE void add_block(af_layout l, const unsigned char *head, uint32_t block, uint8_t codes[8][AF_VECTOR],
                                const af_acts *a, size_t at, row_sums *sums) {
    bool halves = l.columns == 16;
    int32_t dots[2][AF_PANEL];
    for (uint32_t r = 0; r < AF_PANEL; r++) {
        dots[0][r] = l.offset ? af_start_at(l, false, a, at) : 0;
        dots[1][r] = l.offset && halves ? af_start_at(l, true, a, at) : 0;
    }
    int32_t x[AF_BLOCK];
    integers_of(a, at, x);
    dot(codes, 0, halves ? 4 : 8, x, dots[0]);
    if (halves) dot(codes, 4, 8, x, dots[1]);
    for (uint32_t r = 0; r < AF_PANEL; r++) {
        row_scales s = scales_of(l, head, block, r);
        float t = s.scale[0] * (float)dots[0][r];
        if (halves) t = fmaf(s.scale[1], (float)dots[1][r], t);
        sums->dots[r] = fmaf(t, a->d[at], sums->dots[r]);
        if (!l.minimum) continue;
        sums->minima[r] = fmaf(s.minimum[0], halves ? a->sum_first[at] : a->sum[at], sums->minima[r]);
        if (halves) sums->minima[r] = fmaf(s.minimum[1], a->sum_second[at], sums->minima[r]);
    }
}

AF_LAYOUT_INLINE void multiply_token(af_layout l, const af_panel_job *job, uint32_t token, float *rows) {
    uint32_t blocks = job->cols / AF_BLOCK, step = af_layout_blocks(l);
    row_sums sums = {{0}, {0}};
    for (uint32_t b = 0; b < blocks; b++) {
        const unsigned char *head = job->panel + b / step * af_layout_step_bytes(l);
        uint8_t codes[8][AF_VECTOR];
        unpack(l, head + af_layout_head_bytes(l) + b % step * af_layout_block_bytes(l), codes);
        add_block(l, head, b % step, codes, job->acts, af_acts_at(job->acts, token, b), &sums);
    }
    for (uint32_t r = 0; r < AF_PANEL; r++) rows[r] = l.minimum ? sums.dots[r] + sums.minima[r] : sums.dots[r];
}

AF_LAYOUT_INLINE void multiply(af_layout l, const af_panel_job *job) {
    float rows[AF_PANEL];
    for (uint32_t t = job->begin; t < job->end; t++) {
        multiply_token(l, job, t, rows);
        memcpy(job->out + (t - job->first) * job->stride, rows, job->rows * sizeof *rows);
    }
}

#define X(name, TYPE, ...)                                                                                             \
    static void multiply_##name(const af_panel_job *job) {                                                             \
        multiply((af_layout){__VA_ARGS__}, job);                                                                       \
    }
AF_LAYOUTS(X)
#undef X

static float weight_f32(const unsigned char *panel, size_t at) {
    float value;
    memcpy(&value, panel + at * sizeof value, sizeof value);
    return value;
}

static float weight_f16(const unsigned char *panel, size_t at) {
    uint16_t half;
    memcpy(&half, panel + at * sizeof half, sizeof half);
    return af_f16_to_f32(half);
}

static float weight_bf16(const unsigned char *panel, size_t at) {
    uint16_t half;
    memcpy(&half, panel + at * sizeof half, sizeof half);
    return af_bf16_to_f32(half);
}

AF_LAYOUT_INLINE void multiply_floats(float (*weight)(const unsigned char *panel, size_t at), const af_panel_job *job) {
    for (uint32_t t = job->begin; t < job->end; t++) {
        const float *x = job->acts->x + t * job->acts->stride;
        float sums[2][AF_PANEL] = {{0}, {0}};
        for (uint32_t k = 0; k < job->cols; k++) {
            for (uint32_t r = 0; r < AF_PANEL; r++)
                sums[k % 2][r] = fmaf(weight(job->panel, (size_t)k * AF_PANEL + r), x[k], sums[k % 2][r]);
        }
        for (uint32_t r = 0; r < job->rows; r++) job->out[(t - job->first) * job->stride + r] = sums[0][r] + sums[1][r];
    }
}

static void multiply_f32(const af_panel_job *job) {
    multiply_floats(weight_f32, job);
}

static void multiply_f16(const af_panel_job *job) {
    multiply_floats(weight_f16, job);
}

static void multiply_bf16(const af_panel_job *job) {
    multiply_floats(weight_bf16, job);
}

const af_kernels af_kernels_scalar = AF_KERNELS_TABLE;
