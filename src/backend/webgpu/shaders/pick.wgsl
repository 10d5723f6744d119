// pick.wgsl - draws a row's token from all of it. A workgroup a row.
//
// weigh.wgsl's sums say in which part of the row the draw falls; that is weighed again, in 256 shares of neighbours, and
// the share token by token. A row that is not drawn from whole, or that has no weights (no number among its logits), keeps
// what argmax.wgsl or draw.wgsl chose.
@group(0) @binding(4) var<storage, read> parts: array<f32>; // weigh.wgsl: (row, PARTS)
@group(0) @binding(5) var<storage, read_write> choices: array<u32>;
var<workgroup> found: atomic<u32>;

// The last thread with a mass before which the sum is at most `unit` of all, plus `amount`; for the whole workgroup. `left`:
// what of that is beyond the sum before.
struct Place { thread: u32, left: f32 }
fn find_place(mass: f32, unit: f32, amount: f32, local: u32) -> Place {
    workgroupBarrier();
    if (local == 0u) { atomicStore(&found, 0u); }
    masses[local] = mass;
    workgroupBarrier();
    let at = unit * sum_before(256u) + amount;
    if (mass > 0.0 && sum_before(local) <= at) { atomicMax(&found, local); }
    workgroupBarrier();
    let thread = atomicLoad(&found);
    return Place(thread, at - sum_before(thread));
}

@compute @workgroup_size(256)
fn pick(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (draws[2u * group.y].x != WHOLE) { return; }
    let row = row_of(group.y);
    let limit = limit_of(row, local);
    var mass = 0.0;
    if (local < PARTS) { mass = parts[row.number * PARTS + local]; }
    let part = find_place(mass, row.unit, 0.0, local);
    let share = (p.part + 255u) / 256u;
    let first = part.thread * p.part + local * share;
    let end = min(first + share, min((part.thread + 1u) * p.part, p.count));
    mass = 0.0;
    for (var i = first; i < end; i++) { mass += weight(row, i, limit); }
    let place = find_place(mass, 0.0, part.left, local);
    for (var bin = local; bin < 2u * BINS; bin += 256u) { atomicStore(&spreads[2u * row.number * BINS + bin], 0u); }
    if (local != place.thread || mass == 0.0) { return; }
    var left = place.left;
    var chosen = first;
    for (var i = first; i < end; i++) {
        let w = weight(row, i, limit);
        if (w > 0.0 && left >= 0.0) { chosen = i; }
        left -= w;
    }
    choices[p.first_choice + row.number] = chosen;
}
