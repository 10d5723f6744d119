/* gpu_shader.c - puts a shader's text together: what differs between libraries and devices first, then the files.
 *
 * wgpu-native refuses `enable subgroups;` though its subgroup functions work; Dawn requires it, and `requires` for
 * immediates. Both take f16. A file "matrix.wgsl" stands for the one of the two that the device can use.
 */
#include "backend/webgpu/gpu_shader.h"

#include "backend/webgpu/gpu.h"

#include <assert.h>
#include <string.h>

static void append_file(af_buf *out, const char *name) {
    const af_gpu_shader_file *f = af_gpu_shader_files;
    while (f->name && strcmp(f->name, name) != 0) f++;
    assert(f->name && "shader file is embedded");
    af_buf_append(out, f->text, f->length);
}

bool af_gpu_shader_text(const af_gpu *gpu, const char *const *files, af_buf *out) {
    if (gpu->info.f16) af_buf_text(out, "enable f16;\n");
    if (!gpu->api->native) {
        if (gpu->use_subgroups) af_buf_text(out, "enable subgroups;\n");
        af_buf_text(out, "requires immediate_address_space;\n");
    }
    if (gpu->matrices == AF_GPU_MATRICES_SUBGROUP)
        af_buf_text(out, "enable chromium_experimental_subgroup_matrix;\n"
                         "diagnostic(off, chromium.subgroup_matrix_uniformity);\n");
    append_file(out, gpu->use_subgroups ? "reduce_subgroup.wgsl" : "reduce_workgroup.wgsl");
    append_file(out, "math.wgsl");
    const char *matrix = gpu->matrices == AF_GPU_MATRICES_SUBGROUP ? "matrix_subgroup.wgsl" : "matrix_emulated.wgsl";
    for (; *files; files++) append_file(out, strcmp(*files, "matrix.wgsl") == 0 ? matrix : *files);
    return !out->failed;
}
