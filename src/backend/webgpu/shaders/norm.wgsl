// norm.wgsl - a row normed (or as it is), and the same row as int8 blocks for the quantized matrices that read it.
//
// One workgroup a row. KIND: 0 none, 1 RMS, 2 layer norm (plan.h, af_norm).
struct Params {
    width: u32,
    rows: u32,
    gather: u32,    // 1: row r is that of the r-th wanted token
    has_bias: u32,
    quantize: u32,  // 1: also write int8
    eps: f32,
    packet: u32,    // stride of next, in vec4
    rows_at: u32,   // where the batch's wanted rows stand in batch_info
    out_stride: u32, out_first: u32, // of a row in out; the width and 0 where int8 is written
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> weight: array<f32>; // weight, then bias
@group(0) @binding(2) var<storage, read> batch_info: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;
@group(0) @binding(4) var<storage, read_write> next: array<u32>; // packets
override KIND: u32 = 0u;

const THREADS = 256u;

fn normed(v: f32, i: u32, mean: f32, factor: f32) -> f32 {
    if (KIND == 0u) { return v; }
    var y = (v - mean) * factor * weight[i];
    if (p.has_bias == 1u) { y += weight[p.width + i]; }
    return y;
}

@compute @workgroup_size(256)
fn norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.x;
    var source = row;
    if (p.gather == 1u) { source = batch_info[p.rows_at + row]; }
    let from_ = source * p.width;
    var mean = 0.0;
    var factor = 1.0;
    if (KIND == 2u) {
        var sum = 0.0;
        for (var i = local; i < p.width; i += THREADS) { sum += x[from_ + i]; }
        mean = workgroup_sum(sum, local) / f32(p.width);
    }
    if (KIND != 0u) {
        var squares = 0.0;
        for (var i = local; i < p.width; i += THREADS) {
            let v = x[from_ + i] - mean;
            squares += v * v;
        }
        factor = inverseSqrt(workgroup_sum(squares, local) / f32(p.width) + p.eps);
    }
    let to = row * p.out_stride + p.out_first;
    for (var base = 0u; base < p.width; base += THREADS) {
        let i = base + local;
        var v = 0.0;
        if (i < p.width) {
            v = normed(x[from_ + i], i, mean, factor);
            out[to + i] = v;
        }
        if (p.quantize == 1u) { write_packet(4u * row * p.packet, p.width / 32u, i, v, i < p.width, local); }
    }
}
