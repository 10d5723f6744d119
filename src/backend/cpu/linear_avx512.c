/* linear_avx512.c - the kernels on AVX-512 with VNNI. */
#if defined(__x86_64__)
#include "backend/cpu/linear_avx512.h"
#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_avx512 = AF_KERNELS_TABLE;

#else
typedef int af_no_avx512; /* a translation unit is not empty */
#endif
