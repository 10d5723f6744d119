/* os_sandbox_files_linux.c - Landlock: which files, ports and processes this one may reach.
 *
 * Everything that the kernel's version of Landlock can forbid is forbidden; what is allowed are paths. To start a
 * program is allowed nowhere: shared libraries do not need that right. A rule holds on to the file or folder that was
 * there when it was made, so that what is put in the place of a file is not allowed, but what is put into a folder is.
 *
 * Numbers are the kernel's (include/uapi/linux/landlock.h; Documentation/userspace-api/landlock.rst has which version
 * added what). They stand here because the headers of a system that builds are often older than the kernel that runs.
 */
#include "base/os_sandbox_linux.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH      1

/* Rights; the calls with these numbers exist from version 1 on unless it is said. */
enum {
    EXECUTE = 1 << 0,
    WRITE_FILE = 1 << 1,
    READ_FILE = 1 << 2,
    READ_DIR = 1 << 3,
    REMOVE_DIR = 1 << 4,
    REMOVE_FILE = 1 << 5,
    MAKE_DIR = 1 << 7,
    MAKE_REG = 1 << 8,
    REFER = 1 << 13,     /* rename into another folder; 2 */
    TRUNCATE = 1 << 14,  /* 3 */
    IOCTL_DEV = 1 << 15, /* 5 */
    OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
};

typedef struct ruleset_attributes {
    uint64_t files, ports, scopes;
} ruleset_attributes;

typedef struct path_rule {
    uint64_t allowed;
    int32_t folder;
} __attribute__((packed)) path_rule;

/* What each version can forbid, all that came before included, and what of it that puts in force. */
static const struct version {
    unsigned abi;
    size_t attribute_bytes;
    ruleset_attributes forbidden;
    unsigned in_force;
} versions[] = {
    {1, 8, {(1 << 13) - 1, 0, 0}, AF_SANDBOX_FILES},
    {2, 8, {(1 << 14) - 1, 0, 0}, AF_SANDBOX_FILES},
    {3, 8, {(1 << 15) - 1, 0, 0}, AF_SANDBOX_FILES},
    {4, 16, {(1 << 15) - 1, 3, 0}, AF_SANDBOX_FILES | AF_SANDBOX_NETWORK}, /* TCP: bind, connect */
    {5, 16, {(1 << 16) - 1, 3, 0}, AF_SANDBOX_FILES | AF_SANDBOX_NETWORK},
    {6, 24, {(1 << 16) - 1, 3, 3}, AF_SANDBOX_FILES | AF_SANDBOX_NETWORK}, /* signals, abstract sockets */
};

static const struct version *version_of(unsigned abi) {
    const struct version *found = NULL;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        if (versions[i].abi <= abi) found = &versions[i];
    return found;
}

/* A kernel built without, one started without, and a container that hides it all answer with an error. */
int af_sandbox_files_open(af_sandbox *sandbox, af_error *error) {
    const long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    if (abi < 1) return 0;
    const struct version *v = version_of((unsigned)abi);
    const long ruleset = syscall(SYS_landlock_create_ruleset, &v->forbidden, v->attribute_bytes, 0);
    if (ruleset < 0) return af_fail(error, AF_EIO, "landlock_create_ruleset: %s", strerror(errno));
    sandbox->ruleset = (int)ruleset;
    sandbox->abi = (unsigned)abi;
    return 0;
}

static uint64_t rights_of(af_allow what) {
    static const uint64_t rights[] = {
        [AF_ALLOW_READ] = READ_FILE | READ_DIR,
        [AF_ALLOW_CHANGE] =
            READ_FILE | READ_DIR | WRITE_FILE | TRUNCATE | MAKE_REG | MAKE_DIR | REMOVE_FILE | REMOVE_DIR | REFER,
        [AF_ALLOW_REMOVE] = REMOVE_FILE,
        [AF_ALLOW_DEVICE] = READ_FILE | READ_DIR | WRITE_FILE | IOCTL_DEV,
    };
    return rights[what];
}

static int allow_open(const af_sandbox *sandbox, uint64_t rights, int fd, const char *path, af_error *error) {
    struct stat s;
    rights &= version_of(sandbox->abi)->forbidden.files; /* what is not forbidden cannot be allowed */
    if (fstat(fd, &s)) return af_fail(error, AF_EIO, "%s: cannot stat: %s", path, strerror(errno));
    if (!S_ISDIR(s.st_mode)) rights &= OF_FILES;
    const path_rule rule = {rights, fd};
    if (!rights || !syscall(SYS_landlock_add_rule, sandbox->ruleset, RULE_PATH_BENEATH, &rule, 0)) return 0;
    return af_fail(error, AF_EIO, "%s: landlock_add_rule: %s", path, strerror(errno));
}

int af_sandbox_allow(af_sandbox *sandbox, af_allow what, const char *path, af_error *error) {
    if (sandbox->ruleset < 0) return 0;
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0 && errno != EMFILE && errno != ENFILE) return 0; /* what we cannot reach need not be allowed */
    if (fd < 0) return af_fail(error, AF_EIO, "%s: cannot open: %s", path, strerror(errno));
    const int status = allow_open(sandbox, rights_of(what), fd, path, error);
    close(fd);
    return status;
}

int af_sandbox_files_enter(const af_sandbox *sandbox, unsigned *in_force, af_error *error) {
    if (sandbox->ruleset < 0) return 0;
    if (syscall(SYS_landlock_restrict_self, sandbox->ruleset, 0))
        return af_fail(error, AF_EIO, "landlock_restrict_self: %s", strerror(errno));
    *in_force |= version_of(sandbox->abi)->in_force;
    return 0;
}
