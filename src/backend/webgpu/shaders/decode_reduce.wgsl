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
var<workgroup> row: array<f32, 512>;
var<workgroup> tops: array<f32, 64>;
var<workgroup> totals: array<f32, 64>;

fn quantize_half(token: u32, first: u32, local_first: u32) { // 16 columns from `first` of the token's row
    let base = token * p.packet * 4u;
    var top = 0.0;
    for (var j = 0u; j < 16u; j++) { top = max(top, abs(row[local_first + j])); }
    let inverse = steps_of(top);
    let half = first / 16u;
    var sum = 0;
    for (var w = 0u; w < 4u; w++) {
        var word = 0u;
        for (var j = 0u; j < 4u; j++) {
            let q = i32(round(row[local_first + 4u * w + j] * inverse));
            word |= (u32(q) & 0xffu) << (8u * j);
            sum += q;
        }
        next[base + half * 4u + w] = word;
    }
    let scales = base + 8u * p.blocks + (half / 2u) * 4u + half % 2u;
    next[scales] = bitcast<u32>(top / 127.0);
    next[scales + 2u] = bitcast<u32>(top / 127.0 * f32(sum));
}

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
    for (var i = local; i < p.v_dim; i += THREADS) {
        var x = 0.0;
        for (var s = 0u; s < p.stretches; s++) {
            let at = base + s * (p.v_dim + 2u);
            if (parts[at + 1u] > 0.0) { x += parts[at + 2u + i] * exp(parts[at] - top); }
        }
        row[i] = x / sum;
        out[(token * p.heads + head) * p.v_dim + i] = row[i];
    }
    workgroupBarrier();
    if (p.write_next == 1u && local < p.v_dim / 16u) { quantize_half(token, head * p.v_dim + 16u * local, 16u * local); }
}
