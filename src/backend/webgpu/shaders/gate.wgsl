// gate.wgsl - heads, normed where they have a norm, times an activation of a gate (plan.h, af_op_gate).
//
// One workgroup of 64 threads for each (head, token). KIND as norm.wgsl's.
struct Params {
    dim: u32,
    v_stride: u32, v_first: u32, // of a token's row
    gate_stride: u32, gate_first: u32, gate_pitch: u32,
    weights: u32,                // rows of them: one for all heads, or one a head
    has_bias: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weight: array<f32>; // weights, then biases
@group(0) @binding(1) var<storage, read> gate: array<f32>;
@group(0) @binding(2) var<storage, read_write> v: array<f32>;
override KIND: u32 = 0u;
const THREADS = 64u;

@compute @workgroup_size(64)
fn gate_heads(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let base = group.y * p.v_stride + p.v_first + group.x * p.dim;
    var mean = 0.0;
    var factor = 1.0;
    if (KIND == 2u) {
        var sum = 0.0;
        for (var i = local; i < p.dim; i += THREADS) { sum += v[base + i]; }
        mean = workgroup_sum(sum, local) / f32(p.dim);
    }
    if (KIND != 0u) {
        var squares = 0.0;
        for (var i = local; i < p.dim; i += THREADS) { squares += (v[base + i] - mean) * (v[base + i] - mean); }
        factor = inverseSqrt(workgroup_sum(squares, local) / f32(p.dim) + p.eps);
    }
    let row = select(0u, group.x * p.dim, p.weights > 1u);
    let other = group.y * p.gate_stride + p.gate_first + group.x * p.gate_pitch;
    for (var i = local; i < p.dim; i += THREADS) {
        var x = v[base + i];
        if (KIND != 0u) {
            x = (x - mean) * factor * weight[row + i];
            if (p.has_bias == 1u) { x += weight[p.weights * p.dim + row + i]; }
        }
        v[base + i] = x * act(gate[other + i]);
    }
}
