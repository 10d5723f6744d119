/* os_file_linux.c - files and directories (os.h).
 *
 * Known limit: a file that another program cuts short while it is mapped raises SIGBUS on the next touch of a lost
 * page. Model files are written once and then left alone; guarding every kernel against it would cost more than it
 * gives. */
#include "base/buf.h"
#include "base/os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_STEP 65536

static int fail_errno(af_error *error, const char *path, const char *what) {
    return af_fail(error, AF_EIO, "%s: cannot %s: %s", path, what, strerror(errno));
}

static af_file_kind kind_of(mode_t mode) {
    if (S_ISREG(mode)) return AF_FILE_REGULAR;
    return S_ISDIR(mode) ? AF_FILE_DIRECTORY : AF_FILE_OTHER;
}

static int check_mappable(const char *path, const struct stat *s, af_error *error) {
    if (kind_of(s->st_mode) == AF_FILE_DIRECTORY) return af_fail(error, AF_EIO, "%s: is a directory, not a file", path);
    if (kind_of(s->st_mode) != AF_FILE_REGULAR)
        return af_fail(error, AF_EIO, "%s: is a device or a pipe, not a file", path);
    if (s->st_size <= 0) return af_fail(error, AF_EFORMAT, "%s: is empty", path);
    return 0;
}

int af_os_map_file(const char *path, af_mapping *out, af_error *error) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe must not hold us up */
    if (fd < 0) return fail_errno(error, path, "open");
    struct stat s;
    int status = fstat(fd, &s) ? fail_errno(error, path, "stat") : check_mappable(path, &s, error);
    if (!status) {
        size_t size = (size_t)s.st_size;
        void *p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            status = fail_errno(error, path, "map");
        else
            *out = (af_mapping){p, size};
    }
    close(fd);
    return status;
}

void af_os_unmap(af_mapping *mapping) {
    if (mapping->p) munmap((void *)(uintptr_t)mapping->p, mapping->size);
    *mapping = (af_mapping){0};
}

af_file_stat af_os_stat(const char *path) {
    struct stat s;
    if (stat(path, &s)) return (af_file_stat){.kind = AF_FILE_NONE};
    return (af_file_stat){.kind = kind_of(s.st_mode),
                          .size = (uint64_t)s.st_size,
                          .modified = (int64_t)s.st_mtim.tv_sec * 1000000000 + s.st_mtim.tv_nsec,
                          .device = s.st_dev,
                          .inode = s.st_ino};
}

static int is_entry(const struct dirent *e) {
    return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

int af_os_list(const char *directory, bool (*fn)(void *user, const char *name), void *user, af_error *error) {
    struct dirent **entries;
    int count = scandir(directory, &entries, is_entry, by_bytes);
    if (count < 0) return fail_errno(error, directory, "list");
    bool go_on = true;
    for (int i = 0; i < count; i++) {
        go_on = go_on && fn(user, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}

/* Appends all of fd to text, whose ceiling bounds it. */
static int read_all(int fd, const char *path, af_buf *text, af_error *error) {
    for (;;) {
        size_t room = text->ceiling - text->len;
        char extra;
        if (room && !af_buf_reserve(text, room < READ_STEP ? room : READ_STEP))
            return af_fail_memory(error, text->len + READ_STEP, path);
        ssize_t n = room ? read(fd, text->p + text->len, room < READ_STEP ? room : READ_STEP) : read(fd, &extra, 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno(error, path, "read");
        if (n == 0) return 0;
        if (!room)
            return af_fail(error, AF_EFORMAT, "%s: larger than %zu bytes, the most allowed", path, text->ceiling);
        text->len += (size_t)n;
    }
}

int af_os_read_file(const char *path, size_t ceiling, char **text, size_t *size, af_error *error) {
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail_errno(error, path, "open");
    af_buf buf = {.ceiling = ceiling ? ceiling : 1};
    int status = read_all(fd, standard ? "standard input" : path, &buf, error);
    if (!standard) close(fd);
    if (status) {
        af_buf_clear(&buf);
        return status;
    }
    char *taken = af_buf_take(&buf, size);
    if (!taken) return af_fail_memory(error, 1, path);
    *text = taken;
    return 0;
}

bool af_os_real_path(const char *path, char *out, size_t out_size) {
    char *resolved = realpath(path, NULL);
    bool fits = resolved && strlen(resolved) < out_size;
    if (fits) memcpy(out, resolved, strlen(resolved) + 1);
    free(resolved);
    return fits;
}

const char *af_os_home(void) {
    const char *home = getenv("HOME");
    return home && *home ? home : "/";
}

bool af_os_cache_path(const char *below, char *out, size_t out_size) {
    const char *named = getenv("XDG_CACHE_HOME");
    const bool given = named && *named == '/';
    const int n = snprintf(out, out_size, "%s%s/%s", given ? named : af_os_home(), given ? "" : "/.cache", below);
    return n > 0 && (size_t)n < out_size;
}

void af_os_make_folders(const char *path) {
    char *copy = strdup(path);
    for (char *slash = copy; slash && (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = 0;
        mkdir(copy, 0700);
    }
    if (copy) mkdir(copy, 0700);
    free(copy);
}
