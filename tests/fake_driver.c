/* fake_driver.c - a Vulkan driver that has no device, for server_sandbox_test.py: when the loader asks it for its
 * version it does, inside a server's sandbox, what drivers of real GPUs are known to do (read what kind of machine this
 * is, open their nodes, keep compiled shaders in the user's cache, make executable memory and threads) and what no
 * driver should, and prints how each went. Then it says that it does not fit, and the loader lets it go.
 *
 *     FAKE_DRIVER_NODE  the device node to open, if the test could make one
 *     FAKE_DRIVER_CACHE  the folder it keeps shaders in
 *     FAKE_DRIVER_HOME   a folder it has no business in
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define INCOMPATIBLE (-9) /* VK_ERROR_INCOMPATIBLE_DRIVER */

int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version);
void *vk_icdGetInstanceProcAddr(void *instance, const char *name);

static void tell(const char *what, int failed) {
    fprintf(stderr, "fake driver: %s: %s\n", what, failed ? strerror(errno) : "done");
}

static int closed(int fd) {
    return fd < 0 ? -1 : close(fd);
}

static const char *named(const char *variable) {
    const char *value = getenv(variable);
    return value ? value : "";
}

static void read_machine(void) {
    tell("read /proc/cpuinfo", closed(open("/proc/cpuinfo", O_RDONLY)));
    tell("read /proc/self/maps", closed(open("/proc/self/maps", O_RDONLY)));
    DIR *devices = opendir("/sys/class");
    tell("list /sys/class", devices ? closedir(devices) : -1);
}

static void use_node(void) {
    if (!*named("FAKE_DRIVER_NODE")) return;
    const int fd = open(named("FAKE_DRIVER_NODE"), O_RDWR | O_CLOEXEC);
    tell("open the node", fd < 0);
    errno = 0;
    ioctl(fd, _IOWR('F', 200, int[4]), (int[4]){0}); /* the null device knows none: what counts is that it is asked */
    tell("ask the node", errno == EPERM || errno == EACCES);
    closed(fd);
}

/* Written aside and renamed, as drivers do, under a lock. */
static void keep_shader(void) {
    char folder[4096], aside[4200], file[4200];
    snprintf(folder, sizeof folder, "%s/GLCache", named("FAKE_DRIVER_CACHE"));
    snprintf(aside, sizeof aside, "%s/new", folder);
    snprintf(file, sizeof file, "%s/shader.bin", folder);
    tell("make a folder in the cache", mkdir(folder, 0700));
    const int fd = open(aside, O_RDWR | O_CREAT | O_EXCL, 0600);
    tell("make a file in the cache", fd < 0);
    tell("lock it", flock(fd, LOCK_EX));
    tell("grow it", ftruncate(fd, 4096));
    char *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    tell("map it", mapped == MAP_FAILED);
    if (mapped != MAP_FAILED) memcpy(mapped, "shader", 7);
    tell("rename it", closed(fd) || rename(aside, file));
}

static void *run(void *nothing) {
    prctl(PR_SET_NAME, "driver");
    return nothing;
}

static void work(void) {
    pthread_t thread;
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("make memory that runs", code == MAP_FAILED);
    tell("make memory to share", closed(memfd_create("driver", MFD_CLOEXEC)));
    const int failed = pthread_create(&thread, NULL, run, NULL);
    if (!failed) pthread_join(thread, NULL);
    tell("start a thread", failed);
}

static void overstep(void) {
    char file[4096];
    snprintf(file, sizeof file, "%s/planted", named("FAKE_DRIVER_HOME"));
    tell("write in the home", closed(open(file, O_WRONLY | O_CREAT, 0600)));
    tell("read the home", closed(open(named("FAKE_DRIVER_HOME"), O_RDONLY | O_DIRECTORY)));
    tell("connect", closed(socket(AF_INET, SOCK_STREAM, 0)));
    tell("start a program", execl("/bin/true", "true", (char *)NULL));
}

int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) {
    static int asked;
    (void)version;
    if (asked++) return INCOMPATIBLE;
    read_machine();
    use_node();
    keep_shader();
    work();
    overstep();
    return INCOMPATIBLE;
}

void *vk_icdGetInstanceProcAddr(void *instance, const char *name) {
    (void)instance, (void)name;
    return NULL;
}
