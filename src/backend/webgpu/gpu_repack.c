/* gpu_repack.c - where the formats keep what pack.wgsl reads. */
#include "backend/webgpu/gpu_repack.h"

#include "quant/blocks.h"

#include <stddef.h>

/* pack.wgsl's */
enum { HALVES, STRIPES, CROSSED, WORD };
enum { ONE, PAIR, SIX_BITS, NIBBLES, SPLIT, BYTES, FLOAT, FLOAT_SPLIT, POWER };

typedef struct plane {
    size_t at; /* in the block */
    uint32_t bits, order;
} plane;

typedef struct source {
    af_type type;
    plane low, high;
    uint32_t high_shift;
    uint32_t scales;
    size_t scales_at, d_at;
    int32_t offset;
} source;

#define IN(block, member) offsetof(af_block_##block, member)
#define NONE              {0, 0, 0}, 0

static const source sources[] = {
    {AF_TYPE_Q4_0, {IN(q4_0, qs), 4, HALVES}, NONE, ONE, 0, IN(q4_0, d), 8},
    {AF_TYPE_Q4_1, {IN(q4_1, qs), 4, HALVES}, NONE, PAIR, 0, IN(q4_1, d), 0},
    {AF_TYPE_Q5_0, {IN(q5_0, qs), 4, HALVES}, {IN(q5_0, qh), 1, WORD}, 4, ONE, 0, IN(q5_0, d), 16},
    {AF_TYPE_Q5_1, {IN(q5_1, qs), 4, HALVES}, {IN(q5_1, qh), 1, WORD}, 4, PAIR, 0, IN(q5_1, d), 0},
    {AF_TYPE_Q8_0, {IN(q8_0, qs), 8, STRIPES}, NONE, ONE, 0, IN(q8_0, d), 0},
    {AF_TYPE_Q2_K, {IN(q2_k, qs), 2, STRIPES}, NONE, NIBBLES, IN(q2_k, scales), IN(q2_k, d), 0},
    {AF_TYPE_Q3_K,
     {IN(q3_k, qs), 2, STRIPES},
     {IN(q3_k, hmask), 1, STRIPES},
     2,
     SPLIT,
     IN(q3_k, scales),
     IN(q3_k, d),
     0},
    {AF_TYPE_Q4_K, {IN(q4_k, qs), 4, STRIPES}, NONE, SIX_BITS, IN(q4_k, scales), IN(q4_k, d), 0},
    {AF_TYPE_Q5_K,
     {IN(q5_k, qs), 4, STRIPES},
     {IN(q5_k, qh), 1, STRIPES},
     4,
     SIX_BITS,
     IN(q5_k, scales),
     IN(q5_k, d),
     0},
    {AF_TYPE_Q6_K, {IN(q6_k, ql), 4, CROSSED}, {IN(q6_k, qh), 2, STRIPES}, 4, BYTES, IN(q6_k, scales), IN(q6_k, d), 0},
    {AF_TYPE_IQ4_NL, {IN(iq4_nl, qs), 4, HALVES}, NONE, FLOAT, 0, IN(iq4_nl, d), 0},
    {AF_TYPE_IQ4_XS, {IN(iq4_xs, qs), 4, HALVES}, NONE, FLOAT_SPLIT, IN(iq4_xs, scales_low), IN(iq4_xs, d), 0},
    {AF_TYPE_MXFP4, {IN(mxfp4, qs), 4, HALVES}, NONE, POWER, 0, IN(mxfp4, e), 0},
};

static const source *source_of(af_type type) {
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (sources[i].type == type) return &sources[i];
    return NULL;
}

bool af_gpu_repacks(const af_gpu_layout *layout, const af_format *format) {
    return layout->type == format->type && layout->kind == AF_GPU_QUANTIZED && source_of(format->type);
}

int af_gpu_repack_kernel(af_gpu_kernels *kernels, const af_gpu_layout *layout, const af_gpu_pipeline **out,
                         af_error *error) {
    const source *s = source_of(layout->type);
    const af_format *format = af_format_of(layout->type);
    const af_gpu_constant constants[] = {
        {"BLOCK_BYTES", format->block_bytes},
        {"GROUPS", format->block_elems / AF_BLOCK},
        {"LOW_AT", (double)s->low.at},
        {"LOW_BITS", s->low.bits},
        {"LOW_ORDER", s->low.order},
        {"HIGH_AT", (double)s->high.at},
        {"HIGH_BITS", s->high.bits},
        {"HIGH_ORDER", s->high.order},
        {"HIGH_SHIFT", s->high_shift},
        {"OUT_HIGH", layout->high_bits},
        {"SCALES", s->scales},
        {"SCALES_AT", (double)s->scales_at},
        {"D_AT", (double)s->d_at},
        {"OFFSET", s->offset},
    };
    return af_gpu_kernel(kernels, "pack", constants, sizeof constants / sizeof *constants, out, error);
}

void af_gpu_repack_encode(const af_gpu *gpu, WGPUComputePassEncoder pass, const af_gpu_repack *r) {
    const uint32_t params[AF_GPU_REPACK_PARAMS] = {(uint32_t)r->from, r->blocks, (uint32_t)(r->low / 4),
                                                   (uint32_t)(r->high / 4), (uint32_t)(r->scale / 4)};
    gpu->api->wgpuComputePassEncoderSetImmediates(pass, 0, params, sizeof params);
    gpu->api->wgpuComputePassEncoderDispatchWorkgroups(pass, (r->blocks + 63) / 64, 1, 1);
}
