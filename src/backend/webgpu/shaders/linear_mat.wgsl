// linear_mat.wgsl - a quantized matrix times many tokens: prompts.
//
// A workgroup makes a tile of 64 rows by 64 tokens; 256 threads, each 4 by 4. For every two blocks of 32 columns the tile's
// weights are unpacked once to bytes in workgroup memory, beside the tokens' int8 activations, and multiplied four bytes
// at a time. Same layout and same meaning as linear_vec.wgsl; an output's blocks add up from the first to the last, as in
// linear_few.wgsl.

const TILE = 64u;
const STEP = 2u;   // blocks
const QUANTS = 5u; // vec4 of a row or a token in a step: two a block, one so that rows fall to different banks
var<workgroup> w_quants: array<vec4<u32>, 320>; // TILE * QUANTS
var<workgroup> x_quants: array<vec4<u32>, 320>;
var<workgroup> w_scales: array<vec4<f32>, 128>; // (block, row)
var<workgroup> x_scales: array<vec4<f32>, 128>;

// Threads stage a block each: of the matrix the first half of them, neighbours neighbouring blocks, of tokens the others.
fn stage(row0: u32, token0: u32, first: u32, local: u32) {
    let line = local / STEP % TILE;
    let turn = local % STEP;
    let block = min(first + turn, p.blocks - 1u);
    let at = line * QUANTS + 2u * turn;
    if (local < STEP * TILE) {
        let row = min(row0 + line, p.rows - 1u);
        let place = Place(p.low, p.high, p.scale);
        let q = load_quants(place, row * p.blocks + block);
        w_quants[at] = q.a;
        w_quants[at + 1u] = q.b;
        w_scales[turn * TILE + line] = load_scales(place, row * p.blocks + block);
    } else {
        let x = min(token0 + line, p.tokens - 1u) * p.packet;
        x_quants[at] = acts[x + 2u * block];
        x_quants[at + 1u] = acts[x + 2u * block + 1u];
        x_scales[turn * TILE + line] = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
    }
}

@compute @workgroup_size(256)
fn linear_mat(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row0 = group.x * TILE;
    let token0 = group.y * TILE;
    let r0 = local % 16u;
    let t0 = local / 16u;
    var sums: array<array<f32, 4>, 4>;
    for (var first = 0u; first < p.blocks; first += STEP) {
        stage(row0, token0, first, local);
        workgroupBarrier();
        for (var turn = 0u; turn < min(STEP, p.blocks - first); turn++) {
            var q: array<Quants, 4>;
            var c: array<vec4<f32>, 4>;
            for (var r = 0u; r < 4u; r++) {
                let i = r0 + 16u * r;
                q[r] = Quants(w_quants[i * QUANTS + 2u * turn], w_quants[i * QUANTS + 2u * turn + 1u]);
                c[r] = w_scales[turn * TILE + i];
            }
            for (var t = 0u; t < 4u; t++) {
                let i = t0 + 16u * t;
                let xa = x_quants[i * QUANTS + 2u * turn];
                let xb = x_quants[i * QUANTS + 2u * turn + 1u];
                let s = x_scales[turn * TILE + i];
                for (var r = 0u; r < 4u; r++) { sums[t][r] += block_dot(q[r], c[r], xa, xb, s); }
            }
        }
        workgroupBarrier();
    }
    for (var t = 0u; t < 4u; t++) {
        let token = token0 + t0 + 16u * t;
        for (var r = 0u; r < 4u; r++) {
            let row = row0 + r0 + 16u * r;
            if (token < p.tokens && row < p.rows) { y[token * p.stride + p.first_row + row] = sums[t][r]; }
        }
    }
}
