// cache.wgsl - the KV cache's layout, in u32. A page holds for each kv head the rows of its 32 slots, then their scales:
//   f16    pairs of elements in a word
//   f32    an element a word
//   q8_0   four int8 in a word; for every 32 elements an f16 scale, two in a word. An element is int8 * scale
// A row has N elements: the head's, and zeros up to what a shader loads at a time (gpu_attend.c).
override KV: u32 = 0u; // af_kv_type
const KV_F32 = 1u;
const KV_Q8_0 = 2u;

// Words of a row.
fn row_words(n: u32) -> u32 {
    if (KV == KV_F32) { return n; }
    return select(n / 2u, n / 4u, KV == KV_Q8_0);
}

fn scale_words(n: u32) -> u32 { return select(0u, (n / 32u + 1u) / 2u, KV == KV_Q8_0); }

fn cache_page(page: u32, heads: u32, head: u32, n: u32) -> u32 {
    return (page * heads + head) * PAGE * (row_words(n) + scale_words(n));
}

// The first word of a row, and of its scales.
fn cache_row(page: u32, heads: u32, head: u32, slot: u32, n: u32) -> u32 {
    return cache_page(page, heads, head, n) + slot * row_words(n);
}
fn cache_scales(page: u32, heads: u32, head: u32, slot: u32, n: u32) -> u32 {
    return cache_page(page, heads, head, n) + PAGE * row_words(n) + slot * scale_words(n);
}

// Four int8 as floats; the scale of a block of 32, given the word that holds it.
fn codes_of(word: u32) -> vec4<f32> {
    let tops = vec4<u32>(word << 24u, word << 16u, word << 8u, word);
    return vec4<f32>(bitcast<vec4<i32>>(tops) >> vec4<u32>(24u));
}
fn scale_in(word: u32, block: u32) -> f32 {
    let pair = unpack2x16float(word);
    return select(pair.x, pair.y, (block & 1u) == 1u);
}
