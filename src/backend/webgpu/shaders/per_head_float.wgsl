// per_head_float.wgsl - a lane's part of a row of plain numbers (float_row.wgsl) times f32 activations, for per_head.wgsl.
@group(0) @binding(2) var<storage, read> weights1: array<u32>;

fn head_dot(row: u32, base: u32, lane: u32) -> f32 {
    return float_row_dot(p.low + row * p.words, base, p.words, p.cols, lane);
}
