// matrix_emulated.wgsl - matrix_subgroup.wgsl's functions in plain WGSL, so that its users are tested on any device.
//
// A lane holds its row of a left matrix and half a row of a sum; a right matrix stays where it is in workgroup memory,
// which no shader may overwrite before it is used.
struct Left { row: array<f16, 16> }
struct Right { at: u32, down: u32, across: u32 } // steps from row to row, from column to column, in f16
struct Sum { half_row: array<f32, 8> }

var<private> lane: u32;

// 16, but compilers do not know it, who would unroll the loops and take minutes.
fn sixteen() -> u32 { return 16u + (lane >> 6u); }

fn load_left(at: u32, stride: u32) -> Left {
    var l: Left;
    for (var k = 0u; k < sixteen(); k++) { l.row[k] = tile[at + lane / 2u * stride + k / 4u][k % 4u]; }
    return l;
}

fn load_right_columns(at: u32, stride: u32) -> Right { return Right(4u * at, 1u, 4u * stride); }

fn load_right_rows(at: u32, stride: u32) -> Right { return Right(4u * at, 4u * stride, 1u); }

fn multiply_add(left: Left, right: Right, sum: Sum) -> Sum {
    var l = left;
    var s = sum;
    for (var i = 0u; i < sixteen() / 2u; i++) {
        let column = right.at + (lane % 2u * 8u + i) * right.across;
        for (var k = 0u; k < sixteen(); k++) {
            let from_ = column + k * right.down;
            s.half_row[i] += f32(l.row[k]) * f32(tile[from_ / 4u][from_ % 4u]);
        }
    }
    return s;
}

fn store_sum(sum: Sum, at: u32, stride: u32) {
    var s = sum;
    for (var i = 0u; i < sixteen() / 2u; i++) { strip[at + lane / 2u * stride + lane % 2u * 8u + i] = s.half_row[i]; }
}

fn four_halves(bits: vec2<u32>) -> vec4<f16> {
    return vec4<f16>(vec4<f32>(unpack2x16float(bits.x), unpack2x16float(bits.y)));
}

fn two_halves(bits: u32) -> vec2<f16> { return vec2<f16>(unpack2x16float(bits)); }
