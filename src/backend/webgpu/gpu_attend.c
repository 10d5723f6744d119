/* gpu_attend.c - the operations around the KV cache: ROPE_STORE and ATTEND. */
#include "backend/webgpu/gpu_compiler.h"

uint32_t af_gpu_turns_before(const af_plan *plan, uint16_t rope) {
    uint32_t pairs = 0;
    for (uint16_t i = 0; i < rope; i++) pairs += plan->ropes[i].rotated / 2;
    return pairs;
}

/* Rows of weights of a norm of heads. */
static uint32_t norm_rows(const af_norm *norm, uint32_t heads) {
    if (norm->kind == AF_NORM_NONE) return 0;
    return norm->per_head_weight ? heads : 1;
}

static af_gpu_binding small_head_norms(af_gpu_compiler *c, const af_op_rope_store *r, const af_cache *cache) {
    const uint32_t q = norm_rows(&r->q_norm, r->heads) * r->q_norm.width;
    const uint32_t k = norm_rows(&r->k_norm, cache->kv_heads) * r->k_norm.width;
    const float *const vectors[] = {r->q_norm.weight, r->q_norm.bias, r->k_norm.weight, r->k_norm.bias};
    const uint32_t lengths[] = {q, r->q_norm.bias ? q : 0, k, r->k_norm.bias ? k : 0};
    return af_gpu_small(c, vectors, lengths, 4);
}

void af_gpu_compile_rope_store(af_gpu_compiler *c, const af_op *op) {
    const af_op_rope_store *r = &op->u.rope_store;
    const af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[r->cache];
    const af_rope *rope = &b->plan->ropes[r->rope];
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_HEADS);
    const uint32_t k_row = af_gpu_key_row(cache, b->options.kv), v_row = af_gpu_value_row(cache, b->options.kv);
    const af_gpu_constant constants[] = {{"KV", b->options.kv},
                                         {"K_ROW", k_row},
                                         {"V_ROW", v_row},
                                         {"ROW_FLOATS", k_row > v_row ? k_row : v_row},
                                         {"Q_WIDTH", r->q_norm.width},
                                         {"K_WIDTH", r->k_norm.width},
                                         {"Q_NORM", r->q_norm.kind},
                                         {"Q_ROWS", norm_rows(&r->q_norm, r->heads)},
                                         {"Q_BIAS", r->q_norm.bias != NULL},
                                         {"K_NORM", r->k_norm.kind},
                                         {"K_ROWS", norm_rows(&r->k_norm, cache->kv_heads)},
                                         {"K_BIAS", r->k_norm.bias != NULL},
                                         {"Q_PITCH", r->q_pitch ? r->q_pitch : cache->k_dim}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "rope_store", constants, sizeof constants / sizeof *constants);
    s->x = r->heads + (cache->shared ? 1u : 2u) * cache->kv_heads;
    s->scaled_at = 6;
    s->scaled_by = af_gpu_turns_before(b->plan, r->rope);
    s->scaled_plus = b->turns_at / 2;
    const uint32_t params[] = {r->heads,
                               cache->kv_heads,
                               cache->k_dim,
                               cache->v_dim,
                               rope->rotated | (uint32_t)r->rope_first << 16,
                               rope->adjacent,
                               0,
                               cache->group * b->table_pages,
                               b->values[r->q].stride,
                               b->values[r->k].first,
                               cache->shared ? 0 : b->values[r->v].first,
                               af_gpu_bits(r->q_norm.eps),
                               af_gpu_bits(r->k_norm.eps),
                               af_gpu_bits(r->q_growth),
                               r->q_span};
    af_gpu_set_params(s, params, 15);
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info), small_head_norms(c, r, cache),
                                       af_gpu_whole(b->values[r->q].buffer), af_gpu_whole(b->k_caches[r->cache]),
                                       af_gpu_whole(cache->shared ? b->unused[0] : b->v_caches[r->cache])};
    af_gpu_bind_step(c, s, bindings, 5);
}

#define QUERY_FLOATS 2048 /* that attend.wgsl has room for */
#define HELD_FLOATS  16   /* that one of its threads adds up */
#define MOST_DIM     1024 /* of a head: cache_store.wgsl's row */

/* Queries that a workgroup takes of a tile: all, or as many as there is room for; 0: not even one. */
static uint32_t queries_of(uint32_t k_row, uint32_t v_dim) {
    uint32_t queries = AF_GPU_TILE;
    while (queries && (queries * k_row > QUERY_FLOATS || (v_dim + 127) / 128 * queries > HELD_FLOATS)) queries /= 2;
    return queries;
}

/* Groups of threads that share the queries: a power of two, as many as are V_DIM wide. */
static uint32_t query_parts(uint32_t queries, uint32_t v_dim) {
    uint32_t parts = 1;
    while (parts < queries && 2 * parts * v_dim <= 128) parts *= 2;
    return parts;
}

void af_gpu_bind_attend(af_gpu_compiler *c, af_gpu_step *s, const af_op_attend *a, uint32_t tiles_at) {
    const af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[a->cache];
    const uint32_t params[] = {cache->group * b->table_pages,
                               b->plan->groups[cache->group].window,
                               a->sinks != NULL,
                               af_gpu_bits(a->scale),
                               af_gpu_bits(a->softcap),
                               b->values[a->q].stride,
                               tiles_at,
                               a->both};
    af_gpu_set_params(s, params, 8);
    const uint32_t length = a->sinks ? a->heads : 0;
    const af_gpu_binding bindings[] = {af_gpu_whole(b->batch_info),
                                       af_gpu_whole(b->values[a->q].buffer),
                                       af_gpu_whole(b->k_caches[a->cache]),
                                       af_gpu_whole(cache->shared ? b->k_caches[a->cache] : b->v_caches[a->cache]),
                                       af_gpu_small(c, &a->sinks, &length, 1),
                                       af_gpu_whole(b->values[a->out].buffer)};
    af_gpu_bind_step(c, s, bindings, 6);
}

void af_gpu_compile_attend(af_gpu_compiler *c, const af_op *op) {
    const af_op_attend *a = &op->u.attend;
    const af_gpu_backend *b = c->b;
    const af_cache *cache = &b->plan->caches[a->cache];
    const uint32_t k_row = af_gpu_key_row(cache, b->options.kv), queries = queries_of(k_row, cache->v_dim);
    if (cache->k_dim > MOST_DIM || queries == 0 || cache->v_dim % 2) {
        c->status = af_fail(c->error, AF_EUNSUPPORTED,
                            "gpu: %s: heads of %u and %u elements, allowed are up to %u, of values an even number",
                            op->name, cache->k_dim, cache->v_dim, MOST_DIM);
        return;
    }
    af_gpu_step *s = af_gpu_add_step(c, op->name, AF_GPU_GRID_TILES);
    const af_gpu_constant constants[] = {{"KV", b->options.kv},
                                         {"HEADS", a->heads},
                                         {"KV_HEADS", cache->kv_heads},
                                         {"K_ROW", k_row},
                                         {"Q_DIM", cache->k_dim},
                                         {"V_ROW", af_gpu_value_row(cache, b->options.kv)},
                                         {"V_DIM", cache->v_dim},
                                         {"QUERIES", queries},
                                         {"PARTS", query_parts(queries, cache->v_dim)},
                                         {"Q_PITCH", a->q_pitch ? a->q_pitch : cache->k_dim}};
    s->pipelines[0] = af_gpu_pipeline_of(c, "attend", constants, sizeof constants / sizeof *constants);
    s->parts = AF_GPU_TILE / queries;
    s->x = a->heads;
    af_gpu_bind_attend(c, s, a, b->tiles_at);
}
