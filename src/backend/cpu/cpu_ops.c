/* cpu_ops.c - the operations that run row by row: embed, norm, rotate and store; and how rows fall to threads. */
#include "backend/cpu/cpu.h"

#include "base/os.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define ROWS_AT_ONCE 16u    /* of a pool task */
#define LITTLE_WORK  16384u /* floats that one thread handles in the time it takes to wake another */

#define LARGE_TABLE ((size_t)16 << 20) /* bytes of an embedding table whose pages are let go */
#define ROWS_HELD   64u                /* ... after so many rows were read */

typedef struct range_task {
    af_cpu *cpu;
    af_cpu_worker_fn fn;
    const void *job;
    uint32_t rows;
} range_task;

static void run_range(void *user, uint32_t task, uint32_t worker) {
    const range_task *r = user;
    const uint32_t begin = task * ROWS_AT_ONCE, left = r->rows - begin;
    r->fn(r->cpu, r->job, begin, begin + (left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE), worker);
}

void af_cpu_worker_ranges(af_cpu *cpu, af_cpu_worker_fn fn, const void *job, uint32_t rows, size_t width) {
    if (rows <= ROWS_AT_ONCE || rows * width <= LITTLE_WORK || cpu->threads == 1) {
        if (rows > 0) fn(cpu, job, 0, rows, 0);
        return;
    }
    range_task r = {cpu, fn, job, rows};
    af_pool_run(cpu->pool, run_range, &r, (rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE);
}

typedef struct plain_job {
    af_cpu_range_fn fn;
    const void *job;
} plain_job;

static void run_plain(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end, uint32_t worker) {
    (void)worker;
    const plain_job *plain = job;
    plain->fn(cpu, plain->job, begin, end);
}

void af_cpu_ranges(af_cpu *cpu, af_cpu_range_fn fn, const void *job, uint32_t rows, size_t width) {
    af_cpu_worker_ranges(cpu, run_plain, &(plain_job){fn, job}, rows, width);
}

static void embed_rows(af_cpu *cpu, const af_op_embed *e, uint32_t begin, uint32_t end) {
    const af_matrix *table = &e->table;
    const size_t row_bytes = af_row_bytes(table->format, table->cols);
    for (uint32_t t = begin; t < end; t++) {
        float *out = af_cpu_row(&cpu->values[e->out], t);
        assert(cpu->ids[t] >= 0 && (uint32_t)cpu->ids[t] < table->rows);
        table->format->decode((const unsigned char *)table->data + (size_t)cpu->ids[t] * row_bytes, out, table->cols);
        if (e->scale != 1.0f) cpu->kernels->scale(out, e->scale, table->cols);
        const uint32_t position = e->position_count == 1 ? 0 : cpu->batch->tokens[t].position;
        assert(!e->positions || position < e->position_count);
        if (e->positions) cpu->kernels->add(out, e->positions + (size_t)position * table->cols, table->cols);
    }
}

/* Reading a row makes a good deal of the mapped file around it resident (large folios of the page cache), so a large
 * table would soon be held twice: here, and packed as the head. Its pages are let go after every so many rows; taking
 * one back costs about a microsecond. In exact mode the file is all there is, and stays. */
static void release_table(af_cpu *cpu, const af_matrix *table, uint32_t rows) {
    const size_t bytes = af_row_bytes(table->format, table->cols) * table->rows;
    cpu->rows_embedded += rows;
    if (cpu->options.exact || bytes < LARGE_TABLE || cpu->rows_embedded < ROWS_HELD) return;
    cpu->rows_embedded = 0;
    af_os_release(table->data, bytes);
}

void af_cpu_embed(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_embed *e = &op->op->u.embed;
    for (uint32_t t = 0, end; t < cpu->batch->token_count; t = end) {
        end = cpu->batch->token_count - t < ROWS_HELD ? cpu->batch->token_count : t + ROWS_HELD;
        embed_rows(cpu, e, t, end);
        release_table(cpu, &e->table, end - t);
    }
}

static void norm_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_norm *n = job;
    for (uint32_t t = begin; t < end; t++)
        cpu->kernels->norm(&n->norm, 0, af_cpu_row(&cpu->values[n->in], t), af_cpu_row(&cpu->values[n->out], t));
}

void af_cpu_norm(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_norm *n = &op->op->u.norm;
    af_cpu_ranges(cpu, norm_rows, n, cpu->batch->token_count, n->norm.width);
}

static void state_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_state *s = job;
    for (uint32_t i = begin; i < end; i++) {
        const float *in = af_cpu_row(&cpu->values[s->in], cpu->stated[i]);
        float *out = af_cpu_row(&cpu->states, i);
        if (s->norm.kind != AF_NORM_NONE)
            cpu->kernels->norm(&s->norm, 0, in, out);
        else
            memcpy(out, in, cpu->plan->width * sizeof *out);
        cpu->state_rows[i] = out;
    }
}

void af_cpu_state(af_cpu *cpu, const af_cpu_op *op) {
    af_cpu_ranges(cpu, state_rows, &op->op->u.state, cpu->state_count, cpu->plan->width);
}

/* Angles in double: a float's error in position * frequency would grow with the position. */
static void turn_token(const af_rope *rope, uint32_t position, float *cosines, float *sines) {
    for (uint32_t i = 0; i < rope->rotated / 2; i++) {
        const double angle = (double)position * (double)rope->inv_freq[i];
        const float c = (float)cos(angle) * rope->magnitude, s = (float)sin(angle) * rope->magnitude;
        if (rope->adjacent) {
            cosines[2 * i] = cosines[2 * i + 1] = c;
            sines[2 * i] = -s;
            sines[2 * i + 1] = s;
        } else {
            cosines[i] = c;
            sines[i] = s;
        }
    }
}

static void turn_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const size_t r = *(const size_t *)job;
    for (uint32_t t = begin; t < end; t++)
        turn_token(&cpu->plan->ropes[r], cpu->batch->tokens[t].position, af_cpu_row(&cpu->turns[r].cosines, t),
                   af_cpu_row(&cpu->turns[r].sines, t));
}

void af_cpu_turn(af_cpu *cpu) {
    for (size_t r = 0; r < cpu->plan->rope_count; r++) {
        const size_t sine_work = (size_t)cpu->plan->ropes[r].rotated * 16; /* one costs about as much as 16 products */
        af_cpu_ranges(cpu, turn_rows, &r, cpu->batch->token_count, sine_work);
    }
}

/* Norms and rotates the heads of one token's q or k, which begin `pitch` elements apart. */
static void turn_heads(const af_cpu *cpu, const af_op_rope_store *s, const af_norm *norm, uint32_t token, float *heads,
                       uint32_t count, size_t pitch) {
    const af_rope *spec = &cpu->plan->ropes[s->rope];
    const float *cosines = af_cpu_row(&cpu->turns[s->rope].cosines, token);
    const float *sines = af_cpu_row(&cpu->turns[s->rope].sines, token);
    for (uint32_t h = 0; h < count; h++) {
        float *head = heads + h * pitch;
        if (norm->kind != AF_NORM_NONE) cpu->kernels->norm(norm, h, head, head);
        cpu->kernels->rotate(spec, cosines, sines, head + s->rope_first);
    }
}

/* plan.h, af_op_rope_store: 1 where queries do not grow. */
static float query_factor(const af_op_rope_store *s, uint32_t position) {
    return s->q_span ? 1.0f + s->q_growth * logf(1.0f + (float)(position / s->q_span)) : 1.0f;
}

static void store_token(const af_cpu *cpu, const af_op_rope_store *s, uint32_t token, const float *k, const float *v) {
    const af_kv_layer *layer = &cpu->kv.layers[s->cache];
    const af_batch_token *at = &cpu->batch->tokens[token];
    const uint32_t *pages = cpu->batch->seqs[at->seq].pages[cpu->plan->caches[s->cache].group];
    const uint32_t page = pages[at->position / AF_KV_PAGE], slot = at->position % AF_KV_PAGE;
    assert(page < layer->pages);
    const af_kv_shape *shape = &layer->shape;
    for (uint32_t h = 0; h < layer->kv_heads; h++)
        cpu->kernels->store[shape->type](shape, k + (size_t)h * shape->k_dim, v ? v + (size_t)h * shape->v_dim : NULL,
                                         slot, af_kv_store_page(&cpu->kv, s->cache, page, h));
}

static void rope_store_rows(af_cpu *cpu, const void *job, uint32_t begin, uint32_t end) {
    const af_op_rope_store *s = job;
    const af_kv_layer *layer = &cpu->kv.layers[s->cache];
    for (uint32_t t = begin; t < end; t++) {
        float *q = af_cpu_row(&cpu->values[s->q], t), *k = af_cpu_row(&cpu->values[s->k], t);
        const size_t dim = layer->shape.k_dim, pitch = s->q_pitch ? s->q_pitch : dim;
        turn_heads(cpu, s, &s->q_norm, t, q, s->heads, pitch);
        const float factor = query_factor(s, cpu->batch->tokens[t].position);
        for (uint32_t h = 0; factor != 1.0f && h < s->heads; h++) cpu->kernels->scale(q + h * pitch, factor, dim);
        turn_heads(cpu, s, &s->k_norm, t, k, layer->kv_heads, dim);
        store_token(cpu, s, t, k, layer->shape.shared ? NULL : af_cpu_row(&cpu->values[s->v], t));
    }
}

void af_cpu_rope_store(af_cpu *cpu, const af_cpu_op *op) {
    const af_op_rope_store *s = &op->op->u.rope_store;
    const af_kv_layer *layer = &cpu->kv.layers[s->cache];
    const size_t width = (size_t)(s->heads + layer->kv_heads * 2u) * layer->shape.k_dim;
    af_cpu_ranges(cpu, rope_store_rows, s, cpu->batch->token_count, width);
}
