// per_head.wgsl - a matrix for each head times that head's part of every token: plan.h, af_op_per_head; head_dot is
// per_head_block.wgsl's or per_head_float.wgsl's.
//
// All heads' rows stand one after another; a dispatch has those of one segment. A team of LANES threads takes a row of a
// head. Activations stay f32 and weights are decoded where they are used: these matrices are small beside a layer's
// others, and what they make goes straight into attention's scores. The first segment's dispatch also passes on the
// elements that no matrix touches.
struct Params {
    low: u32, high: u32, scale: u32, // Place of the segment; floats: low in u32
    first_row: u32,                  // of all heads' rows, that the segment has
    rows: u32,                       // of the segment
    head_rows: u32,
    words: u32,                      // a row: blocks of 32, or u32
    cols: u32,
    kept: u32,                       // elements of a head that pass
    groups: u32,                     // workgroups that a head takes
    in_stride: u32, out_stride: u32, // of a token
    passes: u32,                     // 1: this dispatch passes them on
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> x_rows: array<f32>; // (token, head, cols + kept)
@group(0) @binding(1) var<storage, read_write> y: array<f32>; // (token, head, head_rows + kept)
const THREADS = 128u;

@compute @workgroup_size(128)
fn per_head(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x / p.groups;
    let row = group.x % p.groups * (THREADS / LANES) + local / LANES; // past head_rows: an element that passes
    let input = group.y * p.in_stride + head * (p.cols + p.kept);
    let output = group.y * p.out_stride + head * (p.head_rows + p.kept);
    let at = head * p.head_rows + row;
    let here = row < p.head_rows && at >= p.first_row && at < p.first_row + p.rows;
    var sum = 0.0;
    if (here) { sum = head_dot(at - p.first_row, input, local % LANES); }
    sum = lanes_sum(sum, local);
    if (local % LANES != 0u) { return; }
    if (here) { y[output + row] = sum; }
    if (p.passes == 1u && row >= p.head_rows && row < p.head_rows + p.kept) {
        y[output + row] = x_rows[input + p.cols + row - p.head_rows];
    }
}
