/* os_library_linux.c - shared libraries by file or from memory (a memfd, so that one executable can carry one), and
 * whether a GPU's device node is there at all. */
#include "base/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int af_os_library_open(const char *path, void **out, af_error *error) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return af_fail(error, AF_EIO, "%s: cannot load: %s", path, dlerror());
    *out = library;
    return AF_OK;
}

static bool write_all(int fd, const unsigned char *p, size_t n) {
    while (n > 0) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR) return false;
        if (done > 0) p += done, n -= (size_t)done;
    }
    return true;
}

int af_os_library_open_memory(const char *name, const void *bytes, size_t n, void **out, af_error *error) {
    const int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) return af_fail(error, AF_EIO, "%s: memfd_create: %s", name, strerror(errno));
    int status = AF_OK;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!write_all(fd, bytes, n))
        status = af_fail(error, AF_EIO, "%s: writing %zu bytes to memory: %s", name, n, strerror(errno));
    else
        status = af_os_library_open(path, out, error);
    close(fd); /* the mapping keeps the file alive */
    return status;
}

static bool see_gpu(void *user, const char *name) {
    bool *seen = user;
    *seen = strncmp(name, "renderD", 7) == 0 || strncmp(name, "nvidia", 6) == 0 || strcmp(name, "dxg") == 0;
    return !*seen;
}

/* Direct rendering nodes, NVIDIA's own, and WSL's. */
bool af_os_may_have_gpu(void) {
    static const char *const folders[] = {"/dev/dri", "/dev"};
    bool seen = false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders && !seen; i++) af_os_list(folders[i], see_gpu, &seen, NULL);
    return seen;
}

void *af_os_library_symbol(void *library, const char *name) {
    return dlsym(library, name);
}

bool af_os_beside_executable(const char *name, char *out, size_t out_size) {
    const ssize_t n = readlink("/proc/self/exe", out, out_size - 1);
    if (n <= 0) return false;
    out[n] = '\0';
    char *slash = strrchr(out, '/');
    const size_t room = slash ? out_size - (size_t)(slash + 1 - out) : 0;
    if (!slash || strlen(name) >= room) return false;
    memcpy(slash + 1, name, strlen(name) + 1);
    return access(out, R_OK) == 0;
}
