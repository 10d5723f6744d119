// argmax.wgsl - the id of the largest logit of a row, the lowest such id; a NaN never wins.
//
// Two passes: PASS 0, PARTS workgroups a row leave their best (bits of the value, id); PASS 1 one workgroup a row joins them.
struct Params { count: u32, first_choice: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> bests: array<vec2<u32>>; // (row, PARTS)
@group(0) @binding(2) var<storage, read_write> choices: array<u32>;
override PASS: u32 = 0u;
const PARTS = 64u;
var<workgroup> best: array<f32, 256>;
var<workgroup> ids: array<u32, 256>;

fn keep_better(local: u32, other: u32) {
    if (best[other] > best[local] || (best[other] == best[local] && ids[other] < ids[local])) {
        best[local] = best[other];
        ids[local] = ids[other];
    }
}

@compute @workgroup_size(256)
fn argmax(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.y;
    var top = -3.4e38;
    var id = 0xffffffffu;
    if (PASS == 0u) {
        for (var i = group.x * 256u + local; i < p.count; i += 256u * PARTS) {
            let v = logits[row * p.count + i];
            if (v > top) {
                top = v;
                id = i;
            }
        }
    } else if (local < PARTS) {
        let found = bests[row * PARTS + local];
        top = bitcast<f32>(found.x);
        id = found.y;
    }
    best[local] = top;
    ids[local] = id;
    workgroupBarrier();
    for (var step = 128u; step > 0u; step /= 2u) {
        if (local < step) { keep_better(local, local + step); }
        workgroupBarrier();
    }
    if (local != 0u) { return; }
    if (PASS == 0u) {
        bests[row * PARTS + group.x] = vec2<u32>(bitcast<u32>(best[0]), ids[0]);
    } else {
        choices[p.first_choice + row] = select(ids[0], 0u, ids[0] == 0xffffffffu);
    }
}
