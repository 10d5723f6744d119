// prompt_norm.wgsl - a row normed (or as it is) as f16 for prompt_linear.wgsl.
//
// One workgroup a row. So that nothing overflows, a row is multiplied by a power of two that brings its largest
// magnitude near 2^13; factors[row] undoes it behind the product. Columns are written in the order 0 2 1 3 of each four.
// KIND as in norm.wgsl.
struct Params {
    width: u32, // a multiple of 4
    rows: u32,
    has_bias: u32,
    eps: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read> weight: array<f32>; // weight, then bias
@group(0) @binding(2) var<storage, read_write> halves: array<vec2<u32>>;
@group(0) @binding(3) var<storage, read_write> factors: array<f32>;
override KIND: u32 = 0u;

const THREADS = 256u;

fn workgroup_max(v: f32, local: u32) -> f32 {
    row_cells[local] = v;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (local < step) { row_cells[local] = max(row_cells[local], row_cells[local + step]); }
        workgroupBarrier();
    }
    return row_cells[0];
}

fn normed(v: vec4<f32>, i: u32, mean: f32, factor: f32) -> vec4<f32> {
    if (KIND == 0u) { return v; }
    let w = vec4<f32>(weight[4u * i], weight[4u * i + 1u], weight[4u * i + 2u], weight[4u * i + 3u]);
    var y = (v - mean) * factor * w;
    if (p.has_bias == 1u) {
        let b = p.width + 4u * i;
        y += vec4<f32>(weight[b], weight[b + 1u], weight[b + 2u], weight[b + 3u]);
    }
    return y;
}

@compute @workgroup_size(256)
fn prompt_norm(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let fours = p.width / 4u;
    let from_ = group.x * fours;
    var mean = 0.0;
    var factor = 1.0;
    if (KIND == 2u) {
        var sum = 0.0;
        for (var i = local; i < fours; i += THREADS) { sum += dot(x[from_ + i], vec4<f32>(1.0)); }
        mean = workgroup_sum(sum, local) / f32(p.width);
    }
    if (KIND != 0u) {
        var squares = 0.0;
        for (var i = local; i < fours; i += THREADS) {
            let v = x[from_ + i] - mean;
            squares += dot(v, v);
        }
        factor = inverseSqrt(workgroup_sum(squares, local) / f32(p.width) + p.eps);
    }
    var top = 0.0;
    for (var i = local; i < fours; i += THREADS) {
        let v = abs(normed(x[from_ + i], i, mean, factor));
        top = max(top, max(max(v.x, v.y), max(v.z, v.w)));
    }
    top = workgroup_max(top, local);
    let power = clamp(13.0 - floor(log2(max(top, 1e-30))), -100.0, 100.0);
    let scale = exp2(power);
    for (var i = local; i < fours; i += THREADS) {
        let v = normed(x[from_ + i], i, mean, factor) * scale;
        halves[from_ + i] = vec2<u32>(pack2x16float(v.xz), pack2x16float(v.yw));
    }
    if (local == 0u) { factors[group.x] = exp2(-power); }
}
