/* chat.c - asks a model one question and streams the answer, with nothing but airframe.h.
 *
 *     cc chat.c $(pkg-config --cflags --libs airframe) -o chat
 *     ./chat MODEL.gguf "Why is the sea salt?"
 */
#include <airframe.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

/* What the engine's thread tells ours: the answer is over. */
typedef struct answer {
    mtx_t lock;
    cnd_t over;
    af_finish finish;
} answer;

/* Called on the engine's thread, for every few bytes of text. */
static void on_event(void *user, const af_event *event) {
    answer *a = user;
    fwrite(event->text, 1, event->length, stdout);
    fflush(stdout);
    if (event->finish == AF_FINISH_NONE) return;
    if (event->error) fprintf(stderr, "chat: %s\n", event->error->text);
    mtx_lock(&a->lock);
    a->finish = event->finish;
    cnd_signal(&a->over);
    mtx_unlock(&a->lock);
}

static void wait_for(answer *a) {
    mtx_lock(&a->lock);
    while (a->finish == AF_FINISH_NONE) cnd_wait(&a->over, &a->lock);
    mtx_unlock(&a->lock);
}

/* A chat request is the text of a JSON object, as in OpenAI's API. */
static char *chat_request(const char *question) {
    static const char before[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"", after[] = "\"}]}";
    char *json = malloc(sizeof before + 6 * strlen(question) + sizeof after), *p = json;
    if (!json) return NULL;
    p += sprintf(p, "%s", before);
    for (const char *q = question; *q; q++) {
        const unsigned char c = (unsigned char)*q;
        p += sprintf(p, c < ' ' || c == '"' || c == '\\' ? "\\u%04x" : "%c", c);
    }
    sprintf(p, "%s", after);
    return json;
}

/* The question through the model's own chat template, then to token ids, which af_free frees. */
static int prompt_ids(const af_model *model, const char *question, int32_t **ids, size_t *count, af_error *error) {
    char *request = chat_request(question);
    af_render_options options = af_render_options_default();
    af_prompt prompt = {0};
    int status = af_model_render(model, NULL, request, request ? strlen(request) : 0, &options, &prompt, error);
    if (!status) status = af_prompt_tokenize(model, &prompt, ids, count, error);
    af_prompt_clear(&prompt);
    free(request);
    return status;
}

static int ask(const af_model *model, af_engine *engine, const char *question, af_error *error) {
    int32_t *ids = NULL;
    size_t count = 0;
    int status = prompt_ids(model, question, &ids, &count, error);
    if (status) return status;

    answer a = {.finish = AF_FINISH_NONE};
    mtx_init(&a.lock, mtx_plain);
    cnd_init(&a.over);
    af_request request = af_request_default(model);
    request.prompt = ids;
    request.prompt_count = count;
    request.on_event = on_event;
    request.user = &a;
    uint64_t id;
    status = af_submit(engine, &request, &id, error);
    if (!status) wait_for(&a);
    putchar('\n');
    cnd_destroy(&a.over);
    mtx_destroy(&a.lock);
    af_free(ids);
    return status;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: chat MODEL.gguf QUESTION\n");
        return 2;
    }
    af_model *model = NULL;
    af_engine *engine = NULL;
    af_engine_options options = af_engine_options_default();
    options.parallel = 1;
    af_error error;
    int status = af_model_open(argv[1], NULL, &model, &error);
    if (!status) status = af_engine_open(model, &options, &engine, &error);
    if (!status) status = ask(model, engine, argv[2], &error);
    if (status) fprintf(stderr, "chat: %s\n", error.text);
    af_engine_close(engine);
    af_model_close(model);
    return status ? 1 : 0;
}
