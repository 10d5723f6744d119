/* lane_kernels_neon.c - the kernels on four 128-bit registers, for every aarch64 processor. */
#define LANES_NEON
#include "backend/cpu/lane_kernels.h"

#include "backend/cpu/lane_attend.h"
#include "backend/cpu/lane_rows.h"

#include "backend/cpu/lane_recur.h"

const af_lane_kernels af_lane_kernels_neon = AF_LANE_KERNELS_TABLE;
