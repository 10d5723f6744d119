// linear_few.wgsl - a quantized matrix times a few tokens of prompts, to the bits of linear_mat.wgsl.
//
// A token's product may not depend on how many others are in the batch, so an output's blocks are added up by one thread,
// from the first to the last, as there; linear_vec.wgsl, which divides a row among lanes, is another order. What is left to
// share out are outputs: a workgroup makes 16 rows by 8 tokens, a thread each. In a step of eight blocks every thread
// unpacks one block of a row to workgroup memory, neighbours neighbouring ones, while the next step's is on its way.
// Bound: latency, for the few workgroups of a small matrix; workgroup memory for a large one.

const ROWS = 16u;
const TOKENS = 8u;
const STEP = 8u;           // blocks: ROWS * STEP threads stage one of the matrix, TOKENS * STEP also one of a token
const QUANTS = 17u;        // vec4 of a row or a token in a step: two a block, one so that rows fall to different banks
const SCALES = 9u;         // likewise
var<workgroup> w_quants: array<vec4<u32>, 272>; // ROWS * QUANTS
var<workgroup> x_quants: array<vec4<u32>, 136>; // TOKENS * QUANTS
var<workgroup> w_scales: array<vec4<f32>, 144>; // ROWS * SCALES
var<workgroup> x_scales: array<vec4<f32>, 72>;  // TOKENS * SCALES

// A block of the matrix or of a token on its way to workgroup memory.
struct Staged { q: Quants, c: vec4<f32> }

fn load_weights(row: u32, block: u32) -> Staged {
    let at = min(row, p.rows - 1u) * p.blocks + min(block, p.blocks - 1u);
    let place = Place(p.low, p.high, p.scale);
    return Staged(load_quants(place, at), load_scales(place, at));
}

fn load_acts(token: u32, block: u32) -> Staged {
    let x = min(token, p.tokens - 1u) * p.packet;
    let at = min(block, p.blocks - 1u);
    return Staged(Quants(acts[x + 2u * at], acts[x + 2u * at + 1u]), bitcast<vec4<f32>>(acts[x + 2u * p.blocks + at]));
}

@compute @workgroup_size(128)
fn linear_few(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
              @builtin(local_invocation_index) local: u32) {
    let row0 = (group.x + group.y * groups.x) * ROWS;
    let token0 = group.z * TOKENS;
    let line = local / STEP; // of the matrix or of tokens, that this thread stages
    let mine = local % STEP;
    let r = local % ROWS;
    let t = local / ROWS;
    let wanted = token0 + t < p.tokens; // by whole subgroups, the others of which rest
    var w = load_weights(row0 + line, mine);
    var x: Staged;
    if (line < TOKENS) { x = load_acts(token0 + line, mine); }
    var sum = 0.0;
    for (var base = 0u; base < p.blocks; base += STEP) {
        w_quants[line * QUANTS + 2u * mine] = w.q.a;
        w_quants[line * QUANTS + 2u * mine + 1u] = w.q.b;
        w_scales[line * SCALES + mine] = w.c;
        if (line < TOKENS) {
            x_quants[line * QUANTS + 2u * mine] = x.q.a;
            x_quants[line * QUANTS + 2u * mine + 1u] = x.q.b;
            x_scales[line * SCALES + mine] = x.c;
        }
        workgroupBarrier();
        w = load_weights(row0 + line, base + STEP + mine);
        if (line < TOKENS) { x = load_acts(token0 + line, base + STEP + mine); }
        for (var i = 0u; i < STEP && wanted; i++) {
            let wq = r * QUANTS + 2u * i;
            let xq = t * QUANTS + 2u * i;
            let dot = block_dot(Quants(w_quants[wq], w_quants[wq + 1u]), w_scales[r * SCALES + i], x_quants[xq],
                                x_quants[xq + 1u], x_scales[t * SCALES + i]);
            sum = select(sum, sum + dot, base + i < p.blocks);
        }
        workgroupBarrier();
    }
    if (wanted && row0 + r < p.rows) { y[(token0 + t) * p.stride + p.first_row + row0 + r] = sum; }
}
