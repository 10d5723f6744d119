/* fake_server_main.c - `shimmy serve` over fake_airframe.c: the flags that the server's tests use, and no others. */
#include "base/log.h"
#include "http/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            options.model_path = value;
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
        else if (strcmp(flag, "--penalty-compat") == 0)
            options.penalty_compat = true;
    }
    af_error error;
    if (shimmy_serve(&options, &error) == 0) return 0;
    fprintf(stderr, "shimmy: %s\n", error.text);
    return 1;
}
