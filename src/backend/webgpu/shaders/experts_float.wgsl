// experts_float.wgsl - a lane's part of a row of plain numbers times a row of x, for experts.wgsl.
@group(0) @binding(4) var<storage, read> weights1: array<u32>;
@group(0) @binding(5) var<storage, read> x_rows: array<f32>;
override KIND: u32 = 0u; // 0 f32, 1 f16, 2 bf16

fn row_dot(row: u32, x: u32, lane: u32) -> f32 {
    let base = x * p.pitch;
    var sum = 0.0;
    for (var i = lane; i < p.words; i += LANES) {
        let word = weights1[p.low + row * p.words + i];
        if (KIND == 0u) {
            sum += bitcast<f32>(word) * x_rows[base + i];
            continue;
        }
        var w = vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
        if (KIND == 1u) { w = unpack2x16float(word); }
        sum += w.x * x_rows[base + 2u * i];
        if (2u * i + 1u < p.pitch) { sum += w.y * x_rows[base + 2u * i + 1u]; }
    }
    return sum;
}
