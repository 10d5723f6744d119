/* job.c - one request from submission to its last event: what it may be, its text, when it is over.
 *
 * Everything it needs is allocated when it is submitted, by the thread that submits. The text buffer is given room for
 * the longest stop string and a few pieces, so that it does not grow token by token.
 */
#include "engine/engine_internal.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_ROOM 512 /* bytes beyond the longest stop string */

#define SHIFT_CONTEXTS 16 /* an answer is over after so many contexts' tokens, though each one that is full shifts */

/* ---- Checks ---- */

static bool asks_for_text(const af_request *r) {
    return r->max_tokens != 0 && !r->on_embedding;
}

/* A prompt must leave room for a token, unless none is asked for. */
static int check_length(const af_request *r, uint32_t ctx, af_error *error) {
    size_t most = asks_for_text(r) ? ctx - 1 : ctx;
    if (r->prompt_count == 0) return af_fail(error, AF_EINVAL, "prompt: is empty, must hold a token");
    if (r->prompt_count <= most) return AF_OK;
    return af_fail(error, AF_ECONTEXT, "the prompt has %zu tokens, the context holds %u%s", r->prompt_count, ctx,
                   r->prompt_count == ctx ? ", which leaves none for an answer" : "");
}

static af_pooling pooling_of(const af_request *r, const af_plan *plan) {
    return r->pooling == AF_POOLING_MODEL ? plan->pooling : r->pooling;
}

/* What the request asks for is something that the model gives. */
static int check_kind(const af_request *r, const af_plan *plan, af_error *error) {
    if (asks_for_text(r) && !af_plan_head(plan))
        return af_fail(error, AF_EUNSUPPORTED, "the model gives embeddings, not text");
    if (!r->on_embedding) return AF_OK;
    if (r->want) return af_fail(error, AF_EINVAL, "want: rows of logits and an embedding are asked for together");
    const af_pooling how = pooling_of(r, plan);
    if (r->pooling > AF_POOLING_LAST)
        return af_fail(error, AF_EINVAL, "pooling: found %d, allowed 0 to %d", (int)r->pooling, AF_POOLING_LAST);
    if (!af_plan_state(plan) || how < AF_POOLING_MEAN || how > AF_POOLING_LAST)
        return af_fail(error, AF_EUNSUPPORTED, "the model gives no embeddings");
    return AF_OK;
}

static int check_request(const af_request *r, const af_plan *plan, uint32_t ctx, af_error *error) {
    if (!r->on_event) return af_fail(error, AF_EINVAL, "on_event: is missing");
    if (r->want && !r->on_logits) return af_fail(error, AF_EINVAL, "on_logits: is missing, though logits are wanted");
    if (r->max_tokens < -1) {
        return af_fail(error, AF_EINVAL, "max_tokens: found %lld, must be at least -1", (long long)r->max_tokens);
    }
    if (r->keep < -1 || r->keep > UINT32_MAX)
        return af_fail(error, AF_EINVAL, "keep: found %lld, must be at least -1", (long long)r->keep);
    if (r->shown_count > AF_SHOWN_MAX) {
        return af_fail(error, AF_EINVAL, "shown: has %zu tokens, at most %d are allowed", r->shown_count, AF_SHOWN_MAX);
    }
    int rc = check_kind(r, plan, error);
    if (rc == 0) rc = check_length(r, ctx, error);
    return rc < 0 ? rc : af_job_check_choice(r, plan->vocabulary, error);
}

/* ---- Open and close ---- */

static void *copy_of(const void *p, size_t size) {
    void *copy = malloc(size);
    if (copy) memcpy(copy, p, size);
    return copy;
}

/* Tokens its text has at the most: those of a full context, and one chosen behind it. */
static uint32_t text_room(const af_job *job) {
    const uint64_t whole = (uint64_t)job->prompt_count + job->limit;
    return whole <= job->ctx ? (uint32_t)whole : job->ctx + 1;
}

static int copy_prompt(af_job *job, const af_request *r, af_error *error) {
    size_t size = text_room(job) * sizeof *job->tokens;
    job->tokens = malloc(size);
    if (r->want) job->want = copy_of(r->want, r->prompt_count);
    if (!job->tokens || (r->want && !job->want)) return af_fail_memory(error, size, "a prompt");
    memcpy(job->tokens, r->prompt, r->prompt_count * sizeof *job->tokens);
    return AF_OK;
}

/* Without an answer to come, the prompt runs only as far as rows are wanted; whole, if any is and it must be. */
static uint32_t end_of_prompt(const af_job *job, bool whole) {
    uint32_t end = job->prompt_count;
    if (job->limit > 0) return end;
    while (end > 0 && !af_job_wants(job, end - 1) && !af_job_wants_state(job, end - 1)) end--;
    return whole && end > 0 ? job->prompt_count : end;
}

/* The last token of a prompt always runs, since something is wanted of it: a choice, or else the prompt ends there. */
static uint32_t first_wanted(const af_job *job) {
    uint32_t position = 0;
    while (position < job->prompt_end && af_job_choice_at(job, position) == AF_CHOOSE_NONE) position++;
    return position;
}

static int reserve_text(af_job *job, af_error *error) {
    size_t room = TEXT_ROOM;
    for (size_t i = 0; i < job->stops.count; i++) {
        if (job->stops.stops[i].length + TEXT_ROOM > room) room = job->stops.stops[i].length + TEXT_ROOM;
    }
    return af_buf_reserve(&job->text, room) ? AF_OK : af_fail_memory(error, room, "a request's text");
}

static int open_draft(af_job *job, af_error *error) {
    const int rc = af_draft_open(job->tokens, text_room(job), &job->draft, error);
    if (rc == 0) af_draft_advance(&job->draft, job->prompt_count);
    return rc;
}

int af_job_open(const af_request *r, const af_job_frame *frame, af_job **out, af_error *error) {
    const af_plan *plan = frame->plan;
    const uint32_t ctx = frame->ctx;
    int rc = check_request(r, plan, ctx, error);
    if (rc < 0) return rc;
    af_job *job = calloc(1, sizeof *job);
    if (!job) return af_fail_memory(error, sizeof *job, "a request");
    const uint32_t most = frame->shifts ? SHIFT_CONTEXTS * ctx : ctx - (uint32_t)r->prompt_count;
    job->on_event = r->on_event;
    job->on_logits = r->on_logits;
    job->user = r->user;
    job->ignore_eos = r->ignore_eos;
    job->prompt_count = (uint32_t)r->prompt_count;
    job->told = job->prompt_count;
    job->ctx = ctx;
    job->keep = af_shift_keep(r->keep < 0 ? frame->keep : (uint32_t)r->keep, job->prompt_count, ctx);
    job->limit = r->max_tokens < 0 || r->max_tokens > most ? most : (uint32_t)r->max_tokens;
    if (r->on_embedding) job->limit = 0;
    job->on_embedding = r->on_embedding;
    job->wants_states = !af_plan_head(plan);
    af_detok_resume(&job->detok, frame->tokenizer, r->prompt[r->prompt_count - 1]);
    job->detok.shown = job->shown;
    job->detok.shown_count = r->shown_count;
    if (r->shown_count) memcpy(job->shown, r->shown, r->shown_count * sizeof *r->shown);
    rc = copy_prompt(job, r, error);
    if (rc == 0) rc = af_stops_open(r->stops, r->stop_count, &job->stops, error);
    if (rc == 0) rc = af_job_open_choice(job, r, job->prompt_count + job->limit, plan->vocabulary, error);
    if (rc == 0 && r->on_embedding) rc = af_pooled_open(pooling_of(r, plan), plan->width, &job->pooled, error);
    if (rc == 0) rc = reserve_text(job, error);
    if (rc == 0 && frame->speculates && job->limit > 1) rc = open_draft(job, error);
    if (rc < 0) {
        af_job_close(job);
        return rc;
    }
    job->prompt_end = end_of_prompt(job, plan->whole);
    job->reusable = first_wanted(job);
    *out = job;
    return AF_OK;
}

void af_job_close(af_job *job) {
    if (!job) return;
    af_buf_clear(&job->text);
    af_sampler_close(job->sampler);
    af_draft_close(&job->draft);
    af_pooled_close(&job->pooled);
    af_stops_close(&job->stops);
    free(job->logprob);
    free(job->want);
    free(job->tokens);
    free(job);
}

/* ---- While it runs ---- */

bool af_job_in_prompt(const af_job *job) {
    return job->done < job->prompt_end;
}

static bool is_listed(const af_job *job, uint32_t position) {
    return job->want && position < job->prompt_count && job->want[position];
}

bool af_job_wants(const af_job *job, uint32_t position) {
    if (job->on_prompt_logprob && position + 1 < job->prompt_count) return true;
    return !job->wants_states && is_listed(job, position);
}

bool af_job_wants_state(const af_job *job, uint32_t position) {
    if (job->on_embedding) return af_pooling_wants(job->pooled.how, position, job->prompt_count);
    return job->wants_states && is_listed(job, position);
}

bool af_job_chooses_at(const af_job *job, uint32_t position) {
    return job->limit > 0 && position + 1 >= job->prompt_count;
}

/* An end token says nothing. The last token of all also gives out what never became a character. */
static bool make_text(af_job *job, int32_t id, bool end, bool last) {
    if (!end && !af_detok_push(&job->detok, id, &job->text)) return false;
    return !last || af_detok_finish(&job->detok, &job->text);
}

int af_job_push(af_job *job, int32_t id, af_finish *finish, af_error *error) {
    bool end = af_job_is_end(job, id);
    size_t watched = job->text.len;
    job->last = id;
    job->tokens[af_job_known(job)] = id;
    job->completion++;
    af_sampler_answered(job->sampler, id);
    af_draft_advance(&job->draft, af_job_known(job));
    bool full = job->completion == job->limit;
    if (!make_text(job, id, end, end || full)) return af_fail_memory(error, job->text.len, "a request's text");
    bool stopped = af_stops_scan(&job->stops, &job->text, watched);
    *finish = end || stopped ? AF_FINISH_STOP : full ? AF_FINISH_LENGTH : AF_FINISH_NONE;
    return AF_OK;
}

int af_job_give_embedding(af_job *job, af_error *error) {
    const int rc = af_pooled_finish(&job->pooled, error);
    if (rc == 0) job->on_embedding(job->user, job->pooled.vector, job->pooled.width);
    return rc;
}

void af_job_emit(af_job *job, const int32_t *ids, size_t id_count, af_finish finish, const af_error *error) {
    size_t shown = job->text.len - (finish == AF_FINISH_NONE ? af_stops_held(&job->stops) : 0);
    bool served = finish == AF_FINISH_STOP || finish == AF_FINISH_LENGTH;
    bool whole_prompt = served || job->completion > 0 || job->done > job->prompt_count;
    af_event event = {.request = job->id,
                      .text = job->text.p,
                      .length = shown,
                      .ids = ids ? ids : &job->last, /* never NULL */
                      .id_count = id_count,
                      .finish = finish,
                      .error = error,
                      .logprobs = id_count ? job->logprob : NULL,
                      .prompt_tokens = whole_prompt ? job->told : job->done,
                      .cached_tokens = job->cached,
                      .completion_tokens = job->completion,
                      .accepted_tokens = job->accepted,
                      .rejected_tokens = job->rejected};
    job->on_event(job->user, &event);
    job->text.len -= shown;
    memmove(job->text.p, job->text.p + shown, job->text.len);
}
