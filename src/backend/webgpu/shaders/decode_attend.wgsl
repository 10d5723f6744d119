// decode_attend.wgsl - attention of a decode step: head norms, rotation, the new key and value into the cache, and the
// scores of a stretch of the context for all query heads that share a key head, in one dispatch.
//
// One workgroup of 256 threads for each (stretch, key head, token). How a context is cut follows from the token's own
// position alone, so that no neighbour changes a bit of its sums: as few times 64 positions a stretch as make STRETCHES of
// them. The one that holds the token's own position stores its key and value first: nobody else reads them this step. Each
// leaves, for every query head, a maximum, a sum and unfinished values; decode_reduce.wgsl joins them.
//
// Latency is what counts here, so loads are wide and do not wait for each other: a thread takes one key for a quarter of
// the heads, sixteen bytes at a time; then two elements of the values of every GROUPS-th position for all heads.
struct Params {
    rotated: u32, adjacent: u32, angles: u32,
    group: u32,     // offset of the cache group's page table in a sequence's
    norms: u32,     // bit 0: q is normed, bit 1: k
    eps: f32,
    q_stride: u32, k_first: u32, v_first: u32, // a token's row in q; where k and v begin in it
    scale: f32,
    cap: f32,       // 0: none
    window: u32,    // 0: everything
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> batch_info: array<u32>;
@group(0) @binding(1) var<storage, read> head_norms: array<f32>; // of q, then of k
@group(0) @binding(2) var<storage, read> q: array<f32>; // (tokens, q_stride): q, k, v
@group(0) @binding(3) var<storage, read_write> k_cache: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> v_cache: array<u32>;
@group(0) @binding(5) var<storage, read_write> parts: array<f32>; // (token, head, stretch): max, sum, V_DIM values

override HEADS: u32 = 4u;
override KV_HEADS: u32 = 1u;
override K_DIM: u32 = 64u;
override Q_PITCH: u32 = 64u;   // from one head of q to the next
override V_DIM: u32 = 64u;
override STRETCHES: u32 = 64u; // places in parts for one head
override GROUPS: u32 = 8u;     // of threads that take positions in turn, each V_DIM / 2 wide
const THREADS = 256u;
const ROW_FLOATS = 256u;
const BLOCK = 64u;
const NEVER = -3.0e38;
var<workgroup> queries: array<vec4<f32>, 512>; // (head of the share, K_DIM / 4)
var<workgroup> scores: array<f32, 1024>;       // (head of the share, BLOCK)
var<workgroup> eighths: array<f32, 128>;       // (head of the share, 8): maxima, then sums, of eight scores
var<workgroup> tops: array<f32, 16>;
var<workgroup> sums: array<f32, 16>;
var<workgroup> fades: array<f32, 16>;
var<workgroup> joined: array<f32, 4096>;       // (group, head of the share, V_DIM); queries on their way before
var<workgroup> k_rows: array<u32, 64>;
var<workgroup> k_scales: array<u32, 64>;
var<workgroup> v_rows: array<u32, 64>;
var<workgroup> v_scales: array<u32, 64>;

fn head_factor(base: u32, local: u32) -> f32 {
    var squares = 0.0;
    for (var i = local; i < K_DIM; i += THREADS) {
        let x = q[base + i];
        squares += x * x;
    }
    return inverseSqrt(workgroup_sum(squares, local) / f32(K_DIM) + p.eps);
}

// Element i of the head at `base` of q, normed and rotated.
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

// An element a thread, then in fours: components of one vector are not for several threads to write.
fn load_queries(token: u32, kv_head: u32, local: u32) {
    let share = HEADS / KV_HEADS;
    let first = token * p.q_stride + kv_head * share * Q_PITCH;
    if ((p.norms & 1u) == 0u) {
        for (var i = local; i < share * K_DIM; i += THREADS) {
            joined[i] = turned(first + i / K_DIM * Q_PITCH, i % K_DIM, 1.0, 0u, false, token) * p.scale;
        }
    } else {
        for (var h = 0u; h < share; h++) {
            let factor = head_factor(first + h * Q_PITCH, local);
            for (var i = local; i < K_DIM; i += THREADS) {
                joined[h * K_DIM + i] = turned(first + h * Q_PITCH, i, factor, 0u, true, token) * p.scale;
            }
        }
    }
    workgroupBarrier();
    for (var i = local; i < share * K_DIM / 4u; i += THREADS) {
        queries[i] = vec4<f32>(joined[4u * i], joined[4u * i + 1u], joined[4u * i + 2u], joined[4u * i + 3u]);
    }
}

// The token's own key and value into the cache.
fn store_new(t: Token, token: u32, kv_head: u32, local: u32) {
    let page = batch_info[t.pages + p.group + t.position / PAGE];
    let slot = t.position % PAGE;
    let base = token * p.q_stride + p.k_first + kv_head * K_DIM;
    var factor = 1.0;
    if ((p.norms & 2u) == 2u) { factor = head_factor(base, local); }
    if (local < K_DIM) { row_values[local] = turned(base, local, factor, K_DIM, (p.norms & 2u) == 2u, token); }
    workgroupBarrier();
    settle_row(K_DIM, local);
    let k_row = cache_row(page, KV_HEADS, kv_head, slot, K_DIM) / 4u;
    let k_scale = cache_scales(page, KV_HEADS, kv_head, slot, K_DIM);
    if (local < row_words(K_DIM) / 4u) {
        let at = 4u * local;
        k_cache[k_row + local] = vec4<u32>(row_word(at), row_word(at + 1u), row_word(at + 2u), row_word(at + 3u));
    }
    if (local == 0u) { // alone: the words may stand in one vector
        for (var i = 0u; i < scale_words(K_DIM); i++) { k_cache[(k_scale + i) / 4u][(k_scale + i) % 4u] = row_scale_word(i); }
    }
    workgroupBarrier();
    if (local < V_DIM) { row_values[local] = q[token * p.q_stride + p.v_first + kv_head * V_DIM + local]; }
    workgroupBarrier();
    settle_row(V_DIM, local);
    let v_row = cache_row(page, KV_HEADS, kv_head, slot, V_DIM);
    let v_scale = cache_scales(page, KV_HEADS, kv_head, slot, V_DIM);
    if (local < row_words(V_DIM)) { v_cache[v_row + local] = row_word(local); }
    if (local < scale_words(V_DIM)) { v_cache[v_scale + local] = row_scale_word(local); }
    storageBarrier();
    workgroupBarrier();
}

// Scores of key `row` for heads quarter, quarter + 4, ... of the share.
fn score(row: u32, scales: u32, quarter: u32, out: ptr<function, vec4<f32>>) {
    let share = HEADS / KV_HEADS;
    var s = vec4<f32>(0.0);
    if (KV == KV_F32) {
        for (var c = 0u; c < K_DIM / 4u; c++) {
            let k = bitcast<vec4<f32>>(k_cache[row + c]);
            for (var h = 0u; h < (share + 3u) / 4u; h++) {
                s[h] += dot(queries[(quarter + 4u * h) * (K_DIM / 4u) + c], k);
            }
        }
    } else if (KV == KV_Q8_0) {
        for (var c = 0u; c < K_DIM / 16u; c++) {
            let at_scale = scales + c / 4u;
            let d = scale_in(k_cache[at_scale / 4u][at_scale % 4u], c / 2u);
            let w = k_cache[row + c];
            let k = array<vec4<f32>, 4>(d * codes_of(w.x), d * codes_of(w.y), d * codes_of(w.z), d * codes_of(w.w));
            for (var h = 0u; h < (share + 3u) / 4u; h++) {
                let at = (quarter + 4u * h) * (K_DIM / 4u) + 4u * c;
                s[h] += dot(queries[at], k[0]) + dot(queries[at + 1u], k[1]) + dot(queries[at + 2u], k[2]) + dot(queries[at + 3u], k[3]);
            }
        }
    } else {
        for (var c = 0u; c < K_DIM / 8u; c++) {
            let w = k_cache[row + c];
            let k0 = vec4<f32>(unpack2x16float(w.x), unpack2x16float(w.y));
            let k1 = vec4<f32>(unpack2x16float(w.z), unpack2x16float(w.w));
            for (var h = 0u; h < (share + 3u) / 4u; h++) {
                let at = (quarter + 4u * h) * (K_DIM / 4u) + 2u * c;
                s[h] += dot(queries[at], k0) + dot(queries[at + 1u], k1);
            }
        }
    }
    *out = s;
}

fn load_rows(t: Token, kv_head: u32, start: u32, count: u32, local: u32) {
    if (local >= BLOCK) { return; }
    let j = start + min(local, count - 1u);
    let page = batch_info[t.pages + p.group + j / PAGE];
    k_rows[local] = cache_row(page, KV_HEADS, kv_head, j % PAGE, K_DIM) / 4u;
    v_rows[local] = cache_row(page, KV_HEADS, kv_head, j % PAGE, V_DIM);
    if (KV == KV_Q8_0) {
        k_scales[local] = cache_scales(page, KV_HEADS, kv_head, j % PAGE, K_DIM);
        v_scales[local] = cache_scales(page, KV_HEADS, kv_head, j % PAGE, V_DIM);
    }
}

fn score_block(count: u32, local: u32) {
    let share = HEADS / KV_HEADS;
    let j = local % BLOCK;
    let quarter = local / BLOCK;
    var s: vec4<f32>;
    score(k_rows[j], k_scales[j], quarter, &s);
    for (var h = 0u; h < (share + 3u) / 4u; h++) {
        if (quarter + 4u * h < share) {
            scores[(quarter + 4u * h) * BLOCK + j] = select(NEVER, soft_cap(s[h], p.cap), j < count);
        }
    }
    workgroupBarrier();
}

// Turns scores into weights against the running maximum, and adds up their sum.
fn fold_block(local: u32) {
    let share = HEADS / KV_HEADS;
    if (local < share * 8u) {
        var top = scores[local * 8u];
        for (var j = 1u; j < 8u; j++) { top = max(top, scores[local * 8u + j]); }
        eighths[local] = top;
    }
    workgroupBarrier();
    if (local < share) {
        var top = tops[local];
        for (var j = 0u; j < 8u; j++) { top = max(top, eighths[local * 8u + j]); }
        fades[local] = exp(tops[local] - top);
        tops[local] = top;
    }
    workgroupBarrier();
    for (var i = local; i < share * BLOCK; i += THREADS) { scores[i] = exp(scores[i] - tops[i / BLOCK]); }
    workgroupBarrier();
    if (local < share * 8u) {
        var sum = 0.0;
        for (var j = 0u; j < 8u; j++) { sum += scores[local * 8u + j]; }
        eighths[local] = sum;
    }
    workgroupBarrier();
    if (local < share) {
        var sum = sums[local] * fades[local];
        for (var j = 0u; j < 8u; j++) { sum += eighths[local * 8u + j]; }
        sums[local] = sum;
    }
}

// Elements 2 lane and 2 lane + 1 of the value at j of the block.
fn value_pair(j: u32, lane: u32) -> vec2<f32> {
    let row = v_rows[j];
    if (KV == KV_Q8_0) {
        let codes = codes_of(v_cache[row + lane / 2u]);
        return select(codes.xy, codes.zw, (lane & 1u) == 1u) * scale_in(v_cache[v_scales[j] + lane / 32u], lane / 16u);
    }
    if (KV == KV_F32) { return vec2<f32>(bitcast<f32>(v_cache[row + 2u * lane]), bitcast<f32>(v_cache[row + 2u * lane + 1u])); }
    return unpack2x16float(v_cache[row + lane]);
}

@compute @workgroup_size(256)
fn decode_attend(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let share = HEADS / KV_HEADS;
    let token = group.z;
    let kv_head = group.y;
    let t = batch_token(token);
    let begin = select(0u, t.position + 1u - min(p.window, t.position + 1u), p.window > 0u);
    let stretch = (t.position / BLOCK + STRETCHES) / STRETCHES * BLOCK; // gpu_batch.c has it too
    let first = group.x * stretch;
    let end = min(first + stretch, t.position + 1u);
    let base = ((token * HEADS + kv_head * share) * STRETCHES + group.x) * (V_DIM + 2u);
    let step = STRETCHES * (V_DIM + 2u); // to the next head's place
    if (end <= begin || first >= end) { // nothing seen here
        if (local < share) {
            parts[base + local * step] = NEVER;
            parts[base + local * step + 1u] = 0.0;
        }
        return;
    }
    load_queries(token, kv_head, local);
    if (end == t.position + 1u) { store_new(t, token, kv_head, local); }
    if (local < share) {
        tops[local] = NEVER;
        sums[local] = 0.0;
    }
    let lane = local % (V_DIM / 2u);
    let part = local / (V_DIM / 2u);
    var held: array<vec2<f32>, 16>;
    for (var start = max(first, begin); start < end; start += BLOCK) {
        let count = min(BLOCK, end - start);
        load_rows(t, kv_head, start, count, local);
        workgroupBarrier();
        score_block(count, local);
        fold_block(local);
        workgroupBarrier();
        if (start > first) {
            for (var h = 0u; h < share; h++) { held[h] *= fades[h]; }
        }
        if (part < GROUPS) {
            for (var j = part; j < BLOCK; j += GROUPS) { // rows past the count repeat the last, their weights are 0
                let value = value_pair(j, lane);
                for (var h = 0u; h < share; h++) { held[h] += scores[h * BLOCK + j] * value; }
            }
        }
        workgroupBarrier();
    }
    if (part < GROUPS) {
        for (var h = 0u; h < share; h++) {
            let at = (part * share + h) * V_DIM + 2u * lane;
            joined[at] = held[h].x;
            joined[at + 1u] = held[h].y;
        }
    }
    workgroupBarrier();
    for (var i = local; i < share * V_DIM; i += THREADS) {
        var x = 0.0;
        for (var g = 0u; g < GROUPS; g++) { x += joined[g * share * V_DIM + i]; }
        parts[base + i / V_DIM * step + 2u + i % V_DIM] = x;
    }
    if (local < share) {
        parts[base + local * step] = tops[local];
        parts[base + local * step + 1u] = sums[local];
    }
}
