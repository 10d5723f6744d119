// cache.wgsl - the KV cache's layout: (page, kv head, slot, element), f16 pairs in a u32, or f32 (KV_F32).
override KV_F32: u32 = 0u;

// Index of a row's first word; `words` is the row's length in u32.
fn cache_row(page: u32, heads: u32, head: u32, slot: u32, words: u32) -> u32 {
    return ((page * heads + head) * PAGE + slot) * words;
}
