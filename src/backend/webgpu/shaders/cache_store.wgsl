// cache_store.wgsl - a head's key or value as the words of its row in the cache (cache.wgsl).
//
// The shader that stores puts the elements into row_values, calls settle_row, and then asks for words.
// ROW_FLOATS, the most elements of a row, is stated by it too.
var<workgroup> row_values: array<f32, ROW_FLOATS>;
var<workgroup> row_scales: array<f32, 32>; // of q8_0, for each block of 32 elements

// Chooses scales: the largest magnitude / 127, as f16 keeps it. Every thread of the workgroup calls it, at least 32.
fn settle_row(n: u32, local: u32) {
    if (KV != KV_Q8_0) { return; }
    if (local < n / 32u) {
        var top = 0.0;
        for (var i = 0u; i < 32u; i++) { top = max(top, abs(row_values[32u * local + i])); }
        row_scales[local] = unpack2x16float(pack2x16float(vec2<f32>(min(top / 127.0, 65504.0), 0.0))).x;
    }
    workgroupBarrier();
}

fn code_of(i: u32) -> u32 {
    let d = row_scales[i / 32u];
    if (d == 0.0) { return 0u; }
    return u32(i32(round(clamp(row_values[i] / d, -127.0, 127.0)))) & 0xffu;
}

fn row_word(i: u32) -> u32 {
    if (KV == KV_F32) { return bitcast<u32>(row_values[i]); }
    if (KV == KV_Q8_0) {
        return code_of(4u * i) | (code_of(4u * i + 1u) << 8u) | (code_of(4u * i + 2u) << 16u) | (code_of(4u * i + 3u) << 24u);
    }
    return pack2x16float(vec2<f32>(row_values[2u * i], row_values[2u * i + 1u]));
}

fn row_scale_word(i: u32) -> u32 { return pack2x16float(vec2<f32>(row_scales[2u * i], row_scales[2u * i + 1u])); }
