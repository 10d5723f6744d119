// embed.wgsl - rows of the embedding table for the tokens of a batch, times a scale, and what is learned of
// their positions. A thread decodes one block of 32.
struct Params {
    low: u32, high: u32, scale_at: u32,
    first_row: u32, rows: u32, // of the segment: tokens outside it are another dispatch's
    blocks: u32,
    tokens: u32,
    factor: f32,
    has_positions: u32, // 1: a row for each; 2: one row for all
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> batch_info: array<u32>;
@group(0) @binding(3) var<storage, read> choices: array<u32>;
@group(0) @binding(4) var<storage, read> positions: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

fn token_id(t: u32) -> u32 {
    let token = batch_token(t);
    if (token.id != CHOSEN) { return token.id; }
    return choices[token.choice];
}

@compute @workgroup_size(64)
fn embed(@builtin(global_invocation_id) at: vec3<u32>) {
    let token = at.y;
    let block = at.x;
    if (block >= p.blocks) { return; }
    let id = token_id(token);
    if (id < p.first_row || id >= p.first_row + p.rows) { return; }
    let place = Place(p.low, p.high, p.scale_at);
    let index = (id - p.first_row) * p.blocks + block;
    let q = load_quants(place, index);
    let c = load_scales(place, index);
    let position = select(batch_token(token).position, 0u, p.has_positions == 2u);
    let learned = (position * p.blocks + block) * 32u;
    for (var j = 0u; j < 32u; j++) {
        var v = block_value(q, c, j) * p.factor;
        if (p.has_positions != 0u) { v += positions[learned + j]; }
        out[(token * p.blocks + block) * 32u + j] = v;
    }
}
