/* peer_bench.c - llama.cpp's speed through its C API, measured as `shimmy bench` measures ours: random prompts, then
 * tokens decoded one after another, all sequences in one batch; medians of the runs after one to warm up.
 *
 *     peer_bench MODEL.gguf THREADS PROMPT GENERATE SEQUENCES RUNS
 *
 * Prints {"prompt_tps": tokens/s, "decode_tps": tokens/s of all sequences together}. Built by peer.sh.
 */
#include <ggml-backend.h>
#include <llama.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS_MAX 100

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v, int n) {
    qsort(v, (size_t)n, sizeof *v, by_size);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static void stop(const char *what) {
    fprintf(stderr, "peer_bench: %s\n", what);
    exit(1);
}

static void errors_only(enum ggml_log_level level, const char *text, void *user) {
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

typedef struct bench {
    struct llama_context *context;
    struct llama_batch batch; /* room for a prompt or a token of each sequence */
    int vocabulary;
} bench;

static void add(bench *b, int position, int sequence, bool logits) {
    const int i = b->batch.n_tokens++;
    b->batch.token[i] = rand() % b->vocabulary;
    b->batch.pos[i] = position;
    b->batch.n_seq_id[i] = 1;
    b->batch.seq_id[i][0] = sequence;
    b->batch.logits[i] = logits;
}

static void run(bench *b) {
    if (llama_decode(b->context, b->batch)) stop("decoding failed");
    llama_synchronize(b->context);
    b->batch.n_tokens = 0;
}

static void measure(bench *b, int prompt, int generate, int sequences, double *prompt_tps, double *decode_tps) {
    llama_memory_clear(llama_get_memory(b->context), true);
    const double begin = seconds();
    for (int s = 0; s < sequences; s++) {
        for (int i = 0; i < prompt; i++) add(b, i, s, i == prompt - 1);
        run(b);
    }
    const double middle = seconds();
    for (int i = 0; i < generate; i++) {
        for (int s = 0; s < sequences; s++) add(b, prompt + i, s, true);
        run(b);
    }
    const double end = seconds();
    *prompt_tps = prompt * sequences / (middle - begin);
    *decode_tps = generate * sequences / (end - middle);
}

static struct llama_context *open_context(struct llama_model *model, int threads, int tokens, int sequences) {
    struct llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t)((tokens + 64) * sequences);
    p.n_batch = 2048;
    p.n_ubatch = 512;
    p.n_seq_max = (uint32_t)sequences;
    p.kv_unified = false;
    p.n_threads = p.n_threads_batch = threads;
    return llama_init_from_model(model, p);
}

int main(int argc, char **argv) {
    if (argc != 7) stop("wanted: MODEL.gguf THREADS PROMPT GENERATE SEQUENCES RUNS");
    const int threads = atoi(argv[2]), prompt = atoi(argv[3]), generate = atoi(argv[4]), sequences = atoi(argv[5]),
              runs = atoi(argv[6]);
    if (threads < 1 || prompt < 1 || prompt > 2048 || generate < 1 || sequences < 1 || runs < 1 || runs > RUNS_MAX)
        stop("a number is out of bounds: prompts have 1 to 2048 tokens, there are 1 to 100 runs");
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", argv[0]);
    char *slash = strrchr(folder, '/');
    if (slash) *slash = '\0';
    llama_log_set(errors_only, NULL);
    ggml_backend_load_all_from_path(slash ? folder : ".");
    llama_backend_init();

    struct llama_model_params p = llama_model_default_params();
    p.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], p);
    if (!model) stop("the model cannot be loaded");
    bench b = {.context = open_context(model, threads, prompt + generate, sequences),
               .batch = llama_batch_init(prompt > sequences ? prompt : sequences, 0, 1),
               .vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model))};
    if (!b.context) stop("no context");
    double prompts[RUNS_MAX + 1], decodes[RUNS_MAX + 1];
    for (int i = 0; i <= runs; i++) measure(&b, prompt, generate, sequences, &prompts[i], &decodes[i]);
    printf("{\"prompt_tps\": %.2f, \"decode_tps\": %.2f}\n", median(prompts + 1, runs), median(decodes + 1, runs));
    return 0;
}
