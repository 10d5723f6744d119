// runs.wgsl - the batch's tokens as runs of one sequence each, for operations that pass a state from token to token:
// three words a run in batch_info (batch.wgsl): its first token, how many, its slot of recurrent states.
struct Run { first: u32, count: u32, slot: u32, begins: bool } // begins: at position 0, where states are zeros

fn batch_run(runs: u32, r: u32) -> Run {
    let at = runs + 3u * r;
    let first = batch_info[at];
    return Run(first, batch_info[at + 1u], batch_info[at + 2u], batch_token(first).position == 0u);
}
