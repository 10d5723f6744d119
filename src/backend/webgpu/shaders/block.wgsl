// block.wgsl - a block of 32 quantized weights of one row, as gpu_pack.c lays it out, and its product with int8 activations.
//
// A matrix of R rows and C columns (B = C / 32 blocks a row) is three streams in one buffer:
//   low    a vec4<u32> for each block: word i holds elements 8i .. 8i+3 in the low nibbles of its bytes, 8i+4 .. 8i+7 in
//          the high ones. HIGH_BITS 4 (eight-bit weights): two vec4, word i holds elements 4i .. 4i+3 as signed bytes
//   high   HIGH_BITS 1: a u32, byte j bit g is bit 4 of element 4g + j; 2: two u32, byte j bits 2g, 2g+1 of word h are
//          bits 4 and 5 of element 16h + 4g + j
//   scale  f16 pairs, one u32 a block: PAIR_MIN (scale, min) of the block; PAIR_HALVES (scale of its first 16 elements,
//          of its last 16), values less OFFSET; PAIR_BOTH two u32: (scale, min) of each half; PAIR_IQ4 and PAIR_E2M1 no
//          pair but the scale as f32, and elements that are places in the format's code book
// A weight is scale * q + min, scale * (q - OFFSET), or scale * book[q].
//
// Activations are packets, one a token: B pairs of vec4 of int8 (elements in order), then B vec4 of scales as bits of f32:
// (d of the first 16, d of the last 16, d * sum of the first 16, d * sum of the last 16), then the sums of squares that
// decode_linear.wgsl explains. A packet is `stride` vec4 long.
override HIGH_BITS: u32 = 0u;
override PAIRING: u32 = 0u;
override OFFSET: f32 = 0.0;
const PAIR_MIN = 0u;
const PAIR_HALVES = 1u;
const PAIR_BOTH = 2u;
const PAIR_IQ4 = 3u;
const PAIR_E2M1 = 4u;

struct Quants { a: vec4<u32>, b: vec4<u32> } // 32 weights as bytes, elements in order

fn nibbles(low: vec4<u32>) -> Quants {
    let even = low & vec4<u32>(0x0f0f0f0fu);
    let odd = (low >> vec4<u32>(4u)) & vec4<u32>(0x0f0f0f0fu);
    return Quants(vec4<u32>(even.x, odd.x, even.y, odd.y), vec4<u32>(even.z, odd.z, even.w, odd.w));
}

fn with_one_bit(q: Quants, h: u32) -> Quants {
    let m = vec4<u32>(0x01010101u);
    let a = (vec4<u32>(h) >> vec4<u32>(0u, 1u, 2u, 3u)) & m;
    let b = (vec4<u32>(h) >> vec4<u32>(4u, 5u, 6u, 7u)) & m;
    return Quants(q.a | (a << vec4<u32>(4u)), q.b | (b << vec4<u32>(4u)));
}

fn with_two_bits(q: Quants, h: vec2<u32>) -> Quants {
    let m = vec4<u32>(0x03030303u);
    let s = vec4<u32>(0u, 2u, 4u, 6u);
    return Quants(q.a | (((vec4<u32>(h.x) >> s) & m) << vec4<u32>(4u)), q.b | (((vec4<u32>(h.y) >> s) & m) << vec4<u32>(4u)));
}

// b in the bits of m, a in the others.
fn pick(a: vec4<u32>, b: vec4<u32>, m: vec4<u32>) -> vec4<u32> {
    return a ^ ((a ^ b) & m);
}

// Bit k of every byte, to all eight of it.
fn whole_bytes(codes: vec4<u32>, k: u32) -> vec4<u32> {
    return ((codes >> vec4<u32>(k)) & vec4<u32>(0x01010101u)) * 255u;
}

fn pick_either(a: u32, b: u32, m: vec4<u32>) -> vec4<u32> {
    return pick(vec4<u32>(a * 0x01010101u), vec4<u32>(b * 0x01010101u), m);
}

// Sixteen codes at once to the bytes that they stand for, v0 .. v3 being the book in order: a tree of choices, a bit of
// the code each.
fn look_up(codes: vec4<u32>, v0: vec4<u32>, v1: vec4<u32>, v2: vec4<u32>, v3: vec4<u32>) -> vec4<u32> {
    let eight = whole_bytes(codes, 3u);
    let four = whole_bytes(codes, 2u);
    let two = whole_bytes(codes, 1u);
    let a = pick(pick_either(v0.x, v2.x, eight), pick_either(v1.x, v3.x, eight), four);
    let b = pick(pick_either(v0.y, v2.y, eight), pick_either(v1.y, v3.y, eight), four);
    let c = pick(pick_either(v0.z, v2.z, eight), pick_either(v1.z, v3.z, eight), four);
    let d = pick(pick_either(v0.w, v2.w, eight), pick_either(v1.w, v3.w, eight), four);
    return pick(pick(a, c, two), pick(b, d, two), whole_bytes(codes, 0u));
}

// The books as signed bytes (quant/blocks.h).
fn book_values(codes: vec4<u32>) -> vec4<u32> {
    if (PAIRING == PAIR_E2M1) {
        return look_up(codes, vec4<u32>(0x00u, 0x01u, 0x02u, 0x03u), vec4<u32>(0x04u, 0x06u, 0x08u, 0x0cu),
                       vec4<u32>(0x00u, 0xffu, 0xfeu, 0xfdu), vec4<u32>(0xfcu, 0xfau, 0xf8u, 0xf4u));
    }
    return look_up(codes, vec4<u32>(0x81u, 0x98u, 0xadu, 0xbfu), vec4<u32>(0xcfu, 0xddu, 0xeau, 0xf6u),
                   vec4<u32>(0x01u, 0x0du, 0x19u, 0x26u), vec4<u32>(0x35u, 0x45u, 0x59u, 0x71u));
}

// Where a matrix lies: offsets of its streams, low in vec4, the others in u32.
struct Place { low: u32, high: u32, scale: u32 }

fn load_quants(at: Place, block: u32) -> Quants {
    if (HIGH_BITS == 4u) { return Quants(weights4[at.low + 2u * block], weights4[at.low + 2u * block + 1u]); }
    let q = nibbles(weights4[at.low + block]);
    if (PAIRING >= PAIR_IQ4) { return Quants(book_values(q.a), book_values(q.b)); }
    if (HIGH_BITS == 1u) { return with_one_bit(q, weights1[at.high + block]); }
    if (HIGH_BITS == 2u) {
        return with_two_bits(q, vec2<u32>(weights1[at.high + 2u * block], weights1[at.high + 2u * block + 1u]));
    }
    return q;
}

// (scale, added) of the first and of the last 16 elements.
fn load_scales(at: Place, block: u32) -> vec4<f32> {
    if (PAIRING == PAIR_BOTH) {
        let first = unpack2x16float(weights1[at.scale + 2u * block]);
        return vec4<f32>(first, unpack2x16float(weights1[at.scale + 2u * block + 1u]));
    }
    if (PAIRING >= PAIR_IQ4) {
        let scale = bitcast<f32>(weights1[at.scale + block]);
        return vec4<f32>(scale, 0.0, scale, 0.0);
    }
    let pair = unpack2x16float(weights1[at.scale + block]);
    if (PAIRING == PAIR_HALVES) { return vec4<f32>(pair.x, -OFFSET * pair.x, pair.y, -OFFSET * pair.y); }
    return vec4<f32>(pair, pair);
}

fn dot16(w: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(w.x, x.x) + dot4I8Packed(w.y, x.y) + dot4I8Packed(w.z, x.z) + dot4I8Packed(w.w, x.w);
}

// The product of a block with a token's: xa, xb its int8 elements, s its scales and scaled sums. Each rounding is stated, and
// the last operation is an fma, so that no compiler fuses it with what the caller adds: kernels that add the same blocks
// in the same order come to the same bits.
fn block_dot(q: Quants, c: vec4<f32>, xa: vec4<u32>, xb: vec4<u32>, s: vec4<f32>) -> f32 {
    let first = s.x * f32(dot16(q.a, xa));
    let last = f32(dot16(q.b, xb));
    if (PAIRING == PAIR_MIN) { return fma(c.x, fma(s.y, last, first), c.y * (s.z + s.w)); }
    let both = fma(c.z, s.y * last, c.x * first);
    if (PAIRING >= PAIR_IQ4) { return both; }
    return fma(c.w, s.w, fma(c.y, s.z, both));
}

// Element j (0 .. 31) of a block as the weight it stands for.
fn block_value(q: Quants, c: vec4<f32>, j: u32) -> f32 {
    var word = q.a[(j / 4u) % 4u];
    if (j >= 16u) { word = q.b[(j / 4u) % 4u]; }
    var v = f32((word >> (8u * (j % 4u))) & 0xffu);
    if (HIGH_BITS == 4u || PAIRING >= PAIR_IQ4) { v = f32(extractBits(i32(word), 8u * (j % 4u), 8u)); }
    return select(c.z * v + c.w, c.x * v + c.y, j < 16u);
}
