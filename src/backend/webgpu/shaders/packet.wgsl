// packet.wgsl - columns of a row to an int8 packet (drawn in block.wgsl), a thread a column; into the binding `next`.
//
// Sixteen neighbouring threads hold the sixteen columns of half a block: d = max|v| / 127, the words of four bytes in order,
// and the sum of the integers times d.

// int8 steps a unit for columns whose largest magnitude is `top`; none where that is so small that it counts as zero.
fn steps_of(top: f32) -> f32 { return select(0.0, 127.0 / max(top, 1e-30), top >= 1e-30); }

// `base`: where the packet begins in next; `blocks`: its blocks. Called by all threads, those outside the row too.
fn write_packet(base: u32, blocks: u32, column: u32, v: f32, inside: bool, local: u32) {
    let top = team_max(abs(v), 16u, local);
    let q = i32(round(v * steps_of(top)));
    let word = quad_or((u32(q) & 0xffu) << (8u * (local % 4u)), local);
    let sum = team_sum(f32(q), 16u, local);
    if (!inside) { return; }
    if (local % 4u == 0u) { next[base + column / 4u] = word; }
    if (local % 16u == 0u) {
        let scales = base + 8u * blocks + column / 32u * 4u + column % 32u / 16u;
        next[scales] = bitcast<u32>(top / 127.0);
        next[scales + 2u] = bitcast<u32>(top / 127.0 * sum);
    }
}
