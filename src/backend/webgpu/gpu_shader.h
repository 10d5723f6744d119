/* gpu_shader.h - the WGSL files carried in the executable, and the text handed to the compiler. */
#ifndef AF_GPU_SHADER_H
#define AF_GPU_SHADER_H

#include "base/buf.h"

typedef struct af_gpu_shader_file {
    const char *name, *text;
    size_t length;
} af_gpu_shader_file;

/* Ends with a row of zeros; made at build from src/backend/webgpu/shaders/. */
extern const af_gpu_shader_file af_gpu_shader_files[];

/* The preamble for this library and device (enable directives, subgroup or workgroup reductions) and math.wgsl, then
 * the named files in order. Asserts that each exists. */
struct af_gpu;
bool af_gpu_shader_text(const struct af_gpu *gpu, const char *const *files, af_buf *out);

#endif
