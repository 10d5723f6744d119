/* os_misc_linux.c - time, terminal, randomness (os.h). */
#include "base/os.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

uint64_t af_os_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t af_os_unix_time(void) {
    return time(NULL);
}

void af_os_local_time(struct tm *out) {
    time_t now = time(NULL);
    localtime_r(&now, out);
}

bool af_os_stderr_is_terminal(void) {
    return isatty(STDERR_FILENO);
}

bool af_os_stdout_is_terminal(void) {
    return isatty(STDOUT_FILENO);
}

/* Predictable numbers where random ones are expected would be worse than an end: the call fails only on systems that do
 * not have it. */
void af_os_random(void *p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)p + done, n - done, 0);
        if (got < 0 && errno != EINTR) abort();
        if (got > 0) done += (size_t)got;
    }
}
