// linear_vec.wgsl - a quantized matrix times a few tokens: decode, and short batches.
//
// A group of LANES threads takes ROWS rows; its lanes stride over the blocks of a row, so that neighbours load
// neighbouring sixteen bytes, and each block is used for all TOKENS tokens at hand. y (tokens, stride) is written bare:
// bias, activation and residual are tail.wgsl's. Bound: the bytes of the weights.
struct Params {
    low: u32, high: u32, scale: u32, // Place of the segment
    rows: u32,                       // of the segment
    blocks: u32,                     // a row
    first_row: u32,                  // column of y that row 0 goes to
    stride: u32,                     // of y
    tokens: u32,                     // in the batch
    first_token: u32,                // of this dispatch
    packet: u32,                     // stride of acts
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> weights4: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read> weights1: array<u32>;
@group(0) @binding(2) var<storage, read> acts: array<vec4<u32>>; // packets (block.wgsl)
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

override TOKENS: u32 = 1u;
const ROWS = 2u;
const THREADS = 128u;

@compute @workgroup_size(128)
fn linear_vec(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
              @builtin(local_invocation_index) local: u32) {
    let lane = local % LANES;
    let team = (group.x + group.y * groups.x) * (THREADS / LANES) + local / LANES;
    let row = team * ROWS;
    var sums: array<array<f32, 8>, 2>;
    for (var block = lane; block < p.blocks && row < p.rows; block += LANES) {
        for (var r = 0u; r < ROWS; r++) {
            let at = min(row + r, p.rows - 1u) * p.blocks + block;
            let place = Place(p.low, p.high, p.scale);
            let q = load_quants(place, at);
            let c = load_scales(place, at);
            for (var t = 0u; t < TOKENS; t++) {
                let x = (p.first_token + t) * p.packet;
                let s = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
                sums[r][t] += block_dot(q, c, acts[x + 2u * block], acts[x + 2u * block + 1u], s);
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) {
        for (var t = 0u; t < TOKENS; t++) {
            let total = lanes_sum(sums[r][t], local);
            if (lane == 0u && row + r < p.rows && p.first_token + t < p.tokens) {
                y[(p.first_token + t) * p.stride + p.first_row + row + r] = total;
            }
        }
    }
}
