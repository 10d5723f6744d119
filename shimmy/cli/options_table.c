/* options_table.c - every option of every command. Adding one is a field in shimmy_options and a row here. */
#include "cli/options_table.h"

#define AT(field) offsetof(shimmy_options, field)

/* Commands that open an engine, and all that name a model. */
#define ENGINE (SHIMMY_SERVE | SHIMMY_GENERATE | SHIMMY_LOGITS | SHIMMY_PERPLEXITY | SHIMMY_BENCH)
#define NAMES                                                                                                          \
    (ENGINE | SHIMMY_VERIFY | SHIMMY_LIST | SHIMMY_DISCOVER | SHIMMY_PROBE | SHIMMY_TOKENIZE | SHIMMY_DETOKENIZE |     \
     SHIMMY_RENDER)
#define JSON                                                                                                           \
    (SHIMMY_GENERATE | SHIMMY_LIST | SHIMMY_DISCOVER | SHIMMY_PROBE | SHIMMY_PERPLEXITY | SHIMMY_BENCH |               \
     SHIMMY_VERIFY | SHIMMY_GPU_INFO)

#define MAX_EXACT 9007199254740991.0 /* 2^53 - 1 */

const shimmy_option shimmy_option_table[] = {
    /* generate: what is asked */
    {"prompt", SHIMMY_TEXT, "TEXT|-", NULL, AT(prompt), 0, 0, NULL, SHIMMY_GENERATE,
     "the user's message, or with --raw the text to go on from; - reads standard input"},
    {"system", SHIMMY_TEXT, "TEXT", NULL, AT(system), 0, 0, NULL, SHIMMY_GENERATE, "a system message before it"},
    {"raw", SHIMMY_FLAG, NULL, NULL, AT(raw), 0, 0, NULL, SHIMMY_GENERATE,
     "no chat template: the prompt is the model's input as it stands, and the text of control tokens counts as those "
     "tokens"},
    {"max-tokens", SHIMMY_NUMBER, "N", NULL, AT(max_tokens), -1, 2147483647, NULL, SHIMMY_GENERATE,
     "end after N tokens; -1 (default): at a stop or when the context is full"},
    {"temperature", SHIMMY_REAL, "T", NULL, AT(temperature), 0, 1e9, NULL, SHIMMY_GENERATE,
     "0 always takes the best token; default: the file's, else 1"},
    {"top-k", SHIMMY_NUMBER, "N", NULL, AT(top_k), 0, 2147483647, NULL, SHIMMY_GENERATE,
     "draw from the N best tokens; 0: off"},
    {"top-p", SHIMMY_REAL, "P", NULL, AT(top_p), 0, 1, NULL, SHIMMY_GENERATE,
     "draw from the best tokens that together have this probability; 1: off"},
    {"min-p", SHIMMY_REAL, "P", NULL, AT(min_p), 0, 1, NULL, SHIMMY_GENERATE,
     "leave out tokens less likely than P times the best; 0: off"},
    {"repeat-penalty", SHIMMY_REAL, "R", NULL, AT(repeat_penalty), 0.01, 100, NULL, SHIMMY_GENERATE,
     "make tokens of the last 64 less likely; 1: off"},
    {"seed", SHIMMY_NUMBER, "N", NULL, AT(seed), -1, MAX_EXACT, NULL, SHIMMY_GENERATE,
     "of the random draw; -1 (default): a new one each time"},
    {"stop", SHIMMY_STOPS, "S", NULL, AT(stops), 0, 0, NULL, SHIMMY_GENERATE,
     "end before this text; may be given up to 16 times"},
    {"ignore-eos", SHIMMY_FLAG, NULL, NULL, AT(ignore_eos), 0, 0, NULL, SHIMMY_GENERATE,
     "go on past the tokens that end an answer"},

    /* tokenize */
    {"add-special", SHIMMY_FLAG, NULL, NULL, AT(add_special), 0, 0, NULL, SHIMMY_TOKENIZE,
     "add the beginning and end tokens that the vocabulary asks for"},
    {"parse-special", SHIMMY_FLAG, NULL, NULL, AT(parse_special), 0, 0, NULL, SHIMMY_TOKENIZE,
     "the text of a control token counts as that token"},
    {"jsonl", SHIMMY_FLAG, NULL, NULL, AT(jsonl), 0, 0, NULL, SHIMMY_TOKENIZE,
     "read a JSON string a line from standard input, print its ids a line"},

    /* render */
    {"messages", SHIMMY_TEXT, "FILE|-", NULL, AT(messages), 0, 0, NULL, SHIMMY_RENDER,
     "the chat request, a JSON object: messages, tools, documents, add_generation_prompt, continue_final_message, "
     "chat_template_kwargs"},
    {"template", SHIMMY_TEXT, "FILE", NULL, AT(template_file), 0, 0, NULL, SHIMMY_RENDER,
     "a Jinja chat template in place of the model's; needs no model"},
    {"bos", SHIMMY_TEXT, "S", NULL, AT(bos), 0, 0, NULL, SHIMMY_RENDER, "text of the beginning token"},
    {"eos", SHIMMY_TEXT, "S", NULL, AT(eos), 0, 0, NULL, SHIMMY_RENDER, "text of the end token"},
    {"now", SHIMMY_TEXT, "\"YYYY-MM-DD HH:MM\"", NULL, AT(now), 0, 0, NULL, SHIMMY_RENDER,
     "the time that templates see; default: the clock"},
    {"raw", SHIMMY_FLAG, NULL, NULL, AT(raw), 0, 0, NULL, SHIMMY_RENDER,
     "give the template the messages as they stand, without the changes a server makes first"},

    /* logits, perplexity */
    {"tokens", SHIMMY_TEXT, "1,2,3|FILE", NULL, AT(tokens), 0, 0, NULL, SHIMMY_LOGITS | SHIMMY_PERPLEXITY,
     "token ids apart by commas or white space, here or in a file; - reads standard input"},
    {"positions", SHIMMY_TEXT, "0,5|all|last", NULL, AT(positions), 0, 0, NULL, SHIMMY_LOGITS,
     "the tokens after which logits are wanted (default last)"},
    {"neighbours", SHIMMY_NUMBER, "N", NULL, AT(neighbours), 0, 63, NULL, SHIMMY_LOGITS,
     "run N other random sequences at the same time: a test that they change nothing"},
    {"warm", SHIMMY_FLAG, NULL, NULL, AT(warm), 0, 0, NULL, SHIMMY_LOGITS,
     "run the tokens once before, so that those before the first position wanted come from the cache: a test that this "
     "changes nothing. Says on standard error how many did"},
    {"kl", SHIMMY_FLAG, NULL, NULL, AT(kl), 0, 0, NULL, SHIMMY_PERPLEXITY,
     "also run with exact arithmetic and compare the distributions; takes as long as --exact and the memory of both"},

    /* bench */
    {"prompt-tokens", SHIMMY_NUMBER, "N", NULL, AT(prompt_tokens), 1, 16777216, NULL, SHIMMY_BENCH,
     "length of each prompt (default 512)"},
    {"gen-tokens", SHIMMY_NUMBER, "N", NULL, AT(gen_tokens), 2, 16777216, NULL, SHIMMY_BENCH,
     "tokens to decode after it (default 128)"},
    {"runs", SHIMMY_NUMBER, "N", NULL, AT(runs), 1, 1000, NULL, SHIMMY_BENCH,
     "measured runs after one to warm up; medians are printed (default 3)"},

    {"profile", SHIMMY_FLAG, NULL, NULL, AT(profile), 0, 0, NULL, SHIMMY_BENCH,
     "print where the time goes at the end: calls, microseconds and bytes of each operation of the CPU or kernel of the "
     "GPU, the latter with its share of the memory's bandwidth. Slows a GPU down"},

    /* serve: which model, where */
    {"model-path", SHIMMY_TEXT, "FILE|NAME", "SHIMMY_BASE_GGUF", AT(model_path), 0, 0, NULL, SHIMMY_SERVE,
     "the model to load at the start, and to answer requests that name none; default: none is loaded before it is asked "
     "for, and the first that `shimmy list` shows is meant where none is named"},
    {"models-max", SHIMMY_NUMBER, "N", "SHIMMY_MODELS_MAX", AT(models_max), 1, 256, NULL, SHIMMY_SERVE,
     "models in memory at once (default 1). With more than 1, or without --model-path, every model of `shimmy list` is "
     "served: it is loaded when a request names it, in the place of the one unused longest"},
    {"load-timeout", SHIMMY_NUMBER, "SECONDS", NULL, AT(load_timeout), 1, 86400, NULL, SHIMMY_SERVE,
     "the most a request waits for its model to be loaded; then a 503 (default 600)"},
    {"model-idle", SHIMMY_NUMBER, "SECONDS", "SHIMMY_MODEL_IDLE", AT(model_idle), 0, 31536000, NULL, SHIMMY_SERVE,
     "unload a model that nobody has used for so long; the next request loads it again; 0 (default): it stays"},
    {"bind", SHIMMY_TEXT, "ADDRESS", "SHIMMY_BIND_ADDRESS", AT(bind), 0, 0, NULL, SHIMMY_SERVE,
     "HOST:PORT, [V6]:PORT or unix:PATH; port 0 takes a free one and prints it (default 127.0.0.1:11435)"},
    {"parallel", SHIMMY_NUMBER, "N", NULL, AT(parallel), 1, 256, NULL, SHIMMY_SERVE | SHIMMY_BENCH,
     "requests that run together (default: serve 4, bench 1)"},
    {"queue", SHIMMY_NUMBER, "N", NULL, AT(queue), 0, 65536, NULL, SHIMMY_SERVE,
     "requests that wait beyond those; past them a 503 (default 64)"},
    {"max-body", SHIMMY_NUMBER, "BYTES", NULL, AT(max_body), 1024, 4294967296.0, NULL, SHIMMY_SERVE,
     "largest body of a request (default 8388608)"},
    {"request-timeout", SHIMMY_NUMBER, "SECONDS", NULL, AT(request_timeout), 0, 604800, NULL, SHIMMY_SERVE,
     "the most a request may take, from its first byte on; then a 504, or an error event in a stream; 0 (default): any time"},
    {"api-key", SHIMMY_TEXT, "KEY", "SHIMMY_API_KEY", AT(api_key), 0, 0, NULL, SHIMMY_SERVE,
     "answer only requests that bring this key, as Authorization: Bearer KEY; /health and / stay open"},
    {"api-keys", SHIMMY_TEXT, "FILE", NULL, AT(api_keys), 0, 0, NULL, SHIMMY_SERVE,
     "or one of the keys in this file, one a line; read again on SIGHUP"},
    {"cors", SHIMMY_TEXT, "ORIGINS", NULL, AT(cors), 0, 0, NULL, SHIMMY_SERVE,
     "origins apart by commas whose pages may call the server; * (default): all; none: no page"},
    {"path-prefix", SHIMMY_TEXT, "PATH", NULL, AT(path_prefix), 0, 0, NULL, SHIMMY_SERVE,
     "what stands before every route, as /llm: for a proxy that passes it on"},
    {"tls-cert", SHIMMY_TEXT, "FILE", NULL, AT(tls_cert), 0, 0, NULL, SHIMMY_SERVE,
     "serve HTTPS with this certificate chain (PEM); read again on SIGHUP"},
    {"tls-key", SHIMMY_TEXT, "FILE", NULL, AT(tls_key), 0, 0, NULL, SHIMMY_SERVE, "its private key (PEM)"},
    {"unix-mode", SHIMMY_TEXT, "OCTAL", NULL, AT(unix_mode), 0, 0, NULL, SHIMMY_SERVE,
     "rights of the unix socket's file, as 660; default: as the umask says"},
    {"no-sandbox", SHIMMY_FLAG, NULL, NULL, AT(no_sandbox), 0, 0, NULL, SHIMMY_SERVE,
     "keep all rights of the user who starts it; otherwise the server gives up, once it has its sockets, what it does "
     "not need: docs/SECURITY.md lists what it keeps"},
    {"log", SHIMMY_CHOICE, "FORM", "SHIMMY_LOG", AT(log), 0, 0, "text|json|off", SHIMMY_SERVE,
     "a line on stderr for each request: text (default), json or off; never what was said"},
    {"chat-template", SHIMMY_TEXT, "FILE", NULL, AT(chat_template), 0, 0, NULL, SHIMMY_SERVE | SHIMMY_GENERATE,
     "a Jinja chat template in place of the model's"},
    {"allow-special", SHIMMY_FLAG, NULL, NULL, AT(allow_special), 0, 0, NULL, SHIMMY_SERVE | SHIMMY_GENERATE,
     "let the text of control tokens in messages count as those tokens"},
    {"reasoning", SHIMMY_CHOICE, "HOW", NULL, AT(reasoning), 0, 0, "auto|none|deepseek", SHIMMY_SERVE,
     "auto (default): what a model thinks goes to reasoning_content where the chat template knows the tags around it; "
     "none: everything is content; deepseek: <think> counts without being known too"},
    {"penalty-compat", SHIMMY_CHOICE, "RULE", NULL, AT(penalty_compat), 0, 0, "openai|shimmy", SHIMMY_SERVE,
     "what presence and frequency penalties do: openai subtracts (default); shimmy turns the larger one into a repeat "
     "penalty of 1 + half of it"},

    {"pooling", SHIMMY_CHOICE, "HOW", NULL, AT(pooling), 0, 0, "mean|cls|last", SHIMMY_SERVE,
     "of embeddings: the mean of all tokens' states, the first's or the last's; default: as the file says, else last, "
     "or mean where tokens see both directions"},

    /* how a model runs */
    {"ctx", SHIMMY_NUMBER, "N", "SHIMMY_MAX_CTX", AT(ctx), 0, 16777216, NULL, ENGINE,
     "tokens one request may use, prompt and answer together; 0 (default): the model's native length, or what memory "
     "allows"},
    {"device", SHIMMY_TEXT, "D", "SHIMMY_DEVICE", AT(device), 0, 0, NULL, ENGINE | SHIMMY_VERIFY,
     "auto (default): the best GPU, or the CPU where there is none; cpu; gpu; gpu:N or part of a GPU's name, as `shimmy "
     "gpu-info` lists them"},
    {"gpu-layers", SHIMMY_TEXT, "N|auto", "SHIMMY_GPU_LAYERS", AT(gpu_layers), 0, 0, NULL, ENGINE,
     "with a GPU: the last N layers and the output run there, the others on the CPU; auto (default): as many as the GPU "
     "has memory for"},
    {"cpu-moe", SHIMMY_FLAG, NULL, NULL, AT(cpu_moe), 0, 0, NULL, ENGINE,
     "with a GPU: the experts of all layers stay on the CPU, so that a large mixture runs beside a small card"},
    {"n-cpu-moe", SHIMMY_NUMBER, "N", "SHIMMY_N_CPU_MOE", AT(n_cpu_moe), 0, 65535, NULL, ENGINE,
     "the same of the first N layers alone"},
    {"threads", SHIMMY_NUMBER, "N", "SHIMMY_THREADS", AT(threads), 0, 1024, NULL, ENGINE | SHIMMY_VERIFY,
     "for the CPU's kernels; 0 (default): one a physical core"},
    {"pin-threads", SHIMMY_FLAG, NULL, NULL, AT(pin_threads), 0, 0, NULL, ENGINE,
     "each of these threads keeps to a core of its own, spread over all nodes of memory: steadier where nothing else runs"},
    {"kv", SHIMMY_CHOICE, "TYPE", "SHIMMY_KV", AT(kv), 0, 0, "f16|f32|q8_0", ENGINE | SHIMMY_VERIFY,
     "numbers in the KV cache: f16 (default), f32, or q8_0, which takes little more than half of f16's memory"},
    {"cache-ram", SHIMMY_TEXT, "BYTES|auto", "SHIMMY_CACHE_RAM", AT(cache_ram), 0, 0, NULL,
     SHIMMY_SERVE | SHIMMY_LOGITS,
     "memory for texts kept so that requests that begin alike need not run them again, beyond what running requests "
     "need: bytes, or with K, M or G; auto (default): none, what those leave unused is taken; 0: nothing is kept"},
    {"speculate", SHIMMY_CHOICE, "HOW", "SHIMMY_SPECULATE", AT(speculate), 0, 0, "ngram|off",
     SHIMMY_SERVE | SHIMMY_GENERATE,
     "ngram (default): where words of prompt and answer come again, several tokens are checked in one step; on the CPU, "
     "where it pays; the text is the same"},
    {"cache-dir", SHIMMY_TEXT, "FOLDER", "SHIMMY_CACHE_DIR", AT(cache_dir), 0, 0, NULL,
     SHIMMY_SERVE | SHIMMY_GENERATE | SHIMMY_LOGITS,
     "keep such texts on disk too, so that they need not run again after a restart; the folder holds what users wrote and "
     "is made for you alone; default: nothing goes to disk"},
    {"cache-disk", SHIMMY_TEXT, "BYTES", "SHIMMY_CACHE_DISK", AT(cache_disk), 0, 0, NULL,
     SHIMMY_SERVE | SHIMMY_GENERATE | SHIMMY_LOGITS,
     "what the folder's files may take, all models together (default 4G); those used longest ago go first"},
    {"context-shift", SHIMMY_FLAG, NULL, NULL, AT(context_shift), 0, 0, NULL, SHIMMY_SERVE | SHIMMY_GENERATE,
     "when a request's context is full, drop the older half of its text and go on, in place of ending it"},
    {"keep", SHIMMY_NUMBER, "N", NULL, AT(keep), 0, 16777216, NULL, SHIMMY_SERVE | SHIMMY_GENERATE,
     "tokens at the prompt's beginning that stay then (default: the first), half a context at the most"},
    {"prefill-chunk", SHIMMY_NUMBER, "N", "SHIMMY_PREFILL_CHUNK", AT(prefill_chunk), 1, 65536, NULL, ENGINE,
     "prompt tokens run in one step (default 512); results do not depend on it"},
    {"exact", SHIMMY_FLAG, NULL, NULL, AT(exact), 0, 0, NULL, ENGINE,
     "weights decoded to f32, activations kept in f32: the file's exact answer, slow"},

    {"model-dirs", SHIMMY_TEXT, "A:B", NULL, AT(model_dirs), 0, 0, NULL, NAMES,
     "folders or files to look for models in, in place of SHIMMY_MODEL_PATHS"},
    {"json", SHIMMY_FLAG, NULL, NULL, AT(json), 0, 0, NULL, JSON, "one JSON object on one line"},
    {"help", SHIMMY_FLAG, NULL, NULL, AT(help), 0, 0, NULL, ~0u, "this text"},
    {NULL, SHIMMY_FLAG, NULL, NULL, 0, 0, 0, NULL, 0, NULL},
};

_Static_assert(sizeof shimmy_option_table / sizeof *shimmy_option_table <= SHIMMY_OPTIONS_MOST,
               "the parser keeps a flag for each row");
