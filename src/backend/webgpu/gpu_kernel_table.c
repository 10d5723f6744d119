/* gpu_kernel_table.c - every kernel of this backend, a line each. A new one is a shader file and a line here. */
#include "backend/webgpu/gpu_kernel_table.h"

#define WRITES(binding) (1u << (binding))

#define DECODE_PRODUCT(name)                                                                                           \
    { #name, {"block.wgsl", "packet.wgsl", "decode_outputs.wgsl", #name ".wgsl" }, #name, 6, WRITES(4) | WRITES(5) }

/* For heads of up to `widest` elements. */
#define PROMPT_ATTEND(widest)                                                                                          \
    {                                                                                                                  \
        "prompt_attend_" #widest,                                                                                      \
            {"batch.wgsl", "cache.wgsl", "matrix.wgsl", "widest_" #widest ".wgsl", "prompt_attend.wgsl"},              \
            "prompt_attend", 6, WRITES(5)                                                                              \
    }

const af_gpu_kernel_row af_gpu_kernel_table[] = {
    {"embed", {"batch.wgsl", "block.wgsl", "embed.wgsl"}, "embed", 6, WRITES(5)},
    {"embed_float", {"batch.wgsl", "embed_float.wgsl"}, "embed_float", 5, WRITES(4)},
    {"norm", {"row_sum.wgsl", "packet.wgsl", "norm.wgsl"}, "norm", 5, WRITES(3) | WRITES(4)},
    {"linear_vec", {"block.wgsl", "linear_block.wgsl", "linear_vec.wgsl"}, "linear_vec", 4, WRITES(3)},
    {"linear_mat", {"block.wgsl", "linear_block.wgsl", "linear_mat.wgsl"}, "linear_mat", 4, WRITES(3)},
    {"linear_few", {"block.wgsl", "linear_block.wgsl", "linear_few.wgsl"}, "linear_few", 4, WRITES(3)},
    {"linear_float", {"linear_float.wgsl"}, "linear_float", 3, WRITES(2)},
    {"tail", {"row_sum.wgsl", "tail.wgsl"}, "tail", 4, WRITES(3)},
    {"rope_store",
     {"batch.wgsl", "cache.wgsl", "cache_store.wgsl", "row_sum.wgsl", "rope_store.wgsl"},
     "rope_store",
     5,
     WRITES(2) | WRITES(3) | WRITES(4)},
    {"attend", {"batch.wgsl", "cache.wgsl", "attend.wgsl"}, "attend", 6, WRITES(5)},
    DECODE_PRODUCT(decode_one),
    DECODE_PRODUCT(decode_linear),
    {"decode_attend",
     {"batch.wgsl", "cache.wgsl", "cache_store.wgsl", "row_sum.wgsl", "decode_attend.wgsl"},
     "decode_attend",
     6,
     WRITES(3) | WRITES(4) | WRITES(5)},
    {"decode_reduce", {"packet.wgsl", "decode_reduce.wgsl"}, "decode_reduce", 4, WRITES(2) | WRITES(3)},
    {"conv", {"batch.wgsl", "runs.wgsl", "conv.wgsl"}, "conv", 5, WRITES(3) | WRITES(4)},
    {"delta_prepare", {"row_sum.wgsl", "delta_prepare.wgsl"}, "delta_prepare", 4, WRITES(1) | WRITES(2) | WRITES(3)},
    {"delta", {"batch.wgsl", "runs.wgsl", "delta.wgsl"}, "delta", 6, WRITES(4) | WRITES(5)},
    {"gate", {"row_sum.wgsl", "gate.wgsl"}, "gate_heads", 3, WRITES(2)},
    {"route", {"route.wgsl"}, "route", 4, WRITES(2) | WRITES(3)},
    {"experts_block", {"block.wgsl", "experts.wgsl", "experts_block.wgsl"}, "experts", 7, WRITES(3)},
    {"experts_float", {"float_row.wgsl", "experts.wgsl", "experts_float.wgsl"}, "experts", 6, WRITES(3)},
    {"experts_glu", {"packet.wgsl", "experts_glu.wgsl"}, "experts_glu", 3, WRITES(1) | WRITES(2)},
    {"per_head_block", {"block.wgsl", "per_head.wgsl", "per_head_block.wgsl"}, "per_head", 4, WRITES(1)},
    {"per_head_float", {"float_row.wgsl", "per_head.wgsl", "per_head_float.wgsl"}, "per_head", 3, WRITES(1)},
    {"argmax", {"argmax.wgsl"}, "argmax", 3, WRITES(1) | WRITES(2)},
    {"prompt_norm", {"row_sum.wgsl", "prompt_norm.wgsl"}, "prompt_norm", 4, WRITES(2) | WRITES(3)},
    {"prompt_linear",
     {"block.wgsl", "matrix.wgsl", "prompt_block.wgsl", "prompt_linear.wgsl"},
     "prompt_linear",
     6,
     WRITES(5)},
    {"prompt_few", {"block.wgsl", "matrix.wgsl", "prompt_block.wgsl", "prompt_few.wgsl"}, "prompt_few", 6, WRITES(5)},
    PROMPT_ATTEND(32),
    PROMPT_ATTEND(64),
    PROMPT_ATTEND(128),
    {"top", {"top.wgsl"}, "top", 3, WRITES(2)},
    {"draw", {"draw.wgsl"}, "draw", 3, WRITES(2)},
    {"spread", {"cut.wgsl", "spread.wgsl"}, "spread", 4, WRITES(3)},
    {"weigh", {"cut.wgsl", "weigh.wgsl"}, "weigh", 5, WRITES(3) | WRITES(4)},
    {"pick", {"cut.wgsl", "pick.wgsl"}, "pick", 6, WRITES(3) | WRITES(5)},
    {"pack", {"pack.wgsl"}, "pack", 2, WRITES(1)},
    {"probe", {"probe.wgsl"}, "probe", 1, WRITES(0)},
    {0},
};
