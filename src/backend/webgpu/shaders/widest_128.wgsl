// widest_128.wgsl - the room for a head in prompt_attend.wgsl's workgroup memory.
const WIDEST = 128u;
