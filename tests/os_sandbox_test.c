/* os_sandbox_test.c - what a process can and cannot do once it gave up its rights. Each test enters the sandbox in a
 * child, which says with its exit whether everything was as it should be. */
#include "base/os_sandbox_calls_linux.h"

#include "base/os.h"
#include "temp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

/* In a child, where cmocka's asserts would be nobody's. */
#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: %s (errno: %s)\n", __FILE__, __LINE__, #what, strerror(errno));                    \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)
#define REFUSED(call, number) (errno = 0, (call) == -1 && errno == (number))

/* The status that wait() gives of a child that runs fn. */
static int status_of(void (*fn)(void)) {
    const pid_t child = fork();
    if (child == 0) {
        fn();
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void assert_child(void (*fn)(void)) {
    assert_int_equal(status_of(fn), 0);
}

static af_sandbox *opened(void) {
    af_sandbox *sandbox;
    MUST(af_sandbox_open(&sandbox, NULL) == 0);
    return sandbox;
}

static void allow(af_sandbox *sandbox, af_allow what, const char *name) {
    MUST(af_sandbox_allow(sandbox, what, temp_path(name), NULL) == 0);
}

static unsigned entered(af_sandbox *sandbox) {
    unsigned in_force;
    MUST(af_sandbox_enter(sandbox, &in_force, NULL) == 0);
    return in_force;
}

static void enter(af_sandbox *sandbox) {
    MUST(entered(sandbox) == AF_SANDBOX_ALL); /* else this kernel cannot run these tests */
}

static bool reads(const char *path) {
    char byte;
    const int fd = open(path, O_RDONLY);
    const bool read_it = fd >= 0 && read(fd, &byte, 1) == 1;
    if (fd >= 0) close(fd);
    return read_it;
}

static bool makes(const char *path) {
    const int fd = open(path, O_CREAT | O_EXCL | O_RDWR, 0600);
    const bool wrote = fd >= 0 && write(fd, "x", 1) == 1;
    if (fd >= 0) close(fd);
    return wrote;
}

static int set_up(void **state) {
    (void)state;
    static const char *const folders[] = {"models", "models/deep", "cache", "sockets", "other"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(temp_path(folders[i]), 0700), 0);
    temp_write("models/a.gguf", "model", 5);
    temp_write("models/deep/b.gguf", "model", 5);
    temp_write("other/secret", "secret", 6);
    temp_write("other/key", "key", 3);
    temp_write("sockets/s", "s", 1);
    return 0;
}

/* ---- Files ---- */

static void read_models(void) {
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_READ, "models");
    allow(sandbox, AF_ALLOW_READ, "not/there");
    enter(sandbox);
    const char *const model = temp_path("models/a.gguf");
    MUST(reads(model) && reads(temp_path("models/deep/b.gguf")));
    MUST(REFUSED(open(model, O_WRONLY), EACCES) && REFUSED(open(model, O_RDWR), EACCES));
    MUST(REFUSED(unlink(model), EACCES) && REFUSED(rename(model, temp_path("models/c")), EACCES));
    MUST(REFUSED(truncate(model, 0), EPERM) && REFUSED(chmod(model, 0777), EPERM));
    MUST(!makes(temp_path("models/new")) && REFUSED(mkdir(temp_path("models/new"), 0700), EACCES));
    MUST(REFUSED(open(temp_path("other/secret"), O_RDONLY), EACCES));
    MUST(REFUSED(open(temp_path("other"), O_RDONLY | O_DIRECTORY), EACCES));
    MUST(!reads("/etc/passwd") && !reads("/proc/self/root/etc/passwd"));
    MUST(reads("/proc/meminfo") && reads("/dev/urandom"));
}

static void an_allowed_folder_is_read_and_nothing_else(void **state) {
    assert_child(read_models);
}

/* Of a user's own processes, and for root of everybody's. */
static void look_into_processes(void) {
    char environment[64], memory[64];
    snprintf(environment, sizeof environment, "/proc/%d/environ", (int)getppid());
    snprintf(memory, sizeof memory, "/proc/%d/mem", (int)getppid());
    MUST(reads(environment));
    enter(opened());
    MUST(reads("/proc/self/environ"));
    MUST(REFUSED(open(environment, O_RDONLY), EACCES) && REFUSED(open(memory, O_RDONLY), EACCES));
}

static void what_other_processes_hold_is_not_read(void **state) {
    assert_child(look_into_processes);
}

static void follow_links(void) {
    MUST(symlink(temp_path("other/secret"), temp_path("models/link.gguf")) == 0);
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_READ, "models");
    enter(sandbox);
    MUST(!reads(temp_path("models/link.gguf")));
}

static void a_link_leads_no_further_than_what_is_allowed(void **state) {
    assert_child(follow_links);
}

/* A process outside replaces both, as editors and downloads do. */
static void replace_files(void) {
    int ready[2], done[2];
    char byte = 0;
    MUST(pipe(ready) == 0 && pipe(done) == 0);
    if (fork() == 0) {
        MUST(read(ready[0], &byte, 1) == 1);
        temp_write("models/new", "model", 5);
        temp_write("other/new", "key", 3);
        MUST(rename(temp_path("models/new"), temp_path("models/a.gguf")) == 0);
        MUST(rename(temp_path("other/new"), temp_path("other/key")) == 0);
        MUST(write(done[1], "x", 1) == 1);
        _exit(0);
    }
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_READ, "models");
    allow(sandbox, AF_ALLOW_READ, "other/key");
    enter(sandbox);
    MUST(reads(temp_path("models/a.gguf")) && reads(temp_path("other/key")));
    MUST(write(ready[1], "x", 1) == 1 && read(done[0], &byte, 1) == 1);
    MUST(reads(temp_path("models/a.gguf")) && !reads(temp_path("other/key")));
}

static void what_is_put_into_an_allowed_folder_is_allowed_and_what_takes_a_files_place_is_not(void **state) {
    assert_child(replace_files);
}

static void change_cache(void) {
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_CHANGE, "cache");
    allow(sandbox, AF_ALLOW_REMOVE, "sockets");
    enter(sandbox);
    MUST(makes(temp_path("cache/new")) && reads(temp_path("cache/new")));
    MUST(mkdir(temp_path("cache/folder"), 0700) == 0);
    MUST(rename(temp_path("cache/new"), temp_path("cache/folder/old")) == 0);
    MUST(unlink(temp_path("cache/folder/old")) == 0 && rmdir(temp_path("cache/folder")) == 0);
    MUST(REFUSED(symlink("/etc/passwd", temp_path("cache/link")), EPERM));
    MUST(!reads(temp_path("sockets/s")) && !makes(temp_path("sockets/t")) && unlink(temp_path("sockets/s")) == 0);
    MUST(!makes(temp_path("other/new")) && REFUSED(unlink(temp_path("other/secret")), EACCES));
}

static void a_folder_to_change_is_the_only_one_that_changes(void **state) {
    assert_child(change_cache);
}

/* ---- Programs, connections, processes ---- */

static void start_programs(void) {
    af_sandbox *sandbox = opened();
    const int program = open("/bin/true", O_RDONLY | O_CLOEXEC);
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    MUST(program >= 0);
    MUST(af_sandbox_allow(sandbox, AF_ALLOW_READ, "/bin", NULL) == 0);
    enter(sandbox);
    MUST(REFUSED(execve("/bin/true", arguments, environment), EPERM));
    MUST(REFUSED(fexecve(program, arguments, environment), EPERM));
    MUST(REFUSED(kill(getppid(), 0), EPERM) && REFUSED(syscall(SYS_tgkill, getppid(), getppid(), 0), EPERM));
    MUST(REFUSED(syscall(SYS_clone3, NULL, 0), ENOSYS));
#ifndef AF_SANITIZED
    MUST(REFUSED(fork(), EPERM) && REFUSED(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), EPERM));
#endif
}

static void no_program_starts_and_no_other_process_is_signalled(void **state) {
    assert_child(start_programs);
}

static int listening(struct sockaddr_in *address) {
    socklen_t length = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    MUST(bind(s, (struct sockaddr *)address, sizeof *address) == 0 && listen(s, 5) == 0);
    MUST(getsockname(s, (struct sockaddr *)address, &length) == 0);
    return s;
}

static void use_sockets(void) {
    struct sockaddr_in address;
    const int listener = listening(&address), idle = socket(AF_INET, SOCK_STREAM, 0);
    char byte = 0;
    if (fork() == 0) { /* a client, outside */
        const int s = socket(AF_INET, SOCK_STREAM, 0);
        MUST(connect(s, (struct sockaddr *)&address, sizeof address) == 0);
        MUST(write(s, "q", 1) == 1 && read(s, &byte, 1) == 1 && byte == 'a');
        _exit(0);
    }
    enter(opened());
    const int client = accept(listener, NULL, NULL);
    MUST(client >= 0 && read(client, &byte, 1) == 1 && byte == 'q' && write(client, "a", 1) == 1);
    MUST(REFUSED(connect(idle, (struct sockaddr *)&address, sizeof address), EPERM));
    MUST(REFUSED(bind(idle, (struct sockaddr *)&address, sizeof address), EPERM));
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        MUST(REFUSED(socket(families[i], SOCK_STREAM, 0), EPERM));
}

static void connections_are_accepted_and_none_is_made(void **state) {
    assert_child(use_sockets);
}

static void try_what_is_forbidden(void *user) {
    int *failures = user;
    *failures += !REFUSED(open(temp_path("other/secret"), O_RDONLY), EACCES);
    *failures += !REFUSED(socket(AF_INET, SOCK_STREAM, 0), EPERM);
    *failures += !reads(temp_path("models/a.gguf"));
}

static void start_thread(void) {
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_READ, "models");
    enter(sandbox);
    int failures = 0;
    af_thread *thread;
    MUST(af_thread_start(&thread, "inside", try_what_is_forbidden, &failures, NULL) == 0);
    af_thread_join(thread);
    MUST(failures == 0);
}

static void threads_that_start_later_are_inside_too(void **state) {
    assert_child(start_thread);
}

/* ---- System calls ---- */

static void make_odd_calls(void) {
    enter(opened());
    MUST(REFUSED(syscall(SYS_getpgid, 0), EPERM)); /* harmless, but not on the list */
    MUST(REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EPERM) && REFUSED(syscall(SYS_unshare, 0), EPERM));
    MUST(REFUSED(syscall(SYS_bpf, 0, NULL, 0), EPERM) && REFUSED(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM));
    MUST(REFUSED(ioctl(0, TIOCSTI, "x"), EPERM));
    MUST(REFUSED(syscall(NEWEST_CALL + 100), ENOSYS));
}

static void only_known_calls_are_left_without_a_gpu(void **state) {
    assert_child(make_odd_calls);
}

static void make_calls_beside_a_driver(void) {
    af_sandbox *sandbox = opened();
    char *const arguments[] = {"true", NULL}, *const environment[] = {NULL};
    MUST(af_sandbox_allow_gpu(sandbox, NULL) == 0);
    enter(sandbox);
    MUST(syscall(SYS_getpgid, 0) >= 0 && reads("/usr/bin/env"));
    MUST(REFUSED(execve("/bin/true", arguments, environment), EPERM));
    MUST(REFUSED(socket(AF_UNIX, SOCK_STREAM, 0), EPERM) && REFUSED(ioctl(0, TIOCSTI, "x"), EPERM));
    MUST(REFUSED(syscall(SYS_io_uring_setup, 1, NULL), EPERM) && REFUSED(syscall(SYS_unshare, 0), EPERM));
    MUST(REFUSED(syscall(SYS_clone3, NULL, 0), ENOSYS) && REFUSED(syscall(NEWEST_CALL + 100), ENOSYS));
    MUST(!reads("/etc/hosts") && !makes(temp_path("other/new")));
}

static void a_gpus_driver_may_make_other_calls_but_the_dangerous_ones(void **state) {
    assert_child(make_calls_beside_a_driver);
}

#ifdef __x86_64__
static void call_as_i386(void) {
    enter(opened());
    __asm__ volatile("int $0x80" : : "a"(20) : "memory");
}

/* SIGSEGV: of a kernel that has no such calls. */
static void calls_of_another_architecture_end_the_process(void **state) {
    const int status = status_of(call_as_i386);
    assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSYS || WTERMSIG(status) == SIGSEGV));
}
#endif

/* ---- Kernels that lack one of the two ---- */

static void lose_call(int number) {
    struct sock_filter code[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (uint32_t)number},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | ENOSYS},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    MUST(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void go_without_landlock(void) {
    lose_call(SYS_landlock_create_ruleset);
    af_sandbox *sandbox = opened();
    allow(sandbox, AF_ALLOW_READ, "models");
    MUST(entered(sandbox) == (AF_SANDBOX_NETWORK | AF_SANDBOX_CALLS));
    MUST(reads(temp_path("other/secret")) && REFUSED(socket(AF_INET, SOCK_STREAM, 0), EPERM));
}

static void go_without_seccomp(void) {
    lose_call(SYS_seccomp);
    MUST(entered(opened()) == (AF_SANDBOX_FILES | AF_SANDBOX_NETWORK));
    MUST(!reads(temp_path("other/secret")) && syscall(SYS_getpgid, 0) >= 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    MUST(REFUSED(connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address), EACCES));
}

static void what_a_kernel_lacks_is_told_and_the_rest_is_in_force(void **state) {
    assert_child(go_without_landlock);
    assert_child(go_without_seccomp);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allowed_folder_is_read_and_nothing_else),
        cmocka_unit_test(what_other_processes_hold_is_not_read),
        cmocka_unit_test(a_link_leads_no_further_than_what_is_allowed),
        cmocka_unit_test(what_is_put_into_an_allowed_folder_is_allowed_and_what_takes_a_files_place_is_not),
        cmocka_unit_test(a_folder_to_change_is_the_only_one_that_changes),
        cmocka_unit_test(no_program_starts_and_no_other_process_is_signalled),
        cmocka_unit_test(connections_are_accepted_and_none_is_made),
        cmocka_unit_test(threads_that_start_later_are_inside_too),
        cmocka_unit_test(only_known_calls_are_left_without_a_gpu),
        cmocka_unit_test(a_gpus_driver_may_make_other_calls_but_the_dangerous_ones),
#ifdef __x86_64__
        cmocka_unit_test(calls_of_another_architecture_end_the_process),
#endif
        cmocka_unit_test(what_a_kernel_lacks_is_told_and_the_rest_is_in_force),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
