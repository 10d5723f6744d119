// prompt_block.wgsl - what the products of prompts with matrices of subgroups share (prompt_linear.wgsl, prompt_few.wgsl):
// parameters and bindings, a block of weights unpacked to f16 in workgroup memory, and what follows a sum.
//
// Columns of a block are in another order than in the file, the same on both sides: 0 2 1 3 of each four, which is how
// masks give pairs from the layout of block.wgsl. A user declares `tile`, whose rows are ROW apart.
struct Params {
    low: u32, high: u32, scale: u32,
    rows: u32,       // outputs: of the segment, or half of it with a gate
    blocks: u32,
    first_row: u32,  // column of y that row 0 goes to
    stride: u32,     // of y
    tokens: u32,
    flags: u32,      // 1: bias, 2: residual
    factor: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;  // (tokens, 32 * blocks) f16
@group(0) @binding(3) var<storage, read> factors: array<f32>;     // (tokens)
@group(0) @binding(4) var<storage, read> bias: array<f32>;        // (rows of the matrix)
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

override COMBINE: u32 = 0u; // as in tail.wgsl

const ROW = 10u; // fours from row to row of the tile: 8, and 2 so that rows fall to different banks
const BIASED = 1u;
const RESIDUAL = 2u;

// A block as it lies in memory.
struct Packed { low: vec4<u32>, more: vec4<u32>, high: vec2<u32>, scales: vec2<u32> }

fn load_packed(row: u32, block: u32) -> Packed {
    let at = row * p.blocks + block;
    var b: Packed;
    if (HIGH_BITS == 4u) {
        b.low = weights4[p.low + 2u * at];
        b.more = weights4[p.low + 2u * at + 1u];
    } else {
        b.low = weights4[p.low + at];
    }
    if (HIGH_BITS == 1u) { b.high.x = weights1[p.high + at]; }
    if (HIGH_BITS == 2u) { b.high = vec2<u32>(weights1[p.high + 2u * at], weights1[p.high + 2u * at + 1u]); }
    if (PAIRING == PAIR_BOTH) {
        b.scales = vec2<u32>(weights1[p.scale + 2u * at], weights1[p.scale + 2u * at + 1u]);
    } else {
        b.scales.x = weights1[p.scale + at];
    }
    return b;
}

// Bytes 0 and 2 of a word of small integers as f16 in a pair: 0x6400 is 1024, whose last bits count ones.
fn pair_value(bits: u32, scale: vec2<f16>, added: vec2<f16>) -> vec2<f16> {
    const ones = 0x64006400u;
    var zero = 1024.0;
    if (HIGH_BITS == 4u) { zero = 1152.0; }
    if (PAIRING == PAIR_HALVES) { zero = 1024.0 + OFFSET; }
    return fma(two_halves(bits | ones) - vec2<f16>(f16(zero)), scale, added);
}

fn four_weights(bytes: u32, scale: vec2<f16>, added: vec2<f16>) -> vec4<f16> {
    return vec4<f16>(pair_value(bytes & 0x00ff00ffu, scale, added),
                     pair_value((bytes >> 8u) & 0x00ff00ffu, scale, added));
}

// Weights 4 g to 4 g + 3 as bytes.
fn four_of(b: Packed, g: u32) -> u32 {
    if (HIGH_BITS == 4u) {
        if (g < 4u) { return b.low[g] ^ 0x80808080u; }
        return b.more[g - 4u] ^ 0x80808080u;
    }
    let low = (b.low[g / 2u] >> (4u * (g % 2u))) & 0x0f0f0f0fu;
    if (HIGH_BITS == 1u) { return low | (((b.high.x >> g) & 0x01010101u) << 4u); }
    if (HIGH_BITS == 2u) { return low | (((b.high[g / 4u] >> (2u * (g % 4u))) & 0x03030303u) << 4u); }
    return low;
}

// To the tile, from `at` on.
fn store_weights(b: Packed, at: u32) {
    let pair = two_halves(b.scales.x);
    var first = pair.xx;
    var last = pair.xx;
    var first_added = pair.yy;
    var last_added = pair.yy;
    if (PAIRING == PAIR_HALVES) {
        last = pair.yy;
        first_added = vec2<f16>();
        last_added = vec2<f16>();
    }
    if (PAIRING == PAIR_BOTH) {
        let second = two_halves(b.scales.y);
        last = second.xx;
        last_added = second.yy;
    }
    tile[at] = four_weights(four_of(b, 0u), first, first_added);
    tile[at + 1u] = four_weights(four_of(b, 1u), first, first_added);
    tile[at + 2u] = four_weights(four_of(b, 2u), first, first_added);
    tile[at + 3u] = four_weights(four_of(b, 3u), first, first_added);
    tile[at + 4u] = four_weights(four_of(b, 4u), last, last_added);
    tile[at + 5u] = four_weights(four_of(b, 5u), last, last_added);
    tile[at + 6u] = four_weights(four_of(b, 6u), last, last_added);
    tile[at + 7u] = four_weights(four_of(b, 7u), last, last_added);
}

// Activations 8 * eighth to 8 * eighth + 7 of a token's block.
fn load_acts(token: u32, block: u32, eighth: u32) -> vec4<u32> {
    return acts[(min(token, p.tokens - 1u) * p.blocks + block) * 4u + eighth];
}

fn store_eight(v: vec4<u32>, at: u32) {
    tile[at] = four_halves(v.xy);
    tile[at + 1u] = four_halves(v.zw);
}

// A sum as a row of the product. Roundings are stated where an addition follows, so that all users come to the same bits.
fn finished(v: f32, row: u32, factor: f32) -> f32 {
    if ((p.flags & BIASED) != 0u) { return fma(v, factor, bias[row]); }
    return v * factor;
}

fn write(token: u32, row: u32, v: f32) {
    let at = token * p.stride + p.first_row + row;
    if ((p.flags & RESIDUAL) != 0u) {
        y[at] = fma(v, p.factor, y[at]);
    } else {
        y[at] = v * p.factor;
    }
}
