// embed_float.wgsl - embed.wgsl for tables of plain numbers. A thread writes one element.
struct Params {
    at: u32, row_words: u32,
    first_row: u32, rows: u32,
    cols: u32,
    tokens: u32,
    factor: f32,
    has_positions: u32, // 1: a row for each; 2: one row for all
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights1: array<u32>;
@group(0) @binding(1) var<storage, read> batch_info: array<u32>;
@group(0) @binding(2) var<storage, read> choices: array<u32>;
@group(0) @binding(3) var<storage, read> positions: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;
override KIND: u32 = 0u; // 0 f32, 1 f16, 2 bf16

@compute @workgroup_size(64)
fn embed_float(@builtin(global_invocation_id) at: vec3<u32>) {
    let i = at.x;
    let token = at.y;
    if (i >= p.cols) { return; }
    var id = batch_token(token).id;
    if (id == CHOSEN) { id = choices[batch_token(token).choice]; }
    if (id < p.first_row || id >= p.first_row + p.rows) { return; }
    let row = p.at + (id - p.first_row) * p.row_words;
    var v = 0.0;
    if (KIND == 0u) {
        v = bitcast<f32>(weights1[row + i]);
    } else {
        let half = (weights1[row + i / 2u] >> (16u * (i % 2u))) & 0xffffu;
        if (KIND == 1u) { v = unpack2x16float(half).x; } else { v = bitcast<f32>(half << 16u); }
    }
    v *= p.factor;
    let position = select(batch_token(token).position, 0u, p.has_positions == 2u);
    if (p.has_positions != 0u) { v += positions[position * p.cols + i]; }
    out[token * p.cols + i] = v;
}
