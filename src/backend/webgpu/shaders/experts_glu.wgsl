// experts_glu.wgsl - the hidden row of a pair of a token and an expert, from its gate and up; as f32, as a packet, or both.
struct Params {
    width: u32,
    stride: u32,   // of y
    packet: u32,   // stride of next, in vec4
    quantize: u32, // 1: write packets
    plain: u32,    // 1: write f32
}
var<immediate> p: Params;
@group(0) @binding(0) var<storage, read> y: array<f32>; // (pair, stride): gate, then up
@group(0) @binding(1) var<storage, read_write> out: array<f32>;  // (pair, width)
@group(0) @binding(2) var<storage, read_write> next: array<u32>; // packets
const THREADS = 256u;

@compute @workgroup_size(256)
fn experts_glu(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
               @builtin(local_invocation_index) local: u32) {
    let pair = group.y * groups.x + group.x;
    for (var base = 0u; base < p.width; base += THREADS) {
        let i = base + local;
        var v = 0.0;
        if (i < p.width) {
            v = glu(y[pair * p.stride + i], y[pair * p.stride + p.width + i]);
            if (p.plain == 1u) { out[pair * p.width + i] = v; }
        }
        if (p.quantize == 1u) { write_packet(4u * pair * p.packet, p.width / 32u, i, v, i < p.width, local); }
    }
}
