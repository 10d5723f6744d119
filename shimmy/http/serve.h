/* serve.h - `shimmy serve`: from options to a running server and back to an exit code. */
#ifndef SHIMMY_SERVE_H
#define SHIMMY_SERVE_H

#include "http/access_log.h"
#include "http/models.h"
#include "openai/reasoning.h"

typedef struct shimmy_serve_options {
    const char *bind;       /* HOST:PORT, [V6]:PORT or unix:PATH; port 0 takes a free one */
    const char *model_path; /* loaded at the start, and meant where a request names none; NULL: none is */
    const char *model_name; /* its id in /v1/models */
    uint32_t models_max;    /* models in memory, at least 1 */
    uint32_t load_seconds;  /* the most a request waits for a model to be loaded */
    uint32_t idle_seconds;  /* a model nobody uses for so long is unloaded; 0: none is */
    /* Tells of the models on this machine, which are loaded when they are asked for; NULL: model_path alone is served.
     */
    int (*discover)(void *user, shimmy_offer_fn offer, void *to, af_error *error);
    void *discover_user;
    const char *const *places; /* folders where it looks, and files that it found */
    size_t place_count;
    const char *chat_template;      /* a file that takes the place of the model's template; NULL: the model's own */
    uint64_t max_body;              /* bytes of a request's body */
    const char *api_key, *api_keys; /* a key, and a file of keys; both NULL: everybody may ask */
    const char *origins;            /* as shimmy_http_options.origins */
    const char *path_prefix;        /* what stands before every route, "/llm"; or "" */
    const char *tls_cert, *tls_key; /* PEM files; both NULL: plain HTTP */
    uint32_t unix_mode;             /* of a unix socket's file; 0: as the umask says */
    uint32_t request_seconds;       /* the most a request may take; 0: any time */
    shimmy_log_form log;
    uint32_t ctx;                   /* 0: native or what memory allows */
    bool penalty_compat;            /* the seed's mapping of presence and frequency penalties */
    bool allow_special;             /* text of control tokens in messages counts as those tokens */
    shimmy_reasoning reasoning;     /* which answers are split into thoughts and content */
    af_pooling pooling;             /* of embeddings */
    bool raw_log;                   /* SHIMMY_DEBUG_RAW */
    const shimmy_http_times *times; /* NULL: the usual ones */
    bool sandbox;                   /* give up what serving does not need (confine.h) */
    af_engine_options engine;
} shimmy_serve_options;

/* Binds, answers 503 while its model loads on the loader's thread, prints the ready line to stdout, serves until
 * SIGTERM or SIGINT, finishes running requests for up to 30 s. Returns 0, or a negative af_status with the message. */
int shimmy_serve(const shimmy_serve_options *options, af_error *error);

#endif
