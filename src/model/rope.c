/* rope.c - rotary frequencies: every scaling of rope.scaling.* becomes a frequency for each pair and one magnitude, so
 * that kernels know one rotation only (plan.h, af_rope).
 *
 * Sources: RoFormer (arXiv 2104.09864) for the angles; linear interpolation (arXiv 2306.15595); YaRN (arXiv 2309.00071)
 * for the ramp and the attention factor; LongRoPE (arXiv 2402.13753) for the two sets of factors. The llama3 divisors
 * come ready made in rope_freqs.weight.
 */
#include "model/binder.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PI             3.14159265358979323846
#define MOST_EXTENSION 32

typedef enum rope_scaling { SCALING_NONE, SCALING_LINEAR, SCALING_YARN, SCALING_LONGROPE } rope_scaling;

/* The kind of scaling and its factor; a factor without a type means linear. */
static rope_scaling scaling_kind(af_binder *b, double *factor) {
    *factor = (double)af_bind_f32_or(b, "rope.scaling.factor", 1.0f);
    if (!(*factor > 0.0)) {
        af_bind_fail(b, AF_EFORMAT, "%.*s.rope.scaling.factor: found %g, expected a number above 0", (int)b->arch.n,
                     b->arch.p, *factor);
        *factor = 1.0;
    }
    char key[96];
    snprintf(key, sizeof key, "%.*s.rope.scaling.type", (int)b->arch.n, b->arch.p);
    af_slice type;
    if (!af_gguf_string(b->file, key, &type)) return SCALING_LINEAR;
    if (af_slice_is(type, "none")) return SCALING_NONE;
    if (af_slice_is(type, "linear")) return SCALING_LINEAR;
    if (af_slice_is(type, "yarn")) return SCALING_YARN;
    if (af_slice_is(type, "longrope")) return SCALING_LONGROPE;
    af_bind_fail(b, AF_EUNSUPPORTED, "%s: found \"%.*s\", known are none, linear, yarn, longrope", key, (int)type.n,
                 type.p);
    return SCALING_NONE;
}

/* The (fractional) pair that makes `turns` full turns over the original context. */
static double pair_of_turns(double turns, double base, double rotated, double original) {
    return rotated * log(original / (turns * 2.0 * PI)) / (2.0 * log(base));
}

static uint32_t original_context(af_binder *b, const af_hparams *h) {
    return af_bind_u32_or(b, "rope.scaling.original_context_length", h->context, 1, 1u << 30);
}

/* YaRN: high frequencies keep their angle, low ones are interpolated, a ramp between. */
static void apply_yarn(af_binder *b, const af_hparams *h, float base, double factor, float *inv_freq, af_rope *rope) {
    const double original = (double)original_context(b, h), turned = (double)rope->rotated;
    const double low = fmax(0.0, floor(pair_of_turns((double)h->yarn_fast, (double)base, turned, original)));
    const double high = fmin(turned - 1.0, ceil(pair_of_turns((double)h->yarn_slow, (double)base, turned, original)));
    for (uint32_t i = 0; i < rope->rotated / 2; i++) {
        const double ramp = fmin(1.0, fmax(0.0, ((double)i - low) / fmax(0.001, high - low)));
        const double kept = 1.0 - ramp;
        inv_freq[i] = (float)((double)inv_freq[i] * (kept + (1.0 - kept) / factor));
    }
    const double log_multiplier = (double)af_bind_f32_or(b, "rope.scaling.yarn_log_multiplier", 0.0f);
    const double spread = log(factor);
    rope->magnitude = (float)((1.0 + 0.1 * spread) / (1.0 + 0.1 * log_multiplier * spread));
}

static void apply_divisors(const float *divisors, uint32_t pairs, float *inv_freq) {
    for (uint32_t i = 0; divisors && i < pairs; i++) inv_freq[i] /= divisors[i];
}

/* Phi's factors: which of the two sets is decided once, by the context the model is opened with. Both are looked at, so
 * that a file with a wrong one is refused in every context. */
static const float *long_or_short(af_binder *b, const af_hparams *h, uint32_t pairs) {
    const uint32_t context = b->ctx ? b->ctx : h->context;
    const float *const long_ones = af_bind_vector_if(b, pairs, "rope_factors_long.weight");
    const float *const short_ones = af_bind_vector_if(b, pairs, "rope_factors_short.weight");
    return context > original_context(b, h) ? long_ones : short_ones;
}

/* Whether the file scales its rotation itself; then how far it reaches is the file's to say. */
static bool scales_itself(rope_scaling kind, double factor, const float *factors, const float *divisors) {
    return kind == SCALING_YARN || kind == SCALING_LONGROPE || (kind == SCALING_LINEAR && factor != 1.0) || factors ||
           divisors;
}

/* A context past the native one turns YaRN on, with as large a factor as it takes up to MOST_EXTENSION (the paper's own
 * largest); what is asked beyond is refused by the engine, as the plan's context is not raised. */
static void extend(af_binder *b, const af_hparams *h, float base, float *inv_freq, af_rope *rope) {
    const double factor = (double)b->ctx / (double)h->context;
    af_log(AF_LOG_INFO, "context %u is past the native %u: YaRN with factor %.4g", b->ctx, h->context, factor);
    apply_yarn(b, h, base, factor, inv_freq, rope);
    b->plan->context = b->ctx;
}

static void apply_scaling(af_binder *b, const af_hparams *h, float base, const float *divisors, float *inv_freq,
                          af_rope *rope) {
    const uint32_t pairs = rope->rotated / 2;
    double factor;
    const rope_scaling kind = scaling_kind(b, &factor);
    const float *factors = long_or_short(b, h, pairs);
    apply_divisors(factors, pairs, inv_freq);
    if (kind == SCALING_LINEAR)
        for (uint32_t i = 0; i < pairs; i++) inv_freq[i] = (float)((double)inv_freq[i] / factor);
    if (kind == SCALING_YARN) apply_yarn(b, h, base, factor, inv_freq, rope);
    if (b->ctx > h->context && b->ctx / MOST_EXTENSION <= h->context && !scales_itself(kind, factor, factors, divisors))
        extend(b, h, base, inv_freq, rope);
    rope->magnitude *= af_bind_f32_or(b, "rope.scaling.attn_factor", 1.0f);
}

uint16_t af_bind_rope(af_binder *b, const af_hparams *h, float base, bool adjacent, bool scaled) {
    af_rope rope = {.rotated = h->rotated, .adjacent = adjacent, .magnitude = 1.0f};
    const uint32_t pairs = h->rotated / 2;
    if (pairs == 0) return af_bind_no_rope(b);
    float *inv_freq = af_arena_array(b->plan->arena, pairs, sizeof *inv_freq);
    if (!inv_freq) {
        b->status = b->status ? b->status : af_fail_memory(b->error, pairs * sizeof *inv_freq, "rotary frequencies");
        return 0;
    }
    for (uint32_t i = 0; i < pairs; i++) inv_freq[i] = (float)pow((double)base, -2.0 * (double)i / (double)h->rotated);
    const float *divisors = af_bind_vector_if(b, pairs, "rope_freqs.weight");
    apply_divisors(divisors, pairs, inv_freq);
    if (scaled) apply_scaling(b, h, base, divisors, inv_freq, &rope);
    rope.inv_freq = inv_freq;
    uint16_t index = 0;
    if (b->status == AF_OK) b->status = af_plan_rope(b->plan, &rope, &index, b->error);
    return index;
}
