// linear_mat.wgsl - a quantized matrix times many tokens: prompts.
//
// A workgroup makes a tile of 64 rows by 64 tokens; 256 threads, each 4 by 4. For every block of 32 columns the tile's
// weights are unpacked once to bytes in workgroup memory, beside the tokens' int8 activations, and multiplied four bytes
// at a time. Same layout and same meaning as linear_vec.wgsl.
struct Params {
    low: u32, high: u32, scale: u32,
    rows: u32,
    blocks: u32,
    first_row: u32,
    stride: u32,
    tokens: u32,
    first_token: u32, // always 0
    packet: u32,      // stride of acts
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

const TILE = 64u;
const PAD = 3u; // vec4 a row in workgroup memory: two of data, one so that rows fall to different banks
var<workgroup> w_quants: array<vec4<u32>, 192>; // TILE * PAD
var<workgroup> x_quants: array<vec4<u32>, 192>;
var<workgroup> w_scales: array<vec4<f32>, 64>;
var<workgroup> x_scales: array<vec4<f32>, 64>;

fn stage(row0: u32, token0: u32, block: u32, local: u32) {
    if (local < TILE) {
        let row = min(row0 + local, p.rows - 1u);
        let place = Place(p.low, p.high, p.scale);
        let q = load_quants(place, row * p.blocks + block);
        w_quants[local * PAD] = q.a;
        w_quants[local * PAD + 1u] = q.b;
        w_scales[local] = load_scales(place, row * p.blocks + block);
    } else if (local < 2u * TILE) {
        let i = local - TILE;
        let x = min(token0 + i, p.tokens - 1u) * p.packet;
        x_quants[i * PAD] = acts[x + 2u * block];
        x_quants[i * PAD + 1u] = acts[x + 2u * block + 1u];
        x_scales[i] = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
    }
}

@compute @workgroup_size(256)
fn linear_mat(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row0 = group.x * TILE;
    let token0 = group.y * TILE;
    let r0 = local % 16u;
    let t0 = local / 16u;
    var sums: array<array<f32, 4>, 4>;
    for (var block = 0u; block < p.blocks; block++) {
        stage(row0, token0, block, local);
        workgroupBarrier();
        var q: array<Quants, 4>;
        var c: array<vec4<f32>, 4>;
        for (var r = 0u; r < 4u; r++) {
            let i = r0 + 16u * r;
            q[r] = Quants(w_quants[i * PAD], w_quants[i * PAD + 1u]);
            c[r] = w_scales[i];
        }
        for (var t = 0u; t < 4u; t++) {
            let i = t0 + 16u * t;
            let xa = x_quants[i * PAD];
            let xb = x_quants[i * PAD + 1u];
            let s = x_scales[i];
            for (var r = 0u; r < 4u; r++) { sums[t][r] += block_dot(q[r], c[r], xa, xb, s); }
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
