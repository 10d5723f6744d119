/* linear_block.h - a block of 32 columns of a panel in vectors: its codes, its scales, what its integer dots add to a
 * sum; and how sums are stored. Shared by the kernels that multiply vectors (linear_lanes.h) and tiles (linear_amx.c),
 * in the words that linear_lanes.h lists.
 */
#include <string.h>

/* Puts the plane of p bits (if codes have one) on top of the bits that wider planes gave. `pass`: which LANES rows. */
INLINE void unpack_plane(af_layout l, uint32_t p, const unsigned char *block, uint32_t pass, vi codes[8]) {
    if (!(l.bits & p)) return;
    uint32_t below = l.bits & ~(2 * p - 1); /* bits in wider planes, and so their vectors */
    vi mask = bytes_of((int8_t)(((1u << p) - 1) << below));
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        v16 v = (v16)load(block + (below + g % p) * AF_VECTOR + pass * LANES * 4);
        uint32_t at = p * (g / p);
        v = at >= below ? v >> (at - below) : v << (below - at);
        codes[g] = below ? or_and(codes[g], (vi)v, mask) : p == 8 ? (vi)v : and((vi)v, mask);
    }
}

/* A block's codes, or what they stand for. */
INLINE void unpack(af_layout l, const unsigned char *block, uint32_t pass, vi codes[8]) {
    unpack_plane(l, 8, block, pass, codes);
    unpack_plane(l, 4, block, pass, codes);
    unpack_plane(l, 2, block, pass, codes);
    unpack_plane(l, 1, block, pass, codes);
    if (l.book == AF_BOOK_NONE) return;
    vi book = load_16_bytes(af_books[l.book]);
    UNROLL
    for (uint32_t g = 0; g < 8; g++) codes[g] = look_up(book, codes[g]);
}

typedef struct lane_scales {
    vf scale[2], minimum[2];
} lane_scales;

INLINE lane_scales scales_of(af_layout l, const unsigned char *head, uint32_t block, uint32_t pass) {
    lane_scales s;
    const unsigned char *halves = head + pass * LANES * 2, *bytes = head + pass * LANES;
    if (!l.super) {
        s.scale[0] = l.bfloat ? load_bfloats(halves + block * 32) : load_halves(halves + block * 32);
        if (l.minimum) s.minimum[0] = load_halves(halves + 64 + block * 32);
        return s;
    }
    vf d = load_halves(halves), dmin = load_halves(halves + 32);
    if (l.unit) d = mul(d, floats_of(af_layout_unit(l)));
    uint32_t count = AF_BLOCK / l.columns;
    UNROLL
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *scale = bytes + af_layout_scales_at(l, block * count + i);
        if (!l.minimum) {
            s.scale[i] = mul(d, to_float(load_signed_bytes(scale)));
            continue;
        }
        vi scales = load_bytes(scale), minima;
        if (af_layout_nibble_scales(l)) {
            minima = shift_right_4(scales);
            scales = and(scales, ints_of(15));
        } else {
            minima = load_bytes(bytes + af_layout_minima_at(l, block * count + i));
        }
        s.scale[i] = mul(d, to_float(scales));
        s.minimum[i] = mul(negative(dmin), to_float(minima));
    }
    return s;
}

/* A token's dots with a block times their scales; `second` only with a scale for 16 columns. */
INLINE vf scaled(af_layout l, const lane_scales *s, vf first, vf second) {
    vf t = mul(s->scale[0], first);
    return l.columns == 16 ? mul_add(s->scale[1], second, t) : t;
}

/* What `s` says of minima, times a token's sums of activations, added to what its minima gave so far. */
INLINE vf add_minima(af_layout l, const lane_scales *s, const af_acts *a, size_t at, vf minima) {
    if (l.columns == 32) return mul_add(s->minimum[0], floats_of(a->sum[at]), minima);
    minima = mul_add(s->minimum[0], floats_of(a->sum_first[at]), minima);
    return mul_add(s->minimum[1], floats_of(a->sum_second[at]), minima);
}

#ifndef STORE_FIRST /* an instruction set may have a way of its own */
INLINE void store_first(float *p, vf v, uint32_t n) {
    float rows[LANES];
    store(rows, v);
    memcpy(p, rows, n * sizeof *rows);
}
#endif

INLINE void store_rows(const af_panel_job *job, uint32_t token, uint32_t pass, vf sum) {
    float *out = job->out + (token - job->first) * job->stride + pass * LANES;
    if (job->rows >= (pass + 1) * LANES) {
        store(out, sum);
    } else if (job->rows > pass * LANES) {
        store_first(out, sum, job->rows - pass * LANES);
    }
}

/* Asks for the lines that tokens will be stored to, in time for store_tokens: each is a miss, since a token's row of
 * outputs is longer than a page. A SmolLM2 prompt gains a twentieth. */
INLINE void expect_tokens(const af_panel_job *job, uint32_t t, uint32_t tokens) {
    for (uint32_t i = t; i < t + tokens; i++) __builtin_prefetch(job->out + (i - job->first) * job->stride, 1);
}

INLINE void store_tokens(uint32_t T, const af_panel_job *job, uint32_t t, uint32_t tokens, uint32_t pass,
                         const vf *sums) {
    UNROLL
    for (uint32_t i = 0; i < T; i++)
        if (i < tokens) store_rows(job, t + i, pass, sums[i]);
}
