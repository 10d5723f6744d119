/* blocks.h - the blocks of every quantized format, as they lie in a file. Each format's own file draws its block byte
 * by byte and defines what the bytes mean; backends repack from these structs.
 *
 * All are little-endian with no padding; a block in a file has no alignment but that of its first scale, so the structs
 * are read through pointers of these types only where the row is 2-byte aligned, as every GGUF tensor is. Scales `d`
 * and `m` are IEEE half floats, kept as bits.
 */
#ifndef AF_QUANT_BLOCKS_H
#define AF_QUANT_BLOCKS_H

#include <stdint.h>

#define AF_BLOCK         32  /* elements of a simple block */
#define AF_SUPERBLOCK    256 /* elements of a K-quant block */
#define AF_K_SCALE_BYTES 12  /* six-bit scales, packed, of q3_k (16), q4_k and q5_k (8 scales and 8 minima) */

typedef struct af_block_q4_0 {
    uint16_t d;
    uint8_t qs[16];
} af_block_q4_0;

typedef struct af_block_q4_1 {
    uint16_t d, m;
    uint8_t qs[16];
} af_block_q4_1;

typedef struct af_block_q5_0 {
    uint16_t d;
    uint8_t qh[4];
    uint8_t qs[16];
} af_block_q5_0;

typedef struct af_block_q5_1 {
    uint16_t d, m;
    uint8_t qh[4];
    uint8_t qs[16];
} af_block_q5_1;

typedef struct af_block_q8_0 {
    uint16_t d;
    int8_t qs[32];
} af_block_q8_0;

typedef struct af_block_q2_k {
    uint8_t scales[16];
    uint8_t qs[64];
    uint16_t d, dmin;
} af_block_q2_k;

typedef struct af_block_q3_k {
    uint8_t hmask[32];
    uint8_t qs[64];
    uint8_t scales[AF_K_SCALE_BYTES];
    uint16_t d;
} af_block_q3_k;

typedef struct af_block_q4_k {
    uint16_t d, dmin;
    uint8_t scales[AF_K_SCALE_BYTES];
    uint8_t qs[128];
} af_block_q4_k;

typedef struct af_block_q5_k {
    uint16_t d, dmin;
    uint8_t scales[AF_K_SCALE_BYTES];
    uint8_t qh[32];
    uint8_t qs[128];
} af_block_q5_k;

typedef struct af_block_q6_k {
    uint8_t ql[128];
    uint8_t qh[64];
    int8_t scales[16];
    uint16_t d;
} af_block_q6_k;

typedef struct af_block_iq4_nl {
    uint16_t d;
    uint8_t qs[16];
} af_block_iq4_nl;

typedef struct af_block_iq4_xs {
    uint16_t d, scales_high;
    uint8_t scales_low[4];
    uint8_t qs[128];
} af_block_iq4_xs;

typedef struct af_block_mxfp4 {
    uint8_t e;
    uint8_t qs[16];
} af_block_mxfp4;

/* The five bits of element i of a q5_0 or q5_1 block. */
static inline int af_q5_value(const uint8_t qh[4], const uint8_t qs[16], uint32_t i) {
    return (qs[i % 16] >> (i / 16 * 4) & 15) | (qh[i / 8] >> (i % 8) & 1) << 4;
}

/* Two bits of element e (e < 256), four elements a byte, as q2_k and q3_k keep their quants and q6_k its high bits:
 * bits 2s, 2s+1 of byte 32 h + i belong to element 128 h + 32 s + i. */
static inline int af_q2_value(const uint8_t packed[64], uint32_t e) {
    return packed[e / 128 * 32 + e % 32] >> (e % 128 / 32 * 2) & 3;
}

/* Scale j and minimum j (j < 8) of a q4_k or q5_k block, six bits each, out of the 12 packed bytes:
 *
 *     byte  0..3    bits 0-5: scale 0..3      bits 6-7: high bits of scale 4..7
 *     byte  4..7    bits 0-5: minimum 0..3    bits 6-7: high bits of minimum 4..7
 *     byte  8..11   bits 0-3: low bits of scale 4..7, bits 4-7: of minimum 4..7
 */
static inline void af_k_scale_min(const uint8_t packed[AF_K_SCALE_BYTES], uint32_t j, uint8_t *scale, uint8_t *min) {
    if (j < 4) {
        *scale = packed[j] & 63;
        *min = packed[j + 4] & 63;
    } else {
        *scale = (uint8_t)((packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4);
        *min = (uint8_t)((packed[j + 4] >> 4) | (packed[j] >> 6) << 4);
    }
}

/* All 16 scales of a q3_k block, -32..31, out of its 12 packed bytes:
 *
 *     byte  0..7    bits 0-3: low bits of scale 0..7, bits 4-7: of scale 8..15
 *     byte  8..11   bits 0-1: high bits of scale 0..3, 2-3: of 4..7, 4-5: of 8..11, 6-7: of 12..15
 */
static inline void af_q3_k_scales(const uint8_t packed[AF_K_SCALE_BYTES], int8_t scales[16]) {
    for (uint32_t j = 0; j < 16; j++) {
        int low = packed[j % 8] >> (j / 8 * 4) & 15;
        int high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
        scales[j] = (int8_t)((low | high << 4) - 32);
    }
}

/* Scale j (j < 8) of an iq4_xs block, -32..31: four low bits in a nibble, two high bits in a 16-bit word. */
static inline int af_iq4_xs_scale(const af_block_iq4_xs *b, uint32_t j) {
    int low = b->scales_low[j / 2] >> (j % 2 * 4) & 15;
    return (low | (b->scales_high >> 2 * j & 3) << 4) - 32;
}

/* Half of an e8m0 scale, 2^(e - 128), as a bfloat: exact for all 256, the two least of which are subnormal. Half,
 * because the values of mxfp4 are kept doubled. */
static inline uint16_t af_e8m0_half(uint8_t e) {
    return (uint16_t)(e < 2 ? 0x20 << e : (e - 1) << 7);
}

/* ---- Code books: what codes stand for. X(value) for each code in turn ---- */

/* iq4_nl and iq4_xs: steps that widen away from zero, as weights thin out. From ggml's kvalues_iq4nl. */
#define AF_IQ4_VALUES(X)                                                                                               \
    X(-127) X(-104) X(-83) X(-65) X(-49) X(-35) X(-22) X(-10) X(1) X(13) X(25) X(38) X(53) X(69) X(89) X(113)

/* mxfp4: four-bit floats (e2m1: sign, two bits of exponent, one of fraction), doubled to be integers. OCP Microscaling
 * Formats 1.0, 5.3.3. */
#define AF_E2M1_VALUES(X) X(0) X(1) X(2) X(3) X(4) X(6) X(8) X(12) X(0) X(-1) X(-2) X(-3) X(-4) X(-6) X(-8) X(-12)

#define AF_BOOK_ENTRY(value) (value),

#endif
