// matrix_subgroup.wgsl - matrices of 16 by 16 that a subgroup of 32 holds together; the device multiplies them.
//
// Operands come from workgroup memory `tile`, an array of vec4<f16>, in which places and strides count fours; sums go to
// workgroup memory `strip`, an array of f32. The shader that uses this declares both. Keep them in named variables: an array of matrices, indexed in a loop, was six times slower.
// matrix_emulated.wgsl means the same without such a device.
alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sum = subgroup_matrix_result<f32, 16, 16>;

var<private> lane: u32; // of the subgroup, set by the shader

// Row i of the matrix begins at tile[at + i * stride].
fn load_left(at: u32, stride: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&tile, at, stride); }

// Column i of the matrix begins at tile[at + i * stride].
fn load_right_columns(at: u32, stride: u32) -> Right { return subgroupMatrixLoad<Right, col_major>(&tile, at, stride); }

fn load_right_rows(at: u32, stride: u32) -> Right { return subgroupMatrixLoad<Right, row_major>(&tile, at, stride); }

fn multiply_add(left: Left, right: Right, sum: Sum) -> Sum { return subgroupMatrixMultiplyAccumulate(left, right, sum); }

// Row i of the matrix goes to strip[at + i * stride].
fn store_sum(sum: Sum, at: u32, stride: u32) { subgroupMatrixStore<row_major>(&strip, at, sum, stride); }

fn four_halves(bits: vec2<u32>) -> vec4<f16> { return bitcast<vec4<f16>>(bits); }

fn two_halves(bits: u32) -> vec2<f16> { return bitcast<vec2<f16>>(bits); }
