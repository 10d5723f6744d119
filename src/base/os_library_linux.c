/* os_library_linux.c - shared libraries by file or from memory (a memfd, so that one executable can carry one), which
 * build this code is of, and whether a GPU's device node is there at all. */
#include "base/os_linux.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
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

int af_os_library_open_memory(const char *name, const void *bytes, size_t n, void **out, af_error *error) {
    const int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0) return af_fail(error, AF_EIO, "%s: memfd_create: %s", name, strerror(errno));
    int status = AF_OK;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!af_linux_write(fd, bytes, n))
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

typedef struct build_id {
    unsigned char *out;
    size_t room, n;
} build_id;

/* Notes stand one after another: three words, then name and contents, each filled up to whole words. */
static void find_note(build_id *id, const unsigned char *p, size_t n) {
    ElfW(Nhdr) note;
    while (n >= sizeof note) {
        memcpy(&note, p, sizeof note);
        const size_t name = (note.n_namesz + 3u) & ~(size_t)3, contents = (note.n_descsz + 3u) & ~(size_t)3;
        if (name > n - sizeof note || contents > n - sizeof note - name) return;
        if (note.n_type == NT_GNU_BUILD_ID && name == 4 && memcmp(p + sizeof note, "GNU", 4) == 0) {
            id->n = note.n_descsz < id->room ? note.n_descsz : id->room;
            memcpy(id->out, p + sizeof note + name, id->n);
            return;
        }
        p += sizeof note + name + contents;
        n -= sizeof note + name + contents;
    }
}

/* Of the object that this function is part of. */
static int see_object(struct dl_phdr_info *object, size_t size, void *user) {
    (void)size;
    build_id *id = user;
    const uintptr_t here = (uintptr_t)see_object;
    bool ours = false;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        ours = ours || (part->p_type == PT_LOAD && here - (object->dlpi_addr + part->p_vaddr) < part->p_memsz);
    }
    for (int i = 0; ours && i < object->dlpi_phnum && id->n == 0; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_NOTE) continue;
        find_note(id, (const unsigned char *)(object->dlpi_addr + part->p_vaddr), part->p_memsz);
    }
    return ours;
}

size_t af_os_build_id(unsigned char *out, size_t room) {
    build_id id = {.out = out, .room = room};
    dl_iterate_phdr(see_object, &id);
    return id.n;
}
