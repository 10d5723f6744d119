// decode_linear.wgsl - a linear operation of a decode step in one dispatch: product, bias or gate, residual, and the int8
// packet that the next operation reads. For one to eight tokens, each of another sequence.
//
// A workgroup of 256 threads makes 16 outputs: 16 rows, two a thread, 32 lanes a pair; or, GLU, 16 rows of the gate and
// the same 16 of the other matrix, 16 lanes a pair. What follows the product is short work for 16 threads, so it is kept to
// three barriers.
//
// The norm before an operation is folded into its neighbours. Its factor 1 / sqrt(mean(x^2) + eps) is one number a token,
// so the operation that wrote x has already quantized x * weight, and left sums of squares beside it, one for each 16
// columns: here they are added up and the finished sums multiplied (FACTOR). A packet's sums follow its scales, as f32.
struct Params {
    low: u32, high: u32, scale: u32,    // Place of the rows in weights
    low2: u32, high2: u32, scale2: u32, // GLU: of the other matrix in others
    rows: u32,
    blocks: u32,
    first: u32, stride: u32,  // column that row 0 goes to in y, and y's row length
    tokens: u32,
    eps: f32,
    packet: u32,              // stride of acts, in vec4
    next_packet: u32,         // of next, in vec4
    next_blocks: u32,         // blocks of a next packet
    flags: u32,               // BIAS ...
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> others4: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> others1: array<u32>;
@group(0) @binding(4) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> small: array<f32>; // bias of each row (of both, GLU), then the next norm's weight
@group(0) @binding(6) var<storage, read_write> y: array<f32>;
@group(0) @binding(7) var<storage, read_write> next: array<u32>;

override TOKENS: u32 = 1u;
override GLU: u32 = 0u;
override ACT: u32 = 0u;
const BIAS = 1u;      // small begins with biases
const RESIDUAL = 2u;  // y += instead of y =
const FACTOR = 4u;    // acts are x * weight, not normed yet
const NEXT = 8u;      // write a packet for the next operation; of y times the next norm's weight if
const NEXT_NORM = 16u;
const NO_Y = 32u;     // y itself is not needed
const OUTPUTS = 16u;

var<workgroup> products: array<f32, 32>;  // of the 16 outputs; GLU: gate and other side by side
var<workgroup> squares: array<f32, 8>;    // sums of squares, of 32 threads each
var<workgroup> outputs: array<f32, 16>;   // what goes to the next packet
var<workgroup> squares_out: array<f32, 16>;
var<workgroup> quants: array<i32, 16>;

fn load_other(block: u32) -> Quants {
    if (HIGH_BITS == 4u) { return Quants(others4[p.low2 + 2u * block], others4[p.low2 + 2u * block + 1u]); }
    let q = nibbles(others4[p.low2 + block]);
    if (HIGH_BITS == 1u) { return with_one_bit(q, others1[p.high2 + block]); }
    if (HIGH_BITS == 2u) {
        return with_two_bits(q, vec2<u32>(others1[p.high2 + 2u * block], others1[p.high2 + 2u * block + 1u]));
    }
    return q;
}

fn load_other_scales(block: u32) -> vec4<f32> {
    if (PAIRING == PAIR_BOTH) {
        let first = unpack2x16float(others1[p.scale2 + 2u * block]);
        return vec4<f32>(first, unpack2x16float(others1[p.scale2 + 2u * block + 1u]));
    }
    let pair = unpack2x16float(others1[p.scale2 + block]);
    if (PAIRING == PAIR_HALVES) { return vec4<f32>(pair.x, -OFFSET * pair.x, pair.y, -OFFSET * pair.y); }
    return vec4<f32>(pair, pair);
}

// This thread's share of a token's sums of squares.
fn share_of_squares(t: u32, local: u32) -> f32 {
    let count = 2u * p.blocks; // even
    let base = t * p.packet + 3u * p.blocks;
    var s = 0.0;
    for (var i = local; i < count / 4u; i += 256u) {
        let v = bitcast<vec4<f32>>(acts[base + i]);
        s += v.x + v.y + v.z + v.w;
    }
    if (local == 0u && count % 4u != 0u) {
        let v = bitcast<vec4<f32>>(acts[base + count / 4u]);
        s += v.x + v.y;
    }
    return s;
}

// 1 / sqrt(mean(x^2) + eps)
fn norm_factor() -> f32 {
    if ((p.flags & FACTOR) == 0u) { return 1.0; }
    var sum = 0.0;
    for (var i = 0u; i < 8u; i++) { sum += squares[i]; }
    return inverseSqrt(sum / f32(32u * p.blocks) + p.eps);
}

fn act(v: f32) -> f32 {
    if (ACT == 0u) { return v / (1.0 + exp(-v)); }
    let u = clamp(0.7978845608028654 * (v + 0.044715 * v * v * v), -10.0, 10.0);
    return 0.5 * v * (1.0 + tanh(u));
}

// The finished number of output o (0 .. 15).
fn finish(o: u32, row: u32, factor: f32) -> f32 {
    if (GLU == 0u) {
        let v = products[o] * factor;
        if ((p.flags & BIAS) != 0u) { return v + small[row]; }
        return v;
    }
    var gate = products[2u * o] * factor;
    var up = products[2u * o + 1u] * factor;
    if ((p.flags & BIAS) != 0u) {
        gate += small[row];
        up += small[p.rows + row];
    }
    return act(gate) * up;
}

// Output o to the next packet, with its fifteen neighbours: half a block, its scale and, for a norm to come, the sum of
// squares. Called by all threads; 16 of them work.
fn write_half(o: u32, token: u32, half: u32, works: bool) {
    let base = token * p.next_packet * 4u;
    var top = 0.0;
    if (works) {
        for (var j = 0u; j < 16u; j++) { top = max(top, abs(outputs[j])); }
        quants[o] = i32(round(outputs[o] * steps_of(top)));
    }
    workgroupBarrier();
    if (works && o < 4u) {
        var word = 0u;
        for (var j = 0u; j < 4u; j++) { word |= (u32(quants[4u * o + j]) & 0xffu) << (8u * j); }
        next[base + half * 4u + o] = word;
    }
    if (works && o == 5u) {
        var square = 0.0;
        for (var j = 0u; j < 16u; j++) { square += squares_out[j]; }
        next[base + 12u * p.next_blocks + half] = bitcast<u32>(square);
    }
    if (works && o == 4u) {
        var sum = 0;
        for (var j = 0u; j < 16u; j++) { sum += quants[j]; }
        let scales = base + 8u * p.next_blocks + (half / 2u) * 4u + half % 2u;
        next[scales] = bitcast<u32>(top / 127.0);
        next[scales + 2u] = bitcast<u32>(top / 127.0 * f32(sum));
    }
}

// Output o of a token: to y, and weighted for the norm to come to `outputs`; its square beside it.
fn write_output(o: u32, half: u32, t: u32) {
    let row = half * OUTPUTS + o;
    var v = finish(o, row, norm_factor());
    let at = t * p.stride + p.first + row;
    if ((p.flags & RESIDUAL) != 0u) { v += y[at]; }
    if ((p.flags & NO_Y) == 0u) { y[at] = v; }
    if ((p.flags & NEXT) == 0u) { return; }
    squares_out[o] = v * v;
    let norm_at = select(0u, p.rows * (1u + GLU), (p.flags & BIAS) != 0u);
    if ((p.flags & NEXT_NORM) != 0u) { v *= small[norm_at + row]; }
    outputs[o] = v;
}

@compute @workgroup_size(256)
fn decode_linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) local: u32) {
    let half = group.x + group.y * groups.x; // which 16 outputs
    let lanes = select(32u, 16u, GLU == 1u);
    let lane = local % lanes;
    let pair = local / lanes;
    let here = half * OUTPUTS < p.rows;
    let row = half * OUTPUTS + select(2u * pair, pair, GLU == 1u);
    let place = Place(p.low, p.high, p.scale);
    var sums: array<vec2<f32>, 8>;
    for (var block = lane; block < p.blocks && here; block += lanes) {
        let at = row * p.blocks + block;
        let q0 = load_quants(place, at);
        let c0 = load_scales(place, at);
        var q1: Quants;
        var c1: vec4<f32>;
        if (GLU == 1u) {
            q1 = load_other(at);
            c1 = load_other_scales(at);
        } else {
            q1 = load_quants(place, at + p.blocks);
            c1 = load_scales(place, at + p.blocks);
        }
        for (var t = 0u; t < TOKENS; t++) {
            let x = t * p.packet;
            let xa = acts[x + 2u * block];
            let xb = acts[x + 2u * block + 1u];
            let s = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
            sums[t] += vec2<f32>(block_dot(q0, c0, xa, xb, s), block_dot(q1, c1, xa, xb, s));
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        let x = team_sum(sums[t].x, lanes, local);
        let y_ = team_sum(sums[t].y, lanes, local);
        if (lane == 0u) {
            products[2u * pair] = x;
            products[2u * pair + 1u] = y_;
        }
        if ((p.flags & FACTOR) != 0u) {
            let s = team_sum(share_of_squares(t, local), 32u, local);
            if (local % 32u == 0u) { squares[local / 32u] = s; }
        }
        workgroupBarrier();
        let works = local < OUTPUTS && here && t < p.tokens;
        if (works) { write_output(local, half, t); }
        workgroupBarrier();
        if ((p.flags & NEXT) != 0u) { write_half(local, t, half, works); }
        workgroupBarrier();
    }
}
