// experts_block.wgsl - a lane's part of a quantized row times a packet (block.wgsl), for experts.wgsl.
@group(0) @binding(4) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> weights1: array<u32>;
@group(0) @binding(6) var<storage, read> acts: array<vec4<u32>>;

fn row_dot(row: u32, x: u32, lane: u32) -> f32 {
    let place = Place(p.low, p.high, p.scale);
    let packet = x * p.pitch;
    var sum = 0.0;
    for (var block = lane; block < p.words; block += LANES) {
        let at = row * p.words + block;
        let s = bitcast<vec4<f32>>(acts[packet + 2u * p.words + block]);
        sum += block_dot(load_quants(place, at), load_scales(place, at), acts[packet + 2u * block],
                         acts[packet + 2u * block + 1u], s);
    }
    return sum;
}
