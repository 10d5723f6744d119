/* gpu_shader.c - puts a shader's text together: what differs between libraries and devices first, then the files.
 *
 * wgpu-native refuses `enable subgroups;` though its subgroup functions work; Dawn requires it, and `requires` for
 * immediates. Both take f16.
 */
#include "backend/webgpu/gpu_shader.h"

#include "backend/webgpu/gpu.h"

#include <assert.h>
#include <string.h>

static const af_gpu_shader_file *find_file(const char *name) {
    const af_gpu_shader_file *f = af_gpu_shader_files;
    while (f->name && strcmp(f->name, name) != 0) f++;
    assert(f->name && "shader file is embedded");
    return f;
}

bool af_gpu_shader_text(const af_gpu *gpu, const char *const *files, af_buf *out) {
    if (gpu->info.f16) af_buf_text(out, "enable f16;\n");
    if (!gpu->api->native) {
        if (gpu->use_subgroups) af_buf_text(out, "enable subgroups;\n");
        af_buf_text(out, "requires immediate_address_space;\n");
    }
    const af_gpu_shader_file *reduce = find_file(gpu->use_subgroups ? "reduce_subgroup.wgsl" : "reduce_workgroup.wgsl");
    af_buf_append(out, reduce->text, reduce->length);
    for (; *files; files++) {
        const af_gpu_shader_file *f = find_file(*files);
        af_buf_append(out, f->text, f->length);
    }
    return !out->failed;
}
