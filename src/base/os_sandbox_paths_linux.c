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
};

/* Where drivers keep compiled shaders; without, every start compiles again. "$" is the folder of users' caches. They
 * are made here if `node` shows that theirs is the GPU, because a driver may not make anything beside them. */
static const struct cache {
    const char *node, *path;
} caches[] = {
    {"/dev/dri", "$/mesa_shader_cache"},      {"/dev/dri", "$/mesa_shader_cache_db"},
    {"/dev/dri", "$/radv_builtin_shaders64"}, {"/dev/nvidiactl", "~/.nv"},
    {"/dev/nvidiactl", "$/nvidia"},
};

static const char *folder_of_caches(char out[PATH_SIZE]) {
    const char *named = getenv("XDG_CACHE_HOME");
    if (named && *named) return named;
    snprintf(out, PATH_SIZE, "%s/.cache", af_os_home());
    return out;
}

/* Puts the home folder in the place of ~ and that of caches in the place of $. */
static void expand(const char *path, char out[PATH_SIZE]) {
    char caches_there[PATH_SIZE];
    const char *before = *path == '~' ? af_os_home() : *path == '$' ? folder_of_caches(caches_there) : "";
    snprintf(out, PATH_SIZE, "%s%s", before, path + (*before != 0));
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
        if (n) status = af_sandbox_allow(sandbox, variable->what, path, error);
    }
    return status;
}

static int allow_cache(af_sandbox *sandbox, const struct cache *cache, af_error *error) {
    char path[PATH_SIZE];
    expand(cache->path, path);
    if (af_os_stat(cache->node).kind != AF_FILE_NONE) mkdir(path, 0700);
    return af_sandbox_allow(sandbox, AF_ALLOW_CHANGE, path, error);
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

/* Dawn is loaded from there (backend/webgpu/gpu_loader.c). */
static int allow_dawn(af_sandbox *sandbox, af_error *error) {
    char path[PATH_SIZE];
    if (!af_os_beside_executable("libwebgpu_dawn.so", path, sizeof path)) return 0;
    return af_sandbox_allow(sandbox, AF_ALLOW_READ, path, error);
}

int af_sandbox_allow_gpu(af_sandbox *sandbox, af_error *error) {
    nvidia nodes = {sandbox, error, 0};
    sandbox->drivers = true;
    int status = allow_rows(sandbox, gpu, sizeof gpu / sizeof *gpu, error);
    for (size_t i = 0; i < sizeof variables / sizeof *variables && !status; i++)
        status = allow_variable(sandbox, &variables[i], error);
    for (size_t i = 0; i < sizeof caches / sizeof *caches && !status; i++)
        status = allow_cache(sandbox, &caches[i], error);
    if (!status) status = allow_dawn(sandbox, error);
    if (!status) af_os_list("/dev", allow_nvidia, &nodes, NULL);
    return status ? status : nodes.status;
}
