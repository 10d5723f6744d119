// top.wgsl - the logits of a row that may be among its PARTS best, in no order.
//
// The least of the bests that argmax.wgsl's first pass leaves of PARTS parts is a bound that at least PARTS logits reach,
// and as a rule a few hundred. They are listed; a row with more than ROOM of them only counts.
struct Params { count: u32, rows: u32 }
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read> bests: array<vec2<u32>>; // (row, PARTS) of bits and id
@group(0) @binding(2) var<storage, read_write> tops: array<atomic<u32>>; // (rows) counts, then (row, ROOM) of id and bits
const PARTS = 64u;
override ROOM: u32 = 1u;

@compute @workgroup_size(256)
fn top(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) local: u32) {
    let row = group.y;
    var bound = 3.4e38;
    for (var part = 0u; part < PARTS; part++) { bound = min(bound, bitcast<f32>(bests[row * PARTS + part].x)); }
    for (var i = group.x * 256u + local; i < p.count; i += 256u * PARTS) {
        let v = logits[row * p.count + i];
        if (!(v >= bound)) { continue; }
        let at = atomicAdd(&tops[row], 1u);
        if (at >= ROOM) { continue; }
        let entry = p.rows + 2u * (row * ROOM + at);
        atomicStore(&tops[entry], i);
        atomicStore(&tops[entry + 1u], bitcast<u32>(v));
    }
}
