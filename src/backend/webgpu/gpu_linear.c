/* gpu_linear.c - the operations that multiply: LINEAR and HEAD, with what follows a product (the tail) and the choice
 * of a token.
 */
#include "backend/webgpu/gpu_compiler.h"

#include <assert.h>

typedef struct tail {
    uint32_t width, stride, first; /* of raw */
    const float *bias[2];
    uint32_t parts;
    af_combine combine;
    af_act act;
    const af_norm *post;
    bool residual, per_row;
    float scale, cap;
} tail;

static void tail_step(af_gpu_compiler *c, const char *name, const tail *t, af_gpu_value out) {
    static const af_norm none = {0};
    const af_norm *post = t->post ? t->post : &none;
    af_gpu_step *s = af_gpu_add_step(c, name, AF_GPU_GRID_ROWS);
    const af_gpu_constant constants[] = {{"COMBINE", t->combine}, {"ACT", t->act}, {"POST", post->kind}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "tail", constants, 3);
    s->which = t->per_row ? AF_GPU_ROWS : AF_GPU_ALL;
    const bool any = t->bias[0] || t->bias[1];
    const uint32_t lengths[] = {any ? t->width : 0, any && t->parts > 1 ? t->width : 0};
    const af_gpu_binding bias = af_gpu_small(c, t->bias, lengths, 2);
    const uint32_t params[] = {t->width,
                               t->stride,
                               t->first,
                               (t->bias[0] ? 1u : 0u) | (t->bias[1] ? 2u : 0u),
                               t->residual,
                               post->bias != NULL,
                               af_gpu_bits(t->scale),
                               af_gpu_bits(t->cap),
                               af_gpu_bits(post->eps),
                               out.stride,
                               out.first};
    af_gpu_set_params(s, params, 11);
    af_gpu_bind_step(
        c, s, (af_gpu_binding[]){af_gpu_whole(c->b->raw), bias, af_gpu_small_norm(c, post), af_gpu_whole(out.buffer)},
        4);
}

/* Products that are values themselves are written there; others go by way of `raw` and a tail. */
void af_gpu_compile_linear(af_gpu_compiler *c, const af_op *op) {
    const af_op_linear *l = &op->u.linear;
    af_gpu_backend *b = c->b;
    af_gpu_product products[AF_PLAN_PARTS];
    const uint32_t count = af_gpu_products(c, l, products);
    if (count == 0) return;
    bool quantize = false, biased = false;
    uint32_t stride = 0;
    for (uint32_t i = 0; i < count; i++) quantize |= af_gpu_is_quantized(products[i].m);
    for (uint32_t i = 0; i < l->part_count; i++) {
        stride += l->parts[i].w.rows;
        biased |= l->parts[i].bias != NULL;
    }
    const uint32_t cols = l->parts[0].w.cols;
    af_gpu_norm_step(c, op->name, b->values[l->in], cols, &l->pre, quantize, af_gpu_normed(b, cols), AF_GPU_ALL);
    const bool joined = l->combine == AF_COMBINE_GLU;
    const bool has_tail = biased || l->combine != AF_COMBINE_NONE || l->post.kind != AF_NORM_NONE ||
                          l->residual != AF_NO_VALUE || l->scale != 1.0f;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count; first += products[i++].m->rows) {
        const af_gpu_value raw = {.buffer = b->raw, .first = first, .stride = stride};
        af_gpu_product_steps(c, op->name, products[i].m,
                             has_tail ? raw : b->values[l->parts[products[i].first_part].out], false);
    }
    first = 0;
    for (uint32_t i = 0; has_tail && i < (joined ? 1 : l->part_count); first += l->parts[i++].w.rows) {
        assert(l->residual == AF_NO_VALUE || l->residual == l->parts[i].out);
        const tail t = {.width = l->parts[i].w.rows,
                        .stride = stride,
                        .first = first,
                        .bias = {l->parts[i].bias, joined ? l->parts[1].bias : NULL},
                        .parts = joined ? 2 : 1,
                        .combine = l->combine,
                        .act = l->act,
                        .post = &l->post,
                        .residual = l->residual != AF_NO_VALUE,
                        .scale = l->scale};
        tail_step(c, op->name, &t, b->values[l->parts[i].out]);
    }
}

static void argmax_steps(af_gpu_compiler *c, uint32_t vocabulary) {
    const af_gpu_backend *b = c->b;
    for (uint32_t pass = 0; pass < 2; pass++) {
        af_gpu_step *s = af_gpu_add_step(c, "argmax", AF_GPU_GRID_HEADS);
        const af_gpu_constant which = {"PASS", pass};
        s->pipelines[0] = af_gpu_pipeline_of(c, "argmax", &which, 1);
        s->which = AF_GPU_ROWS;
        s->x = pass == 0 ? AF_GPU_ARGMAX_PARTS : 1;
        s->choice_at = 1;
        af_gpu_set_params(s, (uint32_t[]){vocabulary, 0}, 2);
        af_gpu_bind_step(
            c, s, (af_gpu_binding[]){af_gpu_whole(b->logits), af_gpu_whole(b->bests), af_gpu_whole(b->choices)}, 3);
    }
}

static void draw_step(af_gpu_compiler *c) {
    const af_gpu_backend *b = c->b;
    af_gpu_step *s = af_gpu_add_step(c, "draw", AF_GPU_GRID_HEADS);
    s->pipelines[0] = af_gpu_pipeline_of(c, "draw", NULL, 0);
    s->which = AF_GPU_DRAWS;
    s->x = 1;
    s->choice_at = 0;
    af_gpu_set_params(s, (uint32_t[]){0, b->options.max_rows}, 2);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){af_gpu_whole(b->tops), af_gpu_whole(b->draws), af_gpu_whole(b->choices)},
                     3);
}

/* A row's token from all of it (cut.wgsl): a look at how its weights are spread, a closer one, then the parts' weights,
 * then the token. */
static void whole_steps(af_gpu_compiler *c, uint32_t vocabulary) {
    static const struct {
        const char *kernel;
        uint32_t level, x, bindings;
        af_gpu_which which;
    } steps[] = {{"spread", 0, AF_GPU_ARGMAX_PARTS, 4, AF_GPU_CUT},
                 {"spread", 1, AF_GPU_ARGMAX_PARTS, 4, AF_GPU_CUT},
                 {"weigh", 0, AF_GPU_ARGMAX_PARTS, 5, AF_GPU_WHOLE},
                 {"pick", 0, 1, 6, AF_GPU_WHOLE}};
    const af_gpu_backend *b = c->b;
    const uint32_t part = (vocabulary + AF_GPU_ARGMAX_PARTS - 1) / AF_GPU_ARGMAX_PARTS;
    const af_gpu_binding bindings[] = {af_gpu_whole(b->logits),  af_gpu_whole(b->bests),   af_gpu_whole(b->draws),
                                       af_gpu_whole(b->spreads), af_gpu_whole(b->weighed), af_gpu_whole(b->choices)};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        af_gpu_step *s = af_gpu_add_step(c, steps[i].kernel, AF_GPU_GRID_HEADS);
        const af_gpu_constant level = {"LEVEL", steps[i].level};
        s->pipelines[0] = af_gpu_pipeline_of(c, steps[i].kernel, &level, steps[i].which == AF_GPU_CUT ? 1 : 0);
        s->which = steps[i].which;
        s->x = steps[i].x;
        s->choice_at = 2;
        af_gpu_set_params(s, (uint32_t[]){vocabulary, part, 0}, 3);
        af_gpu_bind_step(c, s, bindings, steps[i].bindings);
    }
}

void af_gpu_choice_steps(af_gpu_compiler *c, uint32_t vocabulary) {
    const af_gpu_backend *b = c->b;
    argmax_steps(c, vocabulary);
    af_gpu_step *s = af_gpu_add_step(c, "top", AF_GPU_GRID_HEADS);
    const af_gpu_constant room = {"ROOM", AF_GPU_TOP_ROOM};
    s->pipelines[0] = af_gpu_pipeline_of(c, "top", &room, 1);
    s->which = AF_GPU_TOPS;
    s->x = AF_GPU_ARGMAX_PARTS;
    af_gpu_set_params(s, (uint32_t[]){vocabulary, b->options.max_rows}, 2);
    af_gpu_bind_step(c, s, (af_gpu_binding[]){af_gpu_whole(b->logits), af_gpu_whole(b->bests), af_gpu_whole(b->tops)},
                     3);
    draw_step(c);
    whole_steps(c, vocabulary);
}

void af_gpu_compile_head(af_gpu_compiler *c, const af_op *op) {
    const af_op_head *h = &op->u.head;
    af_gpu_backend *b = c->b;
    const af_matrix *w = &h->w;
    const af_gpu_matrix *m = af_gpu_upload(c, &w, 1);
    if (c->status != AF_OK) return;
    const bool has_tail = h->bias || h->scale != 1.0f || h->softcap != 0.0f;
    const af_gpu_value raw = {.buffer = b->raw, .stride = h->w.rows},
                       logits = {.buffer = b->logits, .stride = h->w.rows};
    af_gpu_norm_step(c, op->name, b->values[h->in], h->w.cols, &h->norm, af_gpu_is_quantized(m),
                     af_gpu_normed(b, h->w.cols), AF_GPU_ROWS);
    af_gpu_product_steps(c, op->name, m, has_tail ? raw : logits, true);
    if (has_tail) {
        const tail t = {.width = h->w.rows,
                        .stride = h->w.rows,
                        .bias = {h->bias},
                        .parts = 1,
                        .per_row = true,
                        .scale = h->scale,
                        .cap = h->softcap};
        tail_step(c, op->name, &t, logits);
    }
    af_gpu_choice_steps(c, h->w.rows);
}
