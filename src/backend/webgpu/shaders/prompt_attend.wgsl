// prompt_attend.wgsl - attention of one query head for a tile of up to 64 neighbouring tokens of one sequence, by matrices
// of subgroups (plan.h, af_op_attend).
//
// One workgroup of four subgroups for each (head, tile); a subgroup has 16 of the tokens. Keys are taken 64 at a time,
// twice: first only for the largest score of each token, then for weights and sums. So no sum of values is ever
// scaled, which matrices of subgroups cannot do row by row. Two threads share a token's row of scores. Blocks of keys begin
// at multiples of 64, so that a token's sums are the same in any tile.
//
// A query rounded to f16 would turn into errors of its scores, and those of the weights, in proportion to the scores. So
// it is two f16, its first bits and what is left; for the largest score the first will do, as weights are relative to it.
struct Params {
    group: u32,    // offset of the cache group's page table in a sequence's
    window: u32,   // 0: everything
    has_sinks: u32,
    scale: f32,
    cap: f32,      // 0: none
    q_stride: u32, // of a token's row in q
    tiles: u32,    // where the batch's wide tiles stand in batch_info: first token, how many, positions of the sequence
    both: u32,     // 1: all positions of the sequence are seen, whatever the query's
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> v_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override HEADS: u32 = 4u;
override KV_HEADS: u32 = 1u;
override K_DIM: u32 = 64u; // multiples of 16, up to WIDEST
override V_DIM: u32 = 64u;
// WIDEST, the room for K_DIM and V_DIM, is in a file before this one: workgroup memory that matrices are loaded from takes
// no override for its size.
const ROW = WIDEST / 4u + 2u; // fours from row to row of queries, keys or values in the tile
const WEIGHTS = 64u * ROW;    // where the weights begin in the tile, behind them
const THREADS = 128u;
const KEYS = 64u;
const WEIGHT_ROW = 18u;
const STRIP_ROW = 68u;
const NEVER = -3.0e38;
var<workgroup> tile: array<vec4<f16>, 64u * (ROW + WEIGHT_ROW)>;
var<workgroup> strip: array<f32, 4352>; // scores (token, key), then values; 64 * STRIP_ROW
var<workgroup> pairs: array<f32, 128>;  // what the two threads of a token have

fn store_eight(at: u32, v: vec4<u32>) {
    tile[at] = four_halves(v.xy);
    tile[at + 1u] = four_halves(v.zw);
}

// Queries cut to f16, by their bits, because a compiler may take a conversion to f16 and back for nothing; or, `rest`, what
// that leaves.
fn stage_queries(first: u32, count: u32, head: u32, rest: bool, local: u32) {
    let fours = K_DIM / 4u;
    for (var i = local; i < KEYS * fours; i += THREADS) {
        let t = i / fours;
        let from_ = (first + t) * p.q_stride + head * K_DIM + i % fours * 4u;
        var v = vec4<f32>();
        if (t < count) { v = vec4<f32>(q[from_], q[from_ + 1u], q[from_ + 2u], q[from_ + 3u]) * p.scale; }
        let cut = bitcast<vec4<f32>>(bitcast<vec4<u32>>(v) & vec4<u32>(0xffffe000u));
        v = select(cut, v - cut, rest);
        tile[t * ROW + i % fours] = vec4<f16>(v);
    }
}

// Keys from `start` on; zeros before `begin`, where pages may be another sequence's by now, and behind the last.
fn stage_keys(pages: u32, start: u32, begin: u32, last: u32, kv_head: u32, local: u32) {
    const zeros = vec4<u32>();
    let eights = K_DIM / 8u;
    for (var i = local; i < KEYS * eights; i += THREADS) {
        let key = start + i / eights;
        var v = zeros;
        if (key >= begin && key <= last) { v = k_cache[cache_row(batch_info[pages + key / PAGE], KV_HEADS, kv_head, key % PAGE, 8u * eights) / 4u + i % eights]; }
        store_eight(i / eights * ROW + i % eights * 2u, v);
    }
}

fn stage_values(pages: u32, start: u32, begin: u32, last: u32, kv_head: u32, local: u32) {
    const zeros = vec4<u32>();
    let eights = V_DIM / 8u;
    for (var i = local; i < KEYS * eights; i += THREADS) {
        let key = start + i / eights;
        var v = zeros;
        if (key >= begin && key <= last) { v = v_cache[cache_row(batch_info[pages + key / PAGE], KV_HEADS, kv_head, key % PAGE, 8u * eights) / 4u + i % eights]; }
        store_eight(i / eights * ROW + i % eights * 2u, v);
    }
}

fn seen(key: u32, position: u32, last: u32) -> bool {
    if (p.both == 1u) { return key <= last; }
    return key <= position && (p.window == 0u || position - key < p.window);
}

// A subgroup's sixteen queries, sixteen elements each.
struct Queries { a: Left, b: Left, c: Left, d: Left, e: Left, f: Left, g: Left, h: Left }

fn load_queries(at: u32) -> Queries {
    var q: Queries;
    q.a = load_left(at, ROW);
    if (K_DIM > 16u) { q.b = load_left(at + 4u, ROW); }
    if (K_DIM > 32u) { q.c = load_left(at + 8u, ROW); }
    if (K_DIM > 48u) { q.d = load_left(at + 12u, ROW); }
    if (K_DIM > 64u) { q.e = load_left(at + 16u, ROW); }
    if (K_DIM > 80u) { q.f = load_left(at + 20u, ROW); }
    if (K_DIM > 96u) { q.g = load_left(at + 24u, ROW); }
    if (K_DIM > 112u) { q.h = load_left(at + 28u, ROW); }
    return q;
}

// `sum` and sixteen keys' scores for them.
fn score_keys(q: Queries, key: u32, sum: Sum) -> Sum {
    let at = key * ROW;
    var s = multiply_add(q.a, load_right_columns(at, ROW), sum);
    if (K_DIM > 16u) { s = multiply_add(q.b, load_right_columns(at + 4u, ROW), s); }
    if (K_DIM > 32u) { s = multiply_add(q.c, load_right_columns(at + 8u, ROW), s); }
    if (K_DIM > 48u) { s = multiply_add(q.d, load_right_columns(at + 12u, ROW), s); }
    if (K_DIM > 64u) { s = multiply_add(q.e, load_right_columns(at + 16u, ROW), s); }
    if (K_DIM > 80u) { s = multiply_add(q.f, load_right_columns(at + 20u, ROW), s); }
    if (K_DIM > 96u) { s = multiply_add(q.g, load_right_columns(at + 24u, ROW), s); }
    if (K_DIM > 112u) { s = multiply_add(q.h, load_right_columns(at + 28u, ROW), s); }
    return s;
}

// Near enough for the largest score.
fn score_block(q: Queries, at: u32) {
    var none: Sum;
    store_sum(score_keys(q, 0u, none), at, STRIP_ROW);
    store_sum(score_keys(q, 16u, none), at + 16u, STRIP_ROW);
    store_sum(score_keys(q, 32u, none), at + 32u, STRIP_ROW);
    store_sum(score_keys(q, 48u, none), at + 48u, STRIP_ROW);
}

fn score_block_finely(q: Queries, rest: Queries, at: u32) {
    var none: Sum;
    store_sum(score_keys(q, 0u, score_keys(rest, 0u, none)), at, STRIP_ROW);
    store_sum(score_keys(q, 16u, score_keys(rest, 16u, none)), at + 16u, STRIP_ROW);
    store_sum(score_keys(q, 32u, score_keys(rest, 32u, none)), at + 32u, STRIP_ROW);
    store_sum(score_keys(q, 48u, score_keys(rest, 48u, none)), at + 48u, STRIP_ROW);
}

// The weights of four keys, whose scores begin at strip[at].
fn weights_of(key: u32, at: u32, position: u32, last: u32, top: f32) -> vec4<f32> {
    var w: vec4<f32>;
    if (seen(key, position, last)) { w.x = exp(soft_cap(strip[at], p.cap) - top); }
    if (seen(key + 1u, position, last)) { w.y = exp(soft_cap(strip[at + 1u], p.cap) - top); }
    if (seen(key + 2u, position, last)) { w.z = exp(soft_cap(strip[at + 2u], p.cap) - top); }
    if (seen(key + 3u, position, last)) { w.w = exp(soft_cap(strip[at + 3u], p.cap) - top); }
    return w;
}

// Sixteen elements of the values of all 64 keys, weighted.
fn add_values(four: u32, w0: Left, w1: Left, w2: Left, w3: Left, sum: Sum) -> Sum {
    let a = multiply_add(w0, load_right_rows(four, ROW), sum);
    let b = multiply_add(w1, load_right_rows(16u * ROW + four, ROW), a);
    let c = multiply_add(w2, load_right_rows(32u * ROW + four, ROW), b);
    return multiply_add(w3, load_right_rows(48u * ROW + four, ROW), c);
}

// Elements from `begin` on, which lie in `strip`, to the output.
fn write_values(begin: u32, first: u32, count: u32, head: u32, local: u32) {
    workgroupBarrier();
    let width = min(64u, V_DIM - begin);
    for (var i = local; i < 64u * width; i += THREADS) {
        let t = i / width;
        let e = i % width;
        if (t < count) {
            out[((first + t) * HEADS + head) * V_DIM + begin + e] = strip[t * STRIP_ROW + e] / (pairs[2u * t] + pairs[2u * t + 1u]);
        }
    }
    workgroupBarrier();
}

@compute @workgroup_size(128)
fn prompt_attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    lane = local % 32u;
    let subgroup = local / 32u;
    let head = group.x;
    let kv_head = head * KV_HEADS / HEADS;
    let tile_at = p.tiles + 3u * group.y;
    let first = batch_info[tile_at];
    let count = batch_info[tile_at + 1u];
    let t = batch_token(first);
    let pages = t.pages + p.group;
    let last = select(t.position + count, batch_info[tile_at + 2u], p.both == 1u) - 1u;
    let begin = select(0u, t.position + 1u - min(p.window, t.position + 1u), p.window > 0u);
    let mine = subgroup * 16u;

    stage_queries(first, count, head, false, local);
    workgroupBarrier();
    let queries = load_queries(mine * ROW);
    workgroupBarrier();
    stage_queries(first, count, head, true, local);
    workgroupBarrier();
    let rest = load_queries(mine * ROW);
    workgroupBarrier();

    // A thread's token and which half of the keys of a block it looks at.
    let row = local / 2u;
    let half = local % 2u * 32u;
    let position = t.position + row;
    let scores = row * STRIP_ROW + half;
    var top = select(NEVER, sinks[head], p.has_sinks == 1u);
    for (var start = begin / KEYS * KEYS; start <= last; start += KEYS) {
        stage_keys(pages, start, begin, last, kv_head, local);
        workgroupBarrier();
        score_block(queries, mine * STRIP_ROW);
        workgroupBarrier();
        for (var k = 0u; k < 32u; k++) {
            if (seen(start + half + k, position, last)) { top = max(top, soft_cap(strip[scores + k], p.cap)); }
        }
    }
    pairs[local] = top;
    workgroupBarrier();
    top = max(pairs[2u * row], pairs[2u * row + 1u]);
    workgroupBarrier();

    var sum = select(0.0, exp(sinks[head] - top), p.has_sinks == 1u && half == 0u);
    var o0: Sum; var o1: Sum; var o2: Sum; var o3: Sum;
    var o4: Sum; var o5: Sum; var o6: Sum; var o7: Sum;
    for (var start = begin / KEYS * KEYS; start <= last; start += KEYS) {
        stage_keys(pages, start, begin, last, kv_head, local);
        workgroupBarrier();
        score_block_finely(queries, rest, mine * STRIP_ROW);
        workgroupBarrier();
        stage_values(pages, start, begin, last, kv_head, local);
        for (var k = 0u; k < 32u; k += 4u) {
            let w = vec4<f16>(weights_of(start + half + k, scores + k, position, last, top));
            tile[WEIGHTS + row * WEIGHT_ROW + (half + k) / 4u] = w;
            sum += dot(vec4<f32>(w), vec4<f32>(1.0));
        }
        workgroupBarrier();
        let at = WEIGHTS + mine * WEIGHT_ROW;
        let w0 = load_left(at, WEIGHT_ROW);
        let w1 = load_left(at + 4u, WEIGHT_ROW);
        let w2 = load_left(at + 8u, WEIGHT_ROW);
        let w3 = load_left(at + 12u, WEIGHT_ROW);
        o0 = add_values(0u, w0, w1, w2, w3, o0);
        if (V_DIM > 16u) { o1 = add_values(4u, w0, w1, w2, w3, o1); }
        if (V_DIM > 32u) { o2 = add_values(8u, w0, w1, w2, w3, o2); }
        if (V_DIM > 48u) { o3 = add_values(12u, w0, w1, w2, w3, o3); }
        if (V_DIM > 64u) { o4 = add_values(16u, w0, w1, w2, w3, o4); }
        if (V_DIM > 80u) { o5 = add_values(20u, w0, w1, w2, w3, o5); }
        if (V_DIM > 96u) { o6 = add_values(24u, w0, w1, w2, w3, o6); }
        if (V_DIM > 112u) { o7 = add_values(28u, w0, w1, w2, w3, o7); }
        workgroupBarrier();
    }
    pairs[local] = sum;
    store_sum(o0, mine * STRIP_ROW, STRIP_ROW);
    if (V_DIM > 16u) { store_sum(o1, mine * STRIP_ROW + 16u, STRIP_ROW); }
    if (V_DIM > 32u) { store_sum(o2, mine * STRIP_ROW + 32u, STRIP_ROW); }
    if (V_DIM > 48u) { store_sum(o3, mine * STRIP_ROW + 48u, STRIP_ROW); }
    write_values(0u, first, count, head, local);
    if (V_DIM > 64u) {
        store_sum(o4, mine * STRIP_ROW, STRIP_ROW);
        if (V_DIM > 80u) { store_sum(o5, mine * STRIP_ROW + 16u, STRIP_ROW); }
        if (V_DIM > 96u) { store_sum(o6, mine * STRIP_ROW + 32u, STRIP_ROW); }
        if (V_DIM > 112u) { store_sum(o7, mine * STRIP_ROW + 48u, STRIP_ROW); }
        write_values(64u, first, count, head, local);
    }
}
