// attend.wgsl - attention of one query head over the pages it sees, for a tile of up to eight neighbouring tokens of one
// sequence (plan.h, af_op_attend).
//
// One workgroup of 128 threads for each (head, tile), or for each QUERIES tokens of one where heads are wide. Keys are
// taken 128 at a time: a thread loads one key and scores it for all queries of the tile; the block is folded into running
// maxima and sums (online softmax); then a thread adds up one element of the values for its queries, each value loaded
// once for all of them.
//
// Blocks of keys begin at multiples of 128, and one without a key that a query sees leaves what the query has as it is: so
// a query's sums are the same in any tile.
struct Params {
    group: u32,    // offset of the cache group's page table in a sequence's
    window: u32,   // 0: everything
    has_sinks: u32,
    scale: f32,
    cap: f32,      // 0: none
    q_stride: u32, // of a token's row in q
    tiles: u32,    // where the batch's tiles stand in batch_info: first token, how many, positions of the sequence
    both: u32,     // 1: all positions of the sequence are seen, whatever the query's
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> q: array<f32>;
@group(0) @binding(2) var<storage, read> k_cache: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read> v_cache: array<u32>;
@group(0) @binding(4) var<storage, read> sinks: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<f32>;

override HEADS: u32 = 4u;
override KV_HEADS: u32 = 1u;
override K_ROW: u32 = 64u; // elements of a row of keys: the head, and zeros
override Q_DIM: u32 = 64u; // of the head
override V_ROW: u32 = 64u; // of a row of values; where they are part of the keys, of those
override Q_PITCH: u32 = 64u; // from one head of q to the next
override V_DIM: u32 = 64u;
override QUERIES: u32 = 8u; // a workgroup takes, so that K_ROW fits: 8, 4 or 2
override PARTS: u32 = 2u;   // groups of threads that share the queries, each V_DIM wide: a power of two, at most QUERIES
const THREADS = 128u;
const NEVER = -3.0e38;
var<workgroup> queries: array<vec4<f32>, 512>; // (query, K_ROW / 4)
var<workgroup> weights: array<f32, 1024>;      // (query, key)
var<workgroup> sixteenths: array<f32, 128>;    // (query, 16): maxima, then sums, of eight keys
var<workgroup> tops: array<f32, 8>;
var<workgroup> sums: array<f32, 8>;
var<workgroup> fades: array<f32, 8>;
var<workgroup> v_rows: array<u32, 128>;
var<workgroup> v_scales: array<u32, 128>;

// Four elements a thread at a time: components of one vector are not for several threads to write.
fn load_queries(first: u32, count: u32, head: u32, local: u32) {
    for (var i = local; i < QUERIES * K_ROW / 4u; i += THREADS) {
        let t = i / (K_ROW / 4u);
        let at = 4u * (i % (K_ROW / 4u));
        let base = (first + t) * p.q_stride + head * Q_PITCH + at;
        var v = vec4<f32>(0.0);
        for (var c = 0u; c < 4u; c++) {
            if (t < count && at + c < Q_DIM) { v[c] = q[base + c] * p.scale; }
        }
        queries[i] = v;
    }
}

// Of the key whose row begins at vec4 `row`, its scales at word `scales`.
fn score(row: u32, scales: u32) -> array<f32, 8> {
    var s: array<f32, 8>;
    if (KV == KV_F32) {
        for (var c = 0u; c < K_ROW / 4u; c++) {
            let k = bitcast<vec4<f32>>(k_cache[row + c]);
            for (var t = 0u; t < QUERIES; t++) { s[t] += dot(queries[t * (K_ROW / 4u) + c], k); }
        }
        return s;
    }
    if (KV == KV_Q8_0) {
        for (var c = 0u; c < K_ROW / 16u; c++) {
            let at_scale = scales + c / 4u;
            let d = scale_in(k_cache[at_scale / 4u][at_scale % 4u], c / 2u);
            let w = k_cache[row + c];
            let k = array<vec4<f32>, 4>(d * codes_of(w.x), d * codes_of(w.y), d * codes_of(w.z), d * codes_of(w.w));
            for (var t = 0u; t < QUERIES; t++) {
                let at = t * (K_ROW / 4u) + 4u * c;
                s[t] += dot(queries[at], k[0]) + dot(queries[at + 1u], k[1]) + dot(queries[at + 2u], k[2]) + dot(queries[at + 3u], k[3]);
            }
        }
        return s;
    }
    for (var c = 0u; c < K_ROW / 8u; c++) {
        let w = k_cache[row + c];
        let k0 = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
        let k1 = vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w));
        for (var t = 0u; t < QUERIES; t++) {
            let at = t * (K_ROW / 4u) + 2u * c;
            s[t] += dot(queries[at], k0) + dot(queries[at + 1u], k1);
        }
    }
    return s;
}

fn seen(key: u32, position: u32) -> bool {
    if (p.both == 1u) { return true; }
    return key <= position && (p.window == 0u || position - key < p.window);
}

// Turns scores into weights against the running maxima, and adds up their sums.
fn fold(local: u32) {
    let query = local / 16u;
    let base = query * THREADS + 8u * (local % 16u);
    var top = weights[base];
    for (var j = 1u; j < 8u; j++) { top = max(top, weights[base + j]); }
    sixteenths[local] = top;
    workgroupBarrier();
    if (local < QUERIES) {
        top = tops[local];
        for (var j = 0u; j < 16u; j++) { top = max(top, sixteenths[local * 16u + j]); }
        fades[local] = select(exp(tops[local] - top), 1.0, tops[local] == top);
        tops[local] = top;
    }
    workgroupBarrier();
    var sum = 0.0;
    for (var j = 0u; j < 8u; j++) {
        var w = 0.0;
        if (weights[base + j] > NEVER) { w = exp(weights[base + j] - tops[query]); }
        weights[base + j] = w;
        sum += w;
    }
    sixteenths[local] = sum;
    workgroupBarrier();
    if (local < QUERIES) {
        var total = sums[local] * fades[local];
        for (var j = 0u; j < 16u; j++) { total += sixteenths[local * 16u + j]; }
        sums[local] = total;
    }
}

// Element i of the value of key k.
fn value_at(k: u32, i: u32) -> f32 {
    let row = v_rows[k];
    if (KV == KV_F32) { return bitcast<f32>(v_cache[row + i]); }
    if (KV == KV_Q8_0) {
        return codes_of(v_cache[row + i / 4u])[i % 4u] * scale_in(v_cache[v_scales[k] + i / 64u], i / 32u);
    }
    let pair = unpack2x16float(v_cache[row + i / 2u]);
    return select(pair.x, pair.y, (i & 1u) == 1u);
}

@compute @workgroup_size(128)
fn attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let head = group.x;
    let kv_head = head * KV_HEADS / HEADS;
    let skipped = group.z * QUERIES; // tokens of the tile, which others take
    let first = batch_info[p.tiles + 3u * group.y] + skipped;
    let in_tile = batch_info[p.tiles + 3u * group.y + 1u];
    if (in_tile <= skipped) { return; }
    let count = min(in_tile - skipped, QUERIES);
    let t = batch_token(first);
    let last = select(t.position + count, batch_info[p.tiles + 3u * group.y + 2u], p.both == 1u) - 1u;
    load_queries(first, count, head, local);
    if (local < QUERIES) {
        tops[local] = select(NEVER, sinks[head], p.has_sinks == 1u);
        sums[local] = select(0.0, 1.0, p.has_sinks == 1u);
    }
    workgroupBarrier();
    let begin = select(0u, t.position + 1u - min(p.window, t.position + 1u), p.window > 0u);
    let element = local % min(V_DIM, THREADS);
    let part = local / min(V_DIM, THREADS);
    let mine = QUERIES / PARTS; // queries a thread adds up
    var held: array<f32, 16>;   // (V_DIM over THREADS, query of mine)
    for (var start = begin / THREADS * THREADS; start <= last; start += THREADS) {
        let key = start + local;
        let there = key >= begin && key <= last; // pages before a window may be another's by now
        var s: array<f32, 8>;
        if (there) {
            let page = batch_info[t.pages + p.group + key / PAGE];
            let slot = key % PAGE;
            s = score(cache_row(page, KV_HEADS, kv_head, slot, K_ROW) / 4u, cache_scales(page, KV_HEADS, kv_head, slot, K_ROW));
            v_rows[local] = cache_row(page, KV_HEADS, kv_head, slot, V_ROW);
            v_scales[local] = cache_scales(page, KV_HEADS, kv_head, slot, V_ROW);
        }
        for (var i = 0u; i < QUERIES; i++) {
            weights[i * THREADS + local] = select(NEVER, soft_cap(s[i], p.cap), i < count && there && seen(key, t.position + i));
        }
        workgroupBarrier();
        fold(local);
        workgroupBarrier();
        let first_key = max(begin, start) - start;
        let keys = min(THREADS, last + 1u - start);
        if (part < PARTS) {
            for (var e = 0u; e * THREADS + element < V_DIM; e++) {
                for (var i = 0u; i < mine; i++) { held[mine * e + i] *= fades[part * mine + i]; }
                for (var k = first_key; k < keys; k++) {
                    let v = value_at(k, e * THREADS + element);
                    for (var i = 0u; i < mine; i++) { held[mine * e + i] += weights[(part * mine + i) * THREADS + k] * v; }
                }
            }
        }
        workgroupBarrier();
    }
    if (part >= PARTS) { return; }
    for (var e = 0u; e * THREADS + element < V_DIM; e++) {
        for (var i = 0u; i < mine; i++) {
            let query = part * mine + i;
            if (query < count) {
                out[((first + query) * HEADS + head) * V_DIM + e * THREADS + element] = held[mine * e + i] / sums[query];
            }
        }
    }
}
