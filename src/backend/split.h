/* split.h - one plan on two backends: a GPU and the CPU.
 *
 * Every operation has a side; split.c compiles each side's part of the plan (plan_cut.h) on its own backend and runs a
 * batch segment by segment, carrying over the values that cross. KV caches lie where their layers do. Which operation
 * goes where is decided here too, from what the caller asks (af_placement); another rule is another function of that
 * kind.
 */
#ifndef AF_SPLIT_H
#define AF_SPLIT_H

#include "backend/backend.h"

enum { AF_SIDE_GPU, AF_SIDE_CPU };

/* sides[i] of operation i; false if all are the GPU's. */
bool af_place(const af_plan *plan, const af_placement *placement, uint8_t *sides);

/* `device` is the GPU's name. The plan must outlive the backend. */
int af_split_open(const char *device, const af_plan *plan, const uint8_t *sides, const af_backend_options *options,
                  af_backend **out, af_error *error);

#endif
