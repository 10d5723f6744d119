// prompt_few.wgsl - prompt_linear.wgsl for a few tokens, or where that would leave most of a large device idle; to its bits.
//
// A workgroup of four subgroups makes a tile of 32 rows of the matrix by 32 tokens, each subgroup 16 by 16; four times as
// many workgroups as there. A step is four blocks of columns, so that each thread still unpacks one block, and a subgroup's
// eight products a step add up in the same order of columns. With a gate (COMBINE 2) the tile is 16 rows of the first
// matrix and the same of the second.
const SPAN = 4u;           // blocks of a step
const SIDE = 32u;          // rows and tokens
const ACTS = 128u * ROW;   // where activations begin in the tile: SPAN * SIDE rows of weights before, as many of theirs
const STRIP_ROW = 36u;     // f32 from token to token of the strip
var<workgroup> tile: array<vec4<f16>, 2560>; // (128 + 128) * ROW: (block, row), then (block, token)
var<workgroup> strip: array<f32, 1152>;      // SIDE * STRIP_ROW

// The matrix's row that a line of the tile is.
fn row_of(group: u32, line: u32) -> u32 {
    if (COMBINE != 2u) { return min(group * SIDE + line, p.rows - 1u); }
    return min(group * SIDE / 2u + line % 16u, p.rows - 1u) + select(0u, p.rows, line >= 16u);
}

// Part i of a thread's activations of a step: sixteen neighbouring threads load a token's.
fn load_part(i: u32, token0: u32, base: u32, local: u32) -> vec4<u32> {
    let block = min(base + local / 4u % SPAN, p.blocks - 1u);
    return load_acts(token0 + 8u * i + local / 16u, block, local % 4u);
}

fn store_part(v: vec4<u32>, i: u32, local: u32) {
    let row = local / 4u % SPAN * SIDE + 8u * i + local / 16u;
    store_eight(v, ACTS + row * ROW + local % 4u * 2u);
}

fn write_strip(token0: u32, group: u32, local: u32) {
    let width = select(SIDE, SIDE / 2u, COMBINE == 2u);
    for (var i = local; i < SIDE * width; i += 128u) {
        let token = token0 + i / width;
        let row = group * width + i % width;
        if (token < p.tokens && row < p.rows) {
            let factor = factors[token];
            let at = i / width * STRIP_ROW + i % width;
            var v = finished(strip[at], row, factor);
            if (COMBINE != 0u) { v = act(v); }
            if (COMBINE == 2u) { v *= finished(strip[at + 16u], p.rows + row, factor); }
            write(token, row, v);
        }
    }
}

@compute @workgroup_size(128)
fn prompt_few(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    lane = local % 32u;
    let subgroup = local / 32u;
    let token0 = group.x * SIDE;
    let row = row_of(group.y, local / SPAN);
    let weights_at = (local % SPAN * SIDE + local / SPAN) * ROW;
    let left = ACTS + subgroup / 2u * 16u * ROW;
    let right = subgroup % 2u * 16u * ROW;
    var sum: Sum;
    var packed = load_packed(row, min(local % SPAN, p.blocks - 1u));
    var x0 = load_part(0u, token0, 0u, local);
    var x1 = load_part(1u, token0, 0u, local);
    var x2 = load_part(2u, token0, 0u, local);
    var x3 = load_part(3u, token0, 0u, local);
    for (var base = 0u; base < p.blocks; base += SPAN) {
        store_weights(packed, weights_at);
        store_part(x0, 0u, local);
        store_part(x1, 1u, local);
        store_part(x2, 2u, local);
        store_part(x3, 3u, local);
        workgroupBarrier();
        let next = base + SPAN;
        packed = load_packed(row, min(next + local % SPAN, p.blocks - 1u));
        x0 = load_part(0u, token0, next, local);
        x1 = load_part(1u, token0, next, local);
        x2 = load_part(2u, token0, next, local);
        x3 = load_part(3u, token0, next, local);
        for (var i = 0u; i < min(SPAN, p.blocks - base); i++) {
            let at = i * SIDE * ROW;
            sum = multiply_add(load_left(left + at, ROW), load_right_columns(right + at, ROW), sum);
            sum = multiply_add(load_left(left + at + 4u, ROW), load_right_columns(right + at + 4u, ROW), sum);
        }
        workgroupBarrier();
    }
    store_sum(sum, subgroup / 2u * 16u * STRIP_ROW + subgroup % 2u * 16u, STRIP_ROW);
    workgroupBarrier();
    write_strip(token0, group.y, local);
}
