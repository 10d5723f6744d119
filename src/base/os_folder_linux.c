/* os_folder_linux.c - see os_folder.h. Everything goes through the folder's descriptor. */
#include "base/os_folder.h"

#include "base/os_linux.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ASIDE      ".aside-" /* and numbers of its writer's own, while a file is written */
#define ABANDONED  3600      /* seconds after which its writer must have died */
#define NAME_BYTES 256
#define NANO       1000000000

struct af_folder {
    int fd;
    char *path; /* for messages */
};

static int fail_errno(af_error *error, const af_folder *folder, const char *name, const char *what) {
    return af_fail(error, AF_EIO, "%s/%s: cannot %s: %s", folder->path, name, what, strerror(errno));
}

static bool is_ours(const struct stat *s) {
    return S_ISREG(s->st_mode) && s->st_uid == geteuid();
}

/* ---- The folder ---- */

static int check_folder(const af_folder *folder, af_error *error) {
    struct stat s;
    if (fstat(folder->fd, &s)) return fail_errno(error, folder, "", "stat");
    if (s.st_uid != geteuid()) return af_fail(error, AF_EIO, "%s: belongs to another user", folder->path);
    if (s.st_mode & (S_IWGRP | S_IWOTH))
        return af_fail(error, AF_EIO, "%s: others may write to it (mode %o, allowed: 700 or 755)", folder->path,
                       s.st_mode & 07777);
    return AF_OK;
}

int af_folder_open(const char *path, af_folder **out, af_error *error) {
    af_folder *folder = calloc(1, sizeof *folder);
    if (folder) folder->path = strdup(path);
    if (!folder || !folder->path) {
        free(folder);
        return af_fail_memory(error, strlen(path), "a folder");
    }
    if (mkdir(path, 0700) && errno != EEXIST)
        folder->fd = -1;
    else
        folder->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = folder->fd < 0 ? af_fail(error, AF_EIO, "%s: cannot open this folder: %s", path, strerror(errno))
                                : check_folder(folder, error);
    if (status == AF_OK)
        *out = folder;
    else
        af_folder_close(folder);
    return status;
}

void af_folder_close(af_folder *folder) {
    if (!folder) return;
    if (folder->fd >= 0) close(folder->fd);
    free(folder->path);
    free(folder);
}

/* True for a file that is being written; one that nobody writes any more is removed. */
static bool is_aside(const af_folder *folder, const char *name, const struct stat *s) {
    if (!strstr(name, ASIDE)) return false;
    if (time(NULL) - s->st_mtim.tv_sec > ABANDONED) unlinkat(folder->fd, name, 0);
    return true;
}

int af_folder_list(af_folder *folder, void (*fn)(void *user, const af_folder_entry *entry), void *user,
                   af_error *error) {
    const int fd = openat(folder->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a place of its own to read from */
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        const int status = fail_errno(error, folder, ".", "list");
        if (fd >= 0) close(fd);
        return status;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        struct stat s;
        if (fstatat(folder->fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW) || !is_ours(&s)) continue;
        if (is_aside(folder, e->d_name, &s)) continue;
        fn(user, &(af_folder_entry){.name = e->d_name,
                                    .size = (uint64_t)s.st_size,
                                    .modified = (int64_t)s.st_mtim.tv_sec * NANO + s.st_mtim.tv_nsec});
    }
    closedir(dir);
    return AF_OK;
}

/* ---- Files ---- */

static int read_exactly(const af_folder *folder, int fd, const char *name, unsigned char *p, size_t n,
                        af_error *error) {
    while (n > 0) {
        const ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail_errno(error, folder, name, "read");
        if (got == 0) return af_fail(error, AF_EFORMAT, "%s/%s: ends too early", folder->path, name);
        p += got;
        n -= (size_t)got;
    }
    return AF_OK;
}

int af_folder_read(af_folder *folder, const char *name, void *bytes, size_t n, af_error *error) {
    struct stat s;
    const int fd = openat(folder->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return fail_errno(error, folder, name, "open");
    int status = fstat(fd, &s) ? fail_errno(error, folder, name, "stat") : AF_OK;
    if (status == AF_OK && !is_ours(&s))
        status = af_fail(error, AF_EIO, "%s/%s: is not a plain file of this user", folder->path, name);
    if (status == AF_OK && (uint64_t)s.st_size != n)
        status = af_fail(error, AF_EFORMAT, "%s/%s: has %lld bytes, must have %zu", folder->path, name,
                         (long long)s.st_size, n);
    if (status == AF_OK) status = read_exactly(folder, fd, name, bytes, n, error);
    close(fd);
    return status;
}

bool af_linux_write(int fd, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, p, n);
        if (done < 0 && errno != EINTR) return false;
        if (done > 0) p += done, n -= (size_t)done;
    }
    return true;
}

/* Only the file itself: its name is as durable as the folder's next sync, and losing it loses nothing else. */
static int write_aside(af_folder *folder, const char *aside, const void *bytes, size_t n, af_error *error) {
    const int fd = openat(folder->fd, aside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return fail_errno(error, folder, aside, "make");
    int status = AF_OK;
    if (!af_linux_write(fd, bytes, n) || fdatasync(fd)) status = fail_errno(error, folder, aside, "write");
    if (close(fd) && status == AF_OK) status = fail_errno(error, folder, aside, "close");
    return status;
}

void af_folder_touch(af_folder *folder, const char *name, int64_t modified) {
    const struct timespec times[2] = {{modified / NANO, modified % NANO}, {modified / NANO, modified % NANO}};
    if (utimensat(folder->fd, name, times, AT_SYMLINK_NOFOLLOW)) return; /* it is gone, and nobody needs it */
}

int af_folder_write(af_folder *folder, const char *name, const void *bytes, size_t n, int64_t modified,
                    af_error *error) {
    char aside[NAME_BYTES];
    static atomic_uint writes;
    const unsigned number = atomic_fetch_add(&writes, 1);
    if (snprintf(aside, sizeof aside, "%s" ASIDE "%d-%u", name, (int)getpid(), number) >= (int)sizeof aside)
        return af_fail(error, AF_EINVAL, "%s: is too long a name", name);
    int status = write_aside(folder, aside, bytes, n, error);
    if (status == AF_OK) af_folder_touch(folder, aside, modified);
    if (status == AF_OK && renameat(folder->fd, aside, folder->fd, name))
        status = fail_errno(error, folder, name, "rename to");
    if (status != AF_OK) unlinkat(folder->fd, aside, 0);
    return status;
}

void af_folder_remove(af_folder *folder, const char *name) {
    unlinkat(folder->fd, name, 0);
}
