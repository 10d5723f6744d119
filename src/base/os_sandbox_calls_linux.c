/* os_sandbox_calls_linux.c - seccomp: which system calls are left.
 *
 * Two policies from one form. Without a GPU all code that runs is ours and the C library's, whose calls we know: a list
 * of what is allowed, and nothing else. A GPU's driver runs inside this process, may be closed and changes with every
 * release, so that a list of its calls would be a guess that breaks servers: there everything is allowed but what a
 * server must never do, and Landlock holds the files. In both:
 *
 *   - a call is refused with EPERM, as if rights were missing: callers cope with that, and a probe does not end the
 *     server. Calls of another architecture (which have other numbers) end it: only an attack makes those.
 *   - a call newer than this file answers ENOSYS, as an older kernel would, so that a newer C library takes its old
 *     way; so does clone3, whose flags lie in memory where no filter can read them, and clone makes threads only.
 *
 * The filter is a chain of comparisons; the kernel remembers which calls pass whatever their arguments are and does not
 * run it for those (since 5.11).
 */
#include "base/os_sandbox_calls_linux.h"

#include "base/os_sandbox_linux.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE

enum { MOST_INSTRUCTIONS = 1024 };

typedef struct filter {
    struct sock_filter code[MOST_INSTRUCTIONS];
    unsigned short count;
} filter;

static void emit(filter *f, unsigned short code, unsigned char if_true, unsigned char if_false, uint32_t k) {
    if (f->count < MOST_INSTRUCTIONS) f->code[f->count] = (struct sock_filter){code, if_true, if_false, k};
    f->count++;
}

static void emit_load(filter *f, size_t offset) {
    emit(f, BPF_LD | BPF_W | BPF_ABS, 0, 0, (uint32_t)offset);
}

static void emit_return(filter *f, uint32_t verdict) {
    emit(f, BPF_RET | BPF_K, 0, 0, verdict);
}

/* Returns the verdict if the comparison with what was loaded holds. */
static void emit_if(filter *f, unsigned short comparison, uint32_t k, uint32_t verdict) {
    emit(f, BPF_JMP | comparison | BPF_K, 0, 1, k);
    emit_return(f, verdict);
}

static uint32_t refuse(int number) {
    return SECCOMP_RET_ERRNO | (uint32_t)number;
}

static void emit_plain(filter *f, const int *calls, size_t count, uint32_t verdict) {
    for (size_t i = 0; i < count; i++) emit_if(f, BPF_JEQ, (uint32_t)calls[i], verdict);
}

/* A call that depends on the low half of an argument; the kernel reads no more of these. */
static void emit_checked(filter *f, const checked_call *call) {
    const size_t body = 2 + 2 * call->count;
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, 0, (unsigned char)body, (uint32_t)call->number);
    emit_load(f, offsetof(struct seccomp_data, args) + 8u * call->argument);
    for (size_t i = 0; i < call->count; i++)
        emit_if(f, call->bits ? BPF_JSET : BPF_JEQ, call->values[i],
                call->refused ? refuse(EPERM) : (uint32_t)SECCOMP_RET_ALLOW);
    emit_return(f, call->refused ? (uint32_t)SECCOMP_RET_ALLOW : refuse(EPERM));
}

static void emit_all(filter *f, bool drivers) {
    emit_load(f, offsetof(struct seccomp_data, arch));
    emit(f, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, ARCHITECTURE);
    emit_return(f, SECCOMP_RET_KILL_PROCESS);
    emit_load(f, offsetof(struct seccomp_data, nr));
    emit_if(f, BPF_JGT, NEWEST_CALL, refuse(ENOSYS)); /* those of x32 too, from 0x40000000 on */
    emit_if(f, BPF_JEQ, SYS_clone3, refuse(ENOSYS));
#ifndef AF_SANITIZED
    const checked_call threads = {SYS_clone, 0, true, false, 1, {CLONE_THREAD}};
    emit_checked(f, &threads);
#endif
    const checked_call own = {SYS_tgkill, 0, false, false, 1, {(uint32_t)getpid()}};
    emit_checked(f, &own);
    emit_checked(f, drivers ? &ioctl_with_drivers : &ioctl_without);
    if (drivers)
        emit_plain(f, refused_calls, sizeof refused_calls / sizeof *refused_calls, refuse(EPERM));
    else
        emit_plain(f, allowed_calls, sizeof allowed_calls / sizeof *allowed_calls, SECCOMP_RET_ALLOW);
    emit_return(f, drivers ? (uint32_t)SECCOMP_RET_ALLOW : refuse(EPERM));
}

int af_sandbox_calls_enter(bool drivers, unsigned *in_force, af_error *error) {
    filter f = {.count = 0};
    emit_all(&f, drivers);
    if (f.count > MOST_INSTRUCTIONS)
        return af_fail(error, AF_EINVAL, "%u instructions, room for %d", f.count, MOST_INSTRUCTIONS);
    const struct sock_fprog program = {f.count, f.code};
    /* Before Linux 5.16 a filter would also slow the processor's speculation down, against code that attacks from
     * inside its own process; none of that runs here. */
    const unsigned flags = SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    const long failed = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    if (failed && (errno == ENOSYS || errno == EINVAL)) return 0; /* a kernel built without */
    if (failed) return af_fail(error, AF_EIO, "seccomp: %s", failed > 0 ? "a thread" : strerror(errno));
    *in_force |= AF_SANDBOX_CALLS | AF_SANDBOX_NETWORK; /* no socket is made */
    return 0;
}

#else

int af_sandbox_calls_enter(bool drivers, unsigned *in_force, af_error *error) {
    (void)drivers, (void)in_force, (void)error;
    return 0; /* a processor whose calls we do not know */
}

#endif
