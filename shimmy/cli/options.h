/* options.h - the command line as data.
 *
 * One table (options.c) lists every option of every command: name, kind, bounds, environment variable, help. It parses
 * arguments, applies variables and prints --help, so that the three cannot disagree. A flag beats its variable and a
 * later flag beats an earlier one. All commands share one struct of values; each reads the fields of its own options.
 */
#ifndef SHIMMY_OPTIONS_H
#define SHIMMY_OPTIONS_H

#include "base/status.h"

/* Beside af_status: the command line is wrong. Exit code 2 and a pointer to the help, where other failures exit 1. */
#define SHIMMY_USAGE (-100)

/* A set of commands, for the options' table. */
enum {
    SHIMMY_SERVE = 1 << 0,
    SHIMMY_GENERATE = 1 << 1,
    SHIMMY_LIST = 1 << 2,
    SHIMMY_DISCOVER = 1 << 3,
    SHIMMY_PROBE = 1 << 4,
    SHIMMY_TOKENIZE = 1 << 5,
    SHIMMY_DETOKENIZE = 1 << 6,
    SHIMMY_RENDER = 1 << 7,
    SHIMMY_LOGITS = 1 << 8,
    SHIMMY_PERPLEXITY = 1 << 9,
    SHIMMY_BENCH = 1 << 10,
    SHIMMY_GPU_INFO = 1 << 11,
    SHIMMY_VERIFY = 1 << 12
};

#define SHIMMY_MAX_STOPS 16

/* Values; where a number was not given it is SHIMMY_UNSET and the command decides. Texts point into argv or the
 * environment. */
#define SHIMMY_UNSET INT64_MIN

typedef struct shimmy_options {
    const char *arguments[2]; /* what is no option, in order; NULL where absent */
    bool json, help;

    /* Which model, and how it runs. */
    const char *model_path, *model_dirs, *chat_template, *device, *gpu_layers, *kv, *cache_ram, *cache_dir, *cache_disk,
        *speculate;
    int64_t ctx, parallel, queue, threads, prefill_chunk, n_cpu_moe, keep;
    bool exact, cpu_moe, context_shift, pin_threads;

    /* serve */
    const char *bind, *penalty_compat, *reasoning, *pooling;
    const char *api_key, *api_keys, *cors, *path_prefix, *tls_cert, *tls_key, *unix_mode, *log;
    int64_t max_body, request_timeout, models_max, load_timeout, model_idle;
    bool allow_special; /* generate's too */
    bool no_sandbox;

    /* generate */
    const char *prompt, *system;
    bool raw; /* render's too */
    bool ignore_eos;
    int64_t max_tokens, seed, top_k;
    double temperature, top_p, min_p, repeat_penalty; /* NAN where not given */
    const char *stops[SHIMMY_MAX_STOPS];
    int64_t stop_count;

    /* tokenize */
    bool add_special, parse_special, jsonl;

    /* render */
    const char *template_file, *messages, *bos, *eos, *now;

    /* logits, perplexity */
    const char *tokens, *positions;
    int64_t neighbours;
    bool kl, warm;

    /* bench */
    int64_t prompt_tokens, gen_tokens, runs;
    bool profile;
} shimmy_options;

typedef struct shimmy_command {
    const char *name;
    unsigned bit;          /* its place in the options' table */
    const char *arguments; /* as shown in the usage line: "MODEL TEXT|-"; optional ones in brackets */
    const char *summary;   /* one line for the list of commands */
    const char *details;   /* further lines of its help, each with its newline and within 80 columns; or "" */
    int (*run)(const shimmy_options *options, af_error *error);
} shimmy_command;

/* Parses what follows the command's name, then takes variables for what was not given. Returns 0 or SHIMMY_USAGE. */
int shimmy_options_parse(const shimmy_command *command, int count, char **arguments, shimmy_options *out,
                         af_error *error);
/* Usage, details and options of a command, to stdout, within 80 columns. */
void shimmy_options_help(const shimmy_command *command);

/* The candidate nearest to a mistyped word, or NULL where none is near. `candidate(user, i)` gives NULL at the end. */
const char *shimmy_nearest(const char *word, const char *(*candidate)(const void *user, size_t index),
                           const void *user);

#endif
