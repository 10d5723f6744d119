// reduce_workgroup.wgsl - sums and maxima over neighbouring threads (LANES of them, or a `team`), through workgroup memory.
// Every thread of the workgroup must call them. `local` is the thread's index in its workgroup (at most 256 threads).
override LANES: u32 = 32u;
var<workgroup> lanes_cells: array<f32, 256>;
var<workgroup> lanes_bits: array<u32, 256>;

fn lanes_sum(v: f32, local: u32) -> f32 { return team_sum(v, LANES, local); }

// The sum over the `width` neighbouring threads of a team.
fn team_sum(v: f32, width: u32, local: u32) -> f32 {
    lanes_cells[local] = v;
    workgroupBarrier();
    for (var step = width / 2u; step > 0u; step /= 2u) {
        if (local % width < step) { lanes_cells[local] += lanes_cells[local + step]; }
        workgroupBarrier();
    }
    let total = lanes_cells[local - local % width];
    workgroupBarrier();
    return total;
}

fn team_max(v: f32, width: u32, local: u32) -> f32 {
    lanes_cells[local] = v;
    workgroupBarrier();
    for (var step = width / 2u; step > 0u; step /= 2u) {
        if (local % width < step) { lanes_cells[local] = max(lanes_cells[local], lanes_cells[local + step]); }
        workgroupBarrier();
    }
    let top = lanes_cells[local - local % width];
    workgroupBarrier();
    return top;
}

// The bits of four neighbouring threads together.
fn quad_or(v: u32, local: u32) -> u32 {
    lanes_bits[local] = v;
    workgroupBarrier();
    let first = local - local % 4u;
    let all = lanes_bits[first] | lanes_bits[first + 1u] | lanes_bits[first + 2u] | lanes_bits[first + 3u];
    workgroupBarrier();
    return all;
}

// What the thread `step` away (a power of two below 32: its bit flipped) gives for v.
fn exchange(v: f32, step: u32, local: u32) -> f32 {
    lanes_cells[local] = v;
    workgroupBarrier();
    let other = lanes_cells[local ^ step];
    workgroupBarrier();
    return other;
}
