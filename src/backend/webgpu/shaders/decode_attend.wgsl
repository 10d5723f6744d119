// decode_attend.wgsl - attention of a decode step: head norms, rotation, the new key and value into the cache, and the
// scores of a stretch of the context for all query heads that share a key head, in one dispatch.
//
// One workgroup of 256 threads for each (stretch, key head, token); a stretch is a whole number of 64 positions. The one
// that holds the token's own position stores it and takes it from workgroup memory, for nobody else reads it this step.
// Each leaves, for every query head, a maximum, a sum and unfinished values; decode_reduce.wgsl joins them.
struct Params {
    heads: u32, kv_heads: u32, k_dim: u32, v_dim: u32,
    rotated: u32, adjacent: u32, angles: u32,
    group: u32,     // offset of the cache group's page table in a sequence's
    norms: u32,     // bit 0: q is normed, bit 1: k
    eps: f32,
    q_stride: u32, k_first: u32, v_stride: u32,
    stretch: u32,   // positions of a workgroup
    scale: f32,
    window: u32,    // 0: everything
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> head_norms: array<f32>; // of q, then of k, then the score cap
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read> v: array<f32>;
@group(0) @binding(4) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> v_cache: array<u32>;
@group(0) @binding(6) var<storage, read_write> parts: array<f32>; // (token, head, stretch): max, sum, v_dim values

const THREADS = 256u;
const NEVER = -3.0e38;
override STRETCHES: u32 = 64u; // places in parts for one head
var<workgroup> queries: array<f32, 2048>;  // (head of the group, k_dim)
var<workgroup> new_k: array<f32, 256>;
var<workgroup> new_v: array<f32, 256>;
var<workgroup> scores: array<f32, 1024>;   // (head of the group, 64)
var<workgroup> k_rows: array<u32, 64>;
var<workgroup> v_rows: array<u32, 64>;
var<workgroup> tops: array<f32, 16>;
var<workgroup> sums: array<f32, 16>;
var<workgroup> fades: array<f32, 16>;
var<workgroup> scratch: array<f32, 256>;

// RMS norm of `count` heads of k_dim at once: 256 threads, one head after another.
fn factor_of(base: u32, is_key: bool, local: u32) -> f32 {
    var squares = 0.0;
    for (var i = local; i < p.k_dim; i += THREADS) {
        let x = q[base + i];
        squares += x * x;
    }
    scratch[local] = squares;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (local < step) { scratch[local] += scratch[local + step]; }
        workgroupBarrier();
    }
    let total = scratch[0];
    workgroupBarrier();
    return inverseSqrt(total / f32(p.k_dim) + p.eps);
}

// Element i of a head at `base` of q, normed and rotated.
fn turned(base: u32, i: u32, factor: f32, weights: u32, normed: bool, token: u32) -> f32 {
    var a = q[base + i] * factor;
    if (normed) { a *= head_norms[weights + i]; }
    if (i >= p.rotated) { return a; }
    let pairs = p.rotated / 2u;
    var pair = i % pairs;
    var other = select(i - pairs, i + pairs, i < pairs);
    var first = i < pairs;
    if (p.adjacent == 1u) {
        pair = i / 2u;
        other = i ^ 1u;
        first = (i & 1u) == 0u;
    }
    var b = q[base + other] * factor;
    if (normed) { b *= head_norms[weights + other]; }
    let turn = turn_at(p.angles + token * pairs + pair);
    return select(b * turn.y + a * turn.x, a * turn.x - b * turn.y, first);
}

fn load_queries(token: u32, kv_head: u32, share: u32, local: u32) {
    for (var h = 0u; h < share; h++) {
        let base = token * p.q_stride + (kv_head * share + h) * p.k_dim;
        var factor = 1.0;
        if ((p.norms & 1u) == 1u) { factor = factor_of(base, false, local); }
        for (var i = local; i < p.k_dim; i += THREADS) {
            queries[h * p.k_dim + i] = turned(base, i, factor, 0u, (p.norms & 1u) == 1u, token) * p.scale;
        }
    }
}

fn pack_word(a: f32, b: f32) -> u32 { return pack2x16float(vec2<f32>(a, b)); }

// The token's own key and value: to workgroup memory and, by this workgroup, to the cache.
fn store_new(t: Token, token: u32, kv_head: u32, local: u32) {
    let base = token * p.q_stride + p.k_first + kv_head * p.k_dim;
    var factor = 1.0;
    if ((p.norms & 2u) == 2u) { factor = factor_of(base, true, local); }
    for (var i = local; i < p.k_dim; i += THREADS) {
        new_k[i] = turned(base, i, factor, p.k_dim, (p.norms & 2u) == 2u, token);
    }
    for (var i = local; i < p.v_dim; i += THREADS) { new_v[i] = v[token * p.v_stride + kv_head * p.v_dim + i]; }
    workgroupBarrier();
    let page = batch_info[t.pages + p.group + t.position / PAGE];
    let slot = t.position % PAGE;
    if (KV_F32 == 1u) {
        let kr = cache_row(page, p.kv_heads, kv_head, slot, p.k_dim);
        let vr = cache_row(page, p.kv_heads, kv_head, slot, p.v_dim);
        for (var i = local; i < p.k_dim; i += THREADS) { k_cache[kr + i] = bitcast<u32>(new_k[i]); }
        for (var i = local; i < p.v_dim; i += THREADS) { v_cache[vr + i] = bitcast<u32>(new_v[i]); }
    } else {
        let kr = cache_row(page, p.kv_heads, kv_head, slot, p.k_dim / 2u);
        let vr = cache_row(page, p.kv_heads, kv_head, slot, p.v_dim / 2u);
        for (var i = local; i < p.k_dim / 2u; i += THREADS) { k_cache[kr + i] = pack_word(new_k[2u * i], new_k[2u * i + 1u]); }
        for (var i = local; i < p.v_dim / 2u; i += THREADS) { v_cache[vr + i] = pack_word(new_v[2u * i], new_v[2u * i + 1u]); }
        // What the cache holds is what is attended to, now as later.
        for (var i = local; i < p.k_dim; i += THREADS) { new_k[i] = rounded(new_k[i]); }
        for (var i = local; i < p.v_dim; i += THREADS) { new_v[i] = rounded(new_v[i]); }
    }
}

fn rounded(x: f32) -> f32 { return unpack2x16float(pack2x16float(vec2<f32>(x, 0.0))).x; }

fn score(head: u32, row: u32, is_new: bool) -> f32 {
    var s = 0.0;
    let at = head * p.k_dim;
    if (is_new) {
        for (var i = 0u; i < p.k_dim; i++) { s += queries[at + i] * new_k[i]; }
    } else if (KV_F32 == 1u) {
        for (var i = 0u; i < p.k_dim; i++) { s += queries[at + i] * bitcast<f32>(k_cache[row + i]); }
    } else {
        for (var i = 0u; i < p.k_dim / 2u; i++) {
            let k = unpack2x16float(k_cache[row + i]);
            s += queries[at + 2u * i] * k.x + queries[at + 2u * i + 1u] * k.y;
        }
    }
    let cap = head_norms[2u * p.k_dim];
    if (cap > 0.0) { s = cap * tanh(clamp(s / cap, -15.0, 15.0)); }
    return s;
}

fn value_at(row: u32, i: u32) -> f32 {
    if (KV_F32 == 1u) { return bitcast<f32>(v_cache[row + i]); }
    let pair = unpack2x16float(v_cache[row + i / 2u]);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

@compute @workgroup_size(256)
fn decode_attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.z;
    let kv_head = group.y;
    let share = p.heads / p.kv_heads;
    let t = batch_token(token);
    let begin = select(0u, t.position + 1u - min(p.window, t.position + 1u), p.window > 0u);
    let first = group.x * p.stretch;
    let end = min(first + p.stretch, t.position + 1u);
    if (end <= begin || first >= end) { // nothing seen here
        for (var h = local; h < share; h += THREADS) {
            let at = ((token * p.heads + kv_head * share + h) * STRETCHES + group.x) * (p.v_dim + 2u);
            parts[at] = NEVER;
            parts[at + 1u] = 0.0;
        }
        return;
    }
    load_queries(token, kv_head, share, local);
    if (end == t.position + 1u) { store_new(t, token, kv_head, local); }
    if (local < share) {
        tops[local] = NEVER;
        sums[local] = 0.0;
    }
    workgroupBarrier();
    var held: array<f32, 8>; // outputs local, local + 256, ... of (head, element)
    let outputs = share * p.v_dim;
    for (var start = max(first, begin); start < end; start += 64u) {
        let count = min(64u, end - start);
        if (local < count) {
            let page = batch_info[t.pages + p.group + (start + local) / PAGE];
            k_rows[local] = cache_row(page, p.kv_heads, kv_head, (start + local) % PAGE, select(p.k_dim / 2u, p.k_dim, KV_F32 == 1u));
            v_rows[local] = cache_row(page, p.kv_heads, kv_head, (start + local) % PAGE, select(p.v_dim / 2u, p.v_dim, KV_F32 == 1u));
        }
        workgroupBarrier();
        for (var i = local; i < 64u * share; i += THREADS) {
            let j = i % 64u;
            var s = NEVER;
            if (j < count) { s = score(i / 64u, k_rows[j], start + j == t.position); }
            scores[i] = s;
        }
        workgroupBarrier();
        if (local < share) {
            var top = tops[local];
            for (var j = 0u; j < count; j++) { top = max(top, scores[local * 64u + j]); }
            fades[local] = exp(tops[local] - top);
            tops[local] = top;
        }
        workgroupBarrier();
        for (var i = local; i < 64u * share; i += THREADS) {
            if (i % 64u < count) { scores[i] = exp(scores[i] - tops[i / 64u]); }
        }
        workgroupBarrier();
        if (local < share) {
            var sum = sums[local] * fades[local];
            for (var j = 0u; j < count; j++) { sum += scores[local * 64u + j]; }
            sums[local] = sum;
        }
        for (var o = 0u; o * THREADS + local < outputs; o++) {
            let h = (o * THREADS + local) / p.v_dim;
            let i = (o * THREADS + local) % p.v_dim;
            var x = held[o] * fades[h];
            for (var j = 0u; j < count; j++) {
                var value = new_v[i];
                if (start + j != t.position) { value = value_at(v_rows[j], i); }
                x += scores[h * 64u + j] * value;
            }
            held[o] = x;
        }
        workgroupBarrier();
    }
    for (var o = 0u; o * THREADS + local < outputs; o++) {
        let h = (o * THREADS + local) / p.v_dim;
        let i = (o * THREADS + local) % p.v_dim;
        parts[((token * p.heads + kv_head * share + h) * STRETCHES + group.x) * (p.v_dim + 2u) + 2u + i] = held[o];
    }
    if (local < share) {
        let at = ((token * p.heads + kv_head * share + local) * STRETCHES + group.x) * (p.v_dim + 2u);
        parts[at] = tops[local];
        parts[at + 1u] = sums[local];
    }
}
