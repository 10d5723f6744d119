/* plan_cut.h - a plan cut into parts that two backends run in turn.
 *
 * Every operation has a side. A side's part is a plan of its own: its operations in their order, over the same values,
 * rotations and matrices; caches and states that only the other side uses are empty in it. A segment is a run of
 * operations of one side; sides alternate from segment to segment. Values cross at the borders: before a segment runs,
 * those it reads that the other side wrote last are carried over, and nothing else. What a layer remembers stays on its
 * side.
 */
#ifndef AF_PLAN_CUT_H
#define AF_PLAN_CUT_H

#include "plan/plan.h"

#define AF_PLAN_SIDES 2

typedef struct af_plan_segment {
    uint32_t side;
    size_t first, end;        /* operations of the side's part */
    const af_value *crossing; /* from the other side, where the segment before left them */
    uint32_t crossing_count;
} af_plan_segment;

typedef struct af_plan_cut {
    af_arena *arena;
    af_plan parts[AF_PLAN_SIDES]; /* never closed: the whole owns what they point to */
    af_plan_segment *segments;
    size_t segment_count;
    bool *crosses; /* (value_count): at any border */
} af_plan_cut;

/* sides: one for each operation. The plan must outlive the cut. */
int af_plan_cut_open(const af_plan *plan, const uint8_t *sides, af_plan_cut **out, af_error *error);
void af_plan_cut_close(af_plan_cut *cut);

#endif
