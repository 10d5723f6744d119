/* gpu_memory.c - asks Vulkan for the heaps of a GPU.
 *
 * The loader is there wherever WebGPU found a Vulkan adapter. The few structs and numbers of its ABI are written out
 * here (Vulkan 1.3 specification, vulkan_core.h), so that no headers are needed to build.
 */
#include "backend/webgpu/gpu_memory.h"

#include "base/os.h"

#include <stdlib.h>
#include <string.h>

/* ---- The part of Vulkan's ABI that is asked ---- */

#define MOST_GPUS  32
#define MOST_TYPES 32
#define MOST_HEAPS 16

enum {
    APPLICATION_INFO = 0,
    INSTANCE_CREATE_INFO = 1,
    MEMORY_PROPERTIES_2 = 1000059006,
    MEMORY_BUDGET_PROPERTIES = 1000237000, /* VK_EXT_memory_budget; left at zero by drivers without it */
    HEAP_DEVICE_LOCAL = 1,
    VERSION_1_1 = 1 << 22 | 1 << 12
};

typedef struct application_info {
    int type;
    const void *next;
    const char *application;
    uint32_t application_version;
    const char *engine;
    uint32_t engine_version, api_version;
} application_info;

typedef struct instance_info {
    int type;
    const void *next;
    uint32_t flags;
    const application_info *application;
    uint32_t layer_count;
    const char *const *layers;
    uint32_t extension_count;
    const char *const *extensions;
} instance_info;

typedef struct device_properties {
    uint32_t api_version, driver_version, vendor, device, type;
    char name[256];
    unsigned char rest[1024]; /* identifiers and limits: 548 bytes in version 1.3 */
} device_properties;

typedef struct memory_heap {
    uint64_t size;
    uint32_t flags;
} memory_heap;

typedef struct memory_properties {
    int type;
    void *next;
    uint32_t type_count;
    struct {
        uint32_t flags, heap;
    } types[MOST_TYPES];
    uint32_t heap_count;
    memory_heap heaps[MOST_HEAPS];
} memory_properties;

typedef struct memory_budget {
    int type;
    void *next;
    uint64_t budget[MOST_HEAPS], usage[MOST_HEAPS];
} memory_budget;

typedef void *handle;
typedef struct vulkan {
    int (*create_instance)(const instance_info *info, const void *allocator, handle *instance);
    void (*destroy_instance)(handle instance, const void *allocator);
    int (*enumerate)(handle instance, uint32_t *count, handle *gpus);
    void (*properties)(handle gpu, device_properties *out);
    void (*memory)(handle gpu, memory_properties *out);
} vulkan;

static bool load(vulkan *vk) {
    void *library;
    if (af_os_library_open("libvulkan.so.1", &library, NULL) != AF_OK) return false;
    const struct {
        void *slot;
        const char *name;
    } wanted[] = {{&vk->create_instance, "vkCreateInstance"},
                  {&vk->destroy_instance, "vkDestroyInstance"},
                  {&vk->enumerate, "vkEnumeratePhysicalDevices"},
                  {&vk->properties, "vkGetPhysicalDeviceProperties"},
                  {&vk->memory, "vkGetPhysicalDeviceMemoryProperties2"}};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *const symbol = af_os_library_symbol(library, wanted[i].name);
        if (!symbol) return false;
        memcpy(wanted[i].slot, &symbol, sizeof symbol);
    }
    return true;
}

/* ---- Heaps ---- */

static void add_heaps(const vulkan *vk, handle gpu, uint64_t *total, uint64_t *unused) {
    memory_budget budget = {.type = MEMORY_BUDGET_PROPERTIES};
    memory_properties memory = {.type = MEMORY_PROPERTIES_2, .next = &budget};
    vk->memory(gpu, &memory);
    for (uint32_t i = 0; i < memory.heap_count && i < MOST_HEAPS; i++) {
        if (!(memory.heaps[i].flags & HEAP_DEVICE_LOCAL)) continue;
        *total += memory.heaps[i].size;
        if (budget.budget[i] > budget.usage[i]) *unused += budget.budget[i] - budget.usage[i];
    }
}

static bool find(const vulkan *vk, handle instance, const char *name, uint64_t *total, uint64_t *unused) {
    handle gpus[MOST_GPUS];
    uint32_t count = MOST_GPUS;
    if (vk->enumerate(instance, &count, gpus) < 0) return false;
    for (uint32_t i = 0; i < count; i++) {
        device_properties properties = {0};
        vk->properties(gpus[i], &properties);
        if (strncmp(properties.name, name, sizeof properties.name) != 0) continue;
        add_heaps(vk, gpus[i], total, unused);
        return true;
    }
    return false;
}

bool af_gpu_memory(const char *name, uint64_t *total, uint64_t *unused) {
    vulkan vk;
    *total = *unused = 0;
    if (!load(&vk)) return false;
    const application_info application = {.type = APPLICATION_INFO, .api_version = VERSION_1_1};
    const instance_info info = {.type = INSTANCE_CREATE_INFO, .application = &application};
    handle instance;
    if (vk.create_instance(&info, NULL, &instance) != 0) return false;
    const bool found = find(&vk, instance, name, total, unused);
    vk.destroy_instance(instance, NULL);
    return found;
}
