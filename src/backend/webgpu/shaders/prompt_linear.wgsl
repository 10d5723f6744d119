// prompt_linear.wgsl - a quantized matrix times many tokens with matrices of subgroups: prompts.
//
// A workgroup of four subgroups makes a tile of 128 rows of the matrix by 32 * STRIPS tokens, each subgroup 64 rows by
// half of the tokens. Step by step of 32 columns, a block each, every thread unpacks one row's block to f16 in
// workgroup memory, beside the tokens' activations (prompt_norm.wgsl); what the next step needs is loaded
// while this one is multiplied. Sums are f32, and leave through workgroup memory: factor of the token, bias, activation or
// gate, scale, residual. With a gate (COMBINE 2) the tile is 64 rows of the first matrix and, below, the same of the
// second.
//
// Columns of a block are in another order than in the file, the same on both sides: 0 2 1 3 of each four, which is how
// masks give pairs from the layout of block.wgsl.
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
override STRIPS: u32 = 4u;  // of 16 tokens a subgroup: 4, or 2 where there would be too few workgroups

const ROW = 10u;         // fours from row to row of the tile: 8, and 2 so that rows fall to different banks
const ACTS = 128u * ROW; // where activations begin in the tile, behind the weights
const STRIP_ROW = 36u;   // f32 from row to row of a strip
var<workgroup> tile: array<vec4<f16>, 2560>; // (128 + 128) * ROW
var<workgroup> strip: array<f32, 2304>; // four subgroups' 16 tokens by 32 rows

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

fn store_weights(b: Packed, local: u32) {
    let at = local * ROW;
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

// Eight activations of a token; four neighbouring threads hold a token's 32.
fn load_acts(token: u32, block: u32, local: u32) -> vec4<u32> {
    return acts[(min(token, p.tokens - 1u) * p.blocks + block) * 4u + local % 4u];
}

fn store_acts(v: vec4<u32>, token: u32, local: u32) {
    let at = ACTS + token * ROW + local % 4u * 2u;
    tile[at] = four_halves(v.xy);
    tile[at + 1u] = four_halves(v.zw);
}

// The matrix's row that a thread unpacks.
fn row_of(group: u32, local: u32) -> u32 {
    if (COMBINE != 2u) { return min(group * 128u + local, p.rows - 1u); }
    return min(group * 64u + local % 64u, p.rows - 1u) + select(0u, p.rows, local >= 64u);
}

fn finished(v: f32, row: u32, factor: f32) -> f32 {
    var r = v * factor;
    if ((p.flags & BIASED) != 0u) { r += bias[row]; }
    return r;
}

fn write(token: u32, row: u32, v: f32) {
    let at = token * p.stride + p.first_row + row;
    var r = v * p.factor;
    if ((p.flags & RESIDUAL) != 0u) { r += y[at]; }
    y[at] = r;
}

// What the four subgroups left in `strip`: 16 tokens from `token` on for the first two, from `token` + 16 * STRIPS for the
// others; 32 rows of each subgroup's 64 from `column` on.
fn write_strip(token: u32, group: u32, column: u32, local: u32) {
    workgroupBarrier();
    let i = local % 32u;
    if (COMBINE == 2u) {
        let half = local / 64u;
        let row = group * 64u + column + i;
        for (var t = local / 32u % 2u; t < 16u; t += 2u) {
            let to = token + half * 16u * STRIPS + t;
            if (to < p.tokens && row < p.rows) {
                let factor = factors[to];
                let at = (half * 32u + t) * STRIP_ROW + i;
                write(to, row, act(finished(strip[at], row, factor)) * finished(strip[at + 16u * STRIP_ROW], p.rows + row, factor));
            }
        }
    } else {
        let subgroup = local / 32u;
        let row = group * 128u + subgroup % 2u * 64u + column + i;
        for (var t = 0u; t < 16u; t++) {
            let to = token + subgroup / 2u * 16u * STRIPS + t;
            if (to < p.tokens && row < p.rows) {
                let v = finished(strip[(subgroup * 16u + t) * STRIP_ROW + i], row, factors[to]);
                if (COMBINE == 1u) { write(to, row, act(v)); } else { write(to, row, v); }
            }
        }
    }
    workgroupBarrier();
}

// A subgroup's sums of 16 tokens and its 64 rows.
fn write_sums(a: Sum, b: Sum, c: Sum, d: Sum, token: u32, group: u32, local: u32) {
    let at = local / 32u * 16u * STRIP_ROW;
    store_sum(a, at, STRIP_ROW);
    store_sum(b, at + 16u, STRIP_ROW);
    write_strip(token, group, 0u, local);
    store_sum(c, at, STRIP_ROW);
    store_sum(d, at + 16u, STRIP_ROW);
    write_strip(token, group, 32u, local);
}

@compute @workgroup_size(128)
fn prompt_linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    lane = local % 32u;
    let subgroup = local / 32u;
    let token0 = group.x * 32u * STRIPS;
    let weight_row = row_of(group.y, local);
    let act_row = local / 4u;
    let left = ACTS + subgroup / 2u * 16u * STRIPS * ROW;
    let right = subgroup % 2u * 64u * ROW;
    var s00: Sum; var s01: Sum; var s02: Sum; var s03: Sum;
    var s10: Sum; var s11: Sum; var s12: Sum; var s13: Sum;
    var s20: Sum; var s21: Sum; var s22: Sum; var s23: Sum;
    var s30: Sum; var s31: Sum; var s32: Sum; var s33: Sum;
    var packed = load_packed(weight_row, 0u);
    var x0 = load_acts(token0 + act_row, 0u, local);
    var x1 = load_acts(token0 + act_row + 32u, 0u, local);
    var x2: vec4<u32>;
    var x3: vec4<u32>;
    if (STRIPS > 2u) {
        x2 = load_acts(token0 + act_row + 64u, 0u, local);
        x3 = load_acts(token0 + act_row + 96u, 0u, local);
    }
    for (var block = 0u; block < p.blocks; block++) {
        store_weights(packed, local);
        store_acts(x0, act_row, local);
        store_acts(x1, act_row + 32u, local);
        if (STRIPS > 2u) {
            store_acts(x2, act_row + 64u, local);
            store_acts(x3, act_row + 96u, local);
        }
        workgroupBarrier();
        let next = min(block + 1u, p.blocks - 1u);
        packed = load_packed(weight_row, next);
        x0 = load_acts(token0 + act_row, next, local);
        x1 = load_acts(token0 + act_row + 32u, next, local);
        if (STRIPS > 2u) {
            x2 = load_acts(token0 + act_row + 64u, next, local);
            x3 = load_acts(token0 + act_row + 96u, next, local);
        }
        for (var k = 0u; k < 8u; k += 4u) {
            let r0 = load_right_columns(right + k, ROW);
            let r1 = load_right_columns(right + 16u * ROW + k, ROW);
            let r2 = load_right_columns(right + 32u * ROW + k, ROW);
            let r3 = load_right_columns(right + 48u * ROW + k, ROW);
            let l0 = load_left(left + k, ROW);
            s00 = multiply_add(l0, r0, s00);
            s01 = multiply_add(l0, r1, s01);
            s02 = multiply_add(l0, r2, s02);
            s03 = multiply_add(l0, r3, s03);
            let l1 = load_left(left + 16u * ROW + k, ROW);
            s10 = multiply_add(l1, r0, s10);
            s11 = multiply_add(l1, r1, s11);
            s12 = multiply_add(l1, r2, s12);
            s13 = multiply_add(l1, r3, s13);
            if (STRIPS > 2u) {
                let l2 = load_left(left + 32u * ROW + k, ROW);
                s20 = multiply_add(l2, r0, s20);
                s21 = multiply_add(l2, r1, s21);
                s22 = multiply_add(l2, r2, s22);
                s23 = multiply_add(l2, r3, s23);
                let l3 = load_left(left + 48u * ROW + k, ROW);
                s30 = multiply_add(l3, r0, s30);
                s31 = multiply_add(l3, r1, s31);
                s32 = multiply_add(l3, r2, s32);
                s33 = multiply_add(l3, r3, s33);
            }
        }
        workgroupBarrier();
    }
    write_sums(s00, s01, s02, s03, token0, group.y, local);
    write_sums(s10, s11, s12, s13, token0 + 16u, group.y, local);
    if (STRIPS > 2u) {
        write_sums(s20, s21, s22, s23, token0 + 32u, group.y, local);
        write_sums(s30, s31, s32, s33, token0 + 48u, group.y, local);
    }
}
