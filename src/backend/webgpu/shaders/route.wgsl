// route.wgsl - which experts a token goes to: plan.h, af_op_route, after the router's product.
//
// A workgroup a token. Experts are at most MOST; each thread takes some of them and counts those that come before, so that
// nothing is sorted, and equals fall by their index. Sums run in the order of experts, by every thread alike.
struct Params {
    experts: u32,
    used: u32,
    groups: u32, groups_used: u32,
    biased: u32, // 1: bias; 2: choice_bias behind it
    scale: f32,
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> r: array<f32>;    // (token, experts)
@group(0) @binding(1) var<storage, read> bias: array<f32>; // of r, then of the choice
@group(0) @binding(2) var<storage, read_write> ids: array<f32>;    // (token, used)
@group(0) @binding(3) var<storage, read_write> shares: array<f32>; // (token, used)
override SCORE: u32 = 0u; // 0 softmax, 1 sigmoid, 2 raw
override WEIGH: u32 = 0u; // 0 plain, 1 share, 2 softmax over the chosen
const MOST = 1024u;
const THREADS = 128u;
const LOWEST = -3.4028234e38;
const LEAST_SHARE = 0.00006103515625; // 2^-14

var<workgroup> score: array<f32, MOST>;
var<workgroup> choice: array<f32, MOST>; // first: r
var<workgroup> mark: array<u32, MOST>;   // of groups kept; then of experts chosen

fn score_of(v: f32, top: f32, sum: f32) -> f32 {
    if (SCORE == 0u) { return exp(v - top) / sum; }
    if (SCORE == 1u) { return 1.0 / (1.0 + exp(-v)); }
    return v;
}

fn score_all(local: u32) {
    var top = choice[0];
    var sum = 0.0;
    if (SCORE == 0u) {
        for (var i = 1u; i < p.experts; i++) { top = max(top, choice[i]); }
        for (var i = 0u; i < p.experts; i++) { sum += exp(choice[i] - top); }
    }
    for (var i = local; i < p.experts; i += THREADS) { score[i] = score_of(choice[i], top, sum); }
}

fn choose_by(local: u32) {
    for (var i = local; i < p.experts; i += THREADS) {
        var c = score[i];
        if ((p.biased & 2u) != 0u) { c += bias[(p.biased & 1u) * p.experts + i]; }
        choice[i] = select(LOWEST, c, c > LOWEST);
    }
}

// The sum of the two largest choices of a group.
fn worth(group: u32, size: u32) -> f32 {
    var first = choice[group * size];
    var second = LOWEST;
    for (var i = group * size + 1u; i < (group + 1u) * size; i++) {
        second = max(second, min(first, choice[i]));
        first = max(first, choice[i]);
    }
    return select(first, first + second, size > 1u);
}

fn leave_groups_out(local: u32) {
    let size = p.experts / p.groups;
    for (var g = local; g < p.groups; g += THREADS) {
        let mine = worth(g, size);
        var before = 0u;
        for (var other = 0u; other < p.groups; other++) {
            let v = worth(other, size);
            if (v > mine || (v == mine && other < g)) { before++; }
        }
        mark[g] = select(0u, 1u, before < p.groups_used);
    }
}

// How many of the chosen stand before i.
fn place_of(i: u32) -> u32 {
    var place = 0u;
    for (var j = 0u; j < i; j++) { place += mark[j]; }
    return place;
}

fn share_of(i: u32, top: f32, sum: f32) -> f32 {
    if (WEIGH == 1u) { return score[i] / max(sum, LEAST_SHARE) * p.scale; }
    if (WEIGH == 2u) { return exp(score[i] - top) / sum * p.scale; }
    return score[i] * p.scale;
}

@compute @workgroup_size(128)
fn route(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let token = group.x;
    for (var i = local; i < p.experts; i += THREADS) {
        var v = r[token * p.experts + i];
        if ((p.biased & 1u) != 0u) { v += bias[i]; }
        choice[i] = v;
    }
    workgroupBarrier();
    score_all(local);
    workgroupBarrier();
    choose_by(local);
    workgroupBarrier();
    if (p.groups > 1u) { leave_groups_out(local); }
    workgroupBarrier();
    let size = p.experts / max(p.groups, 1u);
    var out_of_choice = array<bool, 8>();
    for (var i = local; i < p.experts; i += THREADS) {
        out_of_choice[i / THREADS] = p.groups > 1u && mark[i / size] == 0u;
    }
    workgroupBarrier();
    for (var i = local; i < p.experts; i += THREADS) { mark[i] = select(1u, 0u, out_of_choice[i / THREADS]); }
    workgroupBarrier();
    for (var i = local; i < p.experts; i += THREADS) {
        var before = 0u;
        for (var j = 0u; j < p.experts; j++) {
            if (mark[j] == 1u && (choice[j] > choice[i] || (choice[j] == choice[i] && j < i))) { before++; }
        }
        out_of_choice[i / THREADS] = mark[i] == 0u || before >= p.used;
    }
    workgroupBarrier();
    for (var i = local; i < p.experts; i += THREADS) { mark[i] = select(1u, 0u, out_of_choice[i / THREADS]); }
    workgroupBarrier();
    var top = LOWEST;
    var sum = 0.0;
    for (var i = 0u; i < p.experts; i++) {
        if (mark[i] == 1u) { top = max(top, score[i]); }
    }
    for (var i = 0u; i < p.experts; i++) {
        if (mark[i] == 1u) { sum += select(score[i], exp(score[i] - top), WEIGH == 2u); }
    }
    for (var i = local; i < p.experts; i += THREADS) {
        let place = place_of(i);
        if (mark[i] == 0u || place >= p.used) { continue; }
        ids[token * p.used + place] = f32(i);
        shares[token * p.used + place] = share_of(i, top, sum);
    }
}
