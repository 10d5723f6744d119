// row_sum.wgsl - the sum over a workgroup of THREADS threads, which the shader that uses it states (a power of two).
var<workgroup> row_cells: array<f32, THREADS>;

// Every thread must come here.
fn workgroup_sum(v: f32, local: u32) -> f32 {
    row_cells[local] = v;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (local < step) { row_cells[local] += row_cells[local + step]; }
        workgroupBarrier();
    }
    let total = row_cells[0];
    workgroupBarrier();
    return total;
}
