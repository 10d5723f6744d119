/* gpu_experts.c - mixtures of experts as steps. */
#include "backend/webgpu/gpu_compiler.h"

void af_gpu_compile_route(af_gpu_compiler *c, const af_op *op) {
    c->status = af_fail(c->error, AF_EUNSUPPORTED, "gpu: %s: models of experts run on the CPU alone", op->name);
}

void af_gpu_compile_experts(af_gpu_compiler *c, const af_op *op) {
    af_gpu_compile_route(c, op);
}
