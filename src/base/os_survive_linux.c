/* os_survive_linux.c - calls into a library that ends the process where others return an error.
 *
 * wgpu-native panics, and so aborts, when it finds a device lost inside a submit or a wait. abort() is defined to leave
 * the process alive if SIGABRT's handler does not return (C11 7.22.4.1), so a guarded call that aborts comes back
 * here. What it held stays held: nothing of the library's object may be used again, and its thread should end.
 */
#include "base/os.h"

#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>

static _Thread_local sigjmp_buf *guard; /* of the call this thread is in; NULL: none */
static struct sigaction before;

static void on_abort(int signal) {
    if (guard) siglongjmp(*guard, 1);
    sigaction(signal, &before, NULL); /* somebody else's abort: it goes on as if this were not here */
}

/* No signal is blocked on the way, so that no mask need be restored. */
static void install(void) {
    static atomic_flag installed = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&installed)) return;
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = SA_NODEFER};
    sigemptyset(&action.sa_mask);
    sigaction(SIGABRT, &action, &before);
}

bool af_os_survive(void (*call)(void *), void *user) {
    sigjmp_buf here;
    install();
    if (sigsetjmp(here, 0)) {
        guard = NULL;
        return false;
    }
    guard = &here;
    call(user);
    guard = NULL;
    return true;
}
