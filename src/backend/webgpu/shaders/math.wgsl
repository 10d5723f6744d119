// math.wgsl - what several shaders compute the same way; stands before every shader.
override ACT: u32 = 0u; // 0 SiLU, 1 GELU (tanh form), 2 sigmoid, 3 clamped (of a glu)

fn act(v: f32) -> f32 {
    if (ACT == 0u) { return v / (1.0 + exp(-v)); }
    if (ACT == 2u) { return 1.0 / (1.0 + exp(-v)); }
    let u = clamp(0.7978845608028654 * (v + 0.044715 * v * v * v), -10.0, 10.0);
    return 0.5 * v * (1.0 + tanh(u));
}

// plan.h, af_act: both sides of a gated product.
fn glu(gate: f32, up: f32) -> f32 {
    if (ACT != 3u) { return act(gate) * up; }
    let g = min(gate, 7.0);
    return g / (1.0 + exp(-1.702 * g)) * (clamp(up, -7.0, 7.0) + 1.0);
}

// cap * tanh(v / cap); a cap of 0 is none.
fn soft_cap(v: f32, cap: f32) -> f32 {
    if (cap > 0.0) { return cap * tanh(clamp(v / cap, -15.0, 15.0)); }
    return v;
}
