/* fake_server_main.c - `shimmy serve` over fake_airframe.c: the flags that the server's tests use, and no others. */
#include "base/log.h"
#include "http/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --models "a,b.slow=500": models named up to the dot, beside the one that the server is started with. */
static int offer_models(void *user, shimmy_offer_fn offer, void *to, af_error *error) {
    (void)error;
    for (const char *p = user; *p; p += *p == ',') {
        const size_t n = strcspn(p, ",");
        char name[64], path[80];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, ".,"), p);
        snprintf(path, sizeof path, "%.*s.gguf", (int)n, p);
        offer(to, &(shimmy_offer){name, path, "llama", "F32", 1});
        p += n;
    }
    return 0;
}

/* --hurry: clients have less time, so that a test need not take minutes. */
static const shimmy_http_times hurry = {
    .idle = 1500, .head = 600, .body = 800, .write = 700, .flush = 1200, .drain = 500};

int main(int argc, char **argv) {
    shimmy_serve_options options = {
        .bind = "127.0.0.1:0",
        .model_path = "counter.gguf",
        .model_name = "counter",
        .models_max = 1,
        .load_seconds = 600,
        .max_body = 16 << 20,
        .origins = "*",
        .path_prefix = "",
        .log = SHIMMY_LOG_OFF,
        .engine = af_engine_options_default(),
    };
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *flag = argv[i], *value = argv[i + 1];
        if (strcmp(flag, "--bind") == 0)
            options.bind = value;
        else if (strcmp(flag, "--model-path") == 0)
            options.model_path = *value ? value : NULL; /* "": none is loaded at the start */
        else if (strcmp(flag, "--models") == 0)
            options.discover = offer_models, options.discover_user = argv[i + 1];
        else if (strcmp(flag, "--models-max") == 0)
            options.models_max = (uint32_t)atol(value);
        else if (strcmp(flag, "--load-timeout") == 0)
            options.load_seconds = (uint32_t)atol(value);
        else if (strcmp(flag, "--model-idle") == 0)
            options.idle_seconds = (uint32_t)atol(value);
        else if (strcmp(flag, "--log") == 0)
            options.log = SHIMMY_LOG_JSON;
        else if (strcmp(flag, "--max-body") == 0)
            options.max_body = (uint64_t)atoll(value);
        else if (strcmp(flag, "--ctx") == 0)
            options.ctx = (uint32_t)atol(value);
        else if (strcmp(flag, "--parallel") == 0)
            options.engine.parallel = (uint32_t)atol(value);
        else if (strcmp(flag, "--queue") == 0)
            options.engine.queue = (uint32_t)atol(value);
        else if (strcmp(flag, "--request-timeout") == 0)
            options.request_seconds = (uint32_t)atol(value);
        else if (strcmp(flag, "--hurry") == 0)
            options.times = &hurry;
        else if (strcmp(flag, "--penalty-compat") == 0)
            options.penalty_compat = true;
    }
    af_error error;
    if (shimmy_serve(&options, &error) == 0) return 0;
    fprintf(stderr, "shimmy: %s\n", error.text);
    return 1;
}
