// experts_float.wgsl - a lane's part of a row of plain numbers (float_row.wgsl) times a row of x, for experts.wgsl.
@group(0) @binding(4) var<storage, read> weights1: array<u32>;
@group(0) @binding(5) var<storage, read> x_rows: array<f32>;

fn row_dot(row: u32, x: u32, lane: u32) -> f32 {
    return float_row_dot(p.low + row * p.words, x * p.pitch, p.words, p.pitch, lane);
}
