// prompt_linear.wgsl - a quantized matrix times many tokens with matrices of subgroups: prompts.
//
// A workgroup of four subgroups makes a tile of 128 rows of the matrix by 32 * STRIPS tokens, each subgroup 64 rows by
// half of the tokens. Step by step of 32 columns, a block each, every thread unpacks one row's block to f16 in
// workgroup memory, beside the tokens' activations (prompt_norm.wgsl); what the next step needs is loaded
// while this one is multiplied. Sums are f32, and leave through workgroup memory: factor of the token, bias, activation or
// gate, scale, residual. With a gate (COMBINE 2) the tile is 64 rows of the first matrix and, below, the same of the
// second.
//
// prompt_few.wgsl has smaller tiles and comes to the same bits.
override STRIPS: u32 = 4u;  // of 16 tokens a subgroup: 4, or 2 where there would be too few workgroups

const ACTS = 128u * ROW; // where activations begin in the tile, behind the weights
const STRIP_ROW = 36u;   // f32 from row to row of a strip
var<workgroup> tile: array<vec4<f16>, 2560>; // (128 + 128) * ROW
var<workgroup> strip: array<f32, 2304>; // four subgroups' 16 tokens by 32 rows

// The matrix's row that a thread unpacks.
fn row_of(group: u32, local: u32) -> u32 {
    if (COMBINE != 2u) { return min(group * 128u + local, p.rows - 1u); }
    return min(group * 64u + local % 64u, p.rows - 1u) + select(0u, p.rows, local >= 64u);
}

// What the four subgroups left in `strip`: 16 tokens from `token` on for the first two, from `token` + 16 * STRIPS for the
// others; 32 rows of each subgroup's 64 from `column` on.
fn write_strip(token: u32, group: u32, column: u32, local: u32) {
    workgroupBarrier();
    let i = local % 32u;
    if (COMBINE == 2u) {
        let half = local / 64u;
        let row = group * 64u + column + i;
        for (var t = local / 32u % 2u; t < 16u; t += 2u) {
            let to = token + half * 16u * STRIPS + t;
            if (to < p.tokens && row < p.rows) {
                let factor = factors[to];
                let at = (half * 32u + t) * STRIP_ROW + i;
                write(to, row, act(finished(strip[at], row, factor)) * finished(strip[at + 16u * STRIP_ROW], p.rows + row, factor));
            }
        }
    } else {
        let subgroup = local / 32u;
        let row = group * 128u + subgroup % 2u * 64u + column + i;
        for (var t = 0u; t < 16u; t++) {
            let to = token + subgroup / 2u * 16u * STRIPS + t;
            if (to < p.tokens && row < p.rows) {
                let v = finished(strip[(subgroup * 16u + t) * STRIP_ROW + i], row, factors[to]);
                if (COMBINE == 1u) { write(to, row, act(v)); } else { write(to, row, v); }
            }
        }
    }
    workgroupBarrier();
}

// A subgroup's sums of 16 tokens and its 64 rows.
fn write_sums(a: Sum, b: Sum, c: Sum, d: Sum, token: u32, group: u32, local: u32) {
    let at = local / 32u * 16u * STRIP_ROW;
    store_sum(a, at, STRIP_ROW);
    store_sum(b, at + 16u, STRIP_ROW);
    write_strip(token, group, 0u, local);
    store_sum(c, at, STRIP_ROW);
    store_sum(d, at + 16u, STRIP_ROW);
    write_strip(token, group, 32u, local);
}

@compute @workgroup_size(128)
fn prompt_linear(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    lane = local % 32u;
    let subgroup = local / 32u;
    let token0 = group.x * 32u * STRIPS;
    let weight_row = row_of(group.y, local);
    let act_row = local / 4u; // four neighbouring threads load a token's block
    let eighth = local % 4u;
    let act_at = ACTS + act_row * ROW + 2u * eighth;
    let left = ACTS + subgroup / 2u * 16u * STRIPS * ROW;
    let right = subgroup % 2u * 64u * ROW;
    var s00: Sum; var s01: Sum; var s02: Sum; var s03: Sum;
    var s10: Sum; var s11: Sum; var s12: Sum; var s13: Sum;
    var s20: Sum; var s21: Sum; var s22: Sum; var s23: Sum;
    var s30: Sum; var s31: Sum; var s32: Sum; var s33: Sum;
    var packed = load_packed(weight_row, 0u);
    var x0 = load_acts(token0 + act_row, 0u, eighth);
    var x1 = load_acts(token0 + act_row + 32u, 0u, eighth);
    var x2: vec4<u32>;
    var x3: vec4<u32>;
    if (STRIPS > 2u) {
        x2 = load_acts(token0 + act_row + 64u, 0u, eighth);
        x3 = load_acts(token0 + act_row + 96u, 0u, eighth);
    }
    for (var block = 0u; block < p.blocks; block++) {
        store_weights(packed, local * ROW);
        store_eight(x0, act_at);
        store_eight(x1, act_at + 32u * ROW);
        if (STRIPS > 2u) {
            store_eight(x2, act_at + 64u * ROW);
            store_eight(x3, act_at + 96u * ROW);
        }
        workgroupBarrier();
        let next = min(block + 1u, p.blocks - 1u);
        packed = load_packed(weight_row, next);
        x0 = load_acts(token0 + act_row, next, eighth);
        x1 = load_acts(token0 + act_row + 32u, next, eighth);
        if (STRIPS > 2u) {
            x2 = load_acts(token0 + act_row + 64u, next, eighth);
            x3 = load_acts(token0 + act_row + 96u, next, eighth);
        }
        for (var k = 0u; k < 8u; k += 4u) {
            let r0 = load_right_columns(right + k, ROW);
            let r1 = load_right_columns(right + 16u * ROW + k, ROW);
            let r2 = load_right_columns(right + 32u * ROW + k, ROW);
            let r3 = load_right_columns(right + 48u * ROW + k, ROW);
            let l0 = load_left(left + k, ROW);
            s00 = multiply_add(l0, r0, s00);
            s01 = multiply_add(l0, r1, s01);
            s02 = multiply_add(l0, r2, s02);
            s03 = multiply_add(l0, r3, s03);
            let l1 = load_left(left + 16u * ROW + k, ROW);
            s10 = multiply_add(l1, r0, s10);
            s11 = multiply_add(l1, r1, s11);
            s12 = multiply_add(l1, r2, s12);
            s13 = multiply_add(l1, r3, s13);
            if (STRIPS > 2u) {
                let l2 = load_left(left + 32u * ROW + k, ROW);
                s20 = multiply_add(l2, r0, s20);
                s21 = multiply_add(l2, r1, s21);
                s22 = multiply_add(l2, r2, s22);
                s23 = multiply_add(l2, r3, s23);
                let l3 = load_left(left + 48u * ROW + k, ROW);
                s30 = multiply_add(l3, r0, s30);
                s31 = multiply_add(l3, r1, s31);
                s32 = multiply_add(l3, r2, s32);
                s33 = multiply_add(l3, r3, s33);
            }
        }
        workgroupBarrier();
    }
    write_sums(s00, s01, s02, s03, token0, group.y, local);
    write_sums(s10, s11, s12, s13, token0 + 16u, group.y, local);
    if (STRIPS > 2u) {
        write_sums(s20, s21, s22, s23, token0 + 32u, group.y, local);
        write_sums(s30, s31, s32, s33, token0 + 48u, group.y, local);
    }
}
