/* gpu_shader.c - puts a shader's text together: what differs between libraries and devices first, then the files.
 *
 * wgpu-native refuses `enable subgroups;` though its subgroup functions work; Dawn requires it, and `requires` for
 * immediates. Both take f16.
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
    append_file(out, gpu->use_subgroups ? "reduce_subgroup.wgsl" : "reduce_workgroup.wgsl");
    append_file(out, "math.wgsl");
    for (; *files; files++) append_file(out, *files);
    return !out->failed;
}
