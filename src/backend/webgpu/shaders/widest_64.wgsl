// widest_64.wgsl - the room for a head in prompt_attend.wgsl's workgroup memory.
const WIDEST = 64u;
