/* cpu_profile.h - where a batch's time goes: microseconds of each operation of the plan, beside what it read and
 * multiplied.
 *
 * AIRFRAME_CPU_PROFILE=1 turns it on (`bench --profile` does); a table is printed when the backend closes. Operations
 * of one kind and shape are added up, batches of one token a sequence apart from prompts. Only the clock is read, twice
 * an operation, so the sums are those of a normal run.
 */
#ifndef AF_CPU_PROFILE_H
#define AF_CPU_PROFILE_H

#include "backend/cpu/cpu.h"

int af_cpu_profile_open(af_cpu_profile **out, af_error *error); /* *out NULL where it is not turned on */
void af_cpu_profile_close(af_cpu_profile *profile);             /* prints */

/* Of the batch at hand. */
void af_cpu_profile_add(af_cpu *cpu, const af_cpu_op *op, uint64_t nanoseconds);

#endif
