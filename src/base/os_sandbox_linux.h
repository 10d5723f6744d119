/* os_sandbox_linux.h - what the parts of the sandbox share: files (Landlock), calls (seccomp), and which files of the
 * system everybody and GPUs' drivers need. */
#ifndef AF_OS_SANDBOX_LINUX_H
#define AF_OS_SANDBOX_LINUX_H

#include "base/os.h"

struct af_sandbox {
    int ruleset;  /* Landlock's; -1 where the kernel has none */
    unsigned abi; /* its version, 0 where there is none */
    bool drivers; /* of a GPU run inside this process */
};

/* Landlock. */
int af_sandbox_files_open(af_sandbox *sandbox, af_error *error);
int af_sandbox_files_enter(const af_sandbox *sandbox, unsigned *in_force, af_error *error);

/* seccomp: for all threads there are. */
int af_sandbox_calls_enter(bool drivers, unsigned *in_force, af_error *error);

int af_sandbox_allow_common(af_sandbox *sandbox, af_error *error);

#endif
