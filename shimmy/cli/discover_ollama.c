/* discover_ollama.c - Ollama's store, by manifest: a blob's name says nothing, and several models may share one.
 *
 *     MODELS/manifests/REGISTRY/NAMESPACE/NAME/TAG     JSON: layers of {mediaType, digest, size}
 *     MODELS/blobs/sha256-HEX                          the layer of mediaType ...image.model is the GGUF file
 *
 * Names are those that `ollama list` shows: NAME:TAG from registry.ollama.ai/library, with namespace or registry before
 * it from elsewhere.
 */
#include "cli/finder.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define MANIFEST_CEILING ((size_t)1 << 20)
#define LEVELS           4 /* registry, namespace, name, tag */
#define MODEL_LAYER      "application/vnd.ollama.image.model"
#define USUAL            "registry.ollama.ai/library/"

typedef struct store {
    shimmy_finder *finder;
    const char *models;
    const char *manifest; /* path of the folder being listed, then of the manifest */
    const char *title;    /* the same below "manifests", without a leading slash */
    unsigned level;
} store;

/* "sha256:HEX" to MODELS/blobs/sha256-HEX. Nothing but 64 hexadecimal digits, so that no manifest leads elsewhere. */
static bool blob_path(const store *s, const char *digest, char out[SHIMMY_PATH]) {
    static const char prefix[] = "sha256:";
    const size_t n = sizeof prefix - 1;
    if (strncmp(digest, prefix, n) != 0) return false;
    if (strlen(digest + n) != 64 || strspn(digest + n, "0123456789abcdefABCDEF") != 64) return false;
    char name[128];
    snprintf(name, sizeof name, "blobs/sha256-%s", digest + n);
    return shimmy_finder_join(s->finder, s->models, name, out);
}

static const char *model_digest(const json_t *manifest) {
    const json_t *layers = json_object_get(manifest, "layers"), *layer;
    size_t i;
    json_array_foreach(layers, i, layer) {
        const char *type = json_string_value(json_object_get(layer, "mediaType"));
        if (type && strcmp(type, MODEL_LAYER) == 0) return json_string_value(json_object_get(layer, "digest"));
    }
    return NULL;
}

/* REGISTRY/NAMESPACE/NAME/TAG to NAME:TAG, or with what is unusual before it. */
static void take_blob(const store *s, const char *blob) {
    char title[SHIMMY_PATH], full_name[SHIMMY_PATH];
    snprintf(title, sizeof title, "%s", s->title);
    *strrchr(title, '/') = ':';
    const char *name = title;
    if (strncmp(title, USUAL, strlen(USUAL)) == 0)
        name = title + strlen(USUAL);
    else if (strncmp(title, USUAL, strcspn(USUAL, "/") + 1) == 0)
        name = title + strcspn(title, "/") + 1;
    if (shimmy_finder_join(s->finder, s->models, title, full_name))
        shimmy_finder_take(s->finder, blob, name, full_name);
}

static void look_at_manifest(const store *s) {
    char *text, blob[SHIMMY_PATH];
    size_t length;
    af_error why;
    if (af_os_read_file(s->manifest, MANIFEST_CEILING, &text, &length, &why)) {
        shimmy_finder_pass(s->finder, s->manifest, "%s", why.text);
        return;
    }
    json_t *manifest = json_loadb(text, length, 0, NULL);
    const char *digest = manifest ? model_digest(manifest) : NULL;
    if (!manifest)
        shimmy_finder_pass(s->finder, s->manifest, "not the JSON of a manifest");
    else if (!digest)
        shimmy_finder_pass(s->finder, s->manifest, "names no layer of type %s", MODEL_LAYER);
    else if (!blob_path(s, digest, blob))
        shimmy_finder_pass(s->finder, s->manifest, "its digest is not sha256: and 64 hexadecimal digits");
    else if (af_os_stat(blob).kind == AF_FILE_NONE)
        shimmy_finder_pass(s->finder, s->manifest, "its blob is missing: %s", blob);
    else
        take_blob(s, blob);
    json_decref(manifest);
    af_free(text);
}

/* Folders to the third level, manifests on the fourth. */
static bool descend(void *user, const char *name) {
    const store *outer = user;
    char path[SHIMMY_PATH], title[SHIMMY_PATH];
    if (name[0] == '.' || !shimmy_finder_join(outer->finder, outer->manifest, name, path)) return true;
    if (!*outer->title)
        snprintf(title, sizeof title, "%s", name);
    else if (!shimmy_finder_join(outer->finder, outer->title, name, title))
        return true;
    store s = *outer;
    s.manifest = path;
    s.title = title;
    s.level++;
    const af_file_kind kind = af_os_stat(path).kind;
    if (s.level == LEVELS && kind == AF_FILE_REGULAR)
        look_at_manifest(&s);
    else if (s.level < LEVELS && kind == AF_FILE_DIRECTORY)
        af_os_list(path, descend, &s, NULL);
    return true;
}

void shimmy_find_ollama(shimmy_finder *finder, const char *models) {
    char manifests[SHIMMY_PATH];
    if (!shimmy_finder_join(finder, models, "manifests", manifests)) return;
    if (af_os_stat(manifests).kind != AF_FILE_DIRECTORY) return;
    store s = {.finder = finder, .models = models, .manifest = manifests, .title = ""};
    af_os_list(manifests, descend, &s, NULL);
}
