/* os_memory_linux.c - pages (os.h). How many of them this process may have is os_limits_linux.c's business. */
#include "base/os.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

void *af_os_pages(size_t size, bool huge) {
    if (size == 0) size = 1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if (huge) madvise(p, size, MADV_HUGEPAGE);
    return p;
}

void af_os_pages_free(void *p, size_t size) {
    if (p) munmap(p, size ? size : 1);
}

/* The whole pages within p[0, n) (inward), or those that it touches (!inward). False if there are none. */
static bool page_range(const void *p, size_t n, bool inward, void **start, size_t *size) {
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)p, last = first + n;
    first = inward ? (first + page - 1) / page * page : first / page * page;
    if (inward) last = last / page * page;
    if (last <= first) return false;
    *start = (void *)first;
    *size = last - first;
    return true;
}

void af_os_memory_trim(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void af_os_release(const void *p, size_t n) {
    void *start;
    size_t size;
    if (page_range(p, n, true, &start, &size)) madvise(start, size, MADV_DONTNEED);
}

void af_os_prefetch(const void *p, size_t n) {
    void *start;
    size_t size;
    if (page_range(p, n, false, &start, &size)) madvise(start, size, MADV_WILLNEED);
}
