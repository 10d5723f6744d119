/* os_sandbox_calls_linux.h - the tables of os_sandbox_calls_linux.c, which alone includes it (and its test).
 *
 * The allowed list is what glibc, musl, OpenSSL, libevent and this program use, grouped by purpose, and siblings of
 * those that a later version may take instead. Calls by name only on x86-64 are the old forms that arm64 never had.
 */
#ifndef AF_OS_SANDBOX_CALLS_LINUX_H
#define AF_OS_SANDBOX_CALLS_LINUX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

/* LeakSanitizer stops the threads from a process that it makes: these builds allow that. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define AF_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define AF_SANITIZED 1
#endif
#endif

/* From 424 on, numbers are the same on every processor (include/uapi/asm-generic/unistd.h). Headers may not have the
 * last of them yet. */
enum {
    CALL_FUTEX_WAITV = 449,
    CALL_CACHESTAT = 451,
    CALL_FCHMODAT2 = 452,
    CALL_MAP_SHADOW_STACK = 453,
    CALL_FUTEX_WAKE = 454,
    CALL_FUTEX_WAIT = 455,
    CALL_FUTEX_REQUEUE = 456,
    CALL_LSM_SET_SELF_ATTR = 460,
    CALL_MSEAL = 462,
    CALL_SETXATTRAT = 463,
    CALL_REMOVEXATTRAT = 466,
    CALL_OPEN_TREE_ATTR = 467,
    NEWEST_CALL = 467
};

/* A call whose verdict depends on an argument: refused, or else allowed, if that is one of the values, or has bits of
 * one. */
typedef struct checked_call {
    int number;
    uint8_t argument;
    bool bits, refused;
    uint8_t count;
    uint32_t values[8];
} checked_call;

/* Questions about a descriptor: is it a terminal (in both forms), how wide, how much is there to read. */
static const checked_call ioctl_without = {
    SYS_ioctl, 1, false, false, 7, {TCGETS, 0x802c542a, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX}};
/* Drivers have their own calls. Typing into the terminal is for nobody: TIOCSTI, and TIOCLINUX's paste. */
static const checked_call ioctl_with_drivers = {SYS_ioctl, 1, false, true, 3, {TIOCSTI, TIOCLINUX, TIOCCONS}};

static const int allowed_calls[] = {
    /* memory, and on which node of it */
    SYS_brk,
    SYS_mmap,
    SYS_munmap,
    SYS_mremap,
    SYS_mprotect,
    SYS_madvise,
    SYS_mincore,
    SYS_msync,
    SYS_mlock,
    SYS_mlock2,
    SYS_munlock,
    SYS_membarrier,
    SYS_mbind,
    SYS_get_mempolicy,
    SYS_set_mempolicy,
    SYS_move_pages,
    CALL_MSEAL,
    CALL_MAP_SHADOW_STACK,
    /* threads; clone and tgkill are checked */
    SYS_futex,
    CALL_FUTEX_WAITV,
    CALL_FUTEX_WAKE,
    CALL_FUTEX_WAIT,
    CALL_FUTEX_REQUEUE,
    SYS_set_robust_list,
    SYS_get_robust_list,
    SYS_rseq,
    SYS_set_tid_address,
    SYS_gettid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_sched_setaffinity,
    SYS_sched_getparam,
    SYS_sched_getscheduler,
    SYS_sched_get_priority_max,
    SYS_sched_get_priority_min,
    SYS_getcpu,
    SYS_getpriority,
    SYS_setpriority,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    /* this process; of it prctl names threads and memory */
    SYS_getpid,
    SYS_getppid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
    SYS_prctl,
    SYS_prlimit64,
    SYS_getrusage,
    SYS_times,
    SYS_uname,
    SYS_sysinfo,
    SYS_getrandom,
    /* time */
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_timerfd_create,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    /* signals */
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_rt_sigpending,
    SYS_rt_sigtimedwait,
    SYS_rt_sigsuspend,
    SYS_sigaltstack,
    SYS_signalfd4,
    /* files: what may be opened, made and removed is Landlock's */
    SYS_openat,
    SYS_openat2,
    SYS_close,
    SYS_close_range,
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_statfs,
    SYS_fstatfs,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_getdents64,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_fcntl,
    SYS_dup,
    SYS_dup3,
    SYS_unlinkat,
    SYS_renameat,
    SYS_renameat2,
    SYS_mkdirat,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_utimensat,
    SYS_sync_file_range,
    SYS_flock,
    SYS_fadvise64,
    SYS_readahead,
    SYS_copy_file_range,
    SYS_sendfile,
    SYS_umask,
    SYS_memfd_create,
    CALL_CACHESTAT,
    /* waiting */
    SYS_ppoll,
    SYS_pselect6,
    SYS_epoll_create1,
    SYS_epoll_ctl,
    SYS_epoll_pwait,
    SYS_epoll_pwait2,
    SYS_eventfd2,
    SYS_pipe2,
    /* connections that others make */
    SYS_accept,
    SYS_accept4,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_recvfrom,
    SYS_sendto,
    SYS_recvmsg,
    SYS_sendmsg,
    SYS_shutdown,
    SYS_socketpair,
#ifdef __x86_64__
    SYS_arch_prctl, /* the matrix tiles' permission */
    SYS_getrlimit,
    SYS_time,
    SYS_open,
    SYS_stat,
    SYS_lstat,
    SYS_access,
    SYS_getdents,
    SYS_readlink,
    SYS_dup2,
    SYS_unlink,
    SYS_rename,
    SYS_mkdir,
    SYS_rmdir,
    SYS_poll,
    SYS_select,
    SYS_epoll_create,
    SYS_epoll_wait,
    SYS_eventfd,
    SYS_pipe,
#endif
#ifdef AF_SANITIZED
    SYS_clone,
    SYS_ptrace,
    SYS_wait4,
#endif
};

static const int refused_calls[] = {
    /* other programs and processes */
    SYS_execve,
    SYS_execveat,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_open,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_process_madvise,
    SYS_process_mrelease,
#ifndef AF_SANITIZED
    SYS_ptrace,
#endif
    /* connections that we would make, and ports */
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    /* rights and owners, of files (Landlock knows nothing of these) and of this process */
    SYS_fchmod,
    SYS_fchmodat,
    CALL_FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    CALL_SETXATTRAT,
    CALL_REMOVEXATTRAT,
    SYS_truncate,
    SYS_linkat,
    SYS_symlinkat,
    SYS_mknodat,
    SYS_setuid,
    SYS_setgid,
    SYS_setreuid,
    SYS_setregid,
    SYS_setresuid,
    SYS_setresgid,
    SYS_setfsuid,
    SYS_setfsgid,
    SYS_setgroups,
    SYS_capset,
    SYS_personality,
    CALL_LSM_SET_SELF_ATTR,
    /* the kernel: what is large, seldom used, or for the machine's administrator */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_setup,
    SYS_io_submit,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_syslog,
    SYS_acct,
    SYS_quotactl,
    SYS_quotactl_fd,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_fanotify_init,
    SYS_fanotify_mark,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    /* other views of the file system */
    SYS_unshare,
    SYS_setns,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    SYS_mount_setattr,
    SYS_move_mount,
    SYS_open_tree,
    CALL_OPEN_TREE_ATTR,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef __x86_64__
    SYS_fork,
    SYS_vfork,
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
    SYS_link,
    SYS_symlink,
    SYS_mknod,
    SYS_modify_ldt,
    SYS_iopl,
    SYS_ioperm,
#endif
};

#endif
