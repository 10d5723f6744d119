/* plan_check.h - shapes of an operation against the values, caches and rotations it names. Used inside src/plan only.
 */
#ifndef AF_PLAN_CHECK_H
#define AF_PLAN_CHECK_H

#include "plan/plan.h"

/* AF_EFORMAT names the tensor (or the operation), found and expected. */
int af_plan_check(const af_plan *plan, const af_op *op, af_error *error);

#endif
