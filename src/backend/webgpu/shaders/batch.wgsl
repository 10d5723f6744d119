// batch.wgsl - what a shader knows of a token of the batch, and where its page lies. Written by gpu_run.c each step.
struct Token {
    id: u32,       // or CHOSEN: what an earlier step chose, at choices[choice]
    choice: u32,
    position: u32,
    pages: u32,    // where the sequence's page numbers begin: group g's at pages + g * PAGES
}
const CHOSEN = 0xffffffffu;
const PAGE = 32u; // tokens in a page (AF_KV_PAGE)
