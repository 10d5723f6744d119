// decode_linear.wgsl - a linear operation of a decode step in one dispatch: product, bias or gate, residual, and the int8
// packet that the next operation reads. For two tokens and more, each of another sequence.
//
// A workgroup of 256 threads makes 8 ROWS outputs for each of TOKENS tokens, the last of which may be past the batch. 32
// lanes share ROWS rows; or, GLU, 16 lanes share ROWS / 2 rows of the gate and the same of the other matrix, which is
// stacked below it. Each block of weights is used for all tokens at hand; more than eight are several workgroups beside each
// other (x), so that all but the first find the weights in the cache. A token's sums do not depend on the others': every
// TOKENS and ROWS adds in the same order.
//
// What follows the product is short work: all sums are made first, and then, behind one barrier, every output of every
// token has a thread of its own (decode_outputs.wgsl). A step of one token has decode_one.wgsl, to the same bits.

// Row r of a thread's, of those that stand in the matrix.
fn row_of(first: u32, r: u32) -> u32 {
    if (GLU == 1u) { return first + r / 2u + (r & 1u) * p.rows; }
    return first + r;
}

// One step of adding up over lanes: of 2 n numbers a lane keeps n, and gives the others to the lane `step` away, which
// keeps those. So the sums of many cost little more than one's, and each is the same tree of additions.
fn halve(v: ptr<function, array<f32, 32>>, n: u32, step: u32, local: u32) {
    let upper = (local & step) != 0u;
    for (var i = 0u; i < n; i++) {
        let given = select((*v)[n + i], (*v)[i], upper);
        (*v)[i] = select((*v)[i], (*v)[n + i], upper) + exchange(given, step, local);
    }
}

// Level 0 to 4: over the lanes' halves, quarters, ...
fn add_level(v: ptr<function, array<f32, 32>>, level: u32, local: u32) {
    let step = lanes_of_a_row() >> (level + 1u);
    let n = (ROWS * TOKENS) >> (level + 1u);
    if (step == 0u) { return; }
    if (n > 0u) {
        halve(v, n, step, local);
    } else {
        (*v)[0] += exchange((*v)[0], step, local);
    }
}

// All sums over the lanes of a row to `products`.
fn add_up(v: ptr<function, array<f32, 32>>, local: u32) {
    add_level(v, 0u, local);
    add_level(v, 1u, local);
    add_level(v, 2u, local);
    add_level(v, 3u, local);
    add_level(v, 4u, local);
    let lanes = lanes_of_a_row();
    let lane = local % lanes;
    let alike = max(lanes / (ROWS * TOKENS), 1u); // lanes that hold the same
    let held = max(ROWS * TOKENS / lanes, 1u);
    if (lane % alike != 0u) { return; }
    for (var i = 0u; i < held; i++) {
        let sum = lane / alike * held + i;
        products[sum / ROWS * (THREADS / lanes * ROWS) + local / lanes * ROWS + sum % ROWS] = (*v)[i];
    }
}

// The teams' sums of all tokens to `squares`.
fn add_squares(first_token: u32, local: u32) {
    let teams = square_teams();
    for (var done = 0u; done < teams * TOKENS; done += TEAMS) {
        let i = done + local / 32u;
        let t = i / teams;
        let token = min(first_token + t, p.tokens - 1u);
        let sum = team_sum(share_of_squares(token, i % teams * 32u + local % 32u), 32u, local);
        if (local % 32u == 0u && t < TOKENS) { squares[t * TEAMS + i % teams] = sum; }
    }
}

@compute @workgroup_size(256)
fn decode_linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
                 @builtin(local_invocation_index) local: u32) {
    let first_token = group.x * TOKENS;
    let first_row = (group.y + group.z * groups.y) * TEAMS * ROWS;
    let lanes = lanes_of_a_row();
    let row = first_row + local / lanes * (ROWS / (1u + GLU));
    let place = Place(p.low, p.high, p.scale);
    var sums: array<f32, 32>; // (token, row)
    for (var block = local % lanes; block < p.blocks && row < p.rows; block += lanes) {
        let at = vec4<u32>(row_of(row, 0u), row_of(row, 1u), row_of(row, 2u), row_of(row, 3u)) * p.blocks + block;
        let q0 = load_quants(place, at.x);
        let c0 = load_scales(place, at.x);
        let q1 = load_quants(place, at.y);
        let c1 = load_scales(place, at.y);
        var q2 = q0;
        var c2 = c0;
        var q3 = q0;
        var c3 = c0;
        if (ROWS == 4u) {
            q2 = load_quants(place, at.z);
            c2 = load_scales(place, at.z);
            q3 = load_quants(place, at.w);
            c3 = load_scales(place, at.w);
        }
        for (var t = 0u; t < TOKENS; t++) {
            let x = min(first_token + t, p.tokens - 1u) * p.packet;
            let xa = acts[x + 2u * block];
            let xb = acts[x + 2u * block + 1u];
            let s = bitcast<vec4<f32>>(acts[x + 2u * p.blocks + block]);
            sums[t * ROWS] += block_dot(q0, c0, xa, xb, s);
            sums[t * ROWS + 1u] += block_dot(q1, c1, xa, xb, s);
            if (ROWS == 4u) {
                sums[t * ROWS + 2u] += block_dot(q2, c2, xa, xb, s);
                sums[t * ROWS + 3u] += block_dot(q3, c3, xa, xb, s);
            }
        }
    }
    add_up(&sums, local);
    if ((p.flags & FACTOR) != 0u) { add_squares(first_token, local); }
    workgroupBarrier();
    let o = local % (TEAMS * ROWS);
    let t = local / (TEAMS * ROWS);
    let works = t < TOKENS && first_token + t < p.tokens && first_row + o < p.rows;
    var v = 0.0;
    if (works) { v = output(o, first_row + o, t, first_token + t); }
    if ((p.flags & NEXT) != 0u) { leave(first_token + t, first_row + o, v, works, local); }
}
