// batch.wgsl - what a shader knows of the batch: one buffer of u32, written by gpu_run.c each step, with seven parts:
//   tokens   four words each: id, or CHOSEN and then the place of what an earlier step chose; position; where the
//            sequence's page tables begin (group g's at + g * table)
//   rows     the tokens whose logits are wanted
//   states   the tokens whose states are wanted
//   tiles    neighbouring tokens of one sequence, for attend.wgsl
//   pages    the page tables
//   runs     of tokens of one sequence (runs.wgsl), for plans with recurrent states
//   turns    (cos, sin) as bits of f32: rope by rope, (token, pair)
// The first part begins at 0; the others where the host's parameters say.
const CHOSEN = 0xffffffffu;
const PAGE = 32u; // tokens in a page (AF_KV_PAGE)

struct Token { id: u32, choice: u32, position: u32, pages: u32 }

fn batch_token(t: u32) -> Token {
    return Token(batch_info[4u * t], batch_info[4u * t + 1u], batch_info[4u * t + 2u], batch_info[4u * t + 3u]);
}

fn turn_at(i: u32) -> vec2<f32> {
    return vec2<f32>(bitcast<f32>(batch_info[2u * i]), bitcast<f32>(batch_info[2u * i + 1u]));
}
