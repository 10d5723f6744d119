/* lane_kernels_scalar.c - the kernels in plain C: the reference for the others, and the path of other machines. */
#include "backend/cpu/lane_kernels.h"

#include "backend/cpu/lane_attend.h"
#include "backend/cpu/lane_rows.h"

#include "backend/cpu/lane_recur.h"

const af_lane_kernels af_lane_kernels_scalar = AF_LANE_KERNELS_TABLE;
