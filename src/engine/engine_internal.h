/* engine_internal.h - the engine's parts, for the files that make it up and for tests with a backend of their own.
 *
 *     job.c       one request: checked, copied; its text, events' content, and when it is over
 *     job_choice.c  how its tokens are chosen, and how likely they were
 *     step.c      one step: which tokens run, and what becomes of the rows that come back
 *     reuse.c     what of a prompt need not run, because it is kept or another request is about to run it
 *     disk.c, disk_restore.c  what is kept on disk too
 *     shift.c     what a request drops when its context is full, if it is to go on
 *     pooling.c   from states to an embedding
 *     draft.c, draft_cost.c, speculate.c  guesses that a step checks several of, where that pays
 *     ahead.c     several steps in flight, on a device that chooses or draws tokens itself
 *     engine.c    the thread, the queue, open and close
 *     settings.c  defaults and sizes
 *
 * A job's states:
 *
 *     waiting --admitted--> prefill --last prompt token ran--> decode --stop, length--> over
 *        |                     |                                 |
 *        +---------------------+---------- cancel, error --------+--------------------> over
 *
 * Invariants
 *   1. `live` holds every job that is not over, in order of submission; a job leaves it before its last event.
 *   2. The mutex guards live, its count, closing, the totals and each job's `admitted`. Everything else of a job
 * belongs to the engine's thread once it was submitted. No callback runs with the mutex held.
 *   3. A job in `running` has a KV sequence; the pools are sized so that every running job can reach the context's end.
 *      Where a plan takes prompts whole, a job holds pages during its only step, and they are sized for one step. Pages
 *      that are kept for later requests are taken back when a running one needs them.
 *   4. Positions 0 .. done-1 of a job are in the cache. The token chosen last is not: it runs at position `done`.
 */
#ifndef AF_ENGINE_INTERNAL_H
#define AF_ENGINE_INTERNAL_H

#include "base/os.h"
#include "engine/disk.h"
#include "engine/draft.h"
#include "engine/draft_cost.h"
#include "engine/kv.h"
#include "engine/pooling.h"
#include "engine/sampler.h"
#include "engine/stops.h"
#include "text/tokenizer.h"

#include <stdatomic.h>

enum { AF_SHOWN_MAX = 64, AF_ENDS_MAX = 64 }; /* as airframe.h says */

typedef struct af_job {
    uint64_t id;
    af_event_fn on_event;
    af_logits_fn on_logits;
    void *user;
    int32_t *tokens;              /* (prompt_count + limit) the prompt, then what was chosen */
    uint8_t *want;                /* (prompt_count), or NULL */
    bool wants_states;            /* the rows it wants are states: the model has no head */
    af_embedding_fn on_embedding; /* NULL: no embedding is wanted */
    af_pooled pooled;             /* it, so far */
    uint32_t prompt_count;
    uint32_t prompt_end; /* how much of the prompt must run */
    uint32_t reusable;   /* positions before the first of which something is wanted: a cache may stand in for them */
    uint32_t limit;      /* tokens to choose at the most; 0: none */
    uint32_t ctx;        /* positions it may have */
    uint32_t told;       /* prompt tokens that came with the request: prompt_count, until the context shifts */
    uint32_t absorbed; /* of the answer, tokens that were chosen before it shifted last: they are prompt now, or gone */
    uint32_t keep;     /* tokens that stay when it shifts */
    bool ignore_eos;
    bool admitted;
    atomic_bool cancelled;

    af_kv_seq *seq;
    uint32_t done;   /* positions in the cache */
    uint32_t cached; /* of those, the ones that were there before */
    bool waits;      /* in this step, for another that runs the same prompt, or for the disk */
    af_restore restore;
    int32_t last; /* the token chosen last */
    uint32_t completion;
    af_sampler *sampler;
    int32_t ends[AF_ENDS_MAX]; /* tokens that end it beside the vocabulary's */
    uint32_t end_count, vocabulary;
    int32_t logprobs;    /* likeliest tokens told of, or -1 */
    af_logprob *logprob; /* of the token chosen last; NULL: not asked for */
    void (*on_prompt_logprob)(void *user, size_t position, const af_logprob *logprob);
    af_detok detok;
    int32_t shown[AF_SHOWN_MAX];
    af_stops stops;
    af_buf text; /* made, not yet shown */
    af_draft draft;
    uint32_t accepted, rejected; /* tokens drafted */

    uint32_t step_count; /* of its tokens in the step that runs now */
    uint32_t drafted;    /* of them */
    bool astray;         /* what is in flight of it follows a token that was not its own, and is dropped */
    uint32_t fly_from;   /* tokens of its answer before it draws in flight again (ahead.c) */
} af_job;

/* Positions whose pages others may take over: where decoded tokens have other bits than a prompt's, not those. */
static inline uint32_t af_job_shareable(const af_job *job, bool apart) {
    return apart && job->done > job->prompt_end ? job->prompt_end : job->done;
}
/* Tokens of its text that are known: prompt, and what was chosen. */
static inline uint32_t af_job_known(const af_job *job) {
    return job->prompt_count + job->completion - job->absorbed;
}
/* Tokens it may choose from position `done` on before it is over or its context is full; at least 1 while it decodes.
 */
static inline uint32_t af_job_room(const af_job *job) {
    const uint32_t left = job->limit - job->completion, places = job->ctx - job->done;
    return left < places ? left : places;
}

/* What an engine's requests have in common. */
typedef struct af_job_frame {
    const af_plan *plan;
    const af_tokenizer *tokenizer;
    uint32_t ctx;
    bool speculates;
    bool shifts;   /* a full context does not end a request */
    uint32_t keep; /* tokens that stay then, where the request does not say */
} af_job_frame;

/* Checks and copies. On failure nothing stays allocated. */
int af_job_open(const af_request *request, const af_job_frame *frame, af_job **out, af_error *error);
void af_job_close(af_job *job);
bool af_job_in_prompt(const af_job *job);
bool af_job_wants(const af_job *job, uint32_t position);       /* its logits */
bool af_job_wants_state(const af_job *job, uint32_t position); /* to pool, or itself */
/* True if a token is chosen after the one at `position`. */
bool af_job_chooses_at(const af_job *job, uint32_t position);

/* job_choice.c */
int af_job_check_choice(const af_request *request, uint32_t vocabulary, af_error *error);
int af_job_open_choice(af_job *job, const af_request *request, uint32_t longest, uint32_t vocabulary, af_error *error);
bool af_job_is_end(const af_job *job, int32_t id);
/* What is asked of the backend for the token at `position`. */
af_choose af_job_choice_at(const af_job *job, uint32_t position);
/* Chooses from a row that came back, and notes how likely the choice was. */
int32_t af_job_choose(af_job *job, const float *logits);
/* Tells of a row that the request wants (af_job_wants). */
void af_job_take_wanted(af_job *job, uint32_t position, const float *logits);

/* Takes a chosen token: counts it, makes its text, and says whether the job is over. AF_ENOMEM when text cannot grow.
 */
int af_job_push(af_job *job, int32_t id, af_finish *finish, af_error *error);
/* Gives the embedding out, of all states that were wanted. */
int af_job_give_embedding(af_job *job, af_error *error);
/* Calls on_event with what may be shown; all there is when the job is over. */
void af_job_emit(af_job *job, const int32_t *ids, size_t id_count, af_finish finish, const af_error *error);

/* A row the backend gives: the logits after a job's token, or its state. */
typedef struct af_step_row {
    af_job *job;
    uint32_t position;
} af_step_row;

/* The batch being built, and what its rows are for. Arrays are as long as a step may get. */
typedef struct af_step {
    uint32_t max_tokens, max_rows, max_jobs;
    af_batch_token *tokens;
    af_batch_seq *seqs;
    af_job **jobs;       /* of each seq */
    af_step_row *rows;   /* of logits and choices */
    af_step_row *states; /* (max_tokens) */
    af_draw *draws;      /* (max_jobs) of each seq's token, in ahead.c */
    uint32_t token_count, job_count, row_count, state_count;
    uint32_t prompt_tokens; /* of token_count */
} af_step;

static inline af_batch af_step_batch(const af_step *step) {
    return (af_batch){.tokens = step->tokens,
                      .token_count = step->token_count,
                      .seqs = step->seqs,
                      .seq_count = step->job_count,
                      .prompt = step->prompt_tokens > 0};
}

#define AF_AHEAD_MOST 8 /* steps in flight, at the most */

/* Opens the backend that options ask for. */
typedef int (*af_backend_fn)(const af_plan *plan, const af_engine_options *options, af_backend **out, af_error *error);

struct af_engine {
    const af_plan *plan;
    const af_tokenizer *tokenizer;
    af_backend *backend; /* NULL: it was lost, and opening it again failed so far */
    af_backend_fn open;  /* opens it again; NULL: it is not */
    af_engine_options options;
    char *asked_device; /* of options */
    af_kv *kv;
    af_disk *disk; /* NULL: nothing is kept on disk */
    uint32_t ctx, parallel, queue, prefill_chunk;
    uint32_t short_flights; /* in a row (ahead.c) */
    bool ctx_from_memory, trace_chunks;
    bool shifts;     /* a full context does not end a request (shift.c) */
    bool apart;      /* prompts and decodes have steps of their own: the backend is not same_in_any_batch */
    bool decoded;    /* in the last step, if they have */
    bool speculates; /* drafts are made, where they pay */
    af_draft_costs draft_costs;
    af_draft_offer *offers; /* (parallel) of the running jobs */
    uint32_t draft_size;    /* each draft in this step, at the most */
    bool over;              /* the last request was ended: the engine's threads end */
    char device[128];

    af_job **running; /* (parallel), in order of admission */
    uint32_t running_count;
    af_job **ending; /* (parallel + queue) those to cancel now */
    af_step step;

    af_mutex *mutex;
    af_cond *changed;
    af_job **live; /* (parallel + queue) */
    uint32_t live_count, admitted_count;
    uint64_t next_id, prompt_tokens, generated_tokens, accepted_tokens, rejected_tokens;
    uint32_t threads;
    uint64_t kv_bytes;
    uint32_t kept_pages;
    bool closing;
    af_thread *thread;
};

/* What an engine is built of. `options` must be complete: ctx not 0. */
typedef struct af_engine_parts {
    const af_plan *plan;
    const af_tokenizer *tokenizer;
    af_backend *backend; /* the engine's from success on; on failure still the caller's */
    af_backend_fn open;  /* again, after its device was lost; NULL: it is not */
    bool ctx_from_memory;
    const unsigned char *model; /* 32 bytes that tell it from others, for options->cache_dir */
} af_engine_parts;

int af_engine_open_with(const af_engine_parts *parts, const af_engine_options *options, af_engine **out,
                        af_error *error);

/* Ends a job: gives back what it holds, sends its last event, frees it. */
void af_engine_end(af_engine *engine, af_job *job, const int32_t *ids, size_t id_count, af_finish finish,
                   const af_error *error);

/* After a step failed: if the device is gone, ends who has something in its cache, and closes it to be opened again. */
void af_engine_drop_lost(af_engine *engine, const af_error *error);

/* shift.c: before a step is built. Requests whose context is full go on with half of it. */
void af_shift_full(af_engine *engine);
/* How many tokens stay, of those that were asked for: at most half a context, and the prompt. */
uint32_t af_shift_keep(uint32_t asked, uint32_t prompt_count, uint32_t ctx);

/* reuse.c: before a step is built. Keeps what the running jobs have filled, gives prompts what is kept, and marks the
 * jobs that wait for another's pages in this step. */
void af_reuse_prefixes(af_engine *engine);

int af_step_open(uint32_t max_tokens, uint32_t max_rows, uint32_t max_jobs, af_step *out, af_error *error);
void af_step_close(af_step *step);
/* Runs one batch for the running jobs, or several in flight. A backend's error ends the jobs that were in it. */
void af_step_run(af_engine *engine);
/* Takes the token that was chosen after a job's last: text, events, perhaps its end. False: the job is over, and gone.
 */
bool af_step_take(af_engine *engine, af_job *job, int32_t id);
/* Takes a row that came back, and what is chosen from it. False: its job is over, or was cancelled. */
bool af_step_take_row(af_engine *engine, const af_step_row *row, int32_t id, const float *logits);
void af_step_fail(af_engine *engine, const af_error *error);
void af_step_count(af_engine *engine, uint32_t prompt_tokens, uint32_t generated_tokens);

bool af_speculate_can(const af_plan *plan, const af_backend *backend, const af_engine_options *options);
/* Before a step is built: decides on the drafts of the running jobs. */
void af_speculate_settle(af_engine *engine);
/* How many tokens the running job of that index drafts in this step. */
uint32_t af_speculate_size(const af_engine *engine, uint32_t index);
/* Takes the rows of a job's last token and of the draft behind it. */
void af_speculate_take(af_engine *engine, af_job *job, const int32_t *ids, const float *const *logits);

/* True if the batch just built is one that af_step_ahead may run: decodes alone, on a device that has several tickets
 * in flight and chooses every one of their tokens. */
bool af_step_can_run_ahead(const af_engine *engine);
/* Runs it and those after it, until a job ends or somebody waits; returns with nothing in flight. */
void af_step_ahead(af_engine *engine);
/* Whether every job of a step of decodes wants the token that one more step would choose, behind `in_flight` that are
 * not collected yet, and nobody waits for the flight's end. */
bool af_step_may_go_on(af_engine *engine, uint32_t in_flight);
/* That step: positions and pages are settled, the tokens' ids are not. */
af_batch af_step_next(af_engine *engine, uint32_t in_flight);

/* prepared.c: the same where the host chooses: the device has only the next step, made ready while it runs this one. */
bool af_step_can_prepare(const af_engine *engine);
void af_step_prepared(af_engine *engine);

/* Checks the bounds of parallel, queue, prefill_chunk and ctx, and settles those that depend on the plan. */
int af_settle_options(const af_plan *plan, af_engine_options *options, bool *ctx_from_memory, af_error *error);
uint32_t af_step_max_tokens(const af_engine_options *options);
uint32_t af_step_max_rows(const af_engine_options *options);
/* Pages of each cache group: those that running requests need, and those of options->cache_ram. */
void af_engine_pages(const af_plan *plan, const af_engine_options *options, uint32_t pages[AF_PLAN_GROUPS]);

#endif
