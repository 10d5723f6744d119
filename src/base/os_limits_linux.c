/* os_limits_linux.c - what the machine and its control groups state about this process (os_linux.h), and how much
 * memory it may use (os.h). How much processor is os_cores_linux.c's business.
 *
 * Limits come from the machine (/proc, /sys) and from control groups of either version, in which every group from this
 * process's own up to the root may state one. Anything that cannot be read limits nothing.
 */
#include "base/os_linux.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define PATH_SIZE 1024

/* ---- Small files ---- */

bool af_linux_text(const char *folder, const char *file, char *out, size_t out_size) {
    char path[PATH_SIZE];
    int written = snprintf(path, sizeof path, "%s/%s", folder, file);
    int fd = written > 0 && (size_t)written < sizeof path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return false;
    size_t length = 0;
    ssize_t n;
    while (length + 1 < out_size && (n = read(fd, out + length, out_size - 1 - length)) > 0) length += (size_t)n;
    close(fd);
    out[length] = '\0';
    return length > 0;
}

bool af_linux_number(const char *folder, const char *file, int64_t *out) {
    char text[64];
    long long number;
    if (!af_linux_text(folder, file, text, sizeof text) || sscanf(text, "%lld", &number) != 1) return false;
    *out = number;
    return true;
}

/* The number after `name` at the start of a line; 0 if there is no such line. */
static uint64_t field(const char *text, const char *name) {
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        if (*line == '\n') line++;
        unsigned long long number;
        if (strncmp(line, name, n) == 0 && sscanf(line + n, "%llu", &number) == 1) return number;
    }
    return 0;
}

/* ---- Control groups ---- */

/* Does the comma-separated list hold the controller? The list of version 2 is empty. */
static bool list_holds(const char *list, size_t n, const char *controller) {
    size_t want = strlen(controller);
    for (size_t at = 0; at <= n;) {
        size_t end = at;
        while (end < n && list[end] != ',') end++;
        if (end - at == want && memcmp(list + at, controller, want) == 0) return true;
        at = end + 1;
    }
    return false;
}

/* This process's path within a hierarchy. A line of /proc/self/cgroup is "number:controllers:path". */
static bool group_path(const char *root, const char *controller, char *out, size_t out_size) {
    char text[4096], folder[PATH_SIZE];
    snprintf(folder, sizeof folder, "%s/proc/self", root);
    if (!af_linux_text(folder, "cgroup", text, sizeof text)) return false;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        const char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path || !list_holds(list + 1, (size_t)(path - list - 1), controller)) continue;
        int n = snprintf(out, out_size, "%s", path + 1);
        return n > 0 && (size_t)n < out_size;
    }
    return false;
}

/* Calls fn with each folder from this process's group up to the mount. In a container the path may not exist below the
 * mount: the files in those folders are then simply not there. */
static void visit_groups(const char *root, const char *under, const char *controller, af_linux_group_fn fn,
                         void *user) {
    char path[PATH_SIZE], mount[PATH_SIZE], folder[2 * PATH_SIZE];
    if (!group_path(root, controller, path, sizeof path)) return;
    snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, *under ? "/" : "", under);
    snprintf(folder, sizeof folder, "%s%s", mount, path);
    for (;;) {
        fn(user, folder);
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(mount)) return;
        *slash = '\0';
    }
}

/* Both versions, where distributions mount them. */
void af_linux_groups(const char *root, const char *controller, af_linux_group_fn v1, af_linux_group_fn v2, void *user) {
    visit_groups(root, controller, controller, v1, user);
    visit_groups(root, "", "", v2, user);
    visit_groups(root, "unified", "", v2, user);
}

/* ---- Memory ---- */

static void lower(uint64_t *value, uint64_t to) {
    if (to < *value) *value = to;
}

/* What a group may still take: its limit less what it uses, where pages of files count as free (the system drops them
 * before it refuses). */
static void lower_to_group(uint64_t *available, const char *folder, const char *limit_file, const char *usage_file,
                           const char *inactive, const char *active) {
    int64_t limit, usage;
    char stat[8192];
    if (!af_linux_number(folder, limit_file, &limit) || !af_linux_number(folder, usage_file, &usage)) return;
    uint64_t file_pages = 0;
    if (af_linux_text(folder, "memory.stat", stat, sizeof stat))
        file_pages = field(stat, inactive) + field(stat, active);
    uint64_t held = (uint64_t)usage > file_pages ? (uint64_t)usage - file_pages : 0;
    lower(available, (uint64_t)limit > held ? (uint64_t)limit - held : 0);
}

static void memory_v1(void *user, const char *folder) {
    lower_to_group(user, folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ",
                   "total_active_file ");
}

static void memory_v2(void *user, const char *folder) {
    lower_to_group(user, folder, "memory.max", "memory.current", "inactive_file ", "active_file ");
}

uint64_t af_linux_memory(const char *root) {
    char text[4096], proc[PATH_SIZE];
    uint64_t available = UINT64_MAX;
    snprintf(proc, sizeof proc, "%s/proc", root);
    if (af_linux_text(proc, "meminfo", text, sizeof text)) lower(&available, field(text, "MemAvailable:") * 1024);
    af_linux_groups(root, "memory", memory_v1, memory_v2, &available);
    return available;
}

uint64_t af_os_memory_available(void) {
    return af_linux_memory("");
}

uint64_t af_os_memory_resident(void) {
    char text[256];
    unsigned long long total, resident;
    if (!af_linux_text("/proc/self", "statm", text, sizeof text) || sscanf(text, "%llu %llu", &total, &resident) != 2)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
