// delta_prepare.wgsl - what a gated delta rule needs of each token before its recurrence, in place: queries and keys
// divided by their lengths, steps made decays and strengths betas (plan.h, af_op_delta).
//
// One workgroup of 64 threads for each (head of q or k, token), and one more for each token's decays and betas.
struct Params {
    key_heads: u32, value_heads: u32, k_dim: u32,
    in_stride: u32, in_first: u32, // of a token's row
    step_stride: u32, step_first: u32,
    strength_stride: u32, strength_first: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> fades: array<f32>; // rates, then biases of the steps
@group(0) @binding(1) var<storage, read_write> heads: array<f32>;
@group(0) @binding(2) var<storage, read_write> step: array<f32>;
@group(0) @binding(3) var<storage, read_write> strength: array<f32>;
const THREADS = 64u;

fn softplus(x: f32) -> f32 {
    if (x > 20.0) { return x; }
    return log(1.0 + exp(x)); // what 1 + e loses is nothing beside the 1 in exp(rate * this)
}

@compute @workgroup_size(64)
fn delta_prepare(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.y;
    if (group.x == 2u * p.key_heads) {
        for (var j = local; j < p.value_heads; j += THREADS) {
            let s = token * p.step_stride + p.step_first + j;
            step[s] = exp(fades[j] * softplus(step[s] + fades[p.value_heads + j]));
            let b = token * p.strength_stride + p.strength_first + j;
            strength[b] = 1.0 / (1.0 + exp(-strength[b]));
        }
        return;
    }
    let base = token * p.in_stride + p.in_first + group.x * p.k_dim;
    var squares = 0.0;
    for (var i = local; i < p.k_dim; i += THREADS) { squares += heads[base + i] * heads[base + i]; }
    var factor = inverseSqrt(workgroup_sum(squares, local) + p.eps);
    if (group.x < p.key_heads) { factor *= inverseSqrt(f32(p.k_dim)); }
    for (var i = local; i < p.k_dim; i += THREADS) { heads[base + i] *= factor; }
}
