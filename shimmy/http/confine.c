/* confine.c - see confine.h; docs/SECURITY.md tells users what is allowed and why.
 *
 * Files that are read again later (a model that is replaced, certificates, keys) are allowed with their folders: who
 * replaces a file mostly puts a new one in its place, and a rule for the old one does not cover that. Folders that hold
 * much else, a home or /etc, are not allowed for the sake of one file: there the file alone is, as it was at the start.
 */
#include "http/confine.h"

#include "base/log.h"
#include "base/os.h"
#include "base/os_folder.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PATH_SIZE 4096
#define AT(field) offsetof(shimmy_serve_options, field)

/* Options that name a file which is read. */
static const size_t files_read[] = {AT(chat_template), AT(api_keys), AT(tls_cert), AT(tls_key)};

static const char *const crowded[] = {"/", "/etc", "/home", "/root", "/run", "/tmp", "/usr", "/var", "/var/tmp"};

static const char *text_at(const shimmy_serve_options *options, size_t offset) {
    return *(const char *const *)(const void *)((const char *)options + offset);
}

static bool same_folder(const af_file_stat *a, const char *path) {
    const af_file_stat b = af_os_stat(path);
    return b.kind != AF_FILE_NONE && a->device == b.device && a->inode == b.inode;
}

static bool is_crowded(const char *folder) {
    const af_file_stat stat = af_os_stat(folder);
    bool found = same_folder(&stat, af_os_home());
    for (size_t i = 0; i < sizeof crowded / sizeof *crowded && !found; i++) found = same_folder(&stat, crowded[i]);
    return found;
}

static void folder_of(const char *path, char out[PATH_SIZE]) {
    const char *slash = strrchr(path, '/');
    const int n = slash ? (int)(slash - path) + (slash == path) : 1;
    snprintf(out, PATH_SIZE, "%.*s", n, slash ? path : ".");
}

static int allow_folder_of(af_sandbox *sandbox, af_allow what, const char *path, af_error *error) {
    char folder[PATH_SIZE];
    folder_of(path, folder);
    return is_crowded(folder) ? 0 : af_sandbox_allow(sandbox, what, folder, error);
}

/* The file, its folder, and if it is a link the folder that it leads to. */
static int allow_file(af_sandbox *sandbox, const char *path, af_error *error) {
    char real[PATH_SIZE];
    int status = af_sandbox_allow(sandbox, AF_ALLOW_READ, path, error);
    if (!status) status = allow_folder_of(sandbox, AF_ALLOW_READ, path, error);
    if (!status && af_os_real_path(path, real, sizeof real))
        status = allow_folder_of(sandbox, AF_ALLOW_READ, real, error);
    return status;
}

/* ---- Models ---- */

typedef struct shards {
    af_sandbox *sandbox;
    const char *folder;
    af_error *error;
    int status;
} shards;

static bool allow_shard(void *user, const char *name) {
    shards *s = user;
    const size_t n = strlen(name);
    char path[PATH_SIZE];
    if (n < 5 || strcasecmp(name + n - 5, ".gguf") != 0) return true;
    if (snprintf(path, sizeof path, "%s/%s", s->folder, name) < (int)sizeof path)
        s->status = allow_file(s->sandbox, path, s->error);
    return !s->status;
}

/* A model's shards lie beside it, but each may be a link to elsewhere. */
static int allow_model(af_sandbox *sandbox, const char *path, af_error *error) {
    char folder[PATH_SIZE];
    int status = allow_file(sandbox, path, error);
    folder_of(path, folder);
    shards s = {sandbox, folder, error, status};
    if (!status) af_os_list(folder, allow_shard, &s, NULL);
    return s.status;
}

/* A folder that the user has named, or that is for models alone, is allowed whatever it is. */
static int allow_place(af_sandbox *sandbox, const char *path, af_error *error) {
    if (af_os_stat(path).kind == AF_FILE_DIRECTORY) return af_sandbox_allow(sandbox, AF_ALLOW_READ, path, error);
    return allow_model(sandbox, path, error);
}

/* ---- All ---- */

/* Made now: later nothing may be made beside it. Whether it will do is for the engine to say. */
static int allow_cache(af_sandbox *sandbox, const char *path, af_error *error) {
    af_folder *folder;
    if (af_folder_open(path, &folder, NULL) == 0) af_folder_close(folder);
    return af_sandbox_allow(sandbox, AF_ALLOW_CHANGE, path, error);
}

static int allow_files(af_sandbox *sandbox, const shimmy_serve_options *options, af_error *error) {
    int status = options->model_path ? allow_model(sandbox, options->model_path, error) : 0;
    for (size_t i = 0; i < options->place_count && !status; i++)
        status = allow_place(sandbox, options->places[i], error);
    for (size_t i = 0; i < sizeof files_read / sizeof *files_read && !status; i++) {
        const char *path = text_at(options, files_read[i]);
        if (path) status = allow_file(sandbox, path, error);
    }
    if (!status && options->engine.cache_dir) status = allow_cache(sandbox, options->engine.cache_dir, error);
    if (!status && strncmp(options->bind, "unix:", 5) == 0) /* its file is removed at the end */
        status = allow_folder_of(sandbox, AF_ALLOW_REMOVE, options->bind + 5, error);
    return status;
}

static bool may_use_gpu(const char *device) {
    if (strcmp(device, "auto") == 0) return af_os_may_have_gpu();
    return strcmp(device, "cpu") != 0;
}

static void say_missing(unsigned in_force) {
    static const struct {
        unsigned part;
        const char *missing;
    } rows[] = {
        {AF_SANDBOX_FILES, "Landlock (Linux 5.13), so files are open to it as to its user"},
        {AF_SANDBOX_CALLS, "seccomp, so it may make any system call"},
        {AF_SANDBOX_NETWORK, "Landlock's rules for ports (Linux 6.7), so it may make connections"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!(in_force & rows[i].part)) af_log(AF_LOG_WARNING, "sandbox: this system lacks %s", rows[i].missing);
}

static int prepare(af_sandbox *sandbox, const shimmy_serve_options *options, af_error *error) {
    const int status = allow_files(sandbox, options, error);
    return !status && may_use_gpu(options->engine.device) ? af_sandbox_allow_gpu(sandbox, error) : status;
}

int shimmy_confine(const shimmy_serve_options *options, af_error *error) {
    af_sandbox *sandbox;
    unsigned in_force = 0;
    int status = af_sandbox_open(&sandbox, error);
    if (!status) {
        status = prepare(sandbox, options, error);
        if (status)
            af_sandbox_close(sandbox);
        else
            status = af_sandbox_enter(sandbox, &in_force, error);
    }
    if (status) return af_fail_within(error, status, "sandbox (--no-sandbox serves without)");
    say_missing(in_force);
    return 0;
}
