/* discover_folder.c - models in plain folders: SHIMMY_MODEL_PATHS, our own cache, LM Studio's tree, ~/models.
 *
 * What counts is the name's end, ".gguf"; what is inside is the finder's business. A file that the user named goes
 * straight to the finder, whatever it is called.
 */
#include "cli/finder.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_DEPTH 10

/* ---- File names ---- */

static bool ends_in_gguf(const char *name) {
    const size_t n = strlen(name);
    return n > 5 && strcasecmp(name + n - 5, ".gguf") == 0;
}

/* "-00002-of-00003" before the end of a stem of n bytes: fills both numbers. */
static bool shard_suffix(const char *stem, size_t n, unsigned *index, unsigned *count) {
    static const char shape[] = "-#####-of-#####";
    const size_t length = sizeof shape - 1;
    if (n <= length) return false;
    const char *p = stem + n - length;
    for (size_t i = 0; i < length; i++)
        if (shape[i] == '#' ? !isdigit((unsigned char)p[i]) : p[i] != shape[i]) return false;
    return sscanf(p, "-%5u-of-%5u", index, count) == 2;
}

void shimmy_model_stem(const char *path, char out[SHIMMY_PATH]) {
    unsigned index, count;
    size_t n = strlen(path);
    if (ends_in_gguf(path)) n -= 5;
    if (shard_suffix(path, n, &index, &count)) n -= strlen("-00001-of-00003");
    snprintf(out, SHIMMY_PATH, "%.*s", (int)(n < SHIMMY_PATH ? n : SHIMMY_PATH - 1), path);
}

bool shimmy_is_later_shard(shimmy_finder *finder, const char *path) {
    unsigned index, count;
    char first[SHIMMY_PATH];
    if (!ends_in_gguf(path) || !shard_suffix(path, strlen(path) - 5, &index, &count) || index == 1) return false;
    shimmy_model_stem(path, first);
    const size_t n = strlen(first);
    snprintf(first + n, sizeof first - n, "-00001-of-%05u%s", count, path + strlen(path) - 5);
    if (af_os_stat(first).kind == AF_FILE_NONE)
        shimmy_finder_pass(finder, path, "shard %u of %u, and the first is not beside it", index, count);
    return true;
}

void shimmy_finder_file(shimmy_finder *finder, const char *path) {
    if (shimmy_is_later_shard(finder, path)) return;
    char stem[SHIMMY_PATH];
    shimmy_model_stem(path, stem);
    const char *slash = strrchr(stem, '/');
    shimmy_finder_take(finder, path, slash ? slash + 1 : stem, stem);
}

/* ---- Folders ---- */

typedef struct walk {
    shimmy_finder *finder;
    const char *directory;
    unsigned depth;
    shimmy_file_fn file;
    void *user;
} walk;

static void walk_folder(const walk *w);

static void enter_folder(const walk *w, const char *path, const af_file_stat *stat) {
    if (w->depth == MAX_DEPTH) {
        shimmy_finder_pass(w->finder, path, "more than %d folders deep", MAX_DEPTH);
        return;
    }
    if (!shimmy_finder_first(w->finder, stat, NULL)) return;
    walk inner = *w;
    inner.directory = path;
    inner.depth++;
    walk_folder(&inner);
}

/* Hidden entries are other programs' business (.git, .cache of a download). */
static bool look_at(void *user, const char *name) {
    const walk *w = user;
    char path[SHIMMY_PATH];
    if (name[0] == '.' || !shimmy_finder_join(w->finder, w->directory, name, path)) return true;
    const af_file_stat stat = af_os_stat(path);
    if (stat.kind == AF_FILE_DIRECTORY)
        enter_folder(w, path, &stat);
    else if (ends_in_gguf(name))
        w->file(w->user, path);
    else if (strstr(name, ".gguf."))
        shimmy_finder_pass(w->finder, path, "not named .gguf: a download not finished?");
    return !w->finder->full && !w->finder->out_of_memory;
}

static void walk_folder(const walk *w) {
    af_error why;
    if (af_os_list(w->directory, look_at, (void *)(uintptr_t)w, &why))
        shimmy_finder_pass(w->finder, w->directory, "%s", why.text);
}

void shimmy_finder_walk(shimmy_finder *finder, const char *directory, shimmy_file_fn file, void *user) {
    const walk w = {.finder = finder, .directory = directory, .file = file, .user = user};
    const af_file_stat stat = af_os_stat(directory);
    enter_folder(&w, directory, &stat);
}

static void take_file(void *user, const char *path) {
    shimmy_finder_file(user, path);
}

void shimmy_finder_tree(shimmy_finder *finder, const char *path) {
    if (af_os_stat(path).kind == AF_FILE_DIRECTORY)
        shimmy_finder_walk(finder, path, take_file, finder);
    else
        shimmy_finder_file(finder, path);
}
