/* plan_check.c - what plan.h says of each operation's shapes, checked once when it is appended, so that backends need
 * not. What a file decides is reported; what only the family's code decides (which values, how many parts) asserts. */
#include "plan/plan_check.h"

#include <assert.h>

/* One operation under check. */
typedef struct check {
    const af_plan *plan;
    const af_op *op;
    af_error *error;
} check;

static uint32_t width_of(const check *c, af_value value) {
    assert(value < c->plan->value_count);
    return c->plan->widths[value];
}

/* `what` of `name` (NULL: of the operation) must be `expected`. */
static int expect(const check *c, const char *name, const char *what, uint64_t found, uint64_t expected) {
    if (found == expected) return 0;
    return af_fail(c->error, AF_EFORMAT, "%s: %s is %llu, expected %llu", name ? name : c->op->name, what,
                   (unsigned long long)found, (unsigned long long)expected);
}

static int expect_matrix(const check *c, const af_matrix *w, uint32_t rows, uint32_t cols) {
    const char *name = w->name ? w->name : c->op->name;
    if (!w->data || !w->format) return af_fail(c->error, AF_EFORMAT, "%s: has no matrix", name);
    int status = expect(c, name, "number of columns", w->cols, cols);
    if (!status) status = expect(c, name, "number of rows", w->rows, rows);
    if (status) return status;
    return expect(c, name, "what is left of a row after whole blocks", w->cols % w->format->block_elems, 0);
}

static int expect_norm(const check *c, const af_norm *norm, const char *what, uint32_t width) {
    return norm->kind == AF_NORM_NONE ? 0 : expect(c, NULL, what, norm->width, width);
}

/* Of the first elements of a head, or of all. */
static int expect_head_norm(const check *c, const af_norm *norm, const char *what, uint32_t dim) {
    return norm->kind != AF_NORM_NONE && norm->width > dim ? expect(c, NULL, what, norm->width, dim) : 0;
}

static int check_embed(const check *c) {
    const af_op_embed *e = &c->op->u.embed;
    uint32_t rows = c->plan->vocabulary ? c->plan->vocabulary : e->table.rows;
    return expect_matrix(c, &e->table, rows, width_of(c, e->out));
}

static int check_norm(const check *c) {
    const af_op_norm *n = &c->op->u.norm;
    assert(n->in != n->out && n->norm.kind != AF_NORM_NONE);
    int status = expect(c, NULL, "width of its result", width_of(c, n->out), width_of(c, n->in));
    return status ? status : expect_norm(c, &n->norm, "width of its norm", width_of(c, n->in));
}

/* The combinations of parts, norm after and residual that plan.h gives a meaning. */
static void assert_linear(const af_op_linear *l) {
    assert(l->part_count >= 1 && l->part_count <= AF_PLAN_PARTS);
    assert(l->combine != AF_COMBINE_ACT || l->part_count == 1);
    assert(l->combine != AF_COMBINE_GLU || l->part_count == 2);
    bool has_tail = l->post.kind != AF_NORM_NONE || l->residual != AF_NO_VALUE;
    assert(!has_tail || (l->combine == AF_COMBINE_NONE && l->part_count == 1));
    (void)l, (void)has_tail;
}

static int check_linear(const check *c) {
    const af_op_linear *l = &c->op->u.linear;
    assert_linear(l);
    uint32_t width = width_of(c, l->in);
    int status = expect_norm(c, &l->pre, "width of its norm", width);
    for (uint32_t i = 0; i < l->part_count && !status; i++) {
        af_value out = l->combine == AF_COMBINE_GLU ? l->parts[0].out : l->parts[i].out;
        assert(out != l->in);
        status = expect_matrix(c, &l->parts[i].w, width_of(c, out), width);
    }
    if (!status) status = expect_norm(c, &l->post, "width of the norm after it", l->parts[0].w.rows);
    if (!status && l->residual != AF_NO_VALUE)
        status = expect(c, NULL, "width of the residual", width_of(c, l->residual), l->parts[0].w.rows);
    return status;
}

static const af_cache *cache_of(const check *c, uint16_t cache) {
    assert(cache < c->plan->cache_count);
    return &c->plan->caches[cache];
}

/* Queries share key and value heads in groups of equal size. */
static int expect_heads(const check *c, uint32_t heads, const af_cache *cache) {
    if (heads && heads % cache->kv_heads == 0) return 0;
    return af_fail(c->error, AF_EFORMAT, "%s: %u query heads, expected a multiple of its %u key and value heads",
                   c->op->name, heads, cache->kv_heads);
}

/* Where heads of q stand apart, what lies between belongs to the value. */
static uint64_t width_of_heads(uint32_t heads, uint32_t dim, uint32_t pitch) {
    assert(pitch == 0 || pitch >= dim);
    return (uint64_t)heads * (pitch ? pitch : dim);
}

static int check_rope_store(const check *c) {
    const af_op_rope_store *r = &c->op->u.rope_store;
    const af_cache *cache = cache_of(c, r->cache);
    assert(r->rope < c->plan->rope_count);
    uint32_t rotated = c->plan->ropes[r->rope].rotated;
    if (r->rope_first + rotated > cache->k_dim)
        return af_fail(c->error, AF_EFORMAT, "%s: rotates %u elements of each head, allowed %d", c->op->name, rotated,
                       cache->k_dim - r->rope_first);
    uint64_t kv_heads = cache->kv_heads;
    int status = expect_heads(c, r->heads, cache);
    if (!status)
        status = expect(c, NULL, "width of q", width_of(c, r->q), width_of_heads(r->heads, cache->k_dim, r->q_pitch));
    if (!status) status = expect(c, NULL, "width of k", width_of(c, r->k), kv_heads * cache->k_dim);
    assert(cache->shared == (r->v == AF_NO_VALUE));
    if (!status && !cache->shared) status = expect(c, NULL, "width of v", width_of(c, r->v), kv_heads * cache->v_dim);
    if (!status) status = expect_head_norm(c, &r->q_norm, "width of the norm of q", cache->k_dim);
    if (!status) status = expect_head_norm(c, &r->k_norm, "width of the norm of k", cache->k_dim);
    return status;
}

static int check_attend(const check *c) {
    const af_op_attend *a = &c->op->u.attend;
    const af_cache *cache = cache_of(c, a->cache);
    assert(a->q != a->out);
    assert(!a->both || c->plan->groups[cache->group].window == 0);
    int status = expect_heads(c, a->heads, cache);
    if (!status)
        status = expect(c, NULL, "width of q", width_of(c, a->q), width_of_heads(a->heads, cache->k_dim, a->q_pitch));
    if (!status)
        status = expect(c, NULL, "width of its result", width_of(c, a->out), (uint64_t)a->heads * cache->v_dim);
    return status;
}

static int check_head(const check *c) {
    const af_op_head *h = &c->op->u.head;
    uint32_t width = width_of(c, h->in);
    uint32_t rows = c->plan->vocabulary ? c->plan->vocabulary : h->w.rows;
    int status = expect_norm(c, &h->norm, "width of its norm", width);
    return status ? status : expect_matrix(c, &h->w, rows, width);
}

static int check_state(const check *c) {
    const af_op_state *s = &c->op->u.state;
    const uint32_t width = width_of(c, s->in);
    const int status = expect(c, NULL, "width of its input", width, c->plan->width);
    return status ? status : expect_norm(c, &s->norm, "width of its norm", width);
}

static void assert_carry(const check *c, uint16_t carry, uint64_t floats) {
    assert(carry < c->plan->carry_count && c->plan->carries[carry].floats == floats);
    (void)c, (void)carry, (void)floats;
}

static int check_conv(const check *c) {
    const af_op_conv *v = &c->op->u.conv;
    const uint32_t width = width_of(c, v->in);
    assert(v->in != v->out && v->taps >= 2 && v->taps <= AF_CONV_TAPS && v->weight);
    assert_carry(c, v->carry, (uint64_t)(v->taps - 1) * width);
    return expect(c, NULL, "width of its result", width_of(c, v->out), width);
}

static int check_delta(const check *c) {
    const af_op_delta *d = &c->op->u.delta;
    const uint64_t keys = (uint64_t)d->key_heads * d->k_dim, values = (uint64_t)d->value_heads * d->v_dim;
    assert(d->in != d->out && d->rate && d->step_bias);
    assert_carry(c, d->carry, values * d->k_dim);
    if (!d->key_heads || d->value_heads % d->key_heads)
        return af_fail(c->error, AF_EFORMAT, "%s: %u value heads, expected a multiple of its %u key heads", c->op->name,
                       d->value_heads, d->key_heads);
    int status = expect(c, NULL, "width of q, k and v", width_of(c, d->in), 2 * keys + values);
    if (!status) status = expect(c, NULL, "width of its steps", width_of(c, d->step), d->value_heads);
    if (!status) status = expect(c, NULL, "width of its strengths", width_of(c, d->strength), d->value_heads);
    if (!status) status = expect(c, NULL, "width of its result", width_of(c, d->out), values);
    return status;
}

static int check_gate(const check *c) {
    const af_op_gate *g = &c->op->u.gate;
    const uint64_t width = (uint64_t)g->heads * g->dim;
    assert(g->heads > 0 && g->gate != g->v && g->gate_pitch >= g->dim);
    assert(g->gate_first + (uint64_t)(g->heads - 1) * g->gate_pitch + g->dim <= width_of(c, g->gate));
    const int status = expect(c, NULL, "width of what is gated", width_of(c, g->v), width);
    return status ? status : expect_norm(c, &g->norm, "width of its norm", g->dim);
}

/* `what` must be from 1 to `most`. */
static int expect_count(const check *c, const char *what, uint32_t found, uint32_t most) {
    if (found >= 1 && found <= most) return 0;
    return af_fail(c->error, AF_EFORMAT, "%s: %s is %u, allowed 1 to %u", c->op->name, what, found, most);
}

static int expect_groups(const check *c, const af_op_route *r) {
    if (r->groups <= 1) return 0;
    int status = expect(c, NULL, "what is left of the experts after whole groups", r->w.rows % r->groups, 0);
    if (!status) status = expect_count(c, "groups that may be chosen from", r->groups_used, r->groups);
    if (status) return status;
    const uint32_t within = r->w.rows / r->groups * r->groups_used, used = width_of(c, r->ids);
    return expect_count(c, "experts chosen from the groups", used, within);
}

static int check_route(const check *c) {
    const af_op_route *r = &c->op->u.route;
    const uint32_t used = width_of(c, r->ids);
    assert(r->ids != r->weights && r->in != r->ids && r->in != r->weights);
    int status = expect_count(c, "number of experts", r->w.rows, AF_PLAN_EXPERTS);
    if (!status) status = expect_matrix(c, &r->w, r->w.rows, width_of(c, r->in));
    if (!status) status = expect(c, NULL, "number of weights", width_of(c, r->weights), used);
    if (!status) status = expect_count(c, "experts chosen", used, r->w.rows < AF_PLAN_USED ? r->w.rows : AF_PLAN_USED);
    return status ? status : expect_groups(c, r);
}

static int check_experts(const check *c) {
    const af_op_experts *e = &c->op->u.experts;
    const uint32_t in = width_of(c, e->in), out = width_of(c, e->out), hidden = e->up.w.rows;
    assert(e->out != e->in && (e->residual == AF_NO_VALUE || width_of(c, e->residual) == out));
    int status = expect_count(c, "number of experts", e->experts, AF_PLAN_EXPERTS);
    if (!status) status = expect(c, NULL, "number of weights", width_of(c, e->weights), width_of(c, e->ids));
    if (!status) status = expect_matrix(c, &e->gate.w, hidden, in);
    if (!status) status = expect_matrix(c, &e->up.w, hidden, in);
    return status ? status : expect_matrix(c, &e->down.w, out, hidden);
}

static int check_per_head(const check *c) {
    const af_op_per_head *p = &c->op->u.per_head;
    const uint64_t cols = p->w.w.cols, rows = p->w.w.rows;
    assert(p->in != p->out && p->heads > 0 && !p->w.bias);
    int status = expect(c, NULL, "width of its input", width_of(c, p->in), p->heads * (cols + p->kept));
    if (!status) status = expect(c, NULL, "width of its result", width_of(c, p->out), p->heads * (rows + p->kept));
    return status ? status : expect_matrix(c, &p->w.w, p->w.w.rows, p->w.w.cols);
}

int af_plan_check(const af_plan *plan, const af_op *op, af_error *error) {
    static int (*const checks[])(const check *) = {
        [AF_OP_EMBED] = check_embed,       [AF_OP_NORM] = check_norm,
        [AF_OP_LINEAR] = check_linear,     [AF_OP_ROPE_STORE] = check_rope_store,
        [AF_OP_ATTEND] = check_attend,     [AF_OP_HEAD] = check_head,
        [AF_OP_STATE] = check_state,       [AF_OP_CONV] = check_conv,
        [AF_OP_DELTA] = check_delta,       [AF_OP_GATE] = check_gate,
        [AF_OP_ROUTE] = check_route,       [AF_OP_EXPERTS] = check_experts,
        [AF_OP_PER_HEAD] = check_per_head,
    };
    assert((size_t)op->kind < sizeof checks / sizeof *checks && op->name);
    const check c = {plan, op, error};
    return checks[op->kind](&c);
}
