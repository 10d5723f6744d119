// argmax.wgsl - the id of the largest logit of a row, the lowest such id; a NaN never wins. One workgroup a row.
struct Params { count: u32, first_choice: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> choices: array<u32>;
var<workgroup> best: array<f32, 256>;
var<workgroup> ids: array<u32, 256>;

@compute @workgroup_size(256)
fn argmax(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    var top = -3.4e38;
    var id = 0u;
    for (var i = local; i < p.count; i += 256u) {
        let v = logits[group.x * p.count + i];
        if (v > top) {
            top = v;
            id = i;
        }
    }
    best[local] = top;
    ids[local] = id;
    workgroupBarrier();
    for (var step = 128u; step > 0u; step /= 2u) {
        if (local < step) {
            let other = local + step;
            if (best[other] > best[local] || (best[other] == best[local] && ids[other] < ids[local])) {
                best[local] = best[other];
                ids[local] = ids[other];
            }
        }
        workgroupBarrier();
    }
    if (local == 0u) { choices[p.first_choice + group.x] = ids[0]; }
}
