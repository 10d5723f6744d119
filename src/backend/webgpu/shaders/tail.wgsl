// tail.wgsl - what follows a product: bias, activation or gate, norm, scale, residual, soft cap (plan.h, af_op_linear).
//
// One workgroup a row. COMBINE: 0 none, 1 act, 2 act(first) * second. POST as norm.wgsl's
// KIND. y holds the parts' raw rows one after another: (tokens, parts * width).
struct Params {
    width: u32,
    y_stride: u32,
    y_first: u32,
    has_bias: u32,     // bit i: part i
    has_residual: u32,
    has_post_bias: u32,
    scale: f32,
    cap: f32,          // 0: none
    eps: f32,
    out_stride: u32,
    out_first: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> y: array<f32>;
@group(0) @binding(1) var<storage, read> bias: array<f32>; // of part 0, then of part 1
@group(0) @binding(2) var<storage, read> post: array<f32>; // weight, then bias
@group(0) @binding(3) var<storage, read_write> out: array<f32>; // residual is what it holds
override COMBINE: u32 = 0u;
override POST: u32 = 0u;

const THREADS = 256u;

fn part(row: u32, which: u32, i: u32) -> f32 {
    let at = which * p.width + i;
    var v = y[row * p.y_stride + p.y_first + at];
    if (((p.has_bias >> which) & 1u) == 1u) { v += bias[at]; }
    return v;
}

fn combined(row: u32, i: u32) -> f32 {
    let v = part(row, 0u, i);
    if (COMBINE == 1u) { return act(v); }
    if (COMBINE == 2u) { return glu(v, part(row, 1u, i)); }
    return v;
}

@compute @workgroup_size(256)
fn tail(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.x;
    var mean = 0.0;
    var factor = 1.0;
    if (POST == 2u) {
        var sum = 0.0;
        for (var i = local; i < p.width; i += THREADS) { sum += combined(row, i); }
        mean = workgroup_sum(sum, local) / f32(p.width);
    }
    if (POST != 0u) {
        var squares = 0.0;
        for (var i = local; i < p.width; i += THREADS) {
            let v = combined(row, i) - mean;
            squares += v * v;
        }
        factor = inverseSqrt(workgroup_sum(squares, local) / f32(p.width) + p.eps);
    }
    for (var i = local; i < p.width; i += THREADS) {
        var v = combined(row, i);
        if (POST != 0u) {
            v = (v - mean) * factor * post[i];
            if (p.has_post_bias == 1u) { v += post[p.width + i]; }
        }
        v *= p.scale;
        v = soft_cap(v, p.cap);
        let at = row * p.out_stride + p.out_first + i;
        if (p.has_residual == 1u) { v += out[at]; }
        out[at] = v;
    }
}
