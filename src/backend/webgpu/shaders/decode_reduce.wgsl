// decode_reduce.wgsl - joins the stretches that decode_attend.wgsl left: one workgroup of 64 threads a (head, token). Those
// that only a neighbour's longer context has are empty, and change nothing.
// Writes the attended row as f32 and, NEXT, as the int8 packet of the output projection (block.wgsl).
struct Params {
    heads: u32, v_dim: u32,
    stretches: u32,    // the most that a token of this batch has
    has_sinks: u32,
    packet: u32,       // stride of next, in vec4
    blocks: u32,       // of a next packet
    write_next: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> parts: array<f32>;
@group(0) @binding(1) var<storage, read> sinks: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>; // (tokens, heads * v_dim)
@group(0) @binding(3) var<storage, read_write> next: array<u32>;
override STRETCHES: u32 = 64u;
const THREADS = 64u;
var<workgroup> tops: array<f32, 64>;    // STRETCHES of them, a thread each
var<workgroup> totals: array<f32, 64>;
var<workgroup> factors: array<f32, 64>; // of a stretch's values; 0: it has none

// Four stretches' values at a time, whose loads do not wait for each other.
fn four_values(at: u32, s: u32, i: u32) -> f32 {
    let pitch = p.v_dim + 2u;
    let last = p.stretches - 1u;
    let v = vec4<f32>(parts[at + s * pitch + 2u + i], parts[at + min(s + 1u, last) * pitch + 2u + i],
                      parts[at + min(s + 2u, last) * pitch + 2u + i], parts[at + min(s + 3u, last) * pitch + 2u + i]);
    let f = vec4<f32>(factors[s], factors[s + 1u], factors[s + 2u], factors[s + 3u]);
    return dot(select(vec4<f32>(), v * f, f > vec4<f32>()), vec4<f32>(1.0));
}

@compute @workgroup_size(64)
fn decode_reduce(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let token = group.y;
    let base = (token * p.heads + head) * STRETCHES * (p.v_dim + 2u);
    var mine = -3.0e38;
    var total = 0.0;
    if (local < p.stretches) {
        mine = parts[base + local * (p.v_dim + 2u)];
        total = parts[base + local * (p.v_dim + 2u) + 1u];
    }
    tops[local] = mine;
    workgroupBarrier();
    var top = -3.0e38;
    for (var i = 0u; i < p.stretches; i++) { top = max(top, tops[i]); }
    if (p.has_sinks == 1u) { top = max(top, sinks[head]); }
    var factor = 0.0;
    if (total > 0.0) { factor = exp(mine - top); }
    factors[local] = factor;
    totals[local] = total * factor;
    workgroupBarrier();
    var sum = 0.0;
    for (var i = 0u; i < p.stretches; i++) { sum += totals[i]; }
    if (p.has_sinks == 1u) { sum += exp(sinks[head] - top); }
    for (var first = 0u; first < p.v_dim; first += THREADS) {
        let i = first + local;
        let column = head * p.v_dim + i;
        var x = 0.0;
        if (i < p.v_dim) {
            for (var s = 0u; s < p.stretches; s += 4u) { x += four_values(base, s, i); }
            x /= sum;
            out[token * p.heads * p.v_dim + column] = x;
        }
        if (p.write_next == 1u) { write_packet(4u * token * p.packet, p.blocks, column, x, i < p.v_dim, local); }
    }
}
