// draw.wgsl - draws a row's token from the best that top.wgsl listed, as backend.h's af_draw says.
//
// A workgroup a row, four listed logits a thread. Each finds its rank by being compared with all others, four at a time,
// which puts the top_k best in order; a thread each then weighs one and sums over those before it. A few hundred logits,
// and top_k of 64 at most: the sums are short loops over shared memory. Equal logits stand in order of ids. A row that is
// not to be drawn from its list (top_k 0, or WHOLE: pick.wgsl), or whose list did not hold all, keeps what argmax.wgsl
// chose.
struct Params { first_choice: u32, rows: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> tops: array<u32>;        // top.wgsl
@group(0) @binding(1) var<storage, read> draws: array<vec4<u32>>; // (rows, 2): top_k, scale, top_p, min_p; unit
@group(0) @binding(2) var<storage, read_write> choices: array<u32>;
const ROOM = 1024u; // of top.wgsl's list
const MOST = 64u;   // AF_TOP_MOST
const NONE = 0xffffffffu; // the id of what is not there
const WHOLE = 0xffffffffu; // top_k
var<workgroup> ids: array<vec4<u32>, ROOM / 4u>;
var<workgroup> logits: array<vec4<f32>, ROOM / 4u>;
var<workgroup> best_ids: array<u32, MOST>;
var<workgroup> best: array<f32, MOST>;
var<workgroup> weights: array<f32, MOST>;
var<workgroup> kept: array<f32, MOST>;
var<workgroup> chosen: atomic<u32>;

fn rank_of(logit: f32, id: u32, fours: u32) -> u32 {
    var before = vec4<u32>();
    for (var j = 0u; j < fours; j++) {
        let others = logits[j];
        let first = (others > vec4<f32>(logit)) | ((others == vec4<f32>(logit)) & (ids[j] < vec4<u32>(id)));
        before += select(vec4<u32>(), vec4<u32>(1u), first);
    }
    return before.x + before.y + before.z + before.w;
}

@compute @workgroup_size(256)
fn draw(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.y;
    let how = draws[2u * row];
    let unit = bitcast<f32>(draws[2u * row + 1u].x);
    let count = tops[row];
    if (how.x == 0u || how.x == WHOLE || count > ROOM) { return; }
    if (local == 0u) { atomicStore(&chosen, 0u); }
    var own = vec4<f32>(-3.4e38);
    var own_ids = vec4<u32>(NONE);
    for (var i = 0u; i < 4u && 4u * local + i < count; i++) {
        let entry = p.rows + 2u * (row * ROOM + 4u * local + i);
        own_ids[i] = tops[entry];
        own[i] = bitcast<f32>(tops[entry + 1u]);
    }
    ids[local] = own_ids;
    logits[local] = own;
    workgroupBarrier();
    for (var i = 0u; i < 4u && 4u * local + i < count; i++) {
        let rank = rank_of(own[i], own_ids[i], (count + 3u) / 4u);
        if (rank < min(how.x, MOST)) {
            best[rank] = own[i];
            best_ids[rank] = own_ids[i];
        }
    }
    workgroupBarrier();
    if (local < MOST) {
        weights[local] = select(0.0, exp((best[local] - best[0]) * bitcast<f32>(how.y)), local < min(count, how.x));
    }
    workgroupBarrier();
    if (local < MOST) {
        var before = 0.0;
        var all = 0.0;
        for (var j = 0u; j < MOST; j++) {
            before += select(0.0, weights[j], j < local);
            all += weights[j];
        }
        let stays = before < bitcast<f32>(how.z) * all && weights[local] >= bitcast<f32>(how.w);
        kept[local] = select(0.0, weights[local], stays);
    }
    workgroupBarrier();
    if (local < MOST && kept[local] > 0.0) {
        var below = 0.0;
        var all = 0.0;
        for (var j = 0u; j < MOST; j++) {
            below += select(0.0, kept[j], best_ids[j] < best_ids[local]);
            all += kept[j];
        }
        if (below <= unit * all) { atomicMax(&chosen, best_ids[local]); }
    }
    workgroupBarrier();
    if (local == 0u) { choices[p.first_choice + row] = atomicLoad(&chosen); }
}
