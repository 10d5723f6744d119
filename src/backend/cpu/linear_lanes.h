/* linear_lanes.h - the kernels' one body for instruction sets with vectors, included once by each linear_<isa>.c, which
 * first defines
 *
 *     LANES           rows in a vector: 16, 8 or 4
 *     SIDE(T)         vectors of rows that a tile of T tokens does side by side. A panel is done in
 *                     16 / (LANES * SIDE(T)) passes.
 *     TILE_SIZES      a list of the numbers of tokens done at once: 1, 2, 4, ... at most AF_LANES; and
 *     FLOAT_TILE_SIZES  the same for float weights, which need two registers a token
 *     TOGETHER        tokens of a tile whose integer dots are interleaved, a divisor of the larger sizes
 *     SIGNED_BYTES    whether `dot` takes 128 off codes of 8 bits itself
 *     APART           nothing, or what keeps a compiler from mixing the work on several such groups of tokens
 *     KERNEL, TILE_KERNEL, INLINE  storage class and target attribute; TILE_KERNEL is never inlined
 *     vf, vi, v16, v32  vectors of float, of anything integer, of uint16_t, of int32_t
 *     and the functions used below.
 *
 * The tile: a block's codes are unpacked once into 8 vectors and multiplied with each of T tokens in turn; sums stay
 * in registers. For one token the loads are the bound, and the lines ahead are prefetched.
 */
#include "backend/cpu/linear_block.h"

#define SIDE_MOST SIDE(1)

/* Ahead of the load. Multiplying one token with matrices of 40 MB on a Sapphire Rapids core: 1.5 to 8 KB ahead are the
 * same within noise for q4_1, q5_0 and q8_0, into either cache; 0.5 KB and none are up to a tenth slower. */
#define PREFETCH_BYTES 1536

INLINE float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINE void prefetch(const unsigned char *p, size_t bytes) {
    for (size_t at = 0; at < bytes; at += AF_VECTOR) __builtin_prefetch(p + PREFETCH_BYTES + at);
}

/* The integer dots of `tokens` tokens with one half (or all) of a block. */
INLINE void dots_of(af_layout l, bool second_half, const vi codes[8], const af_acts *a, size_t at, uint32_t tokens,
                    vf *dots) {
    const uint32_t bits = af_layout_value_bits(l), first = second_half ? 4 : 0, groups = l.columns / 4;
    const bool offset = l.offset && !(SIGNED_BYTES && bits == 8);
    vi sums[TOGETHER];
    if (a->fine) {
        const int8_t *q = a->q + at * 2 * AF_BLOCK + 4 * first;
        UNROLL
        for (uint32_t i = 0; i < tokens; i++) sums[i] = ints_of(0);
        dot(bits, codes + first, q, 2 * AF_BLOCK, groups, tokens, sums);
        UNROLL
        for (uint32_t i = 0; i < tokens; i++)
            sums[i] = (vi)(AF_FINE * (v32)sums[i] + (offset ? af_start_at(l, second_half, a, at + i) : 0));
        dot(bits, codes + first, q + AF_BLOCK, 2 * AF_BLOCK, groups, tokens, sums);
    } else {
        UNROLL
        for (uint32_t i = 0; i < tokens; i++) sums[i] = ints_of(offset ? af_start_at(l, second_half, a, at + i) : 0);
        dot(bits, codes + first, a->q + at * AF_BLOCK + 4 * first, AF_BLOCK, groups, tokens, sums);
    }
    UNROLL
    for (uint32_t i = 0; i < tokens; i++) dots[i] = to_float(sums[i]);
}

/* Adds what a block's dots contribute for `tokens` <= TOGETHER tokens from entry `at`. */
INLINE void add_block(af_layout l, const vi codes[8], const lane_scales *s, const af_acts *a, size_t at,
                      uint32_t tokens, vf *sums) {
    vf first[TOGETHER], second[TOGETHER];
    dots_of(l, false, codes, a, at, tokens, first);
    if (l.columns == 16) dots_of(l, true, codes, a, at, tokens, second);
    UNROLL
    for (uint32_t i = 0; i < tokens; i++)
        sums[i] = mul_add(scaled(l, s, first[i], second[i]), floats_of(a->d[at + i]), sums[i]);
}

/* The sums of minima, of T tokens and the vectors of rows from `first` on, held in memory: a pass over the panel of
 * its own, for tiles that need their registers for dots. `at`: the first token's entry for the first block. */
INLINE void hold_minima(af_layout l, uint32_t T, const af_panel_job *job, size_t at, uint32_t first, float *held) {
    const unsigned char *head = job->panel;
    const uint32_t blocks = job->cols / AF_BLOCK, step = af_layout_blocks(l), side = SIDE(T);
    vf minima[SIDE_MOST * AF_LANES];
    UNROLL
    for (uint32_t i = 0; i < side * T; i++) minima[i] = floats_of(0);
    for (uint32_t b = 0; b < blocks; b += step, head += af_layout_step_bytes(l)) {
        const uint32_t here = blocks - b < step ? blocks - b : step;
        for (uint32_t j = 0; j < here; j++, at += job->acts->lanes) {
            UNROLL
            for (uint32_t v = 0; v < side; v++) {
                const lane_scales s = scales_of(l, head, j, first + v);
                UNROLL
                for (uint32_t i = 0; i < T; i++)
                    minima[v * T + i] = add_minima(l, &s, job->acts, at + i, minima[v * T + i]);
            }
        }
    }
    UNROLL
    for (uint32_t i = 0; i < side * T; i++) store(held + i * LANES, minima[i]);
    __asm__ volatile("" : : "r"(held) : "memory"); /* or compilers would keep them in registers */
}

/* Tokens t .. t + tokens - 1 of one group, tokens <= T; what lies up to T is computed and dropped. */
INLINE void tile(af_layout l, uint32_t T, const af_panel_job *job, uint32_t t, uint32_t tokens, uint32_t pass) {
    const af_acts *a = job->acts;
    const unsigned char *p = job->panel;
    uint32_t blocks = job->cols / AF_BLOCK, step = af_layout_blocks(l);
    size_t at = af_acts_at(a, t, 0);
    const uint32_t side = SIDE(T), first = pass * side;
    const bool few = T <= 2; /* weights are what is waited for, and registers hold the sums of minima too */
    vf sums[SIDE_MOST * AF_LANES], minima[SIDE_MOST * 2];
    _Alignas(AF_VECTOR) float held[SIDE_MOST * AF_LANES * LANES];
    UNROLL
    for (uint32_t i = 0; i < side * T; i++) sums[i] = floats_of(0);
    UNROLL
    for (uint32_t i = 0; i < side * T; i++)
        if (few) minima[i] = floats_of(0);
    if (!few && pass == 0) expect_tokens(job, t, tokens);
    if (!few && l.minimum) hold_minima(l, T, job, at, first, held);
    for (uint32_t b = 0; b < blocks; b += step) {
        const unsigned char *head = p;
        uint32_t here = blocks - b < step ? blocks - b : step;
        p += af_layout_head_bytes(l);
        if (few && pass == 0) prefetch(head, af_layout_head_bytes(l));
        for (uint32_t j = 0; j < here; j++, at += a->lanes, p += af_layout_block_bytes(l)) {
            if (few && pass == 0) prefetch(p, af_layout_block_bytes(l));
            UNROLL
            for (uint32_t v = 0; v < side; v++) {
                vi codes[8];
                unpack(l, p, first + v, codes);
                lane_scales s = scales_of(l, head, j, first + v);
                UNROLL
                for (uint32_t i = 0; i < T; i += TOGETHER) {
                    add_block(l, codes, &s, a, at + i, T < TOGETHER ? T : TOGETHER, sums + v * T + i);
                    APART;
                }
                UNROLL
                for (uint32_t i = 0; i < T; i++)
                    if (few && l.minimum) minima[v * T + i] = add_minima(l, &s, a, at + i, minima[v * T + i]);
            }
        }
    }
    UNROLL
    for (uint32_t i = 0; i < side * T; i++)
        if (l.minimum) sums[i] = add(sums[i], few ? minima[i] : load_floats((const unsigned char *)(held + i * LANES)));
    UNROLL
    for (uint32_t v = 0; v < side; v++) store_tokens(T, job, t, tokens, first + v, sums + v * T);
}

/* Tiles of 1, 2, 4, ... tokens or tokens; the smallest that holds what is left is taken. */
typedef void (*tile_fn)(const af_panel_job *job, uint32_t t, uint32_t tokens, uint32_t pass);

static void multiply_by_tiles(const af_panel_job *job, const tile_fn *tiles, uint32_t sizes) {
    uint32_t most = 1u << (sizes - 1);
    for (uint32_t t = job->begin, n; t < job->end; t += n) {
        n = job->end - t < most ? job->end - t : most;
        uint32_t size = 0;
        while (1u << size < n) size++;
        const uint32_t passes = AF_PANEL / LANES / SIDE(1u << size);
        for (uint32_t pass = 0; pass < passes; pass++) tiles[size](job, t, n, pass);
    }
}

/* Each tile is a function of its own: compilers give it all registers, and clang would merge inlined ones into one that
 * has none. */
#define TILE_FUNCTION(T, name, body, ...)                                                                              \
    TILE_KERNEL void tile_##name##_##T(const af_panel_job *job, uint32_t t, uint32_t tokens, uint32_t pass) {          \
        body(__VA_ARGS__, T, job, t, tokens, pass);                                                                    \
    }
#define TILE_ENTRY(T, name) tile_##name##_##T,
#define MULTIPLY(name, SIZES, body, ...)                                                                               \
    SIZES(TILE_FUNCTION, name, body, __VA_ARGS__)                                                                      \
    static void multiply_##name(const af_panel_job *job) {                                                             \
        static const tile_fn TILES[] = {SIZES(TILE_ENTRY, name)};                                                      \
        multiply_by_tiles(job, TILES, sizeof TILES / sizeof *TILES);                                                   \
    }

#define X(name, TYPE, ...) MULTIPLY(name, TILE_SIZES, tile, (af_layout){__VA_ARGS__})
AF_LAYOUTS(X)
#undef X

/* ---- Floats: two sums a token, of even and odd columns ---- */

typedef vf (*load_fn)(const unsigned char *p);

INLINE void float_tile(load_fn load_weights, size_t size, uint32_t T, const af_panel_job *job, uint32_t t,
                       uint32_t tokens, uint32_t pass) {
    const uint32_t side = SIDE(T), first = pass * side;
    const float *x[AF_LANES];
    vf even[SIDE_MOST][AF_LANES], odd[SIDE_MOST][AF_LANES];
    UNROLL
    for (uint32_t i = 0; i < T; i++) {
        x[i] = job->acts->x + (t + (i < tokens ? i : tokens - 1)) * job->acts->stride;
        UNROLL
        for (uint32_t v = 0; v < side; v++) even[v][i] = odd[v][i] = floats_of(0);
    }
    const unsigned char *p = job->panel + first * LANES * size;
    uint32_t pairs = job->cols / 2;
    for (uint32_t k = 0; k < 2 * pairs; k += 2, p += 2 * AF_PANEL * size) {
        if (T == 1 && pass == 0) prefetch(p, 2 * AF_PANEL * size);
        UNROLL
        for (uint32_t v = 0; v < side; v++) {
            const unsigned char *at = p + v * LANES * size;
            vf of_even = load_weights(at), of_odd = load_weights(at + AF_PANEL * size);
            UNROLL
            for (uint32_t i = 0; i < T; i++) {
                even[v][i] = mul_add(of_even, floats_of(x[i][k]), even[v][i]);
                odd[v][i] = mul_add(of_odd, floats_of(x[i][k + 1]), odd[v][i]);
            }
        }
    }
    UNROLL
    for (uint32_t v = 0; v < side; v++) UNROLL
    for (uint32_t i = 0; i < T; i++) {
        const vf last = job->cols % 2 ? load_weights(p + v * LANES * size) : floats_of(0);
        if (job->cols % 2) even[v][i] = mul_add(last, floats_of(x[i][job->cols - 1]), even[v][i]);
        if (i < tokens) store_rows(job, t + i, first + v, add(even[v][i], odd[v][i]));
    }
}

MULTIPLY(f32, FLOAT_TILE_SIZES, float_tile, load_floats, 4)
MULTIPLY(f16, FLOAT_TILE_SIZES, float_tile, load_halves, 2)
MULTIPLY(bf16, FLOAT_TILE_SIZES, float_tile, load_bfloats, 2)

/* ---- Quantizing activations ---- */

#define BLOCK_VECTORS (AF_BLOCK / LANES)

/* The bits of a block's magnitudes, the largest of each lane's. As integers they order as floats do, NaN above all. */
INLINE vi magnitudes(const float *x) {
    vi bits = ints_of(0);
    UNROLL
    for (uint32_t i = 0; i < BLOCK_VECTORS; i++)
        bits = max_unsigned(bits, and((vi)load_floats((const unsigned char *)(x + i * LANES)), ints_of(0x7fffffff)));
    return bits;
}

INLINE float inverse_of(float steps, float most) {
    return most >= AF_ACTS_SMALLEST ? steps / most : 0.0f;
}

INLINE float steps_of(bool fine) {
    return fine ? 127 * AF_FINE : 127;
}

/* Rounds and stores 16 columns; returns their sums by lane. */
INLINE vi round_half(bool fine, const float *x, vf inverse, int8_t *q) {
    vi v[16 / LANES], rest[16 / LANES], sum = ints_of(0);
    UNROLL
    for (uint32_t i = 0; i < 16 / LANES; i++) {
        v[i] = to_int(mul(load_floats((const unsigned char *)(x + i * LANES)), inverse));
        sum = add_ints(sum, v[i]);
        if (!fine) continue;
        const v32 steps = ((v32)v[i] + AF_FINE / 2) >> AF_FINE_BITS;
        rest[i] = (vi)((v32)v[i] - AF_FINE * steps);
        v[i] = (vi)steps;
    }
    store_16_bytes(q, v);
    if (fine) store_16_bytes(q + AF_BLOCK, rest);
    return sum;
}

INLINE void quantize_one(bool fine, af_acts *a, uint32_t token) {
    const float *x = af_acts_row(a, token);
    for (uint32_t b = a->block_begin; b < a->block_end; b++, x += AF_BLOCK) {
        const size_t at = af_acts_at(a, token, b);
        int8_t *q = af_acts_q(a, at);
        const float most = float_of_bits(largest(magnitudes(x)));
        const vf inverse = floats_of(inverse_of(steps_of(fine), most));
        const int32_t first = total(round_half(fine, x, inverse, q));
        const int32_t second = total(round_half(fine, x + 16, inverse, q + 16));
        af_acts_finish_block(a, at, most / steps_of(fine), first, second);
    }
}

/* af_acts_finish_block for LANES entries that lie side by side. */
INLINE void finish_blocks(af_acts *a, size_t at, vf d, vi first, vi second) {
    vi both = add_ints(first, second);
    store(a->d + at, d);
    store(a->sum + at, mul(d, to_float(both)));
    if (a->needs & AF_NEEDS_STARTS) {
        store_ints(a->start[AF_START_8] + at, (vi)(-8 * (v32)both));
        store_ints(a->start[AF_START_16] + at, (vi)(-16 * (v32)both));
        store_ints(a->start[AF_START_128] + at, (vi)(-128 * (v32)both));
    }
    if (!(a->needs & AF_NEEDS_HALVES)) return;
    store(a->sum_first + at, mul(d, to_float(first)));
    store(a->sum_second + at, mul(d, to_float(second)));
    store_ints(a->start[AF_START_4_FIRST] + at, (vi)(-4 * (v32)first));
    store_ints(a->start[AF_START_4_SECOND] + at, (vi)(-4 * (v32)second));
    store_ints(a->start[AF_START_32_FIRST] + at, (vi)(-32 * (v32)first));
    store_ints(a->start[AF_START_32_SECOND] + at, (vi)(-32 * (v32)second));
}

/* LANES tokens of a group at once: what there is one of a block is computed for all of them in a vector. */
INLINE void quantize_many(bool fine, af_acts *a, uint32_t token) {
    const float *x = af_acts_row(a, token);
    for (uint32_t b = a->block_begin; b < a->block_end; b++, x += AF_BLOCK) {
        const size_t at = af_acts_at(a, token, b);
        vi first[LANES], second[LANES];
        float inverses[LANES];
        for (uint32_t i = 0; i < LANES; i++) first[i] = magnitudes(x + i * a->stride);
        const vf most = (vf)across(max_unsigned, first);
        store(inverses, divide_or_zero(steps_of(fine), most, AF_ACTS_SMALLEST));
        for (uint32_t i = 0; i < LANES; i++) {
            int8_t *q = af_acts_q(a, at + i);
            first[i] = round_half(fine, x + i * a->stride, floats_of(inverses[i]), q);
            second[i] = round_half(fine, x + i * a->stride + 16, floats_of(inverses[i]), q + 16);
        }
        finish_blocks(a, at, divide(most, floats_of(steps_of(fine))), across(add_ints, first),
                      across(add_ints, second));
    }
}

typedef void (*quantize_fn)(af_acts *a, uint32_t token);

KERNEL void quantize_token(af_acts *a, uint32_t token) {
    quantize_one(false, a, token);
}

KERNEL void quantize_tokens(af_acts *a, uint32_t token) {
    quantize_many(false, a, token);
}

KERNEL void quantize_fine_token(af_acts *a, uint32_t token) {
    quantize_one(true, a, token);
}

KERNEL void quantize_fine_tokens(af_acts *a, uint32_t token) {
    quantize_many(true, a, token);
}

static void quantize(af_acts *a, uint32_t token_begin, uint32_t token_end) {
    const quantize_fn one = a->fine ? quantize_fine_token : quantize_token;
    const quantize_fn many = a->fine ? quantize_fine_tokens : quantize_tokens;
    for (uint32_t t = token_begin; t < token_end;) {
        const bool together = a->lanes >= LANES && t % LANES == 0 && token_end - t >= LANES;
        (together ? many : one)(a, t);
        t += together ? LANES : 1;
    }
}
