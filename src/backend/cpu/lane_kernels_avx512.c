/* lane_kernels_avx512.c - the kernels on 512-bit registers; called only where the processor has them. */
#define LANES_AVX512
#include "backend/cpu/lane_kernels.h"

#include "backend/cpu/lane_attend.h"
#include "backend/cpu/lane_rows.h"

#include "backend/cpu/lane_recur.h"

const af_lane_kernels af_lane_kernels_avx512 = AF_LANE_KERNELS_TABLE;
