// decode_one.wgsl - decode_linear.wgsl for a step of one token, where nothing counts but how soon the first load is under
// way and the last store done: two sums a thread, added by their team, and no array that would be for more.
//
// A workgroup of 256 threads makes 16 outputs: two rows a thread and 32 lanes a pair, or, GLU, 16 lanes a row of the gate
// and the same of the other matrix. Sums are added in decode_linear.wgsl's order.

@compute @workgroup_size(256)
fn decode_one(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
              @builtin(local_invocation_index) local: u32) {
    let first_row = (group.x + group.y * groups.x) * 16u;
    let lanes = lanes_of_a_row();
    let lane = local % lanes;
    let pair = local / lanes;
    let here = first_row < p.rows;
    let row = first_row + select(2u * pair, pair, GLU == 1u);
    let below = select(1u, p.rows, GLU == 1u); // from a thread's first row to its second
    let place = Place(p.low, p.high, p.scale);
    var sums: vec2<f32>;
    for (var block = lane; block < p.blocks && here; block += lanes) {
        let at = row * p.blocks + block;
        let q0 = load_quants(place, at);
        let c0 = load_scales(place, at);
        let q1 = load_quants(place, at + below * p.blocks);
        let c1 = load_scales(place, at + below * p.blocks);
        let xa = acts[2u * block];
        let xb = acts[2u * block + 1u];
        let s = bitcast<vec4<f32>>(acts[2u * p.blocks + block]);
        sums += vec2<f32>(block_dot(q0, c0, xa, xb, s), block_dot(q1, c1, xa, xb, s));
    }
    let first = team_sum(sums.x, lanes, local);
    let second = team_sum(sums.y, lanes, local);
    if (lane == 0u) {
        products[2u * pair] = first;
        products[2u * pair + 1u] = second;
    }
    if ((p.flags & FACTOR) != 0u) {
        let sum = team_sum(share_of_squares(0u, local), 32u, local);
        if (local % 32u == 0u) { squares[local / 32u] = sum; }
    }
    workgroupBarrier();
    let works = local < 16u && here;
    var v = 0.0;
    if (works) { v = output(local, first_row + local, 0u, 0u); }
    if ((p.flags & NEXT) != 0u) { leave(0u, first_row + local, v, works, local); }
}
