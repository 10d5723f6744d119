// experts.wgsl - experts' matrices times the tokens that go to them: plan.h, af_op_experts; row_dot is experts_block.wgsl's
// or experts_float.wgsl's.
//
// All experts' rows stand one after another, expert_rows each; a dispatch has those of one segment, and passes over pairs
// of a token and an expert that has none there. A team of LANES threads takes a row of an expert. In the way up
// (SUM 0) a workgroup is of one pair, whose row of y it writes; in the way down (SUM 1) it is of a token, and adds up
// what its experts make of it, in their order. No expert that no token goes to is read.
struct Params {
    low: u32, high: u32, scale: u32, // Place of the segment; floats: low in u32
    first_row: u32,                  // of all experts' rows, that the segment has
    rows: u32,                       // of the segment
    expert_rows: u32,
    words: u32,                      // a row: blocks of 32, or u32
    pitch: u32,                      // of x: a packet in vec4, or columns
    used: u32,                       // experts a token
    groups: u32,                     // workgroups that an expert's rows take
    stride: u32, first: u32,         // of a row of y
    factor: f32,
    flags: u32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> ids: array<f32>;   // (token, used)
@group(0) @binding(1) var<storage, read> share: array<f32>; // (token, used)
@group(0) @binding(2) var<storage, read> bias: array<f32>;  // (expert, expert_rows)
@group(0) @binding(3) var<storage, read_write> y: array<f32>;
override SUM: u32 = 0u;
const BIASED = 1u;
const ADDS = 2u; // to what y holds
const THREADS = 128u;

@compute @workgroup_size(128)
fn experts(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.y;
    let teams = THREADS / LANES;
    let row = group.x % p.groups * teams + local / LANES;
    let slot = group.x / p.groups; // 0 in the way down
    let count = select(1u, p.used, SUM == 1u);
    var total = 0.0;
    for (var k = 0u; k < count; k++) {
        let pair = token * p.used + slot + k;
        let expert = u32(ids[pair]);
        let at = expert * p.expert_rows + row;
        let here = row < p.expert_rows && at >= p.first_row && at < p.first_row + p.rows;
        var sum = 0.0;
        if (here) { sum = row_dot(at - p.first_row, select(token, pair, SUM == 1u), local % LANES); }
        sum = lanes_sum(sum, local);
        if (here && (p.flags & BIASED) != 0u) { sum += bias[at]; }
        if (here) { total += select(sum, p.factor * share[pair] * sum, SUM == 1u); }
        if (SUM == 0u && here && local % LANES == 0u) { y[pair * p.stride + p.first + row] = total; }
    }
    if (SUM == 1u && row < p.expert_rows && local % LANES == 0u) {
        let to = token * p.stride + p.first + row;
        y[to] = select(0.0, y[to], (p.flags & ADDS) != 0u) + total;
    }
}
