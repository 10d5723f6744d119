/* linear_amx.c - AMX with int8 tiles, beside AVX-512: sixteen strands times a panel in one instruction.
 *
 * A tile of the processor is 16 rows of 64 bytes. A block of a panel, its codes unpacked, is one as it stands: a row of
 * the tile is a group of 4 columns, a lane of it a row of the panel. Sixteen strands of a block are another. Their
 * product is exact, so only it is done here in another way: floats follow the same order as everywhere, 16 rows of the
 * panel to a vector (linear_block.h).
 *
 * A panel is unpacked once, into the worker's scratch, codes less their offset, which makes every format signed bytes:
 *
 *     a block of 32 columns: 8 x 64 B codes, then scales as floats, 64 B each: 1 or 2, and as many minima
 *
 * and then passes all groups of 16 strands. Products of a block are made while the floats of the block before are
 * added: the tiles have their own unit. What is left of the last group goes by AVX-512 where that is less work.
 */
#define TARGET __attribute__((target(AVX512 ",amx-tile,amx-int8")))
#include "backend/cpu/linear_avx512.h"
#include "backend/cpu/linear_block.h"

#define FEWEST_STRANDS 5 /* that are worth a group: below, AVX-512 is faster */

/* ---- A panel unpacked ---- */

#define CODES_BYTES ((size_t)8 * AF_VECTOR)

INLINE size_t unpacked_bytes(af_layout l) { /* of a block */
    return CODES_BYTES + (size_t)(AF_BLOCK / l.columns) * (l.minimum ? 2 : 1) * AF_VECTOR;
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

INLINE void unpack_panel(af_layout l, const af_panel_job *job) {
    const unsigned char *p = job->panel;
    unsigned char *to = job->scratch;
    uint32_t blocks = job->cols / AF_BLOCK, step = af_layout_blocks(l);
    for (uint32_t b = 0; b < blocks; b += step, p += af_layout_step_bytes(l)) {
        uint32_t here = blocks - b < step ? blocks - b : step;
        for (uint32_t j = 0; j < here; j++, to += unpacked_bytes(l)) {
            vi codes[8];
            unpack(l, p + af_layout_head_bytes(l) + j * af_layout_block_bytes(l), 0, codes);
            UNROLL
            for (uint32_t g = 0; g < 8; g++)
                _mm512_store_si512(to + g * AF_VECTOR, _mm512_sub_epi8(codes[g], bytes_of((int8_t)l.offset)));
            lane_scales s = scales_of(l, p, j, 0);
            put_scales(l, &s, (float *)(to + CODES_BYTES));
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

/* 0 and 1: products; 2 and 3: strands; 4 and 5: codes. With a scale for 16 columns the even ones are of the first. */
static const tile_shapes WHOLE = {1, 0, {0}, {64, 64, 32, 32, 64, 64}, {16, 16, 16, 16, 8, 8}},
                         HALVES = {1, 0, {0}, {64, 64, 16, 16, 64, 64}, {16, 16, 16, 16, 4, 4}};

#define PRODUCT (AF_LANES * LANES) /* integers, a row a strand */
#define AHEAD   3                  /* blocks whose products are made before the floats of a block are added */

#define MULTIPLY_TILES(product, strands, codes, q, c, to)                                                              \
    do {                                                                                                               \
        _tile_zero(product);                                                                                           \
        _tile_loadd(strands, q, AF_BLOCK);                                                                             \
        _tile_loadd(codes, c, AF_VECTOR);                                                                              \
        _tile_dpbssd(product, strands, codes);                                                                         \
        _tile_stored(product, to, AF_VECTOR);                                                                          \
    } while (0)

INLINE void multiply_block(af_layout l, const int8_t *q, const unsigned char *codes, int32_t *to) {
    MULTIPLY_TILES(0, 2, 4, q, codes, to);
    if (l.columns == 16) MULTIPLY_TILES(1, 3, 5, q + 16, codes + 4 * AF_VECTOR, to + PRODUCT);
}

INLINE void add_products(af_layout l, const int32_t *products, const unsigned char *scales, const af_acts *a, size_t at,
                         vf sums[AF_LANES]) {
    lane_scales s = take_scales(l, scales);
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) {
        vf first = to_float(load((const unsigned char *)(products + i * LANES))), second = first;
        if (l.columns == 16) second = to_float(load((const unsigned char *)(products + PRODUCT + i * LANES)));
        sums[i] = add_dots(l, &s, first, second, a, at + i, sums[i]);
    }
}

/* Strands first .. first + count - 1, a group of up to 16; what lies up to 16 is computed and dropped. */
INLINE void group(af_layout l, const af_panel_job *job, uint32_t first, uint32_t count) {
    const af_acts *a = job->acts;
    const unsigned char *p = job->scratch;
    const size_t bytes = unpacked_bytes(l), at = af_acts_at(a, first, 0);
    const uint32_t blocks = job->cols / AF_BLOCK;
    _Alignas(AF_VECTOR) int32_t products[AHEAD + 1][2 * PRODUCT]; /* half of it with a scale for 32 columns */
    vf sums[AF_LANES];
    UNROLL
    for (uint32_t i = 0; i < AF_LANES; i++) sums[i] = floats_of(0);
    expect_strands(job, first, count);
    for (uint32_t b = 0; b < blocks + AHEAD; b++) {
        if (b < blocks)
            multiply_block(l, a->q + (at + b * AF_LANES) * AF_BLOCK, p + b * bytes, products[b % (AHEAD + 1)]);
        if (b < AHEAD) continue;
        uint32_t done = b - AHEAD;
        add_products(l, products[done % (AHEAD + 1)], p + done * bytes + CODES_BYTES, a, at + done * AF_LANES, sums);
    }
    store_strands(AF_LANES, job, first, count, 0, sums);
}

typedef void (*unpack_fn)(const af_panel_job *job);
typedef void (*group_fn)(const af_panel_job *job, uint32_t first, uint32_t count);

KERNEL void multiply_groups(const af_panel_job *job, uint32_t end, const tile_shapes *shapes, unpack_fn unpack_all,
                            group_fn multiply_group) {
    unpack_all(job);
    __asm__ volatile("" ::: "memory"); /* compilers do not know that tiles read memory */
    _tile_loadconfig(shapes);
    for (uint32_t s = job->begin; s < end; s += AF_LANES)
        multiply_group(job, s, end - s < AF_LANES ? end - s : AF_LANES);
    _tile_release();
}

static void multiply_any(const af_panel_job *job, af_panel_kind kind, const tile_shapes *shapes, unpack_fn unpack_all,
                         group_fn multiply_group) {
    const uint32_t left = (job->end - job->begin) % AF_LANES;
    const uint32_t end = left >= FEWEST_STRANDS && job->acts->lanes == AF_LANES ? job->end : job->end - left;
    if (end > job->begin) multiply_groups(job, end, shapes, unpack_all, multiply_group);
    if (end == job->end) return;
    af_panel_job rest = *job;
    rest.begin = end;
    af_kernels_avx512.multiply[kind](&rest);
}

#define X(name, TYPE, ...)                                                                                             \
    TILE_KERNEL void unpack_##name(const af_panel_job *job) {                                                          \
        unpack_panel((af_layout){__VA_ARGS__}, job);                                                                   \
    }                                                                                                                  \
    TILE_KERNEL void group_##name(const af_panel_job *job, uint32_t first, uint32_t count) {                           \
        group((af_layout){__VA_ARGS__}, job, first, count);                                                            \
    }                                                                                                                  \
    static void multiply_##name(const af_panel_job *job) {                                                             \
        static const af_layout l = {__VA_ARGS__};                                                                      \
        multiply_any(job, AF_PANEL_##TYPE, l.columns == 16 ? &HALVES : &WHOLE, unpack_##name, group_##name);           \
    }
AF_LAYOUTS(X)
#undef X

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
