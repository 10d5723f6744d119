/* linear_amx.c - AMX with int8 tiles, beside AVX-512: sixteen tokens times a panel in one instruction.
 *
 * A tile of the processor is 16 rows of 64 bytes. A block of a panel, its codes unpacked, is one as it stands: a row of
 * the tile is a group of 4 columns, a lane of it a row of the panel. Sixteen tokens of a block are another. Their
 * product is exact, so only it is done here in another way: floats follow the same order as everywhere, 16 rows of the
 * panel to a vector (linear_block.h).
 *
 * A panel is unpacked once, into the worker's scratch, codes less their offset:
 *
 *     a block of 32 columns: 8 x 64 B codes, then scales as floats, 64 B each: 1 or 2, and as many minima
 *     for fine tokens, where 8 * code fits a byte: before the codes 8 x 64 B of that
 *
 * and then passes all groups of 16 tokens. A fine token's 32 q and 32 q2 are then one row of a tile, and its product
 * costs no more than another's. Where a code is too large two products are made, and joined as integers.
 *
 * Products of a block are made while floats of an earlier one are added: the tiles have their own unit. But while it
 * works, the processor (Sapphire Rapids) multiplies floats on one port of two; sums of floats and of integers keep
 * both. So floats are multiplied as little as can be: sums of minima are made before, and integers become floats by an
 * addition (SHIFT). What is left of the last group goes by AVX-512 where that is less work.
 */
#define TARGET __attribute__((target(AVX512 ",amx-tile,amx-int8")))
#include "backend/cpu/linear_avx512.h"
#include "backend/cpu/linear_block.h"

#define FEWEST_TOKENS  5  /* that are worth a group: below, AVX-512 is faster */
#define FEWEST_COLUMNS 96 /* AHEAD blocks */

/* ---- A panel unpacked ---- */

/* Whether codes of fine tokens are there times AF_FINE too. Those of 16 columns would be apart. */
INLINE bool is_wide(af_layout l, bool fine) {
    return fine && l.columns == 32 && af_layout_value_bits(l) + AF_FINE_BITS <= 8;
}

INLINE size_t codes_bytes(af_layout l, bool fine) { /* of a block */
    return (size_t)(is_wide(l, fine) ? 16 : 8) * AF_VECTOR;
}

INLINE size_t unpacked_bytes(af_layout l, bool fine) { /* of a block */
    return codes_bytes(l, fine) + (size_t)(AF_BLOCK / l.columns) * (l.minimum ? 2 : 1) * AF_VECTOR;
}

INLINE void put_codes(af_layout l, bool fine, const vi codes[8], unsigned char *to) {
    UNROLL
    for (uint32_t g = 0; g < 8; g++) {
        const vi code = _mm512_sub_epi8(codes[g], bytes_of((int8_t)l.offset));
        if (is_wide(l, fine)) {
            const vi times = and(_mm512_slli_epi16(code, AF_FINE_BITS), bytes_of((int8_t)-AF_FINE));
            _mm512_store_si512(to + g * AF_VECTOR, times);
        }
        _mm512_store_si512(to + codes_bytes(l, fine) - (8 - g) * AF_VECTOR, code);
    }
}

INLINE void put_scales(af_layout l, const lane_scales *s, float *to) {
    uint32_t count = AF_BLOCK / l.columns;
    UNROLL
    for (uint32_t i = 0; i < count; i++) {
        store(to + i * LANES, s->scale[i]);
        if (l.minimum) store(to + (count + i) * LANES, s->minimum[i]);
    }
}

INLINE lane_scales take_scales(af_layout l, const unsigned char *from) {
    lane_scales s;
    uint32_t count = AF_BLOCK / l.columns;
    UNROLL
    for (uint32_t i = 0; i < count; i++) {
        s.scale[i] = load_floats(from + i * AF_VECTOR);
        if (l.minimum) s.minimum[i] = load_floats(from + (count + i) * AF_VECTOR);
    }
    return s;
}

INLINE void unpack_panel(af_layout l, bool fine, const af_panel_job *job) {
    const unsigned char *p = job->panel;
    unsigned char *to = job->scratch;
    uint32_t blocks = job->cols / AF_BLOCK, step = af_layout_blocks(l);
    for (uint32_t b = 0; b < blocks; b += step, p += af_layout_step_bytes(l)) {
        uint32_t here = blocks - b < step ? blocks - b : step;
        for (uint32_t j = 0; j < here; j++, to += unpacked_bytes(l, fine)) {
            vi codes[8];
            unpack(l, p + af_layout_head_bytes(l) + j * af_layout_block_bytes(l), 0, codes);
            put_codes(l, fine, codes, to);
            lane_scales s = scales_of(l, p, j, 0);
            put_scales(l, &s, (float *)(to + codes_bytes(l, fine)));
        }
    }
}

/* ---- Tiles ---- */

/* The operand of ldtilecfg: for each tile the bytes of a row, and the rows. */
typedef struct tile_shapes {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_shapes;
_Static_assert(sizeof(tile_shapes) == 64, "as the processor reads it");

/* 0 to 3: products; 4 and 5: tokens; 6 and 7: codes. */
static const tile_shapes WHOLE = {1, 0, {0}, {64, 64, 64, 64, 32, 32, 64, 64}, {16, 16, 16, 16, 16, 16, 8, 8}},
                         HALVES = {1, 0, {0}, {64, 64, 64, 64, 16, 16, 64, 64}, {16, 16, 16, 16, 16, 16, 4, 4}},
                         WIDE = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

INLINE const tile_shapes *shapes_of(af_layout l, bool fine) {
    return l.columns == 16 ? &HALVES : is_wide(l, fine) ? &WIDE : &WHOLE;
}

#define PRODUCT (AF_LANES * LANES) /* integers, a row a token */
#define AHEAD   3                  /* blocks whose products are made before the floats of a block are added */
#define SLOTS   (AHEAD + 1)
_Static_assert(AHEAD *AF_BLOCK <= FEWEST_COLUMNS, "a group has as many blocks");

/* Products of a block: of q and of q2, where they are not side by side, for each scale. */
INLINE uint32_t products_of(af_layout l, bool fine) {
    return AF_BLOCK / l.columns * (fine && !is_wide(l, fine) ? 2 : 1);
}

/* Without an offset codes are unsigned. */
#define MULTIPLY_TILES(product, tokens, codes, q, c)                                                                   \
    do {                                                                                                               \
        _tile_zero(product);                                                                                           \
        _tile_loadd(tokens, q, AF_BLOCK << fine);                                                                      \
        _tile_loadd(codes, c, AF_VECTOR);                                                                              \
        if (l.offset)                                                                                                  \
            _tile_dpbssd(product, tokens, codes);                                                                      \
        else                                                                                                           \
            _tile_dpbsud(product, tokens, codes);                                                                      \
    } while (0)

/* Products of a block in tiles `first` and `second`; where there are four, in all. */
#define MAKE_BLOCK(first, second, q, c)                                                                                \
    do {                                                                                                               \
        MULTIPLY_TILES(first, 4, 6, q, c);                                                                             \
        if (products_of(l, fine) == 4) {                                                                               \
            MULTIPLY_TILES(1, 5, 6, (q) + AF_BLOCK, c);                                                                \
            MULTIPLY_TILES(2, 4, 7, (q) + 16, (c) + 4 * AF_VECTOR);                                                    \
            MULTIPLY_TILES(3, 5, 7, (q) + AF_BLOCK + 16, (c) + 4 * AF_VECTOR);                                         \
        } else if (l.columns == 16) {                                                                                  \
            MULTIPLY_TILES(second, 5, 7, (q) + 16, (c) + 4 * AF_VECTOR);                                               \
        } else if (products_of(l, fine) == 2) {                                                                        \
            MULTIPLY_TILES(second, 5, 6, (q) + AF_BLOCK, c);                                                           \
        }                                                                                                              \
    } while (0)

#define STORE_BLOCK(first, second, to)                                                                                 \
    do {                                                                                                               \
        _tile_stored(first, to, AF_VECTOR);                                                                            \
        if (products_of(l, fine) > 1) _tile_stored(second, (to) + PRODUCT, AF_VECTOR);                                 \
        if (products_of(l, fine) > 2) {                                                                                \
            _tile_stored(2, (to) + 2 * PRODUCT, AF_VECTOR);                                                            \
            _tile_stored(3, (to) + 3 * PRODUCT, AF_VECTOR);                                                            \
        }                                                                                                              \
    } while (0)

/* ---- Their floats ---- */

/* SHIFT is a float whose last place is 1, SHIFT_BITS its bits: an integer i below 2^22 added to these is the float
 * SHIFT + i. Dots are at most 32 * (127 * 8 + 3) * 128, a little less.
 *
 * So scale * i, rounded, is fma(scale, SHIFT + i, -scale * SHIFT): scales have at most 19 bits, a half float's 11 and
 * an integer's 8, and SHIFT has 2, so that -scale * SHIFT is exact, and the sum is rounded once. Only where it is zero
 * can its sign be another; it is then a term of a sum that begins at +0 and is never -0: no product of a scale's, a
 * code's and an activation's smallest (acts.h) is too small for a float. Bfloats, for which all this fails, are
 * converted. */
#define SHIFT      0x1.8p23f
#define SHIFT_BITS 0x4b400000
_Static_assert(32 * (127 * AF_FINE + AF_FINE / 2 - 1) * 128 < 1 << 22, "SHIFT + i has all bits of i");

/* A token's dot, the `scale`th of two or the only one, and `more`. */
INLINE vi dot_at(af_layout l, bool fine, uint32_t scale, const int32_t *product, vi more) {
    const bool split = fine && !is_wide(l, fine);
    const unsigned char *at = (const unsigned char *)(product + scale * (split ? 2 : 1) * PRODUCT);
    if (!split) return add_ints(load(at), more);
    const vi times = _mm512_slli_epi32(load(at), AF_FINE_BITS);
    return add_ints(times, add_ints(load(at + PRODUCT * sizeof(int32_t)), more));
}

INLINE vf scaled_product(af_layout l, bool fine, const lane_scales *s, vf shift, const int32_t *product) {
    if (l.bfloat) return mul(s->scale[0], to_float(dot_at(l, fine, 0, product, ints_of(0))));
    const vf t = mul_add(s->scale[0], (vf)dot_at(l, fine, 0, product, ints_of(SHIFT_BITS)), shift);
    if (l.columns == 32) return t;
    return mul_add(s->scale[1], add((vf)dot_at(l, fine, 1, product, ints_of(SHIFT_BITS)), floats_of(-SHIFT)), t);
}

INLINE void add_products(af_layout l, bool fine, const int32_t *products, const unsigned char *scales, const float *d,
                         vf sums[AF_LANES]) {
    const lane_scales s = take_scales(l, scales);
    const vf shift = mul(s.scale[0], floats_of(-SHIFT));
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) {
        const vf t = scaled_product(l, fine, &s, shift, products + i * LANES);
        sums[i] = mul_add(t, floats_of(d[i]), sums[i]);
    }
}

/* ---- Groups of 16 tokens ---- */

/* Groups whose minima are summed up before their products begin. */
#define GROUPS 8

/* A row of the panel a lane, a token a vector. */
typedef struct group_sums {
    _Alignas(AF_VECTOR) float of[PRODUCT];
} group_sums;

INLINE void put_sums(group_sums *to, const vf sums[AF_LANES]) {
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) store(to->of + i * LANES, sums[i]);
}

/* What minima give to the tokens whose entries begin at `at`. */
INLINE void sum_minima(af_layout l, bool fine, const af_panel_job *job, size_t at, group_sums *to) {
    const unsigned char *scales = (const unsigned char *)job->scratch + codes_bytes(l, fine);
    const uint32_t blocks = job->cols / AF_BLOCK;
    vf minima[AF_LANES];
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) minima[i] = floats_of(0);
    for (uint32_t b = 0; b < blocks; b++, scales += unpacked_bytes(l, fine), at += AF_LANES) {
        const lane_scales s = take_scales(l, scales);
        UNROLL
        for (uint32_t i = 0; i < AF_LANES; i++) minima[i] = add_minima(l, &s, job->acts, at + i, minima[i]);
    }
    put_sums(to, minima);
}

/* Stores tokens first .. first + count - 1 of a group: sums of dots, and of minima or NULL. */
TILE_KERNEL void finish_group(const af_panel_job *job, uint32_t first, uint32_t count, const group_sums *dots,
                              const group_sums *minima) {
    vf sums[AF_LANES];
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) {
        sums[i] = load_floats((const unsigned char *)(dots->of + i * LANES));
        if (minima) sums[i] = add(sums[i], load_floats((const unsigned char *)(minima->of + i * LANES)));
    }
    store_tokens(AF_LANES, job, first, count, 0, sums);
}

/* Where products are made, and where they are added: two positions in one sequence of blocks, those of the panel for
 * the first group, again for the second, and so on. Activations follow each other likewise. */
typedef struct position {
    const int8_t *q;
    const float *d;
    const unsigned char *codes, *scales;
    uint32_t made;
    int32_t *products; /* SLOTS of them */
} position;

INLINE int32_t *slot_of(af_layout l, bool fine, const position *p, uint32_t block) {
    return p->products + block % SLOTS * products_of(l, fine) * PRODUCT;
}

/* Blocks take turns with two sets of tiles, so that one is stored while the next is made. */
INLINE void make_next(af_layout l, bool fine, position *p) {
    const bool odd = p->made % 2 && products_of(l, fine) <= 2;
    int32_t *last = slot_of(l, fine, p, p->made - 1);
    if (products_of(l, fine) > 2) {
        MAKE_BLOCK(0, 1, p->q, p->codes);
        STORE_BLOCK(0, 1, slot_of(l, fine, p, p->made));
    } else if (odd) {
        MAKE_BLOCK(2, 3, p->q, p->codes);
        STORE_BLOCK(0, 1, last);
    } else {
        MAKE_BLOCK(0, 1, p->q, p->codes);
        STORE_BLOCK(2, 3, last);
    }
    p->made++;
    p->q += AF_LANES * AF_BLOCK << fine;
    p->codes += unpacked_bytes(l, fine);
}

INLINE void store_last(af_layout l, bool fine, const position *p) {
    if (products_of(l, fine) > 2) return;
    int32_t *last = slot_of(l, fine, p, p->made - 1);
    if (p->made % 2)
        STORE_BLOCK(0, 1, last);
    else
        STORE_BLOCK(2, 3, last);
}

/* Of the block that was made `behind` blocks ago. */
INLINE void add_next(af_layout l, bool fine, position *p, uint32_t behind, vf sums[AF_LANES]) {
    add_products(l, fine, slot_of(l, fine, p, p->made - behind), p->scales, p->d, sums);
    p->d += AF_LANES;
    p->scales += unpacked_bytes(l, fine);
}

/* The group's share of the lines of the next panel, which will be unpacked as soon as this one is done. */
INLINE void expect_panel(const af_panel_job *job, uint32_t group, uint32_t groups) {
    const size_t begin = job->panel_bytes * group / groups, end = job->panel_bytes * (group + 1) / groups;
    for (size_t at = begin; at < end; at += AF_VECTOR) __builtin_prefetch(job->panel + job->panel_bytes + at, 0, 2);
}

INLINE void multiply_groups(af_layout l, bool fine, const af_panel_job *job, const group_sums *minima) {
    const size_t at = af_acts_at(job->acts, job->begin, 0);
    const uint32_t blocks = job->cols / AF_BLOCK;
    _Alignas(AF_VECTOR) int32_t products[SLOTS * 4 * PRODUCT]; /* a quarter or half of it where they are fewer */
    group_sums dots;
    position p = {.q = job->acts->q + (at * AF_BLOCK << fine),
                  .d = job->acts->d + at,
                  .codes = job->scratch,
                  .products = products};
    for (uint32_t i = 0; i < AHEAD; i++) make_next(l, fine, &p);
    for (uint32_t first = job->begin; first < job->end; first += AF_LANES, minima += l.minimum) {
        const uint32_t left = job->end - first, count = left < AF_LANES ? left : AF_LANES;
        vf sums[AF_LANES];
        UNROLL
        for (uint32_t i = 0; i < AF_LANES; i++) sums[i] = floats_of(0);
        p.scales = (const unsigned char *)job->scratch + codes_bytes(l, fine);
        expect_tokens(job, first, count);
        expect_panel(job, (first - job->begin) / AF_LANES, (job->end - job->begin + AF_LANES - 1) / AF_LANES);
        for (uint32_t i = AHEAD; i < blocks; i++) {
            make_next(l, fine, &p);
            add_next(l, fine, &p, AHEAD + 1, sums);
        }
        p.codes = job->scratch;
        if (left > AF_LANES) {
            for (uint32_t i = 0; i < AHEAD; i++) {
                make_next(l, fine, &p);
                add_next(l, fine, &p, AHEAD + 1, sums);
            }
        } else {
            store_last(l, fine, &p);
            UNROLL
            for (uint32_t i = 0; i < AHEAD; i++) add_next(l, fine, &p, AHEAD - i, sums);
        }
        put_sums(&dots, sums);
        finish_group(job, first, count, &dots, l.minimum ? minima : NULL);
    }
}

typedef void (*groups_fn)(const af_panel_job *job, const group_sums *minima);

INLINE void multiply_panel(af_layout l, bool fine, const af_panel_job *job, groups_fn multiply) {
    const uint32_t most = l.minimum ? GROUPS * AF_LANES : UINT32_MAX;
    group_sums minima[GROUPS];
    af_panel_job part = *job;
    unpack_panel(l, fine, job);
    __asm__ volatile("" ::: "memory"); /* compilers do not know that tiles read memory */
    _tile_loadconfig(shapes_of(l, fine));
    for (; part.begin < job->end; part.begin = part.end) {
        part.end = job->end - part.begin < most ? job->end : part.begin + most;
        for (uint32_t g = 0; l.minimum && g * AF_LANES < part.end - part.begin; g++)
            sum_minima(l, fine, job, af_acts_at(job->acts, part.begin + g * AF_LANES, 0), &minima[g]);
        multiply(&part, minima);
    }
    _tile_release();
}

static void multiply_any(const af_panel_job *job, af_panel_kind kind, af_panel_fn multiply) {
    const bool wide = job->cols >= FEWEST_COLUMNS;
    const uint32_t left = wide ? (job->end - job->begin) % AF_LANES : job->end - job->begin;
    const bool all = wide && left >= FEWEST_TOKENS && job->acts->lanes == AF_LANES;
    af_panel_job some = *job, rest = *job;
    some.end = rest.begin = all ? job->end : job->end - left;
    if (some.end > some.begin) multiply(&some);
    if (rest.end > rest.begin) af_kernels_avx512.multiply[kind](&rest);
}

#define PANEL(name, fine, ...)                                                                                         \
    TILE_KERNEL void groups_##name(const af_panel_job *job, const group_sums *minima) {                                \
        multiply_groups((af_layout){__VA_ARGS__}, fine, job, minima);                                                  \
    }                                                                                                                  \
    TILE_KERNEL void panel_##name(const af_panel_job *job) {                                                           \
        multiply_panel((af_layout){__VA_ARGS__}, fine, job, groups_##name);                                            \
    }
#define X(name, TYPE, ...)                                                                                             \
    PANEL(name, false, __VA_ARGS__)                                                                                    \
    PANEL(fine_##name, true, __VA_ARGS__)                                                                              \
    static void multiply_##name(const af_panel_job *job) {                                                             \
        multiply_any(job, AF_PANEL_##TYPE, job->acts->fine ? panel_fine_##name : panel_##name);                        \
    }
AF_LAYOUTS(X)
#undef X
#undef PANEL

/* ---- What AVX-512 does ---- */

static void quantize(af_acts *acts, uint32_t token_begin, uint32_t token_end) {
    af_kernels_avx512.quantize(acts, token_begin, token_end);
}

#define X(name, TYPE)                                                                                                  \
    static void multiply_##name(const af_panel_job *job) {                                                             \
        af_kernels_avx512.multiply[AF_PANEL_##TYPE](job);                                                              \
    }
X(f32, F32)
X(f16, F16)
X(bf16, BF16)
#undef X

const af_kernels af_kernels_amx = AF_KERNELS_TABLE;
