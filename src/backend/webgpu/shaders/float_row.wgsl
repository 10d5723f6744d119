// float_row.wgsl - a lane's part of a row of plain numbers times a row of x_rows, for the kernels whose weights1 and x_rows
// those are: word `first` of the weights is the row's first of `words`, element `base` of x_rows the first of `cols`.
override KIND: u32 = 0u; // 0 f32, 1 f16, 2 bf16

fn float_row_dot(first: u32, base: u32, words: u32, cols: u32, lane: u32) -> f32 {
    var sum = 0.0;
    for (var i = lane; i < words; i += LANES) {
        let word = weights1[first + i];
        if (KIND == 0u) {
            sum += bitcast<f32>(word) * x_rows[base + i];
            continue;
        }
        var w = vec2<f32>(bitcast<f32>(word << 16u), bitcast<f32>(word & 0xffff0000u));
        if (KIND == 1u) { w = unpack2x16float(word); }
        sum += w.x * x_rows[base + 2u * i];
        if (2u * i + 1u < cols) { sum += w.y * x_rows[base + 2u * i + 1u]; }
    }
    return sum;
}
