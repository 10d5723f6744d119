// reduce_subgroup.wgsl - sums and maxima over the LANES lanes that share a row, by subgroup operations.
// The host has seen that a subgroup is LANES wide; reduce_workgroup.wgsl serves where it is not, or where there are none.
override LANES: u32 = 32u;

fn lanes_sum(v: f32, local: u32) -> f32 { return subgroupAdd(v); }
fn lanes_max(v: f32, local: u32) -> f32 { return subgroupMax(v); }
