// probe.wgsl - how wide a subgroup really is here.
@group(0) @binding(0) var<storage, read_write> width: array<u32>;

@compute @workgroup_size(128)
fn probe(@builtin(local_invocation_index) local: u32, @builtin(subgroup_size) size: u32) {
    if (local == 0u) { width[0] = size; }
}
