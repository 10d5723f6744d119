/* linear_avx512.c - the kernels on AVX-512 with VNNI. */
#include "backend/cpu/linear_avx512.h"
#include "backend/cpu/linear_lanes.h"

const af_kernels af_kernels_avx512 = AF_KERNELS_TABLE;
