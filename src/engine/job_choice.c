/* job_choice.c - how a request's tokens are chosen and told of: its sampler with biases and forbidden ends, the tokens
 * that end it, and the log-probabilities that it asks for. job.c has the rest of a job.
 */
#include "engine/engine_internal.h"

#include "engine/logprobs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Checks ---- */

static int check_id(const char *name, size_t i, int32_t id, uint32_t vocabulary, af_error *error) {
    if (id >= 0 && (uint32_t)id < vocabulary) return AF_OK;
    return af_fail(error, AF_EINVAL, "%s[%zu]: token %d is not in the vocabulary, ids are 0 to %u", name, i, (int)id,
                   vocabulary - 1);
}

int af_job_check_choice(const af_request *r, uint32_t vocabulary, af_error *error) {
    int rc = af_sampling_check(&r->sampling, error);
    if (rc == 0 && r->end_count > AF_ENDS_MAX)
        rc = af_fail(error, AF_EINVAL, "end_ids: has %zu tokens, at most %d are allowed", r->end_count, AF_ENDS_MAX);
    if (rc == 0 && (r->logprobs < -1 || r->logprobs > AF_LOGPROBS_MOST))
        rc = af_fail(error, AF_EINVAL, "logprobs: found %d, must be -1 to %d", (int)r->logprobs, AF_LOGPROBS_MOST);
    for (size_t i = 0; rc == 0 && i < r->prompt_count; i++) rc = check_id("prompt", i, r->prompt[i], vocabulary, error);
    for (size_t i = 0; rc == 0 && i < r->end_count; i++) rc = check_id("end_ids", i, r->end_ids[i], vocabulary, error);
    for (size_t i = 0; rc == 0 && i < r->bias_count; i++) rc = check_id("bias", i, r->bias[i].id, vocabulary, error);
    for (size_t i = 0; rc == 0 && i < r->bias_count; i++)
        if (isnan(r->bias[i].bias) || r->bias[i].bias == INFINITY)
            rc = af_fail(error, AF_EINVAL, "bias[%zu]: found %g, must be a finite number, or -inf to forbid the token",
                         i, (double)r->bias[i].bias);
    return rc;
}

/* ---- The sampler ---- */

static bool holds_breaker(af_slice piece, const af_request *r) {
    for (size_t i = 0; i < r->dry_breaker_count; i++) {
        const size_t length = strlen(r->dry_breakers[i]);
        if (length > 0 && memmem(piece.p, piece.n, r->dry_breakers[i], length)) return true;
    }
    return false;
}

/* A flag for each token of the vocabulary; NULL with *error untouched where none is needed. */
static int find_breaks(const af_job *job, const af_request *r, uint32_t vocabulary, uint8_t **out, af_error *error) {
    *out = NULL;
    if (r->sampling.dry_multiplier <= 0 || r->dry_breaker_count == 0) return AF_OK;
    uint8_t *breaks = calloc(vocabulary, 1);
    if (!breaks) return af_fail_memory(error, vocabulary, "DRY's breakers");
    const uint32_t known = af_tokenizer_count(job->detok.tok);
    for (uint32_t id = 0; id < vocabulary && id < known; id++)
        breaks[id] = holds_breaker(af_tokenizer_piece(job->detok.tok, (int32_t)id, true), r);
    *out = breaks;
    return AF_OK;
}

/* Every token that would end the job; *count of them, from malloc. */
static int find_ends(const af_job *job, uint32_t vocabulary, int32_t **out, size_t *count, af_error *error) {
    const uint32_t known = af_tokenizer_count(job->detok.tok);
    const size_t room = (size_t)vocabulary + AF_ENDS_MAX;
    *count = 0;
    *out = malloc(room * sizeof **out);
    if (!*out) return af_fail_memory(error, room * sizeof **out, "the end tokens");
    for (uint32_t id = 0; id < vocabulary && id < known; id++)
        if (af_job_is_end(job, (int32_t)id)) (*out)[(*count)++] = (int32_t)id;
    return AF_OK;
}

static int extend_sampler(af_job *job, const af_request *r, uint32_t vocabulary, af_error *error) {
    af_sampler_extras extras = {.bias = r->bias, .bias_count = r->bias_count, .min_tokens = r->min_tokens};
    int32_t *ends = NULL;
    int rc = r->min_tokens ? find_ends(job, vocabulary, &ends, &extras.end_count, error) : AF_OK;
    if (rc == 0) rc = find_breaks(job, r, vocabulary, &extras.breaks, error);
    extras.ends = ends;
    if (rc == 0) rc = af_sampler_extend(job->sampler, &extras, error);
    free(ends);
    return rc;
}

/* A window that the request's text of at most so many tokens cannot outgrow is the whole text, which needs no ring. */
int af_job_open_choice(af_job *job, const af_request *r, uint32_t longest, uint32_t vocabulary, af_error *error) {
    af_sampling sampling = r->sampling;
    if (r->on_embedding) sampling = (af_sampling){.top_p = 1, .repeat_penalty = 1}; /* nothing is drawn */
    if (sampling.repeat_last_n > 0 && (uint32_t)sampling.repeat_last_n >= longest) sampling.repeat_last_n = -1;
    job->end_count = (uint32_t)r->end_count;
    if (r->end_count) memcpy(job->ends, r->end_ids, r->end_count * sizeof *job->ends);
    job->vocabulary = vocabulary;
    job->logprobs = r->logprobs;
    job->on_prompt_logprob = r->logprobs >= 0 ? r->on_prompt_logprob : NULL;
    if (r->logprobs >= 0) job->logprob = calloc(1, sizeof *job->logprob);
    if (r->logprobs >= 0 && !job->logprob) return af_fail_memory(error, sizeof *job->logprob, "log-probabilities");
    int rc = af_sampler_open(&sampling, vocabulary, &job->sampler, error);
    return rc < 0 ? rc : extend_sampler(job, r, vocabulary, error);
}

/* ---- While it runs ---- */

bool af_job_is_end(const af_job *job, int32_t id) {
    for (uint32_t i = 0; i < job->end_count; i++)
        if (job->ends[i] == id) return true;
    return !job->ignore_eos && af_tokenizer_is_end(job->detok.tok, id);
}

af_choose af_job_choice_at(const af_job *job, uint32_t position) {
    if (af_job_wants_state(job, position)) return AF_CHOOSE_STATE;
    if (af_job_wants(job, position)) return AF_CHOOSE_LOGITS;
    if (!af_job_chooses_at(job, position)) return AF_CHOOSE_NONE;
    if (job->logprob) return AF_CHOOSE_LOGITS;
    if (af_sampler_is_greedy(job->sampler)) return AF_CHOOSE_GREEDY;
    return af_sampler_takes_top(job->sampler, AF_TOP_MOST) ? AF_CHOOSE_TOP : AF_CHOOSE_LOGITS;
}

int32_t af_job_choose(af_job *job, const float *logits) {
    const int32_t id = af_sampler_choose(job->sampler, logits);
    if (job->logprob) af_logprob_of(logits, job->vocabulary, id, (uint32_t)job->logprobs, job->logprob);
    return id;
}

void af_job_take_wanted(af_job *job, uint32_t position, const float *logits) {
    if (job->want && job->want[position]) job->on_logits(job->user, position, logits, job->vocabulary);
    if (!job->on_prompt_logprob || position + 1 >= job->prompt_count) return;
    af_logprob_of(logits, job->vocabulary, job->tokens[position + 1], (uint32_t)job->logprobs, job->logprob);
    job->on_prompt_logprob(job->user, position + 1, job->logprob);
}
