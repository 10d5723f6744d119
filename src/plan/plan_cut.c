/* plan_cut.c - parts, segments, and which values cross between them. */
#include "plan/plan_cut.h"

#include <assert.h>
#include <string.h>

typedef struct cutter {
    const af_plan *plan;
    const uint8_t *sides;
    af_plan_cut *cut;
    uint8_t *holders;   /* (value_count): bit s: side s has what was last written */
    af_value *crossing; /* (value_count): of the segment at hand */
    int status;
    af_error *error;
} cutter;

static void *array(cutter *c, size_t count, size_t size) {
    void *p = c->status ? NULL : af_arena_array(c->cut->arena, count, size);
    if (!p && !c->status) c->status = af_fail_memory(c->error, count * size, "a plan in parts");
    return p;
}

static const af_cache *cache_of(const af_plan *plan, const af_op *op) {
    if (op->kind == AF_OP_ROPE_STORE) return &plan->caches[op->u.rope_store.cache];
    return op->kind == AF_OP_ATTEND ? &plan->caches[op->u.attend.cache] : NULL;
}

static const af_carry *carry_of(const af_plan *plan, const af_op *op) {
    if (op->kind == AF_OP_CONV) return &plan->carries[op->u.conv.carry];
    return op->kind == AF_OP_DELTA ? &plan->carries[op->u.delta.carry] : NULL;
}

/* A side's operations, and the caches and states they use. */
static void make_part(cutter *c, uint32_t side) {
    const af_plan *plan = c->plan;
    af_plan *part = &c->cut->parts[side];
    *part = *plan;
    part->part = true;
    part->ops = array(c, plan->op_count, sizeof *part->ops);
    part->caches = array(c, plan->cache_count, sizeof *part->caches);
    part->carries = array(c, plan->carry_count, sizeof *part->carries);
    part->op_count = 0;
    if (c->status) return;
    for (size_t i = 0; i < plan->cache_count; i++) part->caches[i].group = plan->caches[i].group;
    for (size_t i = 0; i < plan->op_count; i++) {
        if (c->sides[i] != side) continue;
        const af_cache *cache = cache_of(plan, &plan->ops[i]);
        if (cache) part->caches[cache - plan->caches] = *cache;
        const af_carry *carry = carry_of(plan, &plan->ops[i]);
        if (carry) part->carries[carry - plan->carries] = *carry;
        part->ops[part->op_count] = plan->ops[i];
        part->ops[part->op_count++].cut = i + 1 < plan->op_count && c->sides[i + 1] != side;
    }
}

/* Values that operations first .. end - 1 of one side read and it does not hold. */
static uint32_t find_carried(cutter *c, size_t first, size_t end) {
    const uint8_t here = (uint8_t)(1u << c->sides[first]);
    uint32_t count = 0;
    for (size_t i = first; i < end; i++) {
        af_value values[AF_OP_READS > AF_PLAN_PARTS ? AF_OP_READS : AF_PLAN_PARTS];
        for (uint32_t k = 0, n = af_op_reads(&c->plan->ops[i], values); k < n; k++) {
            assert(c->holders[values[k]]); /* somebody wrote it */
            if (c->holders[values[k]] & here) continue;
            c->holders[values[k]] |= here;
            c->cut->crosses[values[k]] = true;
            c->crossing[count++] = values[k];
        }
        for (uint32_t k = 0, n = af_op_written(&c->plan->ops[i], values); k < n; k++)
            if (values[k] != AF_NO_VALUE) c->holders[values[k]] = here;
    }
    return count;
}

static void add_segment(cutter *c, size_t first, size_t end, size_t done[AF_PLAN_SIDES]) {
    const uint32_t side = c->sides[first], count = find_carried(c, first, end);
    af_value *crossing = array(c, count, sizeof *crossing);
    if (c->status) return;
    memcpy(crossing, c->crossing, count * sizeof *crossing);
    c->cut->segments[c->cut->segment_count++] = (af_plan_segment){.side = side,
                                                                  .first = done[side],
                                                                  .end = done[side] + (end - first),
                                                                  .crossing = crossing,
                                                                  .crossing_count = count};
    done[side] += end - first;
}

static void make_segments(cutter *c) {
    const size_t ops = c->plan->op_count;
    size_t done[AF_PLAN_SIDES] = {0};
    c->cut->segments = array(c, ops, sizeof *c->cut->segments);
    c->cut->crosses = array(c, c->plan->value_count, sizeof *c->cut->crosses);
    c->holders = array(c, c->plan->value_count, sizeof *c->holders);
    c->crossing = array(c, c->plan->value_count, sizeof *c->crossing);
    for (size_t first = 0, end; first < ops && !c->status; first = end) {
        end = first + 1;
        while (end < ops && c->sides[end] == c->sides[first]) end++;
        add_segment(c, first, end, done);
    }
}

int af_plan_cut_open(const af_plan *plan, const uint8_t *sides, af_plan_cut **out, af_error *error) {
    af_arena *arena = af_arena_open(0);
    af_plan_cut *cut = arena ? af_arena_array(arena, 1, sizeof *cut) : NULL;
    if (!cut) {
        af_arena_close(arena);
        return af_fail_memory(error, sizeof *cut, "a plan in parts");
    }
    *cut = (af_plan_cut){.arena = arena};
    cutter c = {.plan = plan, .sides = sides, .cut = cut, .error = error};
    for (uint32_t side = 0; side < AF_PLAN_SIDES; side++) make_part(&c, side);
    make_segments(&c);
    if (c.status) {
        af_plan_cut_close(cut);
        return c.status;
    }
    *out = cut;
    return 0;
}

void af_plan_cut_close(af_plan_cut *cut) {
    if (cut) af_arena_close(cut->arena);
}
