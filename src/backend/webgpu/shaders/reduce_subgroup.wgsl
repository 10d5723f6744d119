// reduce_subgroup.wgsl - sums and maxima over the LANES lanes that share a row, by subgroup operations.
// The host has seen that a subgroup is LANES wide; reduce_workgroup.wgsl serves where it is not, or where there are none.
override LANES: u32 = 32u;

fn lanes_sum(v: f32, local: u32) -> f32 { return subgroupAdd(v); }
fn lanes_max(v: f32, local: u32) -> f32 { return subgroupMax(v); }

// The sum over the `width` lanes (16 or 32, a part of a subgroup) that hold a thread's team.
fn team_sum(v: f32, width: u32, local: u32) -> f32 {
    var sum = v;
    if (width > 16u) { sum += subgroupShuffleXor(sum, 16u); }
    sum += subgroupShuffleXor(sum, 8u);
    sum += subgroupShuffleXor(sum, 4u);
    sum += subgroupShuffleXor(sum, 2u);
    return sum + subgroupShuffleXor(sum, 1u);
}
