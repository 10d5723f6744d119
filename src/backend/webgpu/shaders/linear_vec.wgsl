// linear_vec.wgsl - a quantized matrix times a few tokens: decode, and short batches.
//
// A group of LANES threads takes ROWS rows; its lanes stride over the blocks of a row, so that neighbours load
// neighbouring sixteen bytes, and each block is used for all TOKENS tokens at hand. Bound: the bytes of the
// weights.

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
