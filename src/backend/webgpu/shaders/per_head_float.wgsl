// per_head_float.wgsl - a lane's part of a row of plain numbers times f32 activations, for per_head.wgsl.
@group(0) @binding(2) var<storage, read> weights1: array<u32>;
override KIND: u32 = 0u; // 0 f32, 1 f16, 2 bf16

fn head_dot(row: u32, base: u32, lane: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < p.words; i += LANES) {
        let word = weights1[p.low + row * p.words + i];
        if (KIND == 0u) {
            sum += bitcast<f32>(word) * x[base + i];
            continue;
        }
        var w = vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
        if (KIND == 1u) { w = unpack2x16float(word); }
        sum += w.x * x[base + 2u * i];
        if (2u * i + 1u < p.cols) { sum += w.y * x[base + 2u * i + 1u]; }
    }
    return sum;
}
