/* os.h - every call to the operating system that C itself does not have.
 *
 * One set of files for each system implements it (os_*_linux.c); nothing else in the library includes a system header,
 * so that another system is one such set away. Sockets are libevent's business.
 */
#ifndef AF_OS_H
#define AF_OS_H

#include "base/status.h"

/* ---- Files ---- */

/* A whole file mapped read-only. */
typedef struct af_mapping {
    const unsigned char *p;
    size_t size;
} af_mapping;

int af_os_map_file(const char *path, af_mapping *out, af_error *error); /* refuses directories, devices, empty files */
void af_os_unmap(af_mapping *mapping);
/* Tells the system that these bytes of a mapping need not stay resident (they are read again from the file if touched).
 * Rounded inward to whole pages. */
void af_os_release(const void *p, size_t n);
/* ... or will soon be read. */
void af_os_prefetch(const void *p, size_t n);

typedef enum af_file_kind { AF_FILE_NONE, AF_FILE_REGULAR, AF_FILE_DIRECTORY, AF_FILE_OTHER } af_file_kind;
typedef struct af_file_stat {
    af_file_kind kind;
    uint64_t size;
    int64_t modified; /* nanoseconds since 1970 */
    uint64_t device, inode;
} af_file_stat;
/* Follows links. kind AF_FILE_NONE when there is nothing; never fails. */
af_file_stat af_os_stat(const char *path);
/* Calls fn with each entry's name ("." and ".." left out), in byte order. False from fn ends it. 0, or AF_EIO. */
int af_os_list(const char *directory, bool (*fn)(void *user, const char *name), void *user, af_error *error);
/* The whole file as text, NUL-terminated, at most `ceiling` bytes; path "-" is standard input. Freed with af_free. */
int af_os_read_file(const char *path, size_t ceiling, char **text, size_t *size, af_error *error);
/* The absolute path with links resolved; false if it does not exist. */
bool af_os_real_path(const char *path, char *out, size_t out_size);
const char *af_os_home(void); /* never NULL */
/* A path below the folder where this user's programs keep what they can make again: $XDG_CACHE_HOME, which counts only
 * if it is absolute, else ~/.cache. False if it does not fit. */
bool af_os_cache_path(const char *below, char *out, size_t out_size);
#define AF_CACHE_PIPELINES                                                                                             \
    "shimmy/pipelines" /* there: what backend/webgpu/gpu_store.h keeps, and sandboxes allow it to */
/* Makes the folder and those above it that are missing, for this user alone. What cannot be made is not there. */
void af_os_make_folders(const char *path);

/* ---- Memory ---- */

/* Zeroed pages straight from the system, aligned to 64 bytes at least, resident only once touched; NULL on failure.
 * `huge` asks for large pages where the system likes to give them. */
void *af_os_pages(size_t size, bool huge);
void af_os_pages_free(void *p, size_t size);
uint64_t af_os_memory_available(void); /* bytes this process could still use: free memory and the cgroup's limit */
/* Gives back what free() keeps for later; for after much was freed. */
void af_os_memory_trim(void);
uint64_t af_os_memory_resident(void); /* bytes of this process resident now */

/* ---- Processor, time, terminal ---- */

/* Physical cores this process may use: affinity mask, cgroup quota rounded up, SMT siblings counted once; 1 or more. */
uint32_t af_os_cores(void);
/* Those cores, whatever the quota: of each the first processor that we may use, and the node of memory near it. In the
 * order of nodes, then processors. Returns how many there are, `most` at most; 0 where the system does not say. out may
 * be NULL. */
#define AF_CPUS_MAX 8192
typedef struct af_core {
    uint32_t cpu, node;
} af_core;
uint32_t af_os_core_list(af_core *out, uint32_t most);
/* The processors that the calling thread, and every thread it starts, may run on. False if the system refuses. */
typedef struct af_cpu_mask {
    uint64_t bits[AF_CPUS_MAX / 64];
} af_cpu_mask;
bool af_cpu_mask_has(const af_cpu_mask *mask, uint32_t cpu);
void af_cpu_mask_add(af_cpu_mask *mask, uint32_t cpu);
bool af_os_thread_mask(af_cpu_mask *out);
bool af_os_thread_keep_to(const af_cpu_mask *mask);
/* Spreads pages not yet touched over all nodes of memory, in turn; on a machine with one there is nothing to do. */
void af_os_interleave(void *p, size_t n);
/* Whether this process may use the processor's matrix tiles, whose state the system saves only for those that ask. */
bool af_os_allow_tiles(void);
/* What an aarch64 processor has beyond NEON, a sum of these; 0 on others. */
enum { AF_ARM_DOTPROD = 1, AF_ARM_I8MM = 2 };
unsigned af_os_arm_features(void);
uint64_t af_os_nanoseconds(void); /* monotonic */
int64_t af_os_unix_time(void);    /* seconds since 1970 */
/* Local calendar time now, for strftime_now. */
struct tm;
void af_os_local_time(struct tm *out);
bool af_os_stderr_is_terminal(void);
bool af_os_stdout_is_terminal(void);
void af_os_random(void *p, size_t n); /* from the system's generator */

/* ---- Devices and shared libraries ---- */

/* False where the system can say at once, without loading a driver, that no GPU is there. */
bool af_os_may_have_gpu(void);

int af_os_library_open(const char *path, void **out, af_error *error);
/* From bytes in memory; `name` is for messages. Libraries are never unloaded: drivers do not survive it. */
int af_os_library_open_memory(const char *name, const void *bytes, size_t n, void **out, af_error *error);
void *af_os_library_symbol(void *library, const char *name); /* NULL if there is none */
/* The path of a file that lies beside the running executable; false if there is none. */
bool af_os_beside_executable(const char *name, char *out, size_t out_size);

/* What the linker named this build by, at most `room` bytes: another build has other ones. Returns how many; 0: it has
 * no such name. */
size_t af_os_build_id(unsigned char *out, size_t room);

/* ---- Threads ---- */

typedef struct af_thread af_thread;
typedef struct af_mutex af_mutex;
typedef struct af_cond af_cond;

int af_thread_start(af_thread **out, const char *name, void (*run)(void *user), void *user, af_error *error);
void af_thread_join(af_thread *thread); /* waits and frees; NULL does nothing */
af_mutex *af_mutex_open(void);          /* NULL when out of memory */
void af_mutex_close(af_mutex *mutex);
void af_mutex_lock(af_mutex *mutex);
void af_mutex_unlock(af_mutex *mutex);
af_cond *af_cond_open(void);
void af_cond_close(af_cond *cond);
void af_cond_wait(af_cond *cond, af_mutex *mutex);
/* False if `nanoseconds` passed first. */
bool af_cond_wait_for(af_cond *cond, af_mutex *mutex, uint64_t nanoseconds);
void af_cond_signal(af_cond *cond);
void af_cond_broadcast(af_cond *cond);
/* Sleeps while *word == expected, until af_wake or a spurious return; for the kernels' pool. */
void af_futex_wait(const _Atomic uint32_t *word, uint32_t expected);
void af_futex_wake_all(const _Atomic uint32_t *word);

/* ---- Sandbox ---- */

/* Gives up, for the rest of the process's life, what it has no further need of: first what is allowed is said, then
 * enter() forbids everything else. Entered before a second thread starts; children and threads inherit it. */
typedef struct af_sandbox af_sandbox;

typedef enum af_allow {
    AF_ALLOW_READ,   /* and list */
    AF_ALLOW_CHANGE, /* read, write, make and remove, in a folder */
    AF_ALLOW_REMOVE, /* remove files, in a folder */
    AF_ALLOW_DEVICE, /* read, write, and the calls that only this device knows */
} af_allow;

/* What the system can enforce. */
enum {
    AF_SANDBOX_FILES = 1 << 0,   /* only the allowed ones are opened, made or removed */
    AF_SANDBOX_NETWORK = 1 << 1, /* no connection is made, no port taken */
    AF_SANDBOX_CALLS = 1 << 2,   /* no program is started, no process signalled; no system call but the usual ones */
    AF_SANDBOX_ALL = (1 << 3) - 1
};

/* With what every process may touch: shared libraries, /proc, the time zones. */
int af_sandbox_open(af_sandbox **out, af_error *error);
void af_sandbox_close(af_sandbox *sandbox); /* of one that was not entered; NULL does nothing */
/* A file, or a folder with all that is or will be in it. What is not there is passed over. */
int af_sandbox_allow(af_sandbox *sandbox, af_allow what, const char *path, af_error *error);
/* The GPUs' nodes, their drivers' files, and the caches of shaders that drivers and Dawn write, which are made. */
int af_sandbox_allow_gpu(af_sandbox *sandbox, af_error *error);
/* *in_force has AF_SANDBOX_... of what this system enforces, which may be nothing. Frees the sandbox, after failure
 * too. */
int af_sandbox_enter(af_sandbox *sandbox, unsigned *in_force, af_error *error);

/* Calls call(user); false if it aborted instead of returning. The thread is good for little more then: see the file. */
bool af_os_survive(void (*call)(void *), void *user);

#endif
