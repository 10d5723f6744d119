// reduce_subgroup.wgsl - sums and maxima over threads that share a row, by subgroup operations: `lanes` are the LANES of a
// whole subgroup, a `team` is part of one.
// The host has seen that a subgroup is LANES wide; reduce_workgroup.wgsl serves where it is not, or where there are none.
override LANES: u32 = 32u;

fn lanes_sum(v: f32, local: u32) -> f32 { return subgroupAdd(v); }

// The sum over the `width` lanes (16 or 32, a part of a subgroup) that hold a thread's team.
fn team_sum(v: f32, width: u32, local: u32) -> f32 {
    var sum = v;
    if (width > 16u) { sum += subgroupShuffleXor(sum, 16u); }
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    return sum + subgroupShuffleXor(sum, 1u);
}

fn team_max(v: f32, width: u32, local: u32) -> f32 {
    var top = v;
    if (width > 16u) { top = max(top, subgroupShuffleXor(top, 16u)); }
    top = max(top, subgroupShuffleXor(top, 8u));
    top = max(top, subgroupShuffleXor(top, 4u));
    top = max(top, subgroupShuffleXor(top, 2u));
    return max(top, subgroupShuffleXor(top, 1u));
}

// The bits of four neighbouring threads together.
fn quad_or(v: u32, local: u32) -> u32 {
    let pair = v | subgroupShuffleXor(v, 1u);
    return pair | subgroupShuffleXor(pair, 2u);
}

// What the thread `step` away (a power of two below 32: its bit flipped) gives for v.
fn exchange(v: f32, step: u32, local: u32) -> f32 { return subgroupShuffleXor(v, step); }
