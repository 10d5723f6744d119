// decode_outputs.wgsl - what the products of a decode step share (decode_one.wgsl, decode_linear.wgsl): parameters, and all
// that follows a sum: the factor of a norm, bias or gate, residual, and the int8 packet that the next operation reads.
//
// The norm before an operation is folded into its neighbours. Its factor 1 / sqrt(mean(x^2) + eps) is one number a token,
// so the operation that wrote x has already quantized x * weight, and left sums of squares beside it, one for each 16
// columns: they are added up and the finished sums multiplied (FACTOR). A packet's sums follow its scales, as f32.
//
// Where an addition follows a product the rounding is stated, so that all users come to the same bits.
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

override TOKENS: u32 = 1u; // 1, 2, 4 or 8
override ROWS: u32 = 2u;   // 2 or 4
override GLU: u32 = 0u;
const BIAS = 1u;      // small begins with biases
const RESIDUAL = 2u;  // y += instead of y =
const FACTOR = 4u;    // acts are x * weight, not normed yet
const NEXT = 8u;      // write a packet for the next operation; of y times the next norm's weight if
const NEXT_NORM = 16u;
const NO_Y = 32u;     // y itself is not needed
const ACTIVATE = 64u; // act(product + bias)
const THREADS = 256u;
const TEAMS = 8u;     // of 32 threads

var<workgroup> products: array<f32, TOKENS * ROWS * 16u>; // (token, output); GLU: gate and other side by side
var<workgroup> squares: array<f32, TOKENS * TEAMS>;       // (token, team): sums of squares

fn lanes_of_a_row() -> u32 { return select(32u, 16u, GLU == 1u); }

// Thread i of 256's share of a token's sums of squares.
fn share_of_squares(token: u32, i: u32) -> f32 {
    let count = 2u * p.blocks; // even
    let base = token * p.packet + 3u * p.blocks;
    var s = 0.0;
    for (var at = i; at < count / 4u; at += THREADS) {
        let v = bitcast<vec4<f32>>(acts[base + at]);
        s += v.x + v.y + v.z + v.w;
    }
    if (i == 0u && count % 4u != 0u) {
        let v = bitcast<vec4<f32>>(acts[base + count / 4u]);
        s += v.x + v.y;
    }
    return s;
}

// Teams whose share is not nothing.
fn square_teams() -> u32 { return clamp((p.blocks / 2u + 31u) / 32u, 1u, TEAMS); }

// 1 / sqrt(mean(x^2) + eps)
fn norm_factor(t: u32) -> f32 {
    if ((p.flags & FACTOR) == 0u) { return 1.0; }
    var sum = 0.0;
    let teams = select(square_teams(), TEAMS, TOKENS == 1u); // of a single token there are all
    for (var i = 0u; i < teams; i++) { sum += squares[t * TEAMS + i]; }
    return inverseSqrt(sum / f32(32u * p.blocks) + p.eps);
}

fn bias_of(row: u32) -> f32 {
    if ((p.flags & BIAS) == 0u) { return 0.0; }
    return small[row];
}

// The finished number of output o of the workgroup's token t.
fn finish(o: u32, row: u32, t: u32) -> f32 {
    let factor = norm_factor(t);
    if (GLU == 0u) {
        let v = fma(products[t * TEAMS * ROWS + o], factor, bias_of(row));
        if ((p.flags & ACTIVATE) != 0u) { return act(v); }
        return v;
    }
    let at = 2u * (t * TEAMS * ROWS + o);
    return glu(fma(products[at], factor, bias_of(row)), fma(products[at + 1u], factor, bias_of(p.rows + row)));
}

// An output, also written to y.
fn output(o: u32, row: u32, t: u32, token: u32) -> f32 {
    var v = finish(o, row, t);
    let at = token * p.stride + p.first + row;
    if ((p.flags & RESIDUAL) != 0u) { v += y[at]; }
    if ((p.flags & NO_Y) == 0u) { y[at] = v; }
    return v;
}

// An output to the next packet, weighted for a norm to come, and of each sixteen the sum of squares. Called by all threads.
fn leave(token: u32, row: u32, v: f32, works: bool, local: u32) {
    let base = 4u * token * p.next_packet;
    let square = team_sum(fma(v, v, 0.0), 16u, local);
    if (works && local % 16u == 0u) { next[base + 12u * p.next_blocks + row / 16u] = bitcast<u32>(square); }
    let norm_at = select(0u, p.rows * (1u + GLU), (p.flags & BIAS) != 0u);
    var weighted = v;
    if (works && (p.flags & NEXT_NORM) != 0u) { weighted *= small[norm_at + row]; }
    write_packet(base, p.next_blocks, row, weighted, works, local);
}
