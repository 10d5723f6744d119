// decode_linear.wgsl - a linear operation of a decode step in one dispatch: product, bias or gate, residual, and the int8
// packet that the next operation reads. For one to eight tokens, each of another sequence.
//
// A workgroup of 256 threads makes 16 outputs: 16 rows, two a thread, 32 lanes a pair; or, GLU, 16 rows of the gate and
// the same 16 of the other matrix, 16 lanes a pair. Sums run over lanes through workgroup memory.
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

var<workgroup> partial: array<f32, 512>;
var<workgroup> factors: array<f32, 8>;
var<workgroup> outputs: array<f32, 16>;

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

// 1 / sqrt(mean(x^2) + eps) of each token; every thread must come here.
fn read_factors(local: u32) {
    let count = 2u * p.blocks; // sums of squares a token
    for (var t = 0u; t < TOKENS; t++) {
        let base = t * p.packet + 3u * p.blocks;
        var s = 0.0;
        for (var i = local; i < count / 4u; i += 256u) {
            let v = bitcast<vec4<f32>>(acts[base + i]);
            s += v.x + v.y + v.z + v.w;
        }
        if (local == 0u && count % 4u != 0u) {
            let v = bitcast<vec4<f32>>(acts[base + count / 4u]);
            s += v.x + v.y; // counts are even
        }
        partial[local] = s;
        workgroupBarrier();
        if (local < 16u) {
            var sum = 0.0;
            for (var i = 0u; i < 16u; i++) { sum += partial[16u * local + i]; }
            partial[256u + local] = sum;
        }
        workgroupBarrier();
        if (local == 0u) {
            var sum = 0.0;
            for (var i = 0u; i < 16u; i++) { sum += partial[256u + i]; }
            factors[t] = inverseSqrt(sum / f32(32u * p.blocks) + p.eps);
        }
        workgroupBarrier();
    }
}

fn act(v: f32) -> f32 {
    if (ACT == 0u) { return v / (1.0 + exp(-v)); }
    let u = clamp(0.7978845608028654 * (v + 0.044715 * v * v * v), -10.0, 10.0);
    return 0.5 * v * (1.0 + tanh(u));
}

// The finished number of output o (0 .. 15) from the lanes' sums.
fn finish(o: u32, row: u32, factor: f32) -> f32 {
    if (GLU == 1u) {
        var gate = 0.0;
        var up = 0.0;
        for (var i = 0u; i < 16u; i++) {
            gate += partial[o * 32u + 2u * i];
            up += partial[o * 32u + 2u * i + 1u];
        }
        gate *= factor;
        up *= factor;
        if ((p.flags & BIAS) != 0u) {
            gate += small[row];
            up += small[p.rows + row];
        }
        return act(gate) * up;
    }
    var sum = 0.0;
    for (var i = 0u; i < 32u; i++) { sum += partial[(o / 2u) * 64u + 2u * i + (o & 1u)]; }
    sum *= factor;
    if ((p.flags & BIAS) != 0u) { sum += small[row]; }
    return sum;
}

// 16 outputs to the next packet: half a block, its scale and, for a norm to come, the sum of squares.
fn write_half(token: u32, half: u32) {
    let base = token * p.next_packet * 4u;
    let norm_at = select(0u, p.rows * (1u + GLU), (p.flags & BIAS) != 0u);
    var squares = 0.0;
    var top = 0.0;
    var v: array<f32, 16>;
    for (var j = 0u; j < 16u; j++) {
        v[j] = outputs[j];
        squares += v[j] * v[j];
        if ((p.flags & NEXT_NORM) != 0u) { v[j] *= small[norm_at + half * 16u + j]; }
        top = max(top, abs(v[j]));
    }
    let inverse = select(0.0, 127.0 / top, top > 0.0);
    var sum = 0;
    for (var w = 0u; w < 4u; w++) {
        var word = 0u;
        for (var j = 0u; j < 4u; j++) {
            let q = i32(round(v[4u * w + j] * inverse));
            word |= (u32(q) & 0xffu) << (8u * j);
            sum += q;
        }
        next[base + half * 4u + w] = word;
    }
    let d = top / 127.0;
    let scales = base + 8u * p.next_blocks + (half / 2u) * 4u + half % 2u;
    next[scales] = bitcast<u32>(d);
    next[scales + 2u] = bitcast<u32>(d * f32(sum));
    next[base + 12u * p.next_blocks + half] = bitcast<u32>(squares);
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
    if ((p.flags & FACTOR) != 0u) { read_factors(local); }
    for (var t = 0u; t < TOKENS; t++) {
        partial[2u * local] = sums[t].x;
        partial[2u * local + 1u] = sums[t].y;
        workgroupBarrier();
        let out_row = half * OUTPUTS + local;
        if (local < OUTPUTS && here && t < p.tokens) {
            var factor = 1.0;
            if ((p.flags & FACTOR) != 0u) { factor = factors[t]; }
            var v = finish(local, out_row, factor);
            let at = t * p.stride + p.first + out_row;
            if ((p.flags & RESIDUAL) != 0u) { v += y[at]; }
            if ((p.flags & NO_Y) == 0u) { y[at] = v; }
            outputs[local] = v;
        }
        workgroupBarrier();
        if (local == 0u && here && t < p.tokens && (p.flags & NEXT) != 0u) { write_half(t, half); }
    }
}
