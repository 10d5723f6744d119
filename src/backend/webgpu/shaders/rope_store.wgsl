// rope_store.wgsl - head norms, rotation of q and k, and k and v into the cache (plan.h, af_op_rope_store).
//
// One workgroup of 64 threads for each (head, token): first the query heads, then the key heads, then, unless they are
// part of the keys, the value heads.
// The angles come from a table (token, pair) that the host makes: GPU sines are not good enough at large positions.
struct Params {
    heads: u32, kv_heads: u32, k_dim: u32, v_dim: u32,
    turned: u32,    // elements that turn, and in the upper half where they begin in a head
    adjacent: u32,
    angles: u32,    // where this rope's table begins in batch_info, in pairs
    group: u32,     // offset of the cache group's page table in a sequence's
    q_stride: u32, k_first: u32, v_first: u32, // a token's row in q; where k and v begin in it
    q_eps: f32, k_eps: f32,
    growth: f32, span: u32, // q is multiplied by 1 + growth ln(1 + floor(position / span)); span 0: it is not
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> head_norms: array<f32>;  // weights of q, its bias, weights of k, its bias
@group(0) @binding(2) var<storage, read_write> q: array<f32>;     // (tokens, q_stride): q, k, v
@group(0) @binding(3) var<storage, read_write> k_cache: array<u32>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<u32>;

override K_ROW: u32 = 64u; // elements of a row of the cache: k_dim, and zeros
override V_ROW: u32 = 64u;
override Q_PITCH: u32 = 64u; // from one head of q to the next
override Q_NORM: u32 = 0u; // 0 none, 1 RMS, 2 layer norm
override K_NORM: u32 = 0u;
override Q_ROWS: u32 = 0u; // of weights: one for all heads, or one a head
override K_ROWS: u32 = 0u;
override Q_BIAS: u32 = 0u; // 1: has one
override K_BIAS: u32 = 0u;
override Q_WIDTH: u32 = 64u; // elements of a head that are normed, the first ones
override K_WIDTH: u32 = 64u;
override ROW_FLOATS: u32 = 1024u; // a head's, key or value
const THREADS = 64u;

struct HeadNorm { kind: u32, width: u32, eps: f32, weights: u32, biased: bool, bias: u32 }

// The norm of query or key head `head`, whose tensors begin at `first`.
fn head_norm(kind: u32, width: u32, eps: f32, first: u32, rows: u32, has_bias: u32, head: u32) -> HeadNorm {
    let row = first + select(0u, head, rows > 1u) * width;
    return HeadNorm(kind, width, eps, row, has_bias == 1u, row + rows * width);
}

fn norm_head(n: HeadNorm, local: u32) {
    if (n.kind == 0u) { return; }
    var mean = 0.0;
    if (n.kind == 2u) {
        var sum = 0.0;
        for (var i = local; i < n.width; i += THREADS) { sum += row_values[i]; }
        mean = workgroup_sum(sum, local) / f32(n.width);
    }
    var squares = 0.0;
    for (var i = local; i < n.width; i += THREADS) {
        let v = row_values[i] - mean;
        squares += v * v;
    }
    let factor = inverseSqrt(workgroup_sum(squares, local) / f32(n.width) + n.eps);
    for (var i = local; i < n.width; i += THREADS) {
        var v = (row_values[i] - mean) * factor * head_norms[n.weights + i];
        if (n.biased) { v += head_norms[n.bias + i]; }
        row_values[i] = v;
    }
    workgroupBarrier();
}

fn query_factor(position: u32) -> f32 {
    if (p.span == 0u) { return 1.0; }
    return 1.0 + p.growth * log(1.0 + f32(position / p.span));
}

fn turn_pair(v: vec2<f32>, turn: vec2<f32>) -> vec2<f32> {
    return vec2<f32>(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}

fn pairs() -> u32 { return (p.turned & 0xffffu) / 2u; }

// Where in a head the elements of pair i stand.
fn pair_places(i: u32) -> vec2<u32> {
    return (p.turned >> 16u) + select(vec2<u32>(i, i + pairs()), vec2<u32>(2u * i, 2u * i + 1u), p.adjacent == 1u);
}

fn rotate_head(token: u32, local: u32) {
    for (var i = local; i < pairs(); i += THREADS) {
        let at = pair_places(i);
        let turned = turn_pair(vec2<f32>(row_values[at.x], row_values[at.y]), turn_at(p.angles + token * pairs() + i));
        row_values[at.x] = turned.x;
        row_values[at.y] = turned.y;
    }
    workgroupBarrier();
}

// The same of a query head at `base` that is only turned: where it lies, with nothing to wait for.
fn rotate_in_place(base: u32, token: u32, local: u32) {
    for (var i = local; i < pairs(); i += THREADS) {
        let at = base + pair_places(i);
        let turned = turn_pair(vec2<f32>(q[at.x], q[at.y]), turn_at(p.angles + token * pairs() + i));
        q[at.x] = turned.x;
        q[at.y] = turned.y;
    }
}

// `dim` elements of the head at `base`, and zeros up to `row`.
fn load_head(base: u32, dim: u32, row: u32, local: u32) {
    for (var i = local; i < dim; i += THREADS) { row_values[i] = q[base + i]; }
    if (dim + local < row) { row_values[dim + local] = 0.0; }
    workgroupBarrier();
}

@compute @workgroup_size(64)
fn rope_store(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.y;
    let t = batch_token(token);
    let page = batch_info[t.pages + p.group + t.position / PAGE];
    let slot = t.position % PAGE;
    if (group.x < p.heads) {
        let base = token * p.q_stride + group.x * Q_PITCH;
        if (Q_NORM == 0u && p.span == 0u) {
            rotate_in_place(base, token, local);
            return;
        }
        load_head(base, p.k_dim, K_ROW, local);
        norm_head(head_norm(Q_NORM, Q_WIDTH, p.q_eps, 0u, Q_ROWS, Q_BIAS, group.x), local);
        rotate_head(token, local);
        let factor = query_factor(t.position);
        for (var i = local; i < p.k_dim; i += THREADS) { q[base + i] = row_values[i] * factor; }
    } else if (group.x < p.heads + p.kv_heads) {
        let head = group.x - p.heads;
        load_head(token * p.q_stride + p.k_first + head * p.k_dim, p.k_dim, K_ROW, local);
        norm_head(head_norm(K_NORM, K_WIDTH, p.k_eps, Q_ROWS * (1u + Q_BIAS) * Q_WIDTH, K_ROWS, K_BIAS, head), local);
        rotate_head(token, local);
        settle_row(K_ROW, local);
        let row = cache_row(page, p.kv_heads, head, slot, K_ROW);
        let scales = cache_scales(page, p.kv_heads, head, slot, K_ROW);
        for (var i = local; i < row_words(K_ROW); i += THREADS) { k_cache[row + i] = row_word(i); }
        for (var i = local; i < scale_words(K_ROW); i += THREADS) { k_cache[scales + i] = row_scale_word(i); }
    } else {
        let head = group.x - p.heads - p.kv_heads;
        load_head(token * p.q_stride + p.v_first + head * p.v_dim, p.v_dim, V_ROW, local);
        settle_row(V_ROW, local);
        let row = cache_row(page, p.kv_heads, head, slot, V_ROW);
        let scales = cache_scales(page, p.kv_heads, head, slot, V_ROW);
        for (var i = local; i < row_words(V_ROW); i += THREADS) { v_cache[row + i] = row_word(i); }
        for (var i = local; i < scale_words(V_ROW); i += THREADS) { v_cache[scales + i] = row_scale_word(i); }
    }
}
