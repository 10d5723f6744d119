/* discover.c - the places, in order (discover.h). */
#include "cli/discover.h"

#include "cli/finder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*finder_fn)(shimmy_finder *finder, const char *path);

/* ~ and ~/... are the home folder: in a list apart by colons no shell has replaced them. */
static void at_home(const char *path, char out[SHIMMY_PATH]) {
    if (path[0] == '~' && (path[1] == '/' || !path[1]))
        snprintf(out, SHIMMY_PATH, "%s%s", af_os_home(), path + 1);
    else
        snprintf(out, SHIMMY_PATH, "%s", path);
}

static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static void look_in(shimmy_finder *finder, const char *name, const char *path, finder_fn find) {
    char there[SHIMMY_PATH];
    at_home(path, there);
    if (shimmy_finder_place(finder, name, there)) find(finder, there);
}

/* Paths the user gave, files or folders; one that is not there is said to be missing. */
static void look_in_list(shimmy_finder *finder, const char *name, const char *list) {
    for (const char *p = list; *p; p += *p == ':') {
        const size_t n = strcspn(p, ":");
        char path[SHIMMY_PATH];
        snprintf(path, sizeof path, "%.*s", (int)(n < sizeof path ? n : sizeof path - 1), p);
        if (n) look_in(finder, name, path, shimmy_finder_tree);
        p += n;
    }
}

static void look_in_given(shimmy_finder *finder, const char *model_dirs) {
    const char *base = variable("SHIMMY_BASE_GGUF"), *paths = variable("SHIMMY_MODEL_PATHS");
    if (base) look_in(finder, "SHIMMY_BASE_GGUF", base, shimmy_finder_tree);
    if (model_dirs)
        look_in_list(finder, "--model-dirs", model_dirs);
    else if (paths)
        look_in_list(finder, "SHIMMY_MODEL_PATHS", paths);
}

static void look_in_hub(shimmy_finder *finder) {
    const char *hub = variable("HF_HUB_CACHE"), *home = variable("HF_HOME");
    char path[SHIMMY_PATH];
    if (!hub && home) {
        snprintf(path, sizeof path, "%s/hub", home);
        hub = path;
    }
    look_in(finder, "Hugging Face", hub ? hub : "~/.cache/huggingface/hub", shimmy_find_hub);
}

/* Without OLLAMA_MODELS also where its Linux service keeps them, whose home is not ours. */
static void look_in_ollama(shimmy_finder *finder) {
    static const char service[] = "/usr/share/ollama/.ollama/models";
    const char *models = variable("OLLAMA_MODELS");
    look_in(finder, "Ollama", models ? models : "~/.ollama/models", shimmy_find_ollama);
    if (!models && af_os_stat(service).kind == AF_FILE_DIRECTORY)
        look_in(finder, "Ollama", service, shimmy_find_ollama);
}

int shimmy_discover(const char *model_dirs, shimmy_catalog *out, af_error *error) {
    shimmy_finder finder;
    const int status = shimmy_finder_open(&finder, error);
    if (status) return status;
    look_in_given(&finder, model_dirs);
    look_in(&finder, "shimmy", "~/.cache/shimmy/models", shimmy_finder_tree);
    look_in_hub(&finder);
    look_in_ollama(&finder);
    look_in(&finder, "LM Studio", "~/.lmstudio/models", shimmy_finder_tree);
    look_in(&finder, "LM Studio", "~/.cache/lm-studio/models", shimmy_finder_tree);
    look_in(&finder, "~/models", "~/models", shimmy_finder_tree);
    return shimmy_finder_close(&finder, out, error);
}
