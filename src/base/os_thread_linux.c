/* os_thread_linux.c - threads, locks and futexes (os.h). */
#include "base/os.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NAME_MAX_LINUX 16 /* the NUL included */
#define NANOSECONDS    1000000000u

struct af_thread {
    pthread_t id;
    void (*run)(void *user);
    void *user;
    char name[NAME_MAX_LINUX];
};

struct af_mutex {
    pthread_mutex_t m;
};

struct af_cond {
    pthread_cond_t c;
};

static void *thread_main(void *user) {
    af_thread *thread = user;
    pthread_setname_np(pthread_self(), thread->name);
    thread->run(thread->user);
    return NULL;
}

/* Signals are the first thread's business: the new one starts with all of them blocked but those a fault raises. */
static int create_without_signals(af_thread *thread) {
    sigset_t all, before;
    sigfillset(&all);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int af_thread_start(af_thread **out, const char *name, void (*run)(void *user), void *user, af_error *error) {
    af_thread *thread = calloc(1, sizeof *thread);
    if (!thread) return af_fail_memory(error, sizeof *thread, "thread");
    thread->run = run;
    thread->user = user;
    snprintf(thread->name, sizeof thread->name, "%s", name);
    int failed = create_without_signals(thread);
    if (failed) {
        free(thread);
        return af_fail(error, AF_EIO, "%s: cannot start a thread: %s", name, strerror(failed));
    }
    *out = thread;
    return 0;
}

void af_thread_join(af_thread *thread) {
    if (!thread) return;
    pthread_join(thread->id, NULL);
    free(thread);
}

af_mutex *af_mutex_open(void) {
    af_mutex *mutex = malloc(sizeof *mutex);
    if (mutex) pthread_mutex_init(&mutex->m, NULL);
    return mutex;
}

void af_mutex_close(af_mutex *mutex) {
    if (!mutex) return;
    pthread_mutex_destroy(&mutex->m);
    free(mutex);
}

void af_mutex_lock(af_mutex *mutex) {
    int failed = pthread_mutex_lock(&mutex->m);
    assert(!failed);
    (void)failed;
}

void af_mutex_unlock(af_mutex *mutex) {
    int failed = pthread_mutex_unlock(&mutex->m);
    assert(!failed);
    (void)failed;
}

af_cond *af_cond_open(void) {
    af_cond *cond = malloc(sizeof *cond);
    if (!cond) return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&cond->c, &attributes);
    pthread_condattr_destroy(&attributes);
    return cond;
}

void af_cond_close(af_cond *cond) {
    if (!cond) return;
    pthread_cond_destroy(&cond->c);
    free(cond);
}

void af_cond_wait(af_cond *cond, af_mutex *mutex) {
    pthread_cond_wait(&cond->c, &mutex->m);
}

bool af_cond_wait_for(af_cond *cond, af_mutex *mutex, uint64_t nanoseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t fraction = (uint64_t)until.tv_nsec + nanoseconds % NANOSECONDS;
    until.tv_sec += (time_t)(nanoseconds / NANOSECONDS + fraction / NANOSECONDS);
    until.tv_nsec = (long)(fraction % NANOSECONDS);
    return pthread_cond_timedwait(&cond->c, &mutex->m, &until) != ETIMEDOUT;
}

void af_cond_signal(af_cond *cond) {
    pthread_cond_signal(&cond->c);
}

void af_cond_broadcast(af_cond *cond) {
    pthread_cond_broadcast(&cond->c);
}

void af_futex_wait(const _Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void af_futex_wake_all(const _Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
