// linear_block.wgsl - parameters and bindings of the products of a quantized matrix (linear_vec.wgsl, linear_few.wgsl,
// linear_mat.wgsl). y (tokens, stride) is written bare: bias, activation and residual are tail.wgsl's.
struct Params {
    low: u32, high: u32, scale: u32, // Place of the segment
    rows: u32,                       // of the segment
    blocks: u32,                     // a row
    first_row: u32,                  // column of y that row 0 goes to
    stride: u32,                     // of y
    tokens: u32,                     // in the batch
    first_token: u32,                // of this dispatch; 0 but for portions
    packet: u32,                     // stride of acts
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>; // packets (block.wgsl)
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
