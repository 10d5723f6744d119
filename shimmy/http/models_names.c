/* models_names.c - the names that requests may use, and how they come to be known (models.h).
 *
 * A name means one model or none. Names are whole: the start of one, or one in other capitals, is no name, so that
 * nobody is answered by a model that was not meant. */
#include "http/models_internal.h"

#include <stdlib.h>
#include <string.h>

#define REFRESH_AFTER 5000000000u /* nanoseconds between two looks, however many ask */
#define LATEST        ":latest"   /* the tag that is meant where none is given, as with Ollama */

/* ---- What a name means ---- */

typedef enum match { NO_MATCH, FILE_NAME, UNTAGGED, EXACT } match;

/* The last part of a path, with or without its .gguf. */
static bool is_file_name(const char *path, const char *wanted) {
    const char *slash = strrchr(path, '/');
    const char *file = slash ? slash + 1 : path;
    const size_t n = strlen(wanted);
    return strncmp(wanted, file, n) == 0 && (!file[n] || strcmp(file + n, ".gguf") == 0);
}

static bool is_untagged(const char *name, const char *wanted) {
    const size_t n = strlen(wanted);
    return strncmp(name, wanted, n) == 0 && strcmp(name + n, LATEST) == 0;
}

bool shimmy_models_offers(const shimmy_model_entry *e) {
    return e->listed || e->ready;
}

static match compare(const shimmy_model_entry *e, const char *wanted) {
    if (!shimmy_models_offers(e)) return NO_MATCH;
    if (strcmp(e->name, wanted) == 0 || strcmp(e->path, wanted) == 0) return EXACT;
    if (e->also && strcmp(e->also, wanted) == 0) return EXACT;
    if (is_untagged(e->name, wanted) || (e->also && is_untagged(e->also, wanted))) return UNTAGGED;
    return is_file_name(e->path, wanted) ? FILE_NAME : NO_MATCH;
}

static int refuse_unknown(const shimmy_models *models, const char *wanted, shimmy_refusal *refusal) {
    if (models->count == 1)
        return shimmy_refuse(refusal, 404, "model_not_found", "model",
                             "model: '%.200s' is not served here; served is '%.200s'", wanted,
                             models->entries[0]->name);
    return shimmy_refuse(refusal, 404, "model_not_found", "model",
                         "model: '%.200s' is not served here; GET /v1/models lists the models that are", wanted);
}

shimmy_model_entry *shimmy_models_named(const shimmy_models *models, const char *wanted, shimmy_refusal *refusal) {
    match best = NO_MATCH;
    shimmy_model_entry *found = NULL, *other = NULL;
    for (size_t i = 0; i < models->count; i++) {
        if (!*wanted && shimmy_models_offers(models->entries[i])) return models->entries[i];
        const match kind = compare(models->entries[i], wanted);
        if (kind == NO_MATCH || kind < best) continue;
        other = kind == best ? found : NULL;
        found = models->entries[i];
        best = kind;
    }
    if (found && !other) return found;
    if (found)
        shimmy_refuse(refusal, 404, "model_not_found", "model",
                      "model: '%.200s' is the file of several models, '%.100s' and '%.100s' among them; ask for one by "
                      "its name",
                      wanted, other->name, found->name);
    else
        refuse_unknown(models, wanted, refusal);
    return NULL;
}

/* ---- Entries ---- */

void shimmy_model_entry_free(shimmy_model_entry *e) {
    if (!e) return;
    free(e->name);
    free(e->path);
    free(e->also);
    free(e->architecture);
    free(e->quantization);
    free(e);
}

static shimmy_model_entry *new_entry(const shimmy_offer *offer) {
    shimmy_model_entry *e = calloc(1, sizeof *e);
    if (!e) return NULL;
    e->name = strdup(offer->name);
    e->path = strdup(offer->path);
    e->architecture = strdup(offer->architecture);
    e->quantization = strdup(offer->quantization);
    e->bytes = offer->bytes;
    e->listed = true;
    if (e->name && e->path && e->architecture && e->quantization) return e;
    shimmy_model_entry_free(e);
    return NULL;
}

static bool push(shimmy_model_entry ***list, size_t *count, size_t *room, shimmy_model_entry *e) {
    if (*count == *room) {
        const size_t more = *room ? *room * 2 : 16;
        shimmy_model_entry **larger = realloc(*list, more * sizeof(shimmy_model_entry *));
        if (!larger) return false;
        *list = larger;
        *room = more;
    }
    (*list)[(*count)++] = e;
    return true;
}

int shimmy_models_add(shimmy_models *models, const char *name, const char *path, af_error *error) {
    const shimmy_offer offer = {.name = name, .path = path, .architecture = "", .quantization = ""};
    shimmy_model_entry *e = new_entry(&offer);
    if (!e || !push(&models->entries, &models->count, &models->room, e)) {
        shimmy_model_entry_free(e);
        return af_fail_memory(error, strlen(path), "a model's name");
    }
    e->own = true;
    return 0;
}

/* ---- Looking for models again ---- */

/* What is found, before it is merged: no lock is held while folders are read. */
typedef struct finding {
    shimmy_model_entry **list;
    size_t count, room;
    const char *own; /* the command line's file, or NULL */
    bool out_of_memory;
} finding;

static bool is_same_file(const char *a, const char *b) {
    const af_file_stat x = af_os_stat(a), y = af_os_stat(b);
    if (strcmp(a, b) == 0) return true; /* though it may be being replaced */
    return x.kind != AF_FILE_NONE && x.device == y.device && x.inode == y.inode;
}

static void note(void *to, const shimmy_offer *offer) {
    finding *f = to;
    shimmy_model_entry *e = new_entry(offer);
    if (e) e->own = f->own && is_same_file(f->own, e->path);
    if (e && push(&f->list, &f->count, &f->room, e)) return;
    shimmy_model_entry_free(e);
    f->out_of_memory = true;
}

static void exchange(char **a, char **b) {
    char *kept = *a;
    *a = *b;
    *b = kept;
}

/* The file of the command line's model, met where models lie: one model of two names. Keeps its own facts up to date.
 */
static void merge_own(shimmy_model_entry *own, shimmy_model_entry *found) {
    exchange(&own->architecture, &found->architecture);
    exchange(&own->quantization, &found->quantization);
    own->bytes = found->bytes;
    if (!own->also && strcmp(own->name, found->name) != 0) exchange(&own->also, &found->name);
}

/* A name that is known: its file may lie elsewhere by now, as Ollama's do after each pull. */
static void merge_known(shimmy_model_entry *known, shimmy_model_entry *found) {
    known->stale = known->stale || (known->ready && strcmp(known->ready->path, found->path) != 0);
    exchange(&known->path, &found->path);
    exchange(&known->architecture, &found->architecture);
    exchange(&known->quantization, &found->quantization);
    known->bytes = found->bytes;
    known->listed = true;
}

static shimmy_model_entry *called(const shimmy_models *models, const char *name) {
    for (size_t i = 0; i < models->count; i++)
        if (strcmp(models->entries[i]->name, name) == 0) return models->entries[i];
    return NULL;
}

/* Takes *found over, or leaves it to be freed. */
static void merge(shimmy_models *models, shimmy_model_entry **found) {
    shimmy_model_entry *e = *found, *known = called(models, e->name);
    if (e->own) {
        merge_own(models->entries[0], e);
        return;
    }
    if (known && known->own) { /* its name is taken: the path is its name */
        free(e->name);
        e->name = strdup(e->path);
        known = e->name ? called(models, e->name) : NULL;
    }
    if (known)
        merge_known(known, e);
    else if (e->name && push(&models->entries, &models->count, &models->room, e))
        *found = NULL;
}

static void merge_all(shimmy_models *models, finding *f) {
    af_mutex_lock(models->lock);
    for (size_t i = 0; i < models->count; i++) models->entries[i]->listed = models->entries[i]->own;
    for (size_t i = 0; i < f->count; i++) merge(models, &f->list[i]);
    af_mutex_unlock(models->lock);
}

bool shimmy_models_may_refresh(shimmy_models *models) {
    af_mutex_lock(models->lock);
    const bool may = models->options.keeper.discover && !models->refreshing &&
                     af_os_nanoseconds() - models->refreshed > REFRESH_AFTER;
    af_mutex_unlock(models->lock);
    return may;
}

/* False where another thread is at it. Entries are added by who has begun alone. */
static bool begin_refresh(shimmy_models *models) {
    af_mutex_lock(models->lock);
    const bool begun = !models->refreshing;
    models->refreshing = true;
    af_mutex_unlock(models->lock);
    return begun;
}

static void end_refresh(shimmy_models *models) {
    af_mutex_lock(models->lock);
    models->refreshing = false;
    models->refreshed = af_os_nanoseconds();
    af_mutex_unlock(models->lock);
}

int shimmy_models_refresh(shimmy_models *models, af_error *error) {
    const shimmy_model_keeper *keeper = &models->options.keeper;
    if (!keeper->discover || !begin_refresh(models)) return 0;
    finding f = {.own = models->count && models->entries[0]->own ? models->entries[0]->path : NULL};
    int rc = keeper->discover(keeper->user, note, &f, error);
    if (rc == 0 && f.out_of_memory) rc = af_fail_memory(error, f.count * sizeof *f.list, "the list of models");
    if (rc == 0) merge_all(models, &f);
    for (size_t i = 0; i < f.count; i++) shimmy_model_entry_free(f.list[i]);
    free(f.list);
    end_refresh(models);
    return rc;
}
