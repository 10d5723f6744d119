// pack.wgsl - a file's blocks to the layout of block.wgsl, one block of 32 weights an invocation.
//
// gpu_pack.c says what comes out, bit for bit; gpu_repack.c has a row of the constants below for each format. A file's
// blocks are whole bytes without alignment, so words are put together from two.
//
// Weights are read four at a time, a byte each, from one or two planes of LOW_BITS and HIGH_BITS bits a weight:
//   HALVES   16 bytes a group of 32: weight e in the low nibble of byte e, weight 16 + e in the high one
//   STRIPES  32 bytes hold 8 / bits groups, weight e of each in byte e, the first group in the lowest bits
//   CROSSED  the same, but of four groups the first and the third in one stripe (Q6_K's low bits)
//   WORD     one bit a weight, in order, in one word (Q5_0's and Q5_1's high bits)
//
// Scales are products of a half float and a small integer. The two have so few bits that the product is exact, and one
// rounding to a half float follows: done in integers, because a GPU's own arithmetic may flush what is tiny.
struct Params { at: u32, blocks: u32, low: u32, high: u32, scale: u32 } // at in bytes, the streams in words
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> file_words: array<u32>;
@group(0) @binding(1) var<storage, read_write> packed_words: array<u32>;
override BLOCK_BYTES: u32 = 18u; // of the file's block, GROUPS times 32 weights
override GROUPS: u32 = 1u;
override LOW_AT: u32 = 2u; // where planes, scales and the half float begin in a block
override LOW_BITS: u32 = 4u;
override LOW_ORDER: u32 = 0u;
override HIGH_AT: u32 = 0u;
override HIGH_BITS: u32 = 0u;
override HIGH_ORDER: u32 = 0u;
override HIGH_SHIFT: u32 = 4u;
override OUT_HIGH: u32 = 0u; // af_gpu_layout.high_bits
override SCALES: u32 = 0u;
override SCALES_AT: u32 = 0u;
override D_AT: u32 = 0u;
override OFFSET: i32 = 0;

const HALVES = 0u;
const STRIPES = 1u;
const CROSSED = 2u;
const WORD = 3u;

const ONE = 0u;     // d, and OFFSET times -d
const PAIR = 1u;    // d and what is added
const SIX_BITS = 2u;    // Q4_K, Q5_K: (scale, minimum) of a group, six bits each
const NIBBLES = 3u; // Q2_K: (scale, minimum) of half a group, four bits each
const SPLIT = 4u;   // Q3_K: scales of halves, six bits in two places, less 32
const BYTES = 5u;   // Q6_K: scales of halves, eight bits
const FLOAT = 6u;   // IQ4_NL: d as f32
const FLOAT_SPLIT = 7u; // IQ4_XS: d times the group's scale, six bits in two places, less 32, as f32
const POWER = 8u;   // MXFP4: an exponent, half of its power as f32

// ---- Bytes of the file ----

fn word_at(at: u32) -> u32 {
    let shift = 8u * (at % 4u);
    if (shift == 0u) { return file_words[at / 4u]; }
    return (file_words[at / 4u] >> shift) | (file_words[at / 4u + 1u] << (32u - shift));
}

fn byte_at(at: u32) -> u32 {
    return extractBits(file_words[at / 4u], 8u * (at % 4u), 8u);
}

fn half_at(at: u32) -> u32 { // at is even
    return extractBits(file_words[at / 4u], 8u * (at % 4u), 16u);
}

// ---- Weights ----

// Weights 4j .. 4j+3 of a group, from a plane that begins at `at`.
fn plane(at: u32, bits: u32, order: u32, group: u32, j: u32) -> u32 {
    if (order == WORD) { return ((extractBits(word_at(at), 4u * j, 4u)) * 0x00204081u) & 0x01010101u; }
    let mask = 0x01010101u * ((1u << bits) - 1u);
    if (order == HALVES) { return (word_at(at + 16u * group + 4u * (j % 4u)) >> (4u * (j / 4u))) & mask; }
    var stripe = group * bits / 8u;
    var part = group % (8u / bits);
    if (order == CROSSED) {
        stripe = group / 4u * 2u + group % 2u;
        part = group % 4u / 2u;
    }
    return (word_at(at + 32u * stripe + 4u * j) >> (bits * part)) & mask;
}

fn weights(block: u32, group: u32, j: u32) -> u32 {
    var q = plane(block + LOW_AT, LOW_BITS, LOW_ORDER, group, j);
    if (HIGH_BITS != 0u) { q |= plane(block + HIGH_AT, HIGH_BITS, HIGH_ORDER, group, j) << HIGH_SHIFT; }
    return q;
}

fn store_weights(block: u32, group: u32, i: u32) {
    var one = 0u;
    var two = vec2<u32>(0u);
    for (var j = 0u; j < 8u; j += 2u) {
        let a = weights(block, group, j);
        let b = weights(block, group, j + 1u);
        if (OUT_HIGH == 4u) {
            packed_words[p.low + 8u * i + j] = a;
            packed_words[p.low + 8u * i + j + 1u] = b;
            continue;
        }
        packed_words[p.low + 4u * i + j / 2u] = (a & 0x0f0f0f0fu) | ((b & 0x0f0f0f0fu) << 4u);
        let high = (vec2<u32>(a, b) >> vec2<u32>(4u)) & vec2<u32>(0x0f0f0f0fu);
        one |= (high.x << j) | (high.y << (j + 1u));
        two[j / 4u] |= (high.x << (2u * (j % 4u))) | (high.y << (2u * (j % 4u) + 2u));
    }
    if (OUT_HIGH == 1u) { packed_words[p.high + i] = one; }
    if (OUT_HIGH == 2u) {
        packed_words[p.high + 2u * i] = two.x;
        packed_words[p.high + 2u * i + 1u] = two.y;
    }
}

// ---- Scales ----

// |d k| is magnitude * 2^(exponent - 25).
struct Product { sign: u32, exponent: u32, magnitude: u32, finite: bool }

fn product(d: u32, k: i32) -> Product {
    let exponent = extractBits(d, 10u, 5u);
    let significand = (d & 0x3ffu) | select(0u, 0x400u, exponent > 0u);
    let sign = (d >> 15u) ^ select(0u, 1u, k < 0);
    return Product(sign, max(exponent, 1u), significand * u32(abs(k)), exponent < 31u);
}

// d times k as a half float, rounded to the nearest, to the even one of two.
fn half_product(d: u32, k: i32) -> u32 {
    let x = product(d, k);
    let sign = x.sign << 15u;
    if (!x.finite) { return sign | select(0x7c00u, 0x7e00u, (d & 0x3ffu) != 0u || k == 0); }
    if (x.magnitude == 0u) { return sign; }
    let exponent = max(1, i32(x.exponent) + i32(firstLeadingBit(x.magnitude)) - 10);
    let drop = exponent - i32(x.exponent);
    var significand = x.magnitude;
    if (drop < 0) {
        significand <<= u32(-drop);
    } else if (drop > 0) {
        let middle = 1u << u32(drop - 1);
        let rest = x.magnitude & (2u * middle - 1u);
        significand >>= u32(drop);
        if (rest > middle || (rest == middle && (significand & 1u) == 1u)) { significand += 1u; }
    }
    return sign | min(0x7c00u, (u32(exponent - 1) << 10u) + significand); // a carry makes the next power
}

// d times k as an f32, which holds it exactly.
fn float_product(d: u32, k: i32) -> u32 {
    let x = product(d, k);
    let sign = x.sign << 31u;
    if (!x.finite) { return sign | select(0x7f800000u, 0x7fc00000u, (d & 0x3ffu) != 0u || k == 0); }
    if (x.magnitude == 0u) { return sign; }
    let top = firstLeadingBit(x.magnitude);
    return sign | ((x.exponent + top + 102u) << 23u) | ((x.magnitude << (23u - top)) & 0x7fffffu);
}

fn halves(a: u32, b: u32) -> u32 {
    return a | (b << 16u);
}

fn negated(h: u32) -> u32 {
    return h ^ 0x8000u;
}

// The scale and the minimum of a group, as quant/blocks.h draws their 12 bytes.
fn six_bits(at: u32, group: u32) -> vec2<u32> {
    if (group < 4u) { return vec2<u32>(byte_at(at + group), byte_at(at + group + 4u)) & vec2<u32>(63u); }
    let low = byte_at(at + group + 4u);
    let high = vec2<u32>(byte_at(at + group - 4u), byte_at(at + group)) >> vec2<u32>(6u);
    return vec2<u32>(low & 15u, low >> 4u) | (high << vec2<u32>(4u));
}

fn split_scale(at: u32, j: u32) -> i32 { // of Q3_K
    let low = extractBits(byte_at(at + j % 8u), 4u * (j / 8u), 4u);
    return i32(low | (extractBits(byte_at(at + 8u + j % 4u), 2u * (j / 4u), 2u) << 4u)) - 32;
}

fn float_split_scale(block: u32, j: u32) -> i32 { // of IQ4_XS: high bits behind d, then low ones
    let low = extractBits(byte_at(block + SCALES_AT + j / 2u), 4u * (j % 2u), 4u);
    return i32(low | (extractBits(half_at(block + D_AT + 2u), 2u * j, 2u) << 4u)) - 32;
}

fn power(e: u32) -> u32 {
    return select((e - 1u) << 23u, 0x00200000u << e, e < 2u);
}

fn half_group(block: u32, d: u32, j: u32) -> u32 { // of Q2_K
    let both = byte_at(block + SCALES_AT + j);
    return halves(half_product(d, i32(both & 15u)), half_product(negated(half_at(block + D_AT + 2u)), i32(both >> 4u)));
}

fn scale_of_half(block: u32, d: u32, j: u32) -> u32 {
    if (SCALES == SPLIT) { return half_product(d, split_scale(block + SCALES_AT, j)); }
    return half_product(d, extractBits(i32(byte_at(block + SCALES_AT + j)), 0u, 8u));
}

fn scales(block: u32, d: u32, group: u32) -> u32 {
    switch SCALES {
        case ONE: {
            if (OFFSET == 0) { return d; }
            return halves(d, half_product(d, -OFFSET));
        }
        case PAIR: { return halves(d, half_at(block + D_AT + 2u)); }
        case SIX_BITS: {
            let both = six_bits(block + SCALES_AT, group);
            return halves(half_product(d, i32(both.x)), half_product(negated(half_at(block + D_AT + 2u)), i32(both.y)));
        }
        case SPLIT, BYTES: {
            return halves(scale_of_half(block, d, 2u * group), scale_of_half(block, d, 2u * group + 1u));
        }
        case FLOAT: { return float_product(d, 1); }
        case FLOAT_SPLIT: { return float_product(d, float_split_scale(block, group)); }
        default: { return power(byte_at(block + D_AT)); }
    }
}

@compute @workgroup_size(64)
fn pack(@builtin(global_invocation_id) id: vec3<u32>) {
    let i = id.x;
    if (i >= p.blocks) { return; }
    let block = p.at + i / GROUPS * BLOCK_BYTES;
    let group = i % GROUPS;
    store_weights(block, group, i);
    let d = select(half_at(block + D_AT), 0u, SCALES == POWER);
    if (SCALES == NIBBLES) {
        packed_words[p.scale + 2u * i] = half_group(block, d, 2u * group);
        packed_words[p.scale + 2u * i + 1u] = half_group(block, d, 2u * group + 1u);
    } else {
        packed_words[p.scale + i] = scales(block, d, group);
    }
}
