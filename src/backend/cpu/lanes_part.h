/* lanes_part.h - fewer than sixteen lanes, through memory, where a processor has no masked loads: the text of those
 * functions, included by lanes_avx2.h and lanes_neon.h behind their whole loads and stores. No include guard: it is
 * part of them. */
LANES_FN lanes lanes_load_n(const float *p, size_t n) {
    if (n == 16) return lanes_load(p);
    float whole[16] = {0};
    memcpy(whole, p, n * sizeof *p);
    return lanes_load(whole);
}
LANES_FN void lanes_store_n(float *p, lanes a, size_t n) {
    if (n == 16) {
        lanes_store(p, a);
        return;
    }
    float whole[16];
    lanes_store(whole, a);
    memcpy(p, whole, n * sizeof *p);
}
