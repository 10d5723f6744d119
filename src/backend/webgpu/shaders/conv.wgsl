// conv.wgsl - a causal convolution of each channel over the last tokens (plan.h, af_op_conv).
//
// One thread for each (channel, run), which carries what went in before from token to token and leaves it in the state.
struct Params {
    width: u32,
    in_stride: u32, in_first: u32, // of a token's row
    out_stride: u32, out_first: u32,
    has_bias: u32,
    runs: u32,                     // where the batch's runs stand in batch_info
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> taps: array<f32>;        // (TAPS, width), then the bias
@group(0) @binding(2) var<storage, read> in: array<f32>;
@group(0) @binding(3) var<storage, read_write> state: array<f32>; // (slot, TAPS - 1, width)
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

override TAPS: u32 = 4u; // 2 .. 16

@compute @workgroup_size(64)
fn conv(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let channel = group.x * 64u + local;
    if (channel >= p.width) { return; }
    let run = batch_run(p.runs, group.y);
    let base = run.slot * (TAPS - 1u) * p.width + channel;
    var held: array<f32, 15>; // the oldest first
    for (var i = 0u; i + 1u < TAPS; i++) { held[i] = select(state[base + i * p.width], 0.0, run.begins); }
    let bias = select(0.0, taps[TAPS * p.width * p.has_bias + channel], p.has_bias == 1u);
    for (var t = run.first; t < run.first + run.count; t++) {
        let now = in[t * p.in_stride + p.in_first + channel];
        var sum = bias;
        for (var i = 0u; i + 1u < TAPS; i++) { sum += taps[i * p.width + channel] * held[i]; }
        sum += taps[(TAPS - 1u) * p.width + channel] * now;
        out[t * p.out_stride + p.out_first + channel] = act(sum);
        for (var i = 0u; i + 2u < TAPS; i++) { held[i] = held[i + 1u]; }
        held[TAPS - 2u] = now;
    }
    for (var i = 0u; i + 1u < TAPS; i++) { state[base + i * p.width] = held[i]; }
}
