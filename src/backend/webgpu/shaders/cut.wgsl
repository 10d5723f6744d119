// cut.wgsl - what spread.wgsl, weigh.wgsl and pick.wgsl know of a row whose token is drawn from all of it, as backend.h's
// af_draw says; above all, where top_p cuts.
//
// A weight is exp(-d), d = (best - logit) * scale. What weighs least is found without sorting, in two looks: spread.wgsl sums
// the weights of each 64th of d, find_cut sees in which the sum passes top_p, and the same again for 1024ths of that: a
// 65,536th of d seldom holds a second logit. Weights beyond 16, of a ten-millionth of the best, are one bin.
struct Params { count: u32, part: u32, first_choice: u32 } // logits of a row, and of a part
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bests: array<vec2<u32>>; // argmax.wgsl: (row, PARTS) of bits and id
@group(0) @binding(2) var<storage, read> draws: array<vec4<u32>>; // draw.wgsl
@group(0) @binding(3) var<storage, read_write> spreads: array<atomic<u32>>; // (row, 2, BINS), zeros before and after
const PARTS = 64u;
const BINS = 1024u;
const WHOLE = 0xffffffffu; // top_k of a row that is drawn from whole
const NOTHING = 87.0;      // exp(-d) of more is no normal float
var<workgroup> masses: array<f32, 256>;
var<workgroup> passed: atomic<u32>;

struct Row { number: u32, best: f32, scale: f32, top_p: f32, min_p: f32, unit: f32 }

fn row_of(number: u32) -> Row {
    var best = -3.4e38;
    for (var i = 0u; i < PARTS; i++) { best = max(best, bitcast<f32>(bests[number * PARTS + i].x)); }
    let how = bitcast<vec4<f32>>(draws[2u * number]);
    return Row(number, best, how.y, how.z, how.w, bitcast<f32>(draws[2u * number + 1u].x));
}

// d of a logit; NOTHING for what is no number.
fn depth(row: Row, i: u32) -> f32 {
    let d = (row.best - logits[row.number * p.count + i]) * row.scale;
    return select(NOTHING, d, d >= 0.0 && d < NOTHING);
}

fn sum_before(end: u32) -> f32 {
    var sum = 0.0;
    for (var i = 0u; i < end; i++) { sum += masses[i]; }
    return sum;
}

struct Look { level: u32, start: f32, width: f32 } // bins of `width` from d = start on

fn bin_of(look: Look, d: f32) -> u32 { return min(u32((d - look.start) / look.width), BINS - 1u); }

fn bin_depth(look: Look, bin: u32) -> f32 { return look.start + f32(bin) * look.width; }

fn bin_mass(row: u32, look: Look, bin: u32) -> f32 {
    return f32(atomicLoad(&spreads[(2u * row + look.level) * BINS + bin])) * exp(-bin_depth(look, bin));
}

struct Cut { bin: u32, goal: f32 } // the last bin that is kept; how much of it is to be

// A share of the sum is to be kept, or so much of it. For the whole workgroup: four bins a thread.
fn find_cut(row: u32, look: Look, share: f32, amount: f32, local: u32) -> Cut {
    var mass = 0.0;
    for (var i = 0u; i < 4u; i++) { mass += bin_mass(row, look, 4u * local + i); }
    workgroupBarrier();
    if (local == 0u) { atomicStore(&passed, 0u); }
    masses[local] = mass;
    workgroupBarrier();
    let goal = share * sum_before(256u) + amount;
    if (mass > 0.0 && sum_before(local) < goal) { atomicMax(&passed, local); }
    workgroupBarrier();
    let four = atomicLoad(&passed);
    var before = sum_before(four);
    var cut = Cut(4u * four, goal - before);
    for (var i = 0u; i < 4u; i++) {
        let next = bin_mass(row, look, 4u * four + i);
        if (next > 0.0 && before < goal) { cut = Cut(4u * four + i, goal - before); }
        before += next;
    }
    return cut;
}

fn first_look() -> Look { return Look(0u, 0.0, 1.0 / 64.0); }

fn second_look(first: Cut) -> Look { return Look(1u, bin_depth(first_look(), first.bin), 1.0 / 65536.0); }

// What is kept of a row has a smaller d.
fn limit_of(row: Row, local: u32) -> f32 {
    if (row.top_p >= 1.0) { return NOTHING; }
    let first = find_cut(row.number, first_look(), row.top_p, 0.0, local);
    let look = second_look(first);
    let second = find_cut(row.number, look, 0.0, first.goal, local);
    return select(bin_depth(look, second.bin + 1u), NOTHING, first.bin == BINS - 1u);
}

fn weight(row: Row, i: u32, limit: f32) -> f32 {
    let d = depth(row, i);
    let w = exp(-d);
    return select(0.0, w, d < limit && w >= row.min_p);
}
