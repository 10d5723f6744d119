// linear_float.wgsl - F32, F16 and BF16 matrices times tokens kept in f32; also every format in exact mode (widened).
//
// As linear_vec.wgsl, with a row as plain numbers: lanes stride over pairs (half formats) or single elements (F32). A token's
// sums are the same in any portion.
struct Params {
    at: u32,     // of the segment, in u32
    rows: u32,
    cols: u32,
    first_row: u32,
    stride: u32,
    tokens: u32,
    first_token: u32,
    row_words: u32, // u32 a row
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights1: array<u32>;
@group(0) @binding(1) var<storage, read> x: array<f32>; // (token, cols)
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

override TOKENS: u32 = 1u;
override KIND: u32 = 0u; // 0 f32, 1 f16, 2 bf16
const THREADS = 128u;

fn pair(word: u32) -> vec2<f32> {
    if (KIND == 1u) { return unpack2x16float(word); }
    return vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
}

@compute @workgroup_size(128)
fn linear_float(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                @builtin(local_invocation_index) local: u32) {
    let lane = local % LANES;
    let row = (group.x + group.y * groups.x) * (THREADS / LANES) + local / LANES;
    var sums: array<f32, 8>;
    for (var i = lane; i < p.row_words && row < p.rows; i += LANES) {
        let word = weights1[p.at + row * p.row_words + i];
        for (var t = 0u; t < TOKENS; t++) {
            let base = (p.first_token + t) * p.cols;
            if (KIND == 0u) {
                sums[t] = fma(bitcast<f32>(word), x[base + i], sums[t]);
            } else {
                let w = pair(word);
                let second = select(0.0, x[base + min(2u * i + 1u, p.cols - 1u)], 2u * i + 1u < p.cols);
                sums[t] = fma(w.y, second, fma(w.x, x[base + 2u * i], sums[t]));
            }
        }
    }
    for (var t = 0u; t < TOKENS; t++) {
        let total = lanes_sum(sums[t], local);
        if (lane == 0u && row < p.rows && p.first_token + t < p.tokens) {
            y[(p.first_token + t) * p.stride + p.first_row + row] = total;
        }
    }
}
