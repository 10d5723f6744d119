/* os_sandbox_paths_linux.c - which of the system's own files a server needs, and those of GPUs.
 *
 * docs/SECURITY.md tells users the same with reasons. Nothing here is secret: what only some users may read is not in
 * these folders, or has no name here.
 */
#include "base/os_sandbox_linux.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_SIZE 4096

typedef struct row {
    af_allow what;
    const char *path;
} row;

static const row common[] = {
    {AF_ALLOW_READ, "/usr/lib"},            /* libraries that are loaded late: libgcc_s to unwind, for one */
    {AF_ALLOW_READ, "/usr/lib64"},          /* ... */
    {AF_ALLOW_READ, "/usr/local/lib"},      /* ... */
    {AF_ALLOW_READ, "/lib"},                /* ... */
    {AF_ALLOW_READ, "/lib64"},              /* ... */
    {AF_ALLOW_READ, "/etc/ld.so.cache"},    /* ... and where they are */
    {AF_ALLOW_READ, "/proc/self/exe"},      /* for who writes a trace after a crash */
    {AF_ALLOW_READ, "/etc/localtime"},      /* strftime_now of templates */
    {AF_ALLOW_READ, "/usr/share/zoneinfo"}, /* ... */
    {AF_ALLOW_READ, "/proc"},               /* memory and limits; secrets of other processes need more than this */
    {AF_ALLOW_READ, "/sys/fs/cgroup"},      /* limits */
    {AF_ALLOW_READ, "/sys/devices/system"}, /* processors and memory nodes */
    {AF_ALLOW_READ, "/dev/urandom"},
    {AF_ALLOW_READ, "/dev/random"},
    {AF_ALLOW_READ, "/dev/zero"},
    {AF_ALLOW_DEVICE, "/dev/null"},
};

static const row gpu[] = {
    {AF_ALLOW_DEVICE, "/dev/dri"},         /* Intel, AMD, and others' render nodes */
    {AF_ALLOW_DEVICE, "/dev/kfd"},         /* AMD's compute */
    {AF_ALLOW_DEVICE, "/dev/dxg"},         /* WSL's */
    {AF_ALLOW_DEVICE, "/dev/udmabuf"},     /* Mesa: memory that devices share */
    {AF_ALLOW_DEVICE, "/dev/dma_heap"},    /* ... */
    {AF_ALLOW_READ, "/sys"},               /* which GPUs there are, and of what kind */
    {AF_ALLOW_READ, "/usr"},               /* drivers, and files that say which */
    {AF_ALLOW_READ, "/opt"},               /* ... */
    {AF_ALLOW_READ, "/run/opengl-driver"}, /* ... of NixOS */
    {AF_ALLOW_READ, "/nix/store"},         /* ... */
    {AF_ALLOW_READ, "/etc/vulkan"},
    {AF_ALLOW_READ, "/etc/glvnd"},
    {AF_ALLOW_READ, "/etc/drirc"},
    {AF_ALLOW_READ, "/etc/nvidia"},
    {AF_ALLOW_READ, "/etc/passwd"},        /* Mesa asks there where its cache is */
    {AF_ALLOW_READ, "/etc/nsswitch.conf"}, /* ... */
    {AF_ALLOW_READ, "~/.drirc"},
    {AF_ALLOW_READ, "~/.config/vulkan"},
    {AF_ALLOW_READ, "~/.local/share/vulkan"},
};

/* Variables that lead drivers or their loader elsewhere: a path, or several apart by colons. */
static const struct variable {
    af_allow what;
    const char *name;
} variables[] = {
    {AF_ALLOW_READ, "AIRFRAME_WEBGPU_LIB"},
    {AF_ALLOW_READ, "LD_LIBRARY_PATH"},
    {AF_ALLOW_READ, "VK_DRIVER_FILES"},
    {AF_ALLOW_READ, "VK_ADD_DRIVER_FILES"},
    {AF_ALLOW_READ, "VK_ICD_FILENAMES"},
    {AF_ALLOW_READ, "VK_LAYER_PATH"},
    {AF_ALLOW_READ, "LIBGL_DRIVERS_PATH"},
    {AF_ALLOW_CHANGE, "MESA_SHADER_CACHE_DIR"},
    {AF_ALLOW_CHANGE, "__GL_SHADER_DISK_CACHE_PATH"},
    {AF_ALLOW_CHANGE, "CUDA_CACHE_PATH"},
    {AF_ALLOW_CHANGE, "AIRFRAME_PIPELINE_CACHE"},
};

/* Where compiled shaders are kept; without, every start compiles again, which took Dawn 3.5 s in place of 0.5 on an
 * H200. "$" is the folder of users' caches. They are made here, and it too, because nothing may be made beside them
 * later: those of drivers if `node` shows that theirs is the GPU. */
static const struct cache {
    const char *node, *path;
} caches[] = {
    {"/dev/dri", "$mesa_shader_cache"}, {"/dev/dri", "$mesa_shader_cache_db"}, {"/dev/dri", "$radv_builtin_shaders64"},
    {"/dev/nvidiactl", "~/.nv"},        {"/dev/nvidiactl", "$nvidia"},
};

/* Puts the home folder in the place of ~ and that of caches in the place of $. */
static void expand(const char *path, char out[PATH_SIZE]) {
    if (*path == '$') {
        if (!af_os_cache_path(path + 1, out, PATH_SIZE)) *out = 0;
        return;
    }
    snprintf(out, PATH_SIZE, "%s%s", *path == '~' ? af_os_home() : "", path + (*path == '~'));
}

static int allow_rows(af_sandbox *sandbox, const row *rows, size_t count, af_error *error) {
    int status = 0;
    for (size_t i = 0; i < count && !status; i++) {
        char path[PATH_SIZE];
        expand(rows[i].path, path);
        status = af_sandbox_allow(sandbox, rows[i].what, path, error);
    }
    return status;
}

int af_sandbox_allow_common(af_sandbox *sandbox, af_error *error) {
    return allow_rows(sandbox, common, sizeof common / sizeof *common, error);
}

static int allow_variable(af_sandbox *sandbox, const struct variable *variable, af_error *error) {
    int status = 0;
    const char *value = getenv(variable->name);
    for (size_t n; value && *value && !status; value += n + (value[n] == ':')) {
        char path[PATH_SIZE];
        n = strcspn(value, ":");
        snprintf(path, sizeof path, "%.*s", (int)(n < PATH_SIZE ? n : 0), value);
        if (n && variable->what == AF_ALLOW_CHANGE) mkdir(path, 0700);
        if (n) status = af_sandbox_allow(sandbox, variable->what, path, error);
    }
    return status;
}

static int allow_cache(af_sandbox *sandbox, const char *cache, bool wanted, af_error *error) {
    char path[PATH_SIZE];
    expand(cache, path);
    if (wanted) af_os_make_folders(path);
    return af_sandbox_allow(sandbox, AF_ALLOW_CHANGE, path, error);
}

static bool is_there(const char *node) {
    return af_os_stat(node).kind != AF_FILE_NONE;
}

typedef struct nvidia {
    af_sandbox *sandbox;
    af_error *error;
    int status;
} nvidia;

/* nvidia0, nvidiactl, nvidia-uvm, nvidia-caps, ... */
static bool allow_nvidia(void *user, const char *name) {
    nvidia *n = user;
    char path[PATH_SIZE];
    if (strncmp(name, "nvidia", 6) != 0) return true;
    snprintf(path, sizeof path, "/dev/%s", name);
    n->status = af_sandbox_allow(n->sandbox, AF_ALLOW_DEVICE, path, n->error);
    return !n->status;
}

/* Dawn is loaded from there (backend/webgpu/gpu_loader.c), or from where AIRFRAME_WEBGPU_LIB says. */
static int allow_dawn(af_sandbox *sandbox, af_error *error) {
    char path[PATH_SIZE];
    const char *named = getenv("AIRFRAME_WEBGPU_LIB"), *kept = getenv("AIRFRAME_PIPELINE_CACHE");
    const bool beside = af_os_beside_executable("libwebgpu_dawn.so", path, sizeof path);
    const int status = beside ? af_sandbox_allow(sandbox, AF_ALLOW_READ, path, error) : 0;
    if (status || kept || !(beside || (named && *named))) return status;
    return allow_cache(sandbox, "$" AF_CACHE_PIPELINES, true, error);
}

int af_sandbox_allow_gpu(af_sandbox *sandbox, af_error *error) {
    nvidia nodes = {sandbox, error, 0};
    sandbox->drivers = true;
    int status = allow_rows(sandbox, gpu, sizeof gpu / sizeof *gpu, error);
    for (size_t i = 0; i < sizeof variables / sizeof *variables && !status; i++)
        status = allow_variable(sandbox, &variables[i], error);
    for (size_t i = 0; i < sizeof caches / sizeof *caches && !status; i++)
        status = allow_cache(sandbox, caches[i].path, is_there(caches[i].node), error);
    if (!status) status = allow_dawn(sandbox, error);
    if (!status) af_os_list("/dev", allow_nvidia, &nodes, NULL);
    return status ? status : nodes.status;
}
