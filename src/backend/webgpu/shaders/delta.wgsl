// delta.wgsl - the recurrence of a gated delta rule (plan.h, af_op_delta), after delta_prepare.wgsl.
//
// One workgroup of 128 threads for each (value head and 16 of its columns, run). A thread holds an eighth of a column of
// S in registers while the run's tokens pass. As S is k uT more after a token, the result needs no second pass over it:
//     out = (decay S)T q + (k . q) u
// so each token costs one exchange between the eighths. What is exchanged and what is loaded stand twice, in turn, so
// that no thread overwrites what another still reads.
struct Params {
    key_heads: u32,
    in_stride: u32, in_first: u32, // of a token's row
    step_stride: u32, step_first: u32,
    strength_stride: u32, strength_first: u32,
    out_stride: u32, out_first: u32,
    runs: u32,                     // where the batch's runs stand in batch_info
    slot: u32,                     // floats of a slot
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> heads: array<f32>;       // (token): q, k and v of all heads
@group(0) @binding(2) var<storage, read> decays: array<f32>;
@group(0) @binding(3) var<storage, read> betas: array<f32>;
@group(0) @binding(4) var<storage, read_write> state: array<f32>; // (slot, value head, K_DIM, V_DIM)
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override K_DIM: u32 = 128u;
override V_DIM: u32 = 128u;
override ROWS: u32 = 16u;  // of a thread: an eighth of K_DIM, rounded up
const THREADS = 128u;
const COLUMNS = 16u;
const PARTS = 8u;
var<workgroup> q: array<f32, 512>;          // (turn, 256)
var<workgroup> k: array<f32, 512>;
var<workgroup> sums: array<vec3<f32>, 256>; // (turn, part, column): of ST k, ST q, k . q

@compute @workgroup_size(128)
fn delta(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let blocks = (V_DIM + COLUMNS - 1u) / COLUMNS;
    let head = group.x / blocks;
    let column = group.x % blocks * COLUMNS + local % COLUMNS;
    let first_row = local / COLUMNS * ROWS;
    let q_first = p.in_first + head % p.key_heads * K_DIM;
    let k_first = q_first + p.key_heads * K_DIM;
    let v_first = p.in_first + 2u * p.key_heads * K_DIM + head * V_DIM;
    let run = batch_run(p.runs, group.y);
    let base = run.slot * p.slot + head * K_DIM * V_DIM + column;
    var s: array<f32, 32>;
    for (var r = 0u; r < ROWS; r++) {
        s[r] = 0.0;
        if (!run.begins && column < V_DIM && first_row + r < K_DIM) { s[r] = state[base + (first_row + r) * V_DIM]; }
    }
    for (var t = 0u; t < run.count; t++) {
        let token = run.first + t;
        let row = token * p.in_stride;
        let turn = t % 2u;
        for (var i = local; i < ROWS * PARTS; i += THREADS) {
            q[turn * 256u + i] = select(0.0, heads[row + q_first + i], i < K_DIM);
            k[turn * 256u + i] = select(0.0, heads[row + k_first + i], i < K_DIM);
        }
        let decay = decays[token * p.step_stride + p.step_first + head];
        let beta = betas[token * p.strength_stride + p.strength_first + head];
        var v = 0.0;
        if (column < V_DIM) { v = heads[row + v_first + column]; }
        workgroupBarrier();
        let at = turn * 256u + first_row;
        var sum = vec3<f32>(0.0);
        for (var r = 0u; r < ROWS; r++) {
            s[r] *= decay;
            sum += k[at + r] * vec3<f32>(s[r], 0.0, q[at + r]);
            sum.y += q[at + r] * s[r];
        }
        sums[turn * THREADS + local] = sum;
        workgroupBarrier();
        sum = vec3<f32>(0.0);
        for (var i = 0u; i < PARTS; i++) { sum += sums[turn * THREADS + i * COLUMNS + local % COLUMNS]; }
        let u = beta * (v - sum.x);
        for (var r = 0u; r < ROWS; r++) { s[r] += k[at + r] * u; }
        if (local < COLUMNS && column < V_DIM) {
            out[token * p.out_stride + p.out_first + head * V_DIM + column] = sum.y + sum.z * u;
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        if (column < V_DIM && first_row + r < K_DIM) { state[base + (first_row + r) * V_DIM] = s[r]; }
    }
}
