// decode_linear.wgsl - a linear operation of a decode step in one dispatch: product, bias or gate, residual, and the int8
// packet that the next operation reads. For any number of tokens, each of another sequence.
//
// A workgroup of 256 threads makes 8 ROWS outputs for each of TOKENS tokens, the last of which may be past the batch. 32
// lanes share ROWS rows; or, GLU, 16 lanes share ROWS / 2 rows of the gate and the same of the other matrix, which is
// stacked below it. Each block of weights is used for all tokens at hand; more than eight are several workgroups beside each
// other (x), so that all but the first find the weights in the cache. A token's sums do not depend on the others': every
// TOKENS and ROWS adds in the same order.
//
// What follows the product is short work: all sums are made first, and then, behind one barrier, every output of every
// token has a thread of its own.
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

var<workgroup> products: array<f32, 512>; // (token, output); GLU: gate and other side of an output side by side
var<workgroup> squares: array<f32, 64>;   // (token, team): sums of squares

// ---- The product ----

fn lanes_of_a_row() -> u32 { return select(32u, 16u, GLU == 1u); }

// Row r of a thread's, of those that stand in the matrix.
fn row_of(first: u32, r: u32) -> u32 {
    if (GLU == 1u) { return first + r / 2u + (r & 1u) * p.rows; }
    return first + r;
}

// One step of adding up over lanes: of 2 n numbers a lane keeps n, and gives the others to the lane `step` away, which
// keeps those. So the sums of many cost little more than one's, and each is the same tree of additions.
fn halve(v: ptr<function, array<f32, 32>>, n: u32, step: u32, local: u32) {
    let upper = (local & step) != 0u;
    for (var i = 0u; i < n; i++) {
        let given = select((*v)[n + i], (*v)[i], upper);
        (*v)[i] = select((*v)[i], (*v)[n + i], upper) + exchange(given, step, local);
    }
}

// Level 0 to 4: over the lanes' halves, quarters, ...
fn add_level(v: ptr<function, array<f32, 32>>, level: u32, local: u32) {
    let step = lanes_of_a_row() >> (level + 1u);
    let n = (ROWS * TOKENS) >> (level + 1u);
    if (step == 0u) { return; }
    if (n > 0u) {
        halve(v, n, step, local);
    } else {
        (*v)[0] += exchange((*v)[0], step, local);
    }
}

// All sums over the lanes of a row to `products`.
fn add_up(v: ptr<function, array<f32, 32>>, local: u32) {
    add_level(v, 0u, local);
    add_level(v, 1u, local);
    add_level(v, 2u, local);
    add_level(v, 3u, local);
    add_level(v, 4u, local);
    let lanes = lanes_of_a_row();
    let lane = local % lanes;
    let alike = max(lanes / (ROWS * TOKENS), 1u); // lanes that hold the same
    let held = max(ROWS * TOKENS / lanes, 1u);
    if (lane % alike != 0u) { return; }
    for (var i = 0u; i < held; i++) {
        let sum = lane / alike * held + i;
        products[sum / ROWS * (THREADS / lanes * ROWS) + local / lanes * ROWS + sum % ROWS] = (*v)[i];
    }
}

// ---- The factor of a norm ----

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

// The teams' sums of all tokens to `squares`.
fn add_squares(first_token: u32, local: u32) {
    let teams = square_teams();
    for (var done = 0u; done < teams * TOKENS; done += TEAMS) {
        let i = done + local / 32u;
        let t = i / teams;
        let token = min(first_token + t, p.tokens - 1u);
        let sum = team_sum(share_of_squares(token, i % teams * 32u + local % 32u), 32u, local);
        if (local % 32u == 0u && t < TOKENS) { squares[t * TEAMS + i % teams] = sum; }
    }
}

// 1 / sqrt(mean(x^2) + eps)
fn norm_factor(t: u32) -> f32 {
    if ((p.flags & FACTOR) == 0u) { return 1.0; }
    var sum = 0.0;
    for (var i = 0u; i < square_teams(); i++) { sum += squares[t * TEAMS + i]; }
    return inverseSqrt(sum / f32(32u * p.blocks) + p.eps);
}

// ---- Outputs ----

// The finished number of output o of the workgroup's token t.
fn finish(o: u32, row: u32, t: u32) -> f32 {
    let factor = norm_factor(t);
    if (GLU == 0u) {
        var v = products[t * TEAMS * ROWS + o] * factor;
        if ((p.flags & BIAS) != 0u) { v += small[row]; }
        if ((p.flags & ACTIVATE) != 0u) { v = act(v); }
        return v;
    }
    let at = 2u * (t * TEAMS * ROWS + o);
    var gate = products[at] * factor;
    var up = products[at + 1u] * factor;
    if ((p.flags & BIAS) != 0u) {
        gate += small[row];
        up += small[p.rows + row];
    }
    return glu(gate, up);
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
    let square = team_sum(v * v, 16u, local);
    if (works && local % 16u == 0u) { next[base + 12u * p.next_blocks + row / 16u] = bitcast<u32>(square); }
    let norm_at = select(0u, p.rows * (1u + GLU), (p.flags & BIAS) != 0u);
    var weighted = v;
    if (works && (p.flags & NEXT_NORM) != 0u) { weighted *= small[norm_at + row]; }
    write_packet(base, p.next_blocks, row, weighted, works, local);
}

@compute @workgroup_size(256)
fn decode_linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) local: u32) {
    let first_token = group.x * TOKENS;
    let first_row = (group.y + group.z * groups.y) * TEAMS * ROWS;
    let lanes = lanes_of_a_row();
    let row = first_row + local / lanes * (ROWS / (1u + GLU));
    let place = Place(p.low, p.high, p.scale);
    var sums: array<f32, 32>; // (token, row)
    for (var block = local % lanes; block < p.blocks && row < p.rows; block += lanes) {
        let at = vec4<u32>(row_of(row, 0u), row_of(row, 1u), row_of(row, 2u), row_of(row, 3u)) * p.blocks + block;
        let q0 = load_quants(place, at.x);
        let c0 = load_scales(place, at.x);
        let q1 = load_quants(place, at.y);
        let c1 = load_scales(place, at.y);
        var q2 = q0;
        var c2 = c0;
        var q3 = q0;
        var c3 = c0;
        if (ROWS == 4u) {
            q2 = load_quants(place, at.z);
            c2 = load_scales(place, at.z);
            q3 = load_quants(place, at.w);
            c3 = load_scales(place, at.w);
        }
        for (var t = 0u; t < TOKENS; t++) {
            let x = min(first_token + t, p.tokens - 1u) * p.packet;
            let xa = acts[x + 2u * block];
            let xb = acts[x + 2u * block + 1u];
            let s = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
            sums[t * ROWS] += block_dot(q0, c0, xa, xb, s);
            sums[t * ROWS + 1u] += block_dot(q1, c1, xa, xb, s);
            if (ROWS == 4u) {
                sums[t * ROWS + 2u] += block_dot(q2, c2, xa, xb, s);
                sums[t * ROWS + 3u] += block_dot(q3, c3, xa, xb, s);
            }
        }
    }
    add_up(&sums, local);
    if ((p.flags & FACTOR) != 0u) { add_squares(first_token, local); }
    workgroupBarrier();
    let o = local % (TEAMS * ROWS);
    let t = local / (TEAMS * ROWS);
    let works = t < TOKENS && first_token + t < p.tokens && first_row + o < p.rows;
    var v = 0.0;
    if (works) { v = output(o, first_row + o, t, first_token + t); }
    if ((p.flags & NEXT) != 0u) { leave(first_token + t, first_row + o, v, works, local); }
}
