/* engine_recall.h - an engine whose answers are words that all tokens before decide, as its backend's cache has them
 * (fake_model.h, recalls), so that a page of another text shows in the next word.
 */
#ifndef ENGINE_RECALL_H
#define ENGINE_RECALL_H

#include "engine_talk.h"

static inline bench recalling(const af_plan *of, af_engine_options options) {
    bench b = bench_open_on(of, options);
    b.backend->recalls = true;
    return b;
}

static inline void fill(int32_t *ids, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++, seed = seed * 1664525 + 1013904223)
        ids[i] = FAKE_WORD + (int32_t)(seed >> 16) % WORDS;
}

/* Runs the first `count` ids, checks that the answer is the `more` ids after them, and returns the cached tokens. */
static inline uint32_t run(bench *b, const int32_t *ids, size_t count, size_t more) {
    talk *t = talk_new(b);
    af_request r = request_for(t, ids, count);
    r.max_tokens = (int64_t)more;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    assert_int_equal(t->id_count, more);
    assert_memory_equal(t->ids, ids + count, more * sizeof *ids);
    assert_int_equal(t->prompt_tokens, count);
    const uint32_t cached = t->cached_tokens;
    free(t);
    return cached;
}

static inline uint32_t tokens_run(bench *b) {
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < b->backend->step_count; i++) tokens += b->backend->steps[i].tokens;
    return tokens;
}

/* The device is lost under a request for the text, and opened again by the next. Returns what that one has cached. */
static inline uint32_t lose_and_ask_again(bench *b, const int32_t *ids, size_t count) {
    attempts = failures = 0;
    b->backend->lose_at = b->backend->step_count + 1;
    talk *t = talk_new(b);
    af_request r = request_for(t, ids, count);
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_ERROR);
    free(t);
    t = talk_new(b);
    r.user = t;
    r.max_tokens = 1;
    submit(t, &r);
    wait_for_end(t);
    assert_int_equal(t->finish, AF_FINISH_LENGTH);
    const uint32_t cached = t->cached_tokens;
    b->backend = opened;
    free(t);
    return cached;
}

#endif
