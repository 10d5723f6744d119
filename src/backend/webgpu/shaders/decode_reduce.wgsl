// decode_reduce.wgsl - joins the stretches that decode_attend.wgsl left: one workgroup of 64 threads a (head, token).
// Writes the attended row as f32 and, NEXT, as the int8 packet of the output projection (block.wgsl).
struct Params {
    heads: u32, v_dim: u32,
    stretches: u32,    // that this step used
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
var<workgroup> tops: array<f32, 64>;
var<workgroup> totals: array<f32, 64>;

@compute @workgroup_size(64)
fn decode_reduce(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let token = group.y;
    let base = (token * p.heads + head) * STRETCHES * (p.v_dim + 2u);
    var top = -3.0e38;
    for (var s = local; s < p.stretches; s += THREADS) { top = max(top, parts[base + s * (p.v_dim + 2u)]); }
    tops[local] = top;
    workgroupBarrier();
    top = -3.0e38;
    for (var i = 0u; i < min(THREADS, p.stretches); i++) { top = max(top, tops[i]); }
    if (p.has_sinks == 1u) { top = max(top, sinks[head]); }
    var sum = 0.0;
    for (var s = local; s < p.stretches; s += THREADS) {
        let at = base + s * (p.v_dim + 2u);
        sum += parts[at + 1u] * exp(parts[at] - top);
    }
    totals[local] = sum;
    workgroupBarrier();
    sum = 0.0;
    for (var i = 0u; i < min(THREADS, p.stretches); i++) { sum += totals[i]; }
    if (p.has_sinks == 1u) { sum += exp(sinks[head] - top); }
    for (var first = 0u; first < p.v_dim; first += THREADS) {
        let i = first + local;
        let column = head * p.v_dim + i;
        var x = 0.0;
        if (i < p.v_dim) {
            for (var s = 0u; s < p.stretches; s++) {
                let at = base + s * (p.v_dim + 2u);
                if (parts[at + 1u] > 0.0) { x += parts[at + 2u + i] * exp(parts[at] - top); }
            }
            x /= sum;
            out[token * p.heads * p.v_dim + column] = x;
        }
        if (p.write_next == 1u) { write_packet(4u * token * p.packet, p.blocks, column, x, i < p.v_dim, local); }
    }
}
