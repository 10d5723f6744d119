// per_head_block.wgsl - a lane's part of a quantized row (block.wgsl) times f32 activations, for per_head.wgsl.
@group(0) @binding(2) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> weights1: array<u32>;

fn head_dot(row: u32, base: u32, lane: u32) -> f32 {
    let place = Place(p.low, p.high, p.scale);
    var sum = 0.0;
    for (var block = lane; block < p.words; block += LANES) {
        let at = row * p.words + block;
        let q = load_quants(place, at);
        let c = load_scales(place, at);
        for (var j = 0u; j < 32u; j++) { sum += block_value(q, c, j) * x_rows[base + 32u * block + j]; }
    }
    return sum;
}
