// math.wgsl - what several shaders compute the same way; stands before every shader.
override ACT: u32 = 0u; // 0 SiLU, 1 GELU (tanh form), 2 sigmoid

fn act(v: f32) -> f32 {
    if (ACT == 0u) { return v / (1.0 + exp(-v)); }
    if (ACT == 2u) { return 1.0 / (1.0 + exp(-v)); }
    let u = clamp(0.7978845608028654 * (v + 0.044715 * v * v * v), -10.0, 10.0);
    return 0.5 * v * (1.0 + tanh(u));
}

// cap * tanh(v / cap); a cap of 0 is none.
fn soft_cap(v: f32, cap: f32) -> f32 {
    if (cap > 0.0) { return cap * tanh(clamp(v / cap, -15.0, 15.0)); }
    return v;
}
