/* os_cpu_linux.c - what the processor has and the system must allow (os.h). */
#include "base/os.h"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REQUEST_STATE 0x1023 /* ARCH_REQ_XCOMP_PERM in the kernel's asm/prctl.h, which older headers lack */
#define TILE_DATA     18     /* the number of the tiles' state in the processor's XSAVE area */

/* The kernel's asm/hwcap.h for aarch64: its first and second word. */
#define HAS_DOTPROD (1u << 20)
#define HAS_I8MM    (1u << 13)

bool af_os_allow_tiles(void) {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, REQUEST_STATE, TILE_DATA) == 0;
#else
    return false;
#endif
}

unsigned af_os_arm_features(void) {
#if defined(__aarch64__)
    return (getauxval(AT_HWCAP) & HAS_DOTPROD ? AF_ARM_DOTPROD : 0u) |
           (getauxval(AT_HWCAP2) & HAS_I8MM ? AF_ARM_I8MM : 0u);
#else
    return 0;
#endif
}
