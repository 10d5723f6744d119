/* weigh_lanes.h - weigh.h's loops for registers of WEIGH_BYTES, in functions with WEIGH_TARGET; weigh.c includes it
 * once for each width. LANE(name) makes a name of this width's own.
 */
typedef float LANE(lanes) __attribute__((vector_size(WEIGH_BYTES)));
typedef int32_t LANE(int_lanes) __attribute__((vector_size(WEIGH_BYTES)));

/* exp(x) for x <= 0: x = n ln2 + r with |r| <= ln2 / 2; exp(r) by its Taylor series to r^6. ln2 is subtracted in two
 * parts, so that r keeps its bits. */
WEIGH_TARGET static inline LANE(lanes) LANE(exponential)(LANE(lanes) x) {
    const float log2e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, which then stands in the low bits */
    LANE(int_lanes) normal = x > -87.0f;
    x = (LANE(lanes))((LANE(int_lanes))x & normal);
    LANE(lanes) shifted = x * log2e + shift;
    LANE(lanes) n = shifted - shift;
    LANE(lanes) r = (x - n * ln2_high) - n * ln2_low;
    LANE(lanes) p = r * (1.0f / 720) + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    LANE(int_lanes) power = ((LANE(int_lanes))shifted << 23) + 0x3F800000; /* 2^n: the shift's own bits leave */
    return (LANE(lanes))((LANE(int_lanes))(p * (LANE(lanes))power) & normal);
}

WEIGH_TARGET static void LANE(weigh)(const float *logits, size_t count, float best, float scale, float *out) {
    for (size_t i = 0; i < count; i += sizeof(LANE(lanes)) / sizeof(float)) {
        LANE(lanes) x;
        memcpy(&x, logits + i, sizeof x);
        x = LANE(exponential)((x - best) * scale);
        memcpy(out + i, &x, sizeof x);
    }
}

/* Two sums of four side by side, so that an addition does not wait for the one before. */
WEIGH_TARGET static double LANE(sum)(const float *weights, size_t count) {
    double_lanes even = {0, 0, 0, 0}, odd = even;
    for (size_t i = 0; i < count; i += 8) {
        four v[2];
        memcpy(v, weights + i, sizeof v);
        even += __builtin_convertvector(v[0], double_lanes);
        odd += __builtin_convertvector(v[1], double_lanes);
    }
    even += odd;
    return (even[0] + even[1]) + (even[2] + even[3]);
}

#undef WEIGH_BYTES
#undef WEIGH_TARGET
#undef LANE
