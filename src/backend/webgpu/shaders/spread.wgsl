// spread.wgsl - how much the logits of a row weigh, bin by bin of cut.wgsl's first look, or its second.
//
// PARTS workgroups a row. A bin sums its weights over the largest it may hold, so at most 1 each, in fixed point: no row has
// so many logits that a bin overflows, and integers come to the same sum in any order.
override LEVEL: u32 = 0u;
var<workgroup> bins: array<atomic<u32>, BINS>;

@compute @workgroup_size(256)
fn spread(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    if (draws[2u * group.y].x != WHOLE || bitcast<f32>(draws[2u * group.y].z) >= 1.0) { return; }
    let row = row_of(group.y);
    var look = first_look();
    var wanted = 0u;
    if (LEVEL == 1u) {
        let first = find_cut(row.number, look, row.top_p, 0.0, local);
        wanted = first.bin;
        look = second_look(first);
    }
    for (var bin = local; bin < BINS; bin += 256u) { atomicStore(&bins[bin], 0u); }
    workgroupBarrier();
    let one = f32(1u << (countLeadingZeros(p.count) - 1u));
    for (var i = group.x * p.part + local; i < min((group.x + 1u) * p.part, p.count); i += 256u) {
        let d = depth(row, i);
        if (d >= NOTHING || (LEVEL == 1u && bin_of(first_look(), d) != wanted)) { continue; }
        let bin = bin_of(look, d);
        atomicAdd(&bins[bin], u32(exp(min(bin_depth(look, bin) - d, 0.0)) * one + 0.5));
    }
    workgroupBarrier();
    for (var bin = local; bin < BINS; bin += 256u) {
        let sum = atomicLoad(&bins[bin]);
        if (sum > 0u) { atomicAdd(&spreads[(2u * row.number + LEVEL) * BINS + bin], sum); }
    }
}
