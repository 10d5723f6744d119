/* os_cores_linux.c - the processors this process may use, and the nodes of memory near them (os.h).
 *
 * A core is a group of processors that share its arithmetic (SMT siblings): of each, the first that the affinity mask
 * holds stands for it. Control groups bound processor time besides (a quota in each period), and the tightest of those
 * from this process's group up to the root holds.
 */
#include "base/os_linux.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH_SIZE  1024
#define NODES_MOST 64
#define INTERLEAVE 3 /* MPOL_INTERLEAVE in the kernel's linux/mempolicy.h */

/* ---- Masks ---- */

bool af_cpu_mask_has(const af_cpu_mask *mask, uint32_t cpu) {
    return cpu < AF_CPUS_MAX && mask->bits[cpu / 64] >> cpu % 64 & 1;
}

void af_cpu_mask_add(af_cpu_mask *mask, uint32_t cpu) {
    if (cpu < AF_CPUS_MAX) mask->bits[cpu / 64] |= (uint64_t)1 << cpu % 64;
}

/* By number: the C library's calls stop at 1,024 processors. */
bool af_os_thread_mask(af_cpu_mask *out) {
    *out = (af_cpu_mask){0};
    return syscall(SYS_sched_getaffinity, 0, sizeof out->bits, out->bits) > 0;
}

bool af_os_thread_keep_to(const af_cpu_mask *mask) {
    return syscall(SYS_sched_setaffinity, 0, sizeof mask->bits, mask->bits) == 0;
}

/* ---- The machine's topology ---- */

/* Takes the next range off a list such as "0-3,8": *p moves past it. False at the end, or where it is no list. */
static bool next_range(const char **p, uint32_t *first, uint32_t *last) {
    int n = 0;
    if (sscanf(*p, "%u%n", first, &n) != 1) return false;
    *p += n;
    *last = *first;
    if (**p == '-' && sscanf(*p, "-%u%n", last, &n) == 1) *p += n;
    if (**p == ',') ++*p;
    return true;
}

/* Is this processor the first of its core's siblings that the mask holds? */
static bool leads_its_core(const char *root, uint32_t cpu, const af_cpu_mask *mask) {
    char folder[PATH_SIZE], text[256];
    snprintf(folder, sizeof folder, "%s/sys/devices/system/cpu/cpu%u/topology", root, cpu);
    if (!af_linux_text(folder, "thread_siblings_list", text, sizeof text)) return true;
    uint32_t first, last;
    for (const char *p = text; next_range(&p, &first, &last);)
        for (uint32_t sibling = first; sibling <= last && sibling < cpu; sibling++)
            if (af_cpu_mask_has(mask, sibling)) return false;
    return true;
}

/* The processors of a node of memory; false if there is no such node. */
static bool node_mask(const char *root, uint32_t node, af_cpu_mask *out) {
    char folder[PATH_SIZE], text[4096];
    snprintf(folder, sizeof folder, "%s/sys/devices/system/node/node%u", root, node);
    if (!af_linux_text(folder, "cpulist", text, sizeof text)) return false;
    *out = (af_cpu_mask){0};
    uint32_t first, last;
    for (const char *p = text; next_range(&p, &first, &last);)
        for (uint32_t cpu = first; cpu <= last && cpu < AF_CPUS_MAX; cpu++) af_cpu_mask_add(out, cpu);
    return true;
}

/* Takes the cores of `mask` that lie in `within`, as node `node`, out of `mask`; returns how many there are now. */
static uint32_t take_cores(const char *root, const af_cpu_mask *allowed, const af_cpu_mask *within, uint32_t node,
                           af_cpu_mask *mask, af_core *out, uint32_t count, uint32_t most) {
    for (uint32_t cpu = 0; cpu < AF_CPUS_MAX && count < most; cpu++) {
        if (!af_cpu_mask_has(mask, cpu) || (within && !af_cpu_mask_has(within, cpu))) continue;
        mask->bits[cpu / 64] &= ~((uint64_t)1 << cpu % 64);
        if (!leads_its_core(root, cpu, allowed)) continue;
        if (out) out[count] = (af_core){cpu, node};
        count++;
    }
    return count;
}

uint32_t af_linux_core_list(const char *root, const af_cpu_mask *mask, af_core *out, uint32_t most) {
    af_cpu_mask left = *mask, within;
    uint32_t count = 0;
    for (uint32_t node = 0; node < NODES_MOST; node++)
        if (node_mask(root, node, &within)) count = take_cores(root, mask, &within, node, &left, out, count, most);
    return take_cores(root, mask, NULL, 0, &left, out, count, most); /* a machine that does not speak of nodes */
}

uint32_t af_os_core_list(af_core *out, uint32_t most) {
    af_cpu_mask mask;
    return af_os_thread_mask(&mask) ? af_linux_core_list("", &mask, out, most) : 0;
}

/* ---- Processor time ---- */

/* A quota of microseconds in each period is that many processors, rounded up. */
static void lower_to_quota(uint64_t *cores, int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0) return;
    const uint64_t allowed = (uint64_t)((quota - 1) / period + 1);
    if (allowed < *cores) *cores = allowed;
}

static void quota_v1(void *user, const char *folder) {
    int64_t quota, period;
    if (af_linux_number(folder, "cpu.cfs_quota_us", &quota) && af_linux_number(folder, "cpu.cfs_period_us", &period))
        lower_to_quota(user, quota, period);
}

static void quota_v2(void *user, const char *folder) {
    char text[64];
    long long quota, period;
    if (af_linux_text(folder, "cpu.max", text, sizeof text) && sscanf(text, "%lld %lld", &quota, &period) == 2)
        lower_to_quota(user, quota, period);
}

uint32_t af_linux_quota(const char *root, uint32_t cores) {
    uint64_t allowed = cores;
    af_linux_groups(root, "cpu", quota_v1, quota_v2, &allowed);
    return allowed ? (uint32_t)allowed : 1;
}

uint32_t af_os_cores(void) {
    const uint32_t cores = af_os_core_list(NULL, AF_CPUS_MAX);
    return af_linux_quota("", cores ? cores : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
}

/* ---- Memory of nodes ---- */

void af_os_interleave(void *p, size_t n) {
    unsigned long nodes = 0;
    af_cpu_mask mask;
    for (uint32_t node = 0; node < NODES_MOST; node++)
        if (node_mask("", node, &mask)) nodes |= 1UL << node;
    if (p && nodes & (nodes - 1)) syscall(SYS_mbind, p, n, INTERLEAVE, &nodes, (unsigned long)NODES_MOST + 1, 0);
}
