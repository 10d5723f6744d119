// widest_32.wgsl - the room for a head in prompt_attend.wgsl's workgroup memory.
const WIDEST = 32u;
