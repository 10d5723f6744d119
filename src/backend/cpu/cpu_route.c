/* cpu_route.c - which experts a token goes to (plan.h, af_op_route): the router's product as any other, then each token
 * by itself. A choice made otherwise than in plan.h's order of equals would change a model's text, so nothing here
 * depends on how rows fall to threads or on the instruction set.
 */
#include "backend/cpu/cpu_linear.h"

#include <float.h>
#include <math.h>

static void finish_route(const af_cpu_product *p, const af_cpu_piece *piece) {
    const float *bias = p->op->op->u.route.bias;
    for (uint32_t t = piece->first; bias && t < piece->last; t++)
        p->cpu->kernels->add(af_cpu_piece_row(piece, 0, t), bias + piece->begin, piece->end - piece->begin);
}

/* The index of the largest of n numbers, the lowest such; of those not `taken`. */
static uint32_t best_of(const float *v, const bool *taken, uint32_t n) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == n || v[i] > v[best])) best = i;
    return best;
}

/* The sum of the two largest of n choices; of one, itself. */
static float worth(const float *choice, uint32_t n) {
    float first = choice[0], second = -FLT_MAX;
    for (uint32_t i = 1; i < n; i++) {
        const float c = choice[i];
        if (c > second) second = c;
        if (c > first) second = first, first = c;
    }
    return n > 1 ? first + second : first;
}

/* Marks the experts of all groups but the best as taken. */
static void leave_groups_out(const af_op_route *r, const float *choice, bool *taken) {
    const uint32_t size = r->w.rows / r->groups;
    float worths[AF_PLAN_EXPERTS];
    bool kept[AF_PLAN_EXPERTS] = {0};
    for (uint32_t g = 0; g < r->groups; g++) worths[g] = worth(choice + g * size, size);
    for (uint32_t k = 0; k < r->groups_used; k++) kept[best_of(worths, kept, r->groups)] = true;
    for (uint32_t i = 0; i < r->w.rows; i++) taken[i] = !kept[i / size];
}

static void choose_experts(const af_op_route *r, const float *score, uint32_t used, bool *chosen) {
    float choice[AF_PLAN_EXPERTS];
    bool taken[AF_PLAN_EXPERTS] = {0};
    for (uint32_t i = 0; i < r->w.rows; i++) {
        const float c = r->choice_bias ? score[i] + r->choice_bias[i] : score[i];
        choice[i] = c > -FLT_MAX ? c : -FLT_MAX;
        chosen[i] = false;
    }
    if (r->groups > 1) leave_groups_out(r, choice, taken);
    for (uint32_t k = 0; k < used; k++) {
        const uint32_t best = best_of(choice, taken, r->w.rows);
        taken[best] = chosen[best] = true;
    }
}

static void weigh(const af_lane_kernels *kernels, const af_op_route *r, float *weights, uint32_t used) {
    float sum = 0;
    for (uint32_t k = 0; k < used; k++) sum += weights[k];
    if (r->weigh == AF_WEIGH_CHOSEN) kernels->softmax(weights, used);
    for (uint32_t k = 0; k < used; k++) {
        if (r->weigh == AF_WEIGH_SHARE) weights[k] /= sum > AF_LEAST_SHARE ? sum : AF_LEAST_SHARE;
        weights[k] *= r->scale;
    }
}

static void route_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_route *r = job;
    const uint32_t used = cpu->plan->widths[r->ids];
    for (uint32_t t = begin; t < end; t++) {
        float *score = af_cpu_row(&cpu->product, t), *ids = af_cpu_row(&cpu->values[r->ids], t);
        float *weights = af_cpu_row(&cpu->values[r->weights], t);
        bool chosen[AF_PLAN_EXPERTS];
        if (r->score == AF_SCORE_SOFTMAX) cpu->kernels->softmax(score, r->w.rows);
        if (r->score == AF_SCORE_SIGMOID) cpu->kernels->act(AF_ACT_SIGMOID, score, r->w.rows);
        choose_experts(r, score, used, chosen);
        for (uint32_t i = 0, k = 0; i < r->w.rows; i++) {
            if (!chosen[i]) continue;
            ids[k] = (float)i;
            weights[k++] = score[i];
        }
        weigh(cpu->kernels, r, weights, used);
    }
}

void af_cpu_route(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_route *r = &op->op->u.route;
    const uint32_t tokens = cpu->batch->token_count, rounding = af_cpu_rounding(cpu, &r->w);
    const af_cpu_intake take = {.norm = &(af_norm){.kind = AF_NORM_NONE},
                                .in = &cpu->values[r->in],
                                .width = r->w.cols,
                                .fill = rounding != 0,
                                .quantize = af_packed_wants_int8(op->packed[0]),
                                .floats = !af_packed_wants_int8(op->packed[0]),
                                .fine = op->fine,
                                .needs = af_packed_needs(op->packed[0]),
                                .rounding = rounding};
    af_cpu_take_in(cpu, &take, tokens);
    af_cpu_product p = {
        .cpu = cpu, .op = op, .tokens = tokens, .part_count = 1, .to = {cpu->product}, .finish = finish_route};
    af_cpu_run_product(&p);
    const size_t looks = (size_t)r->w.rows * cpu->plan->widths[r->ids];
    af_cpu_ranges(cpu, route_rows, r, tokens, looks);
}
