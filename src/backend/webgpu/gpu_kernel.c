/* gpu_kernel.c - the table of kernels and the cache of their pipelines.
 *
 * A pipeline is asked for by name and made later, with all others that were asked for since: WGSL to SPIR-V costs about
 * 10 ms each, forty of them are half of a small model's load, and wgpu-native takes them from several threads at once.
 * Bind groups need no more than a pipeline's layout, which is there at once. Dawn wants one thread to a device.
 */
#include "backend/webgpu/gpu_kernel.h"

#include "backend/webgpu/gpu_kernel_table.h"
#include "backend/webgpu/gpu_shader.h"
#include "base/os.h"
#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const af_gpu_kernel_row *row;
    af_gpu_constant constants[AF_GPU_CONSTANTS];
    size_t constant_count;
    af_gpu_pipeline pipeline;
    af_error error; /* why it could not be made */
    struct entry *next;
} entry;

struct af_gpu_kernels {
    af_gpu *gpu;
    entry *entries;   /* the newest first */
    uint32_t missing; /* of the newest: they are not made yet */
};

#define MOST_THREADS 16

int af_gpu_kernels_open(af_gpu *gpu, af_gpu_kernels **out, af_error *error) {
    af_gpu_kernels *k = calloc(1, sizeof *k);
    if (!k) return af_fail_memory(error, sizeof *k, "GPU kernels");
    k->gpu = gpu;
    *out = k;
    return AF_OK;
}

static void release(const af_gpu_api *api, af_gpu_pipeline *p) {
    if (p->pipeline) api->wgpuComputePipelineRelease(p->pipeline);
    if (p->layout) api->wgpuBindGroupLayoutRelease(p->layout);
}

void af_gpu_kernels_close(af_gpu_kernels *k) {
    if (!k) return;
    while (k->entries) {
        entry *e = k->entries;
        k->entries = e->next;
        release(k->gpu->api, &e->pipeline);
        free(e);
    }
    free(k);
}

static const af_gpu_kernel_row *find_row(const char *name) {
    const af_gpu_kernel_row *row = af_gpu_kernel_table;
    while (row->name && strcmp(row->name, name) != 0) row++;
    assert(row->name && "kernel is in the table");
    return row;
}

static bool same(const entry *e, const af_gpu_kernel_row *row, const af_gpu_constant *constants, size_t count) {
    if (e->row != row || e->constant_count != count) return false;
    for (size_t i = 0; i < count; i++)
        if (strcmp(e->constants[i].name, constants[i].name) != 0 || e->constants[i].value != constants[i].value)
            return false;
    return true;
}

static WGPUBindGroupLayout make_layout(af_gpu *gpu, const af_gpu_kernel_row *row) {
    const WGPUBindGroupLayoutEntry layout_entry = WGPU_BIND_GROUP_LAYOUT_ENTRY_INIT;
    WGPUBindGroupLayoutEntry entries[AF_GPU_BINDINGS];
    for (uint32_t i = 0; i < row->binding_count; i++) {
        entries[i] = layout_entry;
        entries[i].binding = i;
        entries[i].visibility = WGPUShaderStage_Compute;
        entries[i].buffer.type =
            row->written >> i & 1 ? WGPUBufferBindingType_Storage : WGPUBufferBindingType_ReadOnlyStorage;
    }
    WGPUBindGroupLayoutDescriptor descriptor = WGPU_BIND_GROUP_LAYOUT_DESCRIPTOR_INIT;
    descriptor.entryCount = row->binding_count;
    descriptor.entries = entries;
    return gpu->api->wgpuDeviceCreateBindGroupLayout(gpu->device, &descriptor);
}

static WGPUShaderModule make_module(af_gpu *gpu, const af_gpu_kernel_row *row) {
    af_buf text = {0};
    if (!af_gpu_shader_text(gpu, row->files, &text)) return NULL;
    WGPUShaderSourceWGSL source = WGPU_SHADER_SOURCE_WGSL_INIT;
    source.code = (WGPUStringView){text.p, text.len};
    WGPUShaderModuleDescriptor descriptor = WGPU_SHADER_MODULE_DESCRIPTOR_INIT;
    descriptor.nextInChain = &source.chain;
    descriptor.label = (WGPUStringView){row->name, WGPU_STRLEN};
    /* Our own shaders index within what the host bound: the checks would cost a compare and a select a load. */
    WGPUShaderModule module =
        gpu->api->wgpuDeviceCreateShaderModuleTrusted
            ? gpu->api->wgpuDeviceCreateShaderModuleTrusted(gpu->device, &descriptor, WGPUShaderRuntimeChecks_None)
            : gpu->api->wgpuDeviceCreateShaderModule(gpu->device, &descriptor);
    af_buf_clear(&text);
    return module;
}

static WGPUPipelineLayout make_pipeline_layout(const af_gpu *gpu, const entry *e) {
    WGPUPipelineLayoutDescriptor layout = WGPU_PIPELINE_LAYOUT_DESCRIPTOR_INIT;
    layout.bindGroupLayoutCount = 1;
    layout.bindGroupLayouts = &e->pipeline.layout;
    layout.immediateSize = AF_GPU_IMMEDIATE_BYTES;
    return gpu->api->wgpuDeviceCreatePipelineLayout(gpu->device, &layout);
}

static void make_pipeline(af_gpu *gpu, entry *e) {
    WGPUPipelineLayout layout = make_pipeline_layout(gpu, e);
    WGPUShaderModule module = make_module(gpu, e->row);
    WGPUConstantEntry constants[AF_GPU_CONSTANTS];
    for (size_t i = 0; i < e->constant_count; i++)
        constants[i] = (WGPUConstantEntry){.key = {e->constants[i].name, WGPU_STRLEN}, .value = e->constants[i].value};
    WGPUComputePipelineDescriptor descriptor = WGPU_COMPUTE_PIPELINE_DESCRIPTOR_INIT;
    descriptor.label = (WGPUStringView){e->row->name, WGPU_STRLEN};
    descriptor.layout = layout;
    descriptor.compute.module = module;
    descriptor.compute.entryPoint = (WGPUStringView){e->row->entry, WGPU_STRLEN};
    descriptor.compute.constantCount = e->constant_count;
    descriptor.compute.constants = constants;
    if (module && !e->error.code)
        e->pipeline.pipeline = gpu->api->wgpuDeviceCreateComputePipeline(gpu->device, &descriptor);
    if (module) gpu->api->wgpuShaderModuleRelease(module);
    if (layout) gpu->api->wgpuPipelineLayoutRelease(layout);
}

static int add_entry(af_gpu_kernels *k, const af_gpu_kernel_row *row, const af_gpu_constant *constants, size_t count,
                     af_error *error) {
    entry *e = calloc(1, sizeof *e);
    if (!e) return af_fail_memory(error, sizeof *e, "a GPU pipeline");
    e->row = row;
    e->constant_count = count;
    for (size_t i = 0; i < count; i++) e->constants[i] = constants[i];
    k->gpu->doing = row->name;
    e->pipeline =
        (af_gpu_pipeline){.binding_count = row->binding_count, .kernel = row->name, .layout = make_layout(k->gpu, row)};
    e->next = k->entries;
    k->entries = e;
    k->missing++;
    return af_gpu_check(k->gpu, error);
}

int af_gpu_kernel(af_gpu_kernels *k, const char *name, const af_gpu_constant *constants, size_t count,
                  const af_gpu_pipeline **out, af_error *error) {
    assert(count <= AF_GPU_CONSTANTS);
    const af_gpu_kernel_row *row = find_row(name);
    const entry *e = k->entries;
    while (e && !same(e, row, constants, count)) e = e->next;
    const int status = e ? AF_OK : add_entry(k, row, constants, count, error);
    *out = e ? &e->pipeline : status == AF_OK ? &k->entries->pipeline : NULL;
    return status;
}

/* ---- Making what was asked for ---- */

typedef struct making {
    af_gpu *gpu;
    entry **entries; /* in the order they were asked for */
} making;

static void make_one(void *user, uint32_t task, uint32_t worker) {
    (void)worker;
    const making *m = user;
    entry *e = m->entries[task];
    af_gpu_hear(e->row->name, &e->error);
    make_pipeline(m->gpu, e);
    af_gpu_hear(NULL, NULL);
    if (!e->pipeline.pipeline && !e->error.code)
        af_fail(&e->error, AF_EUNSUPPORTED, "gpu: kernel %s: no pipeline", e->row->name);
}

/* The first error in order of asking, whichever thread met one first. */
static int first_error(const af_gpu_kernels *k, const making *m, af_error *error) {
    const int status = af_gpu_check(k->gpu, error);
    for (uint32_t i = 0; i < k->missing && status == AF_OK; i++) {
        if (!m->entries[i]->error.code) continue;
        if (error) *error = m->entries[i]->error;
        return m->entries[i]->error.code;
    }
    return status;
}

static int make_all(af_gpu_kernels *k, making *m, af_error *error) {
    uint32_t threads = k->gpu->api->native ? af_os_cores() : 1;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > k->missing) threads = k->missing;
    af_pool *pool;
    const int status = af_pool_open(threads, &pool, error);
    if (status != AF_OK) return status;
    af_pool_run(pool, make_one, m, k->missing);
    af_pool_close(pool);
    return first_error(k, m, error);
}

int af_gpu_kernels_make(af_gpu_kernels *k, af_error *error) {
    if (k->missing == 0) return AF_OK;
    making m = {.gpu = k->gpu, .entries = malloc(k->missing * sizeof *m.entries)};
    if (!m.entries) return af_fail_memory(error, k->missing * sizeof *m.entries, "GPU pipelines");
    entry *e = k->entries;
    for (uint32_t i = k->missing; i-- > 0; e = e->next) m.entries[i] = e;
    const int status = make_all(k, &m, error);
    if (status == AF_OK) k->missing = 0;
    free(m.entries);
    return status;
}

WGPUBindGroup af_gpu_bind(af_gpu *gpu, const af_gpu_pipeline *pipeline, const af_gpu_binding *bindings, size_t count) {
    assert(count == pipeline->binding_count);
    const WGPUBindGroupEntry group_entry = WGPU_BIND_GROUP_ENTRY_INIT;
    WGPUBindGroupEntry entries[AF_GPU_BINDINGS];
    for (size_t i = 0; i < count; i++) {
        entries[i] = group_entry;
        entries[i].binding = (uint32_t)i;
        entries[i].buffer = bindings[i].buffer;
        entries[i].offset = bindings[i].offset;
        if (bindings[i].size) entries[i].size = bindings[i].size;
    }
    WGPUBindGroupDescriptor descriptor = WGPU_BIND_GROUP_DESCRIPTOR_INIT;
    descriptor.layout = pipeline->layout;
    descriptor.entryCount = count;
    descriptor.entries = entries;
    return gpu->api->wgpuDeviceCreateBindGroup(gpu->device, &descriptor);
}
