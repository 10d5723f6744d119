// decode_linear.wgsl - a linear operation of a decode step in one dispatch: product, bias or gate, residual, and the int8
// packet that the next operation reads. For one to eight tokens, each of another sequence.
//
// A workgroup of 256 threads makes 16 outputs: 16 rows, two a thread, 32 lanes a pair; or, GLU, 16 rows of the gate and
// the same 16 of the other matrix, which is stacked below it, 16 lanes a pair. What follows the product is short work for 16
// threads, so it is kept to two barriers.
//
// The norm before an operation is folded into its neighbours. Its factor 1 / sqrt(mean(x^2) + eps) is one number a token,
// so the operation that wrote x has already quantized x * weight, and left sums of squares beside it, one for each 16
// columns: here they are added up and the finished sums multiplied (FACTOR). A packet's sums follow its scales, as f32.
struct Params {
    low: u32, high: u32, scale: u32, // Place of the rows in weights
    rows: u32,                // outputs; GLU: of each of the two matrices
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
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> small: array<f32>; // bias of each row (of both, GLU), then the next norm's weight
@group(0) @binding(4) var<storage, read_write> y: array<f32>;
@group(0) @binding(5) var<storage, read_write> next: array<u32>;

override TOKENS: u32 = 1u;
override GLU: u32 = 0u;
const BIAS = 1u;      // small begins with biases
const RESIDUAL = 2u;  // y += instead of y =
const FACTOR = 4u;    // acts are x * weight, not normed yet
const NEXT = 8u;      // write a packet for the next operation; of y times the next norm's weight if
const NEXT_NORM = 16u;
const NO_Y = 32u;     // y itself is not needed
const ACTIVATE = 64u; // act(product + bias)
const OUTPUTS = 16u;

var<workgroup> products: array<f32, 32>;  // of the 16 outputs; GLU: gate and other side by side
var<workgroup> squares: array<f32, 8>;    // sums of squares, of 32 threads each

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

// The finished number of output o (0 .. 15).
fn finish(o: u32, row: u32, factor: f32) -> f32 {
    if (GLU == 0u) {
        var v = products[o] * factor;
        if ((p.flags & BIAS) != 0u) { v += small[row]; }
        if ((p.flags & ACTIVATE) != 0u) { v = act(v); }
        return v;
    }
    var gate = products[2u * o] * factor;
    var up = products[2u * o + 1u] * factor;
    if ((p.flags & BIAS) != 0u) {
        gate += small[row];
        up += small[p.rows + row];
    }
    return glu(gate, up);
}

// Output o of a token, also written to y.
fn output(o: u32, row: u32, t: u32) -> f32 {
    var v = finish(o, row, norm_factor());
    let at = t * p.stride + p.first + row;
    if ((p.flags & RESIDUAL) != 0u) { v += y[at]; }
    if ((p.flags & NO_Y) == 0u) { y[at] = v; }
    return v;
}

// The 16 outputs to the next packet, weighted for a norm to come, and the sum of their squares. Called by all threads.
fn leave(t: u32, half: u32, v: f32, works: bool, local: u32) {
    let base = 4u * t * p.next_packet;
    let square = team_sum(v * v, 16u, local);
    if (works && local == 0u) { next[base + 12u * p.next_blocks + half] = bitcast<u32>(square); }
    let row = half * OUTPUTS + local;
    let norm_at = select(0u, p.rows * (1u + GLU), (p.flags & BIAS) != 0u);
    var weighted = v;
    if (works && (p.flags & NEXT_NORM) != 0u) { weighted *= small[norm_at + row]; }
    write_packet(base, p.next_blocks, row, weighted, works, local);
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
    let below = select(1u, p.rows, GLU == 1u); // from a thread's first row to its second
    let place = Place(p.low, p.high, p.scale);
    var sums: array<vec2<f32>, 8>;
    for (var block = lane; block < p.blocks && here; block += lanes) {
        let at = row * p.blocks + block;
        let q0 = load_quants(place, at);
        let c0 = load_scales(place, at);
        let q1 = load_quants(place, at + below * p.blocks);
        let c1 = load_scales(place, at + below * p.blocks);
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
        var v = 0.0;
        if (works) { v = output(local, half * OUTPUTS + local, t); }
        if ((p.flags & NEXT) != 0u) { leave(t, half, v, works, local); }
        workgroupBarrier();
    }
}
