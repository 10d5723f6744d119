/* plan.c - building a plan: growing arrays, and the tables of values, caches and rotations. What each operation must
 * satisfy is plan_check.c's business; running it the backends'. */
#include "plan/plan.h"

#include "plan/plan_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

int af_plan_open(af_plan **out, af_error *error) {
    af_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return af_fail_memory(error, sizeof *plan, "plan");
    plan->arena = af_arena_open(0);
    if (!plan->arena) {
        free(plan);
        return af_fail_memory(error, sizeof *plan, "plan");
    }
    *out = plan;
    return 0;
}

void af_plan_close(af_plan *plan) {
    if (!plan) return;
    free(plan->ops);
    free(plan->widths);
    free(plan->caches);
    free(plan->ropes);
    free(plan->carries);
    af_arena_close(plan->arena);
    free(plan);
}

/* The array with room for one more element, moved if it had to grow; NULL, and the old one left, when out of memory. */
static void *with_room(void *array, size_t count, size_t *capacity, size_t size) {
    if (count < *capacity) return array;
    size_t grown = *capacity ? *capacity * 2 : FIRST_CAPACITY;
    void *moved = realloc(array, grown * size);
    if (moved) *capacity = grown;
    return moved;
}

int af_plan_value(af_plan *plan, uint32_t width, af_value *out, af_error *error) {
    assert(plan->value_count < AF_NO_VALUE);
    if (width == 0) return af_fail(error, AF_EFORMAT, "plan: a value of width 0");
    uint32_t *widths = with_room(plan->widths, plan->value_count, &plan->value_capacity, sizeof *widths);
    if (!widths) return af_fail_memory(error, sizeof *widths, "plan values");
    plan->widths = widths;
    widths[plan->value_count] = width;
    *out = (af_value)plan->value_count++;
    return 0;
}

int af_plan_rope(af_plan *plan, const af_rope *rope, uint16_t *out, af_error *error) {
    assert(plan->rope_count < UINT16_MAX);
    assert(rope->rotated % 2 == 0 && (rope->rotated == 0 || rope->inv_freq));
    af_rope *ropes = with_room(plan->ropes, plan->rope_count, &plan->rope_capacity, sizeof *ropes);
    if (!ropes) return af_fail_memory(error, sizeof *ropes, "plan rotations");
    plan->ropes = ropes;
    ropes[plan->rope_count] = *rope;
    *out = (uint16_t)plan->rope_count++;
    return 0;
}

/* The group of layers that see `window` positions, made if there is none yet. */
static int group_for(af_plan *plan, uint32_t window, uint16_t *out, af_error *error) {
    size_t i = 0;
    while (i < plan->group_count && plan->groups[i].window != window) i++;
    if (i == AF_PLAN_GROUPS)
        return af_fail(error, AF_EUNSUPPORTED, "attention windows: more than %d different ones (another is %u)",
                       AF_PLAN_GROUPS, window);
    if (i == plan->group_count) plan->groups[plan->group_count++] = (af_cache_group){.window = window};
    *out = (uint16_t)i;
    return 0;
}

/* A cache's sizes come from metadata, and are 16 bits wide. */
static int check_cache_size(const char *what, uint32_t found, af_error *error) {
    if (found >= 1 && found <= UINT16_MAX) return 0;
    return af_fail(error, AF_EFORMAT, "%s: %u, allowed 1 to %d", what, found, UINT16_MAX);
}

int af_plan_cache(af_plan *plan, uint32_t window, uint32_t kv_heads, uint32_t k_dim, uint32_t v_dim, uint16_t *out,
                  af_error *error) {
    assert(plan->cache_count < UINT16_MAX);
    uint16_t group = 0;
    int status = check_cache_size("key and value heads", kv_heads, error);
    if (!status) status = check_cache_size("elements of a key head", k_dim, error);
    if (!status) status = check_cache_size("elements of a value head", v_dim, error);
    if (!status) status = group_for(plan, window, &group, error);
    if (status) return status;
    af_cache *caches = with_room(plan->caches, plan->cache_count, &plan->cache_capacity, sizeof *caches);
    if (!caches) return af_fail_memory(error, sizeof *caches, "plan caches");
    plan->caches = caches;
    caches[plan->cache_count] =
        (af_cache){.group = group, .kv_heads = (uint16_t)kv_heads, .k_dim = (uint16_t)k_dim, .v_dim = (uint16_t)v_dim};
    *out = (uint16_t)plan->cache_count++;
    return 0;
}

int af_plan_shared_cache(af_plan *plan, uint32_t window, uint32_t k_dim, uint32_t v_dim, uint16_t *out,
                         af_error *error) {
    if (v_dim > k_dim)
        return af_fail(error, AF_EFORMAT, "elements of a value that its key holds: %u, allowed %u", v_dim, k_dim);
    const int status = af_plan_cache(plan, window, 1, k_dim, v_dim, out, error);
    if (status == 0) plan->caches[*out].shared = true;
    return status;
}

int af_plan_carry(af_plan *plan, uint64_t floats, uint16_t *out, af_error *error) {
    assert(plan->carry_count < UINT16_MAX);
    if (floats < 1 || floats > UINT32_MAX)
        return af_fail(error, AF_EFORMAT, "a layer's recurrent state: %llu numbers, allowed 1 to %u",
                       (unsigned long long)floats, UINT32_MAX);
    af_carry *carries = with_room(plan->carries, plan->carry_count, &plan->carry_capacity, sizeof *carries);
    if (!carries) return af_fail_memory(error, sizeof *carries, "plan carries");
    plan->carries = carries;
    carries[plan->carry_count] = (af_carry){.floats = (uint32_t)floats};
    *out = (uint16_t)plan->carry_count++;
    return 0;
}

int af_plan_append(af_plan *plan, const af_op *op, af_error *error) {
    assert(plan->op_count == 0 || plan->ops[plan->op_count - 1].kind != AF_OP_HEAD);
    int status = af_plan_check(plan, op, error);
    if (status) return status;
    af_op *ops = with_room(plan->ops, plan->op_count, &plan->op_capacity, sizeof *ops);
    if (!ops) return af_fail_memory(error, sizeof *ops, "plan operations");
    plan->ops = ops;
    const char *name = af_arena_copy(plan->arena, op->name, strlen(op->name));
    if (!name) return af_fail_memory(error, strlen(op->name), "plan operations");
    ops[plan->op_count] = *op;
    ops[plan->op_count++].name = name;
    if (op->kind == AF_OP_ATTEND && op->u.attend.both) plan->whole = true;
    return 0;
}

const char *af_op_kind_name(af_op_kind kind) {
    static const char *const names[] = {
        [AF_OP_EMBED] = "embed",       [AF_OP_NORM] = "norm",
        [AF_OP_LINEAR] = "linear",     [AF_OP_ROPE_STORE] = "rope_store",
        [AF_OP_ATTEND] = "attend",     [AF_OP_HEAD] = "head",
        [AF_OP_STATE] = "state",       [AF_OP_CONV] = "conv",
        [AF_OP_DELTA] = "delta",       [AF_OP_GATE] = "gate",
        [AF_OP_ROUTE] = "route",       [AF_OP_EXPERTS] = "experts",
        [AF_OP_PER_HEAD] = "per_head",
    };
    assert((size_t)kind < sizeof names / sizeof *names);
    return names[kind];
}

const af_op_head *af_plan_head(const af_plan *plan) {
    const af_op *last = plan->op_count ? &plan->ops[plan->op_count - 1] : NULL;
    return last && last->kind == AF_OP_HEAD ? &last->u.head : NULL;
}

/* The last operation, or the one before a head. */
const af_op_state *af_plan_state(const af_plan *plan) {
    const size_t after = af_plan_head(plan) ? 1 : 0;
    const af_op *op = plan->op_count > after ? &plan->ops[plan->op_count - 1 - after] : NULL;
    return op && op->kind == AF_OP_STATE ? &op->u.state : NULL;
}

uint64_t af_plan_kv_bytes(const af_plan *plan, uint64_t tokens, af_kv_cost cost) {
    uint64_t total = 0;
    for (size_t i = 0; i < plan->cache_count; i++) {
        const af_cache *c = &plan->caches[i];
        uint64_t window = plan->groups[c->group].window;
        uint64_t kept = window && window < tokens ? window : tokens;
        uint64_t head_bytes = af_kv_row_bytes(cost, c->k_dim) + (c->shared ? 0 : af_kv_row_bytes(cost, c->v_dim));
        uint64_t token_bytes = c->kv_heads * head_bytes;
        if (token_bytes && kept > (UINT64_MAX - total) / token_bytes) return UINT64_MAX;
        total += kept * token_bytes;
    }
    for (size_t i = 0; i < plan->carry_count; i++) {
        const uint64_t bytes = (uint64_t)plan->carries[i].floats * sizeof(float);
        if (bytes > UINT64_MAX - total) return UINT64_MAX;
        total += bytes;
    }
    return total;
}
