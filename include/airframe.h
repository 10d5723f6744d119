/* airframe.h - the library's only public header.
 *
 * Airframe runs language models stored in GGUF files. A program opens a model, opens an engine on it, and submits
 * requests; the engine's own thread runs all of them together and reports through callbacks. Nothing here depends on
 * HTTP, JSON libraries or a particular backend.
 *
 * Conventions
 *   - Functions that can fail return 0 or a negative af_status; results come back through pointers, which are left
 *     untouched on failure. The last argument, when not NULL, receives a message of one line that names the thing, what
 *     was found and what was allowed.
 *   - Opaque objects are closed by the function named after them; closing NULL does nothing.
 *   - Memory handed out by a function is freed with af_free() unless its comment says otherwise.
 *   - Strings are UTF-8 with an explicit length where they can hold any byte; `const char *` alone ends at NUL.
 *   - A struct of options is initialised with its _default() function, so that fields added later keep their meaning.
 *   - An af_model may be used from several threads at once (it is never modified after opening); an af_engine too.
 */
#ifndef AIRFRAME_H
#define AIRFRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors ------------------------------------------------------------------------------------------------- */

typedef enum af_status {
    AF_OK = 0,
    AF_EINVAL = -1,       /* an argument or a request's field is out of bounds */
    AF_EIO = -2,          /* the operating system refused: open, read, map */
    AF_ENOMEM = -3,       /* memory, or a ceiling on it, is used up */
    AF_EFORMAT = -4,      /* the bytes of a file, template or text are not what they must be */
    AF_EUNSUPPORTED = -5, /* well formed, but not something this build runs: architecture, type, device */
    AF_EFULL = -6,        /* the queue is full: try again later */
    AF_ECANCELED = -7,    /* cancelled by the caller, or the engine is closing */
    AF_ETEMPLATE = -8,    /* a chat template raised an error of its own; the text is the template's, word for word */
    AF_ECONTEXT = -9      /* the prompt is longer than a request may be */
} af_status;

typedef struct af_error {
    int code;       /* an af_status */
    char text[508]; /* one line, NUL-terminated, cut at a character's edge if it had to be cut */
} af_error;

/* Frees memory handed out by this library. NULL is allowed. */
void af_free(void *memory);

/* The library's version, "MAJOR.MINOR.PATCH". */
const char *af_version(void);

/* ---- Models ------------------------------------------------------------------------------------------------- */

typedef struct af_model af_model;

typedef enum af_load {
    AF_LOAD_HEADER, /* the file's structure alone, for lists: no vocabulary, no template, no plan */
    AF_LOAD_FILE,   /* also its text side, and the plan if there can be one: tokenize, render, probe */
    AF_LOAD_MODEL   /* all of it, or failure: what an engine needs */
} af_load;

typedef struct af_model_options {
    af_load load; /* default AF_LOAD_MODEL */
    uint32_t ctx; /* the context the caller will ask of the engine, for rope scalings that depend on it; 0: native */
} af_model_options;

af_model_options af_model_options_default(void);

/* Opens a GGUF file, or any shard of a split one. Maps it and validates every count, offset and shape before use.
 * Reads no weights yet. On failure nothing stays open. */
int af_model_open(const char *path, const af_model_options *options, af_model **out, af_error *error);

/* Closes a model. Every engine opened on it must have been closed. */
void af_model_close(af_model *model);

/* Sampling values a model's authors put in its file (general.sampling.*); a field is NAN or -1 where they gave none. */
typedef struct af_sampling_hint {
    float temperature, top_p, min_p, repeat_penalty;
    int32_t top_k;
} af_sampling_hint;

/* How the states of a prompt's tokens become its embedding. */
typedef enum af_pooling {
    AF_POOLING_MODEL, /* as the file says; else the last token, or the mean where tokens see both directions */
    AF_POOLING_MEAN,
    AF_POOLING_CLS, /* the first token */
    AF_POOLING_LAST,
    AF_POOLING_NONE /* only in af_model_info: the file holds another kind of model, that ranks texts */
} af_pooling;

/* What is known of a model without running it. Strings live as long as the model. */
typedef struct af_model_info {
    const char *path;         /* as opened; the first shard of a split file */
    const char *name;         /* general.name, or "" */
    const char *architecture; /* general.architecture, or "" */
    const char *quantization; /* the mix by bytes, e.g. "Q4_K_M" from general.file_type, else the commonest type */
    const char *mix;          /* every type with its tensors and bytes: "Q4_1 210 x 88.2 MB, F32 61 x 0.1 MB" */
    uint64_t file_bytes;      /* all shards together */
    uint32_t shards;
    uint64_t parameters;        /* elements of all tensors */
    uint64_t active_parameters; /* used for one token: without the experts not chosen */
    uint32_t experts;           /* that a layer chooses from; 0: it has none */
    uint32_t experts_used;      /* that it chooses for a token */
    uint64_t tensors;
    uint32_t context;    /* native context length in tokens; 0 if the file does not say */
    uint32_t vocabulary; /* number of tokens */
    uint32_t width;      /* of the residual stream */
    uint32_t layers;
    uint64_t kv_bytes;      /* of an f16 cache for `context` tokens of one sequence; 0 without a plan */
    uint64_t kv_bytes_q8_0; /* of a q8_0 cache likewise */
    bool has_template;      /* tokenizer.chat_template is there */
    bool runnable;          /* there is a plan; with AF_LOAD_HEADER: the architecture is known and there are tensors */
    bool generates;         /* it has a head: text; else embeddings alone. False without a plan */
    af_pooling pooling;     /* of its embeddings; AF_POOLING_MODEL without a plan */
    const char *why_not;    /* where not runnable, one line; else "" */
    af_sampling_hint sampling;
} af_model_info;

void af_model_get_info(const af_model *model, af_model_info *out);

/* ---- Text --------------------------------------------------------------------------------------------------- */

enum {
    AF_ADD_SPECIAL = 1,  /* add the beginning (and end) tokens the vocabulary asks for */
    AF_PARSE_SPECIAL = 2 /* text of control tokens counts as those tokens */
};

/* Text to token ids. *ids is freed with af_free(); *count may be 0. Time grows linearly with the text. */
int af_tokenize(const af_model *model, const char *text, size_t length, unsigned flags, int32_t **ids, size_t *count,
                af_error *error);

/* Token ids to bytes (not always UTF-8: an id may hold part of a character). Control tokens are written out as their
 * text. *text is NUL-terminated beyond *length and freed with af_free(). AF_EINVAL names an id out of range. */
int af_detokenize(const af_model *model, const int32_t *ids, size_t count, char **text, size_t *length,
                  af_error *error);

/* The bytes one id stands for, and whether it ends generation. *text belongs to the model. */
int af_token_piece(const af_model *model, int32_t id, const char **text, size_t *length);
bool af_token_is_end(const af_model *model, int32_t id);

/* A rendered prompt: text with the origin of each byte, so that what users wrote never becomes a control token. */
typedef struct af_prompt {
    char *text;      /* NUL-terminated beyond length */
    uint8_t *origin; /* a byte for each of text: 0 the template's own, 1 from the request */
    size_t length;
} af_prompt;

void af_prompt_clear(af_prompt *prompt); /* frees both arrays and zeroes the struct */

typedef struct af_template af_template;

typedef struct af_render_options {
    bool raw;        /* give the template the messages as they stand, without a server's changes (interface.md) */
    const char *now; /* "YYYY-MM-DD HH:MM" for strftime_now; NULL: the clock, local time */
    const char *bos; /* texts of the tokens; NULL: the model's, or "" for a template of its own */
    const char *eos;
} af_render_options;

af_render_options af_render_options_default(void);

/* Parses a Jinja chat template. The error carries line and column. */
int af_template_open(const char *source, size_t length, af_template **out, af_error *error);
void af_template_close(af_template *tmpl);

/* Renders a chat request, given as the text of a JSON object: messages, tools, documents, add_generation_prompt
 * (default true), continue_final_message, chat_template_kwargs. The caller clears *out. */
int af_template_render(const af_template *tmpl, const char *request, size_t length, const af_render_options *options,
                       af_prompt *out, af_error *error);

/* The same with the model's own template (or the documented default where the file has none). `custom`, when not
 * NULL, takes the place of the model's. */
int af_model_render(const af_model *model, const af_template *custom, const char *request, size_t length,
                    const af_render_options *options, af_prompt *out, af_error *error);

/* Whether the template that af_model_render would use contains this text. */
bool af_model_template_mentions(const af_model *model, const af_template *custom, const char *text);

/* A rendered prompt to token ids: control tokens are taken from the template's own text only. Adds the beginning token
 * if the vocabulary asks for one and the template did not write it. */
int af_prompt_tokenize(const af_model *model, const af_prompt *prompt, int32_t **ids, size_t *count, af_error *error);

/* ---- GPUs --------------------------------------------------------------------------------------------------- */

#define AF_DEVICE_FEATURES 8

typedef struct af_device_feature {
    const char *name;    /* "subgroups" */
    bool available;      /* and then used */
    const char *without; /* what its absence costs */
} af_device_feature;

/* A GPU as its driver describes it. Texts that are pointers live as long as the process. */
typedef struct af_device_info {
    char name[128], driver[128];
    const char *backend;                  /* "Vulkan" */
    const char *type;                     /* "discrete", "integrated", "other" or "software" */
    bool preferred;                       /* "auto" and "gpu" take this one */
    uint64_t memory_bytes;                /* its own memory; 0: not known */
    uint64_t memory_free;                 /* of it, now; 0: not known */
    uint64_t buffer_bytes, binding_bytes; /* the largest buffer, and the largest part of one that a shader can read */
    uint32_t workgroup_bytes, workgroup_threads, subgroup_min, subgroup_max;
    af_device_feature features[AF_DEVICE_FEATURES];
    size_t feature_count;
} af_device_info;

/* The GPUs, in the order that "gpu:N" numbers them; at most `room` are written, *count is how many there are. *library,
 * when not NULL, names the WebGPU library. AF_EUNSUPPORTED where there is none: the error says why. */
int af_device_list(af_device_info *out, size_t room, size_t *count, const char **library, af_error *error);

/* ---- Engine ------------------------------------------------------------------------------------------------- */

typedef struct af_engine af_engine;

/* Q8_0: 32 neighbouring elements of a head's key or value share a scale, 34 bytes in place of 64. */
typedef enum af_kv_type { AF_KV_F16, AF_KV_F32, AF_KV_Q8_0, AF_KV_TYPES } af_kv_type;

#define AF_GPU_LAYERS_AUTO (-1)
#define AF_CACHE_RAM_AUTO  UINT64_MAX

/* Tokens guessed ahead from what followed the same words before, several checked in one step where that pays. */
typedef enum af_speculate { AF_SPECULATE_NGRAM, AF_SPECULATE_OFF } af_speculate;

typedef struct af_engine_options {
    const char *device; /* "cpu", "gpu", "gpu:N", part of a GPU's name; "auto" (default): a GPU that is not mere
                           software, else the CPU */
    int32_t gpu_layers; /* with a GPU: the last so many layers and the output run there, the others on the CPU;
                           AF_GPU_LAYERS_AUTO (default): as many as it has memory for */
    uint32_t cpu_moe;   /* with a GPU: of the first so many layers the experts run on the CPU even where the layer is
                           the GPU's; default 0 */
    uint32_t threads;   /* for CPU kernels; 0: the physical cores this process may use */
    bool pin_threads;   /* each of them keeps to a core of its own; default false: the system places them */
    uint32_t ctx;       /* tokens one request may use, prompt and answer; 0: native, or what memory allows */
    uint32_t parallel;  /* requests that run together; 0 (default): 4, or 32 of a model that takes whole texts, whose
                           requests end in one step */
    uint32_t queue;     /* requests that wait beyond those; default 64 */
    uint32_t prefill_chunk; /* prompt tokens run in one step; default 512. A model whose tokens see both directions
                               takes a whole context at least */
    af_kv_type kv;          /* default AF_KV_F16 */
    af_speculate speculate; /* default AF_SPECULATE_NGRAM, which changes no text; on the CPU alone */
    bool exact;             /* weights decoded to f32, activations kept in f32: the file's exact answer, slow */
    uint64_t cache_ram;     /* bytes for prompts and answers kept for later requests that begin alike, beyond what
                               `parallel` requests need; AF_CACHE_RAM_AUTO (default): none, what those leave unused is
                               taken; 0: nothing is kept */
    bool context_shift;     /* a request whose context is full drops the older half of it, but for its first `keep`
                               tokens, and goes on, to 16 contexts' tokens at the most; default: it is over. Models that
                               take whole texts never shift */
    uint32_t keep;          /* at most half a context, and never more than the prompt; 0 (default): the first alone */
    const char *cache_dir;  /* a folder in which such texts are kept too, for later engines of the same model and
                               settings; made where it is not there. NULL (default): none. Nobody else may write there,
                               and whoever may read it can read the texts */
    uint64_t cache_disk;    /* bytes that all of the folder's files may take; default 4 GiB */
    void (*progress)(void *user, double fraction); /* while weights load, 0 to 1; may be NULL */
    void *progress_user;
} af_engine_options;

af_engine_options af_engine_options_default(void);

/* Loads the weights, allocates the KV cache and starts the engine's thread. The model must outlive the engine. */
int af_engine_open(const af_model *model, const af_engine_options *options, af_engine **out, af_error *error);

/* Cancels what runs (each gets its final event), stops the thread and frees everything. */
void af_engine_close(af_engine *engine);

typedef struct af_engine_info {
    uint32_t ctx;         /* tokens one request may use */
    bool ctx_from_memory; /* ctx was lowered because memory would not hold the native length */
    uint32_t parallel, queue, threads;
    uint64_t kv_bytes;                         /* reserved for the cache */
    const char *device;                        /* e.g. "cpu (avx512-vnni, 2 threads)" */
    uint32_t running, waiting;                 /* now */
    uint64_t prompt_tokens, generated_tokens;  /* since the start */
    uint64_t accepted_tokens, rejected_tokens; /* drafted, since the start */
    uint32_t kept_pages;                       /* of 32 tokens, that later requests may begin with, in memory now */
    uint64_t disk_bytes;                       /* in cache_dir, as far as is known */
    uint64_t disk_saved, disk_restored;        /* pages written there, and read again, since the start */
    uint64_t disk_refused; /* files there that were damaged or not what they say, and were removed */
} af_engine_info;

void af_engine_get_info(const af_engine *engine, af_engine_info *out);

/* What a chain of sampling is made of. The first two change logits and come before all others wherever they stand. */
typedef enum af_stage {
    AF_STAGE_END, /* ends an order */
    AF_STAGE_PENALTIES,
    AF_STAGE_DRY,
    AF_STAGE_TEMPERATURE, /* the fixed one, or between two by entropy (dynatemp_range) */
    AF_STAGE_TOP_N_SIGMA,
    AF_STAGE_TOP_K,
    AF_STAGE_TYPICAL_P,
    AF_STAGE_TOP_P,
    AF_STAGE_MIN_P,
    AF_STAGE_XTC,
    AF_STAGES
} af_stage;

/* The name of a stage as llama-server's "samplers" has it ("typ_p"), and back; AF_STAGE_END where there is none. */
const char *af_stage_name(af_stage stage);
af_stage af_stage_named(const char *name);

/* How a token is chosen. The chain, in order: penalties and DRY on the logits, then biases; softmax at the temperature;
 * top_n_sigma; top_k; typical_p; top_p (of the mass that is left); min_p (of the best token's probability); XTC; draw.
 * Cuts are thus measured at the temperature; `order` changes that. Of tokens equally likely the lower id is kept first.
 * temperature 0 takes the best token after penalties, DRY and biases. With mirostat the temperature alone comes before
 * it. The window of the penalties is the last repeat_last_n tokens of prompt and answer together.
 * Fields that are 0 where their comment says "off" are off, so that a struct without them is the plain chain. */
typedef struct af_sampling {
    float temperature;       /* >= 0; default 1 */
    int32_t top_k;           /* 0: off (default) */
    float top_p;             /* (0,1]; 1: off (default) */
    float min_p;             /* [0,1]; 0: off (default) */
    float repeat_penalty;    /* > 0; 1: off (default). Positive logits are divided, negative ones multiplied */
    int32_t repeat_last_n;   /* window of repeat, presence and frequency; 0: off, -1: the whole text; default 64 */
    float presence_penalty;  /* subtracted once from each token that occurred; -2 to 2 */
    float frequency_penalty; /* subtracted for each time it occurred; -2 to 2 */
    uint64_t seed;           /* of the request's own generator; AF_SEED_RANDOM draws one from the system */

    float typical_p;                  /* [0,1]; 0 and 1: off */
    float top_n_sigma;                /* standard deviations of the logits; 0: off */
    float dynatemp_range;             /* temperature lies within so much of `temperature`; 0: off */
    float dynatemp_exponent;          /* of the entropy's share; 0 counts as 1 */
    float xtc_probability;            /* of dropping the top choices, for each token; 0: off */
    float xtc_threshold;              /* what a top choice has at least; more than 0.5: off */
    float dry_multiplier;             /* 0: off. A token that would go on with a repetition of n tokens, n at */
    float dry_base;                   /* least dry_allowed_length, loses multiplier * base^(n - allowed_length) */
    int32_t dry_allowed_length;       /* 0 counts as 2 */
    int32_t dry_last_n;               /* how far back repetitions are looked for; 0 and -1: the whole text */
    int32_t mirostat;                 /* 1 or 2: the version (Basu et al. 2021); 0: off */
    float mirostat_tau, mirostat_eta; /* surprise aimed at, in bits, and learning rate; 0 counts as 5 and 0.1 */
    uint8_t order[AF_STAGES];         /* af_stage; those not named are off. Empty: as above */
} af_sampling;

#define AF_SEED_RANDOM UINT64_MAX

/* OpenAI's defaults, overlaid with what the model's file asks for; model may be NULL. */
af_sampling af_sampling_default(const af_model *model);

typedef enum af_finish {
    AF_FINISH_NONE,   /* not finished */
    AF_FINISH_STOP,   /* an end token or a stop string */
    AF_FINISH_LENGTH, /* max_tokens, or the context is full and does not shift */
    AF_FINISH_CANCEL, /* af_cancel, or the engine closed */
    AF_FINISH_ERROR   /* the engine failed; the event carries the error */
} af_finish;

enum { AF_LOGPROBS_MOST = 20 }; /* likeliest tokens that may be asked for */

/* How likely a token was: natural logarithms of the model's own probabilities, before the sampling chain. */
typedef struct af_logprob {
    int32_t id;
    float logprob; /* NAN for a prompt's first token, which nothing foretold */
    uint32_t top_count;
    int32_t top_ids[AF_LOGPROBS_MOST]; /* the likeliest in its place, best first */
    float top[AF_LOGPROBS_MOST];
} af_logprob;

typedef struct af_logit_bias {
    int32_t id;
    float bias; /* added to its logit, after penalties; -INFINITY forbids the token */
} af_logit_bias;

/* One event of a running request. Pointers live until the callback returns. */
typedef struct af_event {
    uint64_t request;
    const char *text; /* new text: whole UTF-8 characters, stop strings already held back; may be empty */
    size_t length;
    const int32_t *ids; /* the tokens chosen since the last event, end tokens included */
    size_t id_count;
    af_finish finish;           /* other than AF_FINISH_NONE on the last event, exactly one for each request */
    const af_error *error;      /* with AF_FINISH_ERROR; else NULL */
    const af_logprob *logprobs; /* (id_count) where the request asks for them, else NULL */
    uint32_t prompt_tokens;     /* exact so far */
    uint32_t cached_tokens;     /* of the prompt, taken from the cache */
    uint32_t completion_tokens;
    uint32_t accepted_tokens, rejected_tokens; /* drafted by speculation: of the answer, and for nothing */
} af_event;

/* Called on the engine's thread: return quickly, and call nothing of this engine but af_cancel and af_submit. */
typedef void (*af_event_fn)(void *user, const af_event *event);

/* One row of logits, of `count` floats, after the prompt's token at `position`; of a model that does not generate, the
 * token's last state. Called on the engine's thread. */
typedef void (*af_logits_fn)(void *user, size_t position, const float *logits, size_t count);

/* A prompt's embedding: `count` floats (the model's width), of length 1. Called on the engine's thread, once, before
 * the last event. */
typedef void (*af_embedding_fn)(void *user, const float *embedding, size_t count);

typedef struct af_request {
    const int32_t *prompt; /* token ids, at least one; copied */
    size_t prompt_count;
    int64_t max_tokens;       /* -1 (default): until a stop or the context is full; 0: none */
    const char *const *stops; /* stop strings, copied; they do not appear in the text */
    size_t stop_count;
    bool ignore_eos;        /* end tokens do not stop (they are still written to the ids) */
    const int32_t *end_ids; /* more tokens that end the answer as an end token does, at most 64; copied */
    size_t end_count;
    int64_t keep;              /* -1 (default): the engine's `keep` */
    uint32_t min_tokens;       /* end tokens are forbidden before; stop strings are not */
    const af_logit_bias *bias; /* copied */
    size_t bias_count;
    const char *const *dry_breakers; /* no repetition goes across a token that holds one of these texts; copied */
    size_t dry_breaker_count;
    int32_t logprobs; /* -1 (default): none; else the chosen token's, and of so many likeliest, to AF_LOGPROBS_MOST */
    const int32_t *shown; /* control tokens whose names the text shows, at most 64; copied. Others say nothing */
    size_t shown_count;
    af_sampling sampling;
    const uint8_t *want;    /* NULL, or a byte for each prompt token: not 0 where its logits are wanted; copied */
    af_logits_fn on_logits; /* receives those rows, in rising order of position */
    /* With `logprobs`: of each prompt token but the first, in order, on the engine's thread; may be NULL. */
    void (*on_prompt_logprob)(void *user, size_t position, const af_logprob *logprob);
    af_event_fn on_event; /* required */
    void *user;
    af_embedding_fn on_embedding; /* where set, the prompt's embedding is wanted, and no answer: max_tokens counts for
                                     nothing, `want` must be NULL, and the end is AF_FINISH_STOP */
    af_pooling pooling;           /* default AF_POOLING_MODEL */
} af_request;

af_request af_request_default(const af_model *model);

/* Hands a request over. Validates: ids in range, prompt shorter than the context (AF_ECONTEXT says both numbers),
 * sampling values in bounds. AF_EUNSUPPORTED where the model gives embeddings alone and text is asked for, or the other
 * way about. AF_EFULL when the queue is full. On success exactly one event with a finish will come;
 * on failure none. *id is the name for af_cancel and is never used again. */
int af_submit(af_engine *engine, const af_request *request, uint64_t *id, af_error *error);

/* Ends a request within one step. Does nothing for one that is over. */
void af_cancel(af_engine *engine, uint64_t id);

/* ---- Verification ------------------------------------------------------------------------------------------- */

/* A line of what af_verify compared. An error is the worst row's: differences over the RMS of what the operation adds
 * to that row (without the residual it is added to). */
typedef struct af_verify_row {
    const char *mode;        /* "exact" or "fast": as af_engine_options.exact */
    const char *what;        /* "decode"; an operation: "embed", "linear", ...; "choice" (the best token); "logits" */
    const char *format;      /* of the weights, "Q4_K"; "" where there are none */
    uint64_t compared;       /* numbers */
    double rms, rms_allowed; /* RMS of the row's differences */
    double largest, largest_allowed; /* the largest of them */
    bool excess;                     /* one of the two is more than allowed */
    const char *where;               /* the largest one's: "blk.3.ffn_down, 64 tokens" */
} af_verify_row;

typedef struct af_verify_options {
    const char *device; /* as af_engine_options.device */
    uint32_t threads;   /* for the CPU; 0: the physical cores this process may use */
    af_kv_type kv;      /* default AF_KV_F16 */
} af_verify_options;

af_verify_options af_verify_options_default(void);

typedef struct af_verify_result {
    char device[192]; /* as it describes itself */
    char passed[512]; /* why a mode was passed over, or "" */
    uint32_t excesses;
} af_verify_result;

/* Compares a device with the file's exact answer: weights decoded to f32 and f32 arithmetic on the CPU. First whole
 * matrices as the device's kernels read them; then every operation over batches of random tokens, each given the
 * reference's values; then the logits of the device left to itself. A device other than the CPU is compared in exact
 * mode too. In fast mode an operation has to be near the exact product, or near that of activations rounded to eight
 * bits as the device does.
 * `on_row` receives the table. Returns 0 whether or not there is an excess. */
int af_verify(const af_model *model, const af_verify_options *options,
              void (*on_row)(void *user, const af_verify_row *), void *user, af_verify_result *result, af_error *error);

#ifdef __cplusplus
}
#endif
#endif
