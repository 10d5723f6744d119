/* os_sandbox_linux.c - the order in which rights are given up (os.h).
 *
 * Two of the kernel's means, because each leaves holes that the other closes: Landlock knows paths, but nothing of
 * chmod, of starting programs that were open before, or of the rest of the kernel; seccomp knows calls, but not what a
 * path leads to. Neither needs privileges. Both work without the other, and a kernel that lacks one is no error: what
 * is in force is told.
 *
 * Who is root also gives up root's privileges, which reach past both: reading other processes' memory, for one.
 *
 * Not a jail against a process that was hostile from the start: descriptors that are open already stay as they are.
 */
#include "base/os_sandbox_linux.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What root keeps: files of other users, which Landlock bounds, and memory that is not swapped. */
#define KEPT_CAPABILITIES (1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_IPC_LOCK)

int af_sandbox_open(af_sandbox **out, af_error *error) {
    af_sandbox *sandbox = calloc(1, sizeof *sandbox);
    if (!sandbox) return af_fail_memory(error, sizeof *sandbox, "the sandbox");
    sandbox->ruleset = -1;
    int status = af_sandbox_files_open(sandbox, error);
    if (!status) status = af_sandbox_allow_common(sandbox, error);
    if (status)
        af_sandbox_close(sandbox);
    else
        *out = sandbox;
    return status;
}

void af_sandbox_close(af_sandbox *sandbox) {
    if (!sandbox) return;
    if (sandbox->ruleset >= 0) close(sandbox->ruleset);
    free(sandbox);
}

static int drop_capabilities(af_error *error) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
    long failed = syscall(SYS_capget, &header, sets);
    for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
        const uint32_t kept = i == 0 ? KEPT_CAPABILITIES : 0;
        sets[i].effective &= kept;
        sets[i].permitted &= kept;
        sets[i].inheritable = 0;
    }
    if (!failed) failed = syscall(SYS_capset, &header, sets);
    return failed ? af_fail(error, AF_EIO, "capset: %s", strerror(errno)) : 0;
}

int af_sandbox_enter(af_sandbox *sandbox, unsigned *in_force, af_error *error) {
    int status = 0;
    *in_force = 0;
    /* From here on no program gains rights by being run: what both demand of those who are not root. */
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) status = af_fail(error, AF_EIO, "no_new_privs: %s", strerror(errno));
    if (!status) status = drop_capabilities(error);
    if (!status) status = af_sandbox_files_enter(sandbox, in_force, error);
    if (!status) status = af_sandbox_calls_enter(sandbox->drivers, in_force, error);
    af_sandbox_close(sandbox);
    return status;
}
