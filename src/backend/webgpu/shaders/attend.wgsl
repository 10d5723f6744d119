// attend.wgsl - attention of one query head of one token over the pages it sees (plan.h, af_op_attend).
//
// One workgroup of 128 threads for each (head, token). Keys are taken 128 at a time: a thread scores one key, the
// workgroup folds the block into a running maximum and sum (online softmax), then threads sum values by element.
struct Params {
    heads: u32, kv_heads: u32, k_dim: u32, v_dim: u32,
    group: u32,   // offset of the cache group's page table in a sequence's
    window: u32,  // 0: everything
    has_sinks: u32,
    scale: f32,
    cap: f32,     // 0: none
    q_stride: u32, // of a token's row in q
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k_cache: array<u32>;
@group(0) @binding(3) var<storage, read> v_cache: array<u32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

const THREADS = 128u;
const NEVER = -3.0e38;
var<workgroup> query: array<f32, 1024>;
var<workgroup> weights: array<f32, 128>;
var<workgroup> rows: array<u32, 128>;    // where each key's value row begins
var<workgroup> partial: array<f32, 128>;

fn block_max(v: f32, local: u32) -> f32 {
    partial[local] = v;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (local < step) { partial[local] = max(partial[local], partial[local + step]); }
        workgroupBarrier();
    }
    let top = partial[0];
    workgroupBarrier();
    return top;
}

fn block_sum(v: f32, local: u32) -> f32 {
    partial[local] = v;
    workgroupBarrier();
    for (var step = THREADS / 2u; step > 0u; step /= 2u) {
        if (local < step) { partial[local] += partial[local + step]; }
        workgroupBarrier();
    }
    let total = partial[0];
    workgroupBarrier();
    return total;
}

fn score(row: u32) -> f32 {
    var s = 0.0;
    if (KV_F32 == 1u) {
        for (var i = 0u; i < p.k_dim; i++) { s += query[i] * bitcast<f32>(k_cache[row + i]); }
    } else {
        for (var i = 0u; i < p.k_dim / 2u; i++) {
            let k = unpack2x16float(k_cache[row + i]);
            s += query[2u * i] * k.x + query[2u * i + 1u] * k.y;
        }
    }
    s *= p.scale;
    if (p.cap > 0.0) { s = p.cap * tanh(clamp(s / p.cap, -15.0, 15.0)); }
    return s;
}

fn value_at(row: u32, i: u32) -> f32 {
    if (KV_F32 == 1u) { return bitcast<f32>(v_cache[row + i]); }
    let pair = unpack2x16float(v_cache[row + i / 2u]);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

@compute @workgroup_size(128)
fn attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let token = group.y;
    let kv_head = head * p.kv_heads / p.heads;
    let t = batch_token(token);
    let k_words = select(p.k_dim / 2u, p.k_dim, KV_F32 == 1u);
    let v_words = select(p.v_dim / 2u, p.v_dim, KV_F32 == 1u);
    for (var i = local; i < p.k_dim; i += THREADS) { query[i] = q[token * p.q_stride + head * p.k_dim + i]; }
    workgroupBarrier();
    let begin = select(0u, t.position + 1u - min(p.window, t.position + 1u), p.window > 0u);

    var top = NEVER;
    var sum = 0.0;
    if (p.has_sinks == 1u) {
        top = sinks[head];
        sum = 1.0;
    }
    var held: array<f32, 8>; // elements local, local + 128, ... of the output
    for (var first = begin; first <= t.position; first += THREADS) {
        let j = first + local;
        let seen = j <= t.position;
        var s = NEVER;
        if (seen) {
            let page = batch_info[t.pages + p.group + j / PAGE];
            s = score(cache_row(page, p.kv_heads, kv_head, j % PAGE, k_words));
            rows[local] = cache_row(page, p.kv_heads, kv_head, j % PAGE, v_words);
        }
        let next = max(top, block_max(s, local));
        let w = select(0.0, exp(s - next), seen);
        weights[local] = w;
        let fade = exp(top - next);
        sum = sum * fade + block_sum(w, local);
        top = next;
        let count = min(THREADS, t.position + 1u - first);
        for (var i = 0u; i * THREADS + local < p.v_dim; i++) {
            var v = held[i] * fade;
            for (var k = 0u; k < count; k++) { v += weights[k] * value_at(rows[k], i * THREADS + local); }
            held[i] = v;
        }
        workgroupBarrier();
    }
    for (var i = 0u; i * THREADS + local < p.v_dim; i++) {
        out[(token * p.heads + head) * p.v_dim + i * THREADS + local] = held[i] / sum;
    }
}
