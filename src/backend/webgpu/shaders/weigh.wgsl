// weigh.wgsl - how much each of PARTS parts of a row weighs, of what top_p and min_p keep. A workgroup a part.
@group(0) @binding(4) var<storage, read_write> parts: array<f32>; // (row, PARTS)

@compute @workgroup_size(256)
fn weigh(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (draws[2u * group.y].x != WHOLE) { return; }
    let row = row_of(group.y);
    let limit = limit_of(row, local);
    var mass = 0.0;
    for (var i = group.x * p.part + local; i < min((group.x + 1u) * p.part, p.count); i += 256u) {
        mass += weight(row, i, limit);
    }
    workgroupBarrier();
    masses[local] = mass;
    workgroupBarrier();
    if (local == 0u) { parts[row.number * PARTS + group.x] = sum_before(256u); }
}
