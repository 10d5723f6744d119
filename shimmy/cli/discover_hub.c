/* discover_hub.c - Hugging Face's cache.
 *
 *     HUB/models--ORG--REPO/refs/main                       the revision that "main" was when last fetched
 *     HUB/models--ORG--REPO/snapshots/REVISION/.../FILE     links into ../../blobs
 *
 * Models are called ORG/REPO/FILE. The revision of refs/main comes first; a file of the same name in another revision
 * is an older or newer state of the same model and is passed over.
 */
#include "cli/finder.h"

#include <stdio.h>
#include <string.h>

#define REF_CEILING 256

typedef struct repository {
    shimmy_finder *finder;
    const char *directory;  /* HUB/models--ORG--REPO */
    char name[SHIMMY_PATH]; /* ORG/REPO */
    char main[REF_CEILING]; /* revision, "" if there is no refs/main */
    const char *revision;   /* being walked */
    size_t first_found;     /* the repository's models begin here in the catalog */
} repository;

/* "models--ORG--REPO" to "ORG/REPO"; false for data sets, spaces and other folders. */
static bool repository_name(const char *folder, char out[SHIMMY_PATH]) {
    static const char prefix[] = "models--";
    if (strncmp(folder, prefix, sizeof prefix - 1) != 0) return false;
    size_t n = 0;
    for (const char *p = folder + sizeof prefix - 1; *p && n < SHIMMY_PATH - 1; p++) {
        const bool separator = p[0] == '-' && p[1] == '-' && n;
        out[n++] = separator ? '/' : *p;
        p += separator;
    }
    out[n] = 0;
    return n > 0;
}

static void read_main(repository *r) {
    char path[SHIMMY_PATH], *text;
    size_t length;
    r->main[0] = 0;
    if (!shimmy_finder_join(r->finder, r->directory, "refs/main", path)) return;
    if (af_os_read_file(path, REF_CEILING - 1, &text, &length, NULL)) return;
    const size_t n = strcspn(text, " \r\n/");
    memcpy(r->main, text, n);
    r->main[n] = 0;
    af_free(text);
}

/* The repository's model of that name, taken from an earlier revision. */
static bool have(const repository *r, const char *name) {
    const shimmy_catalog *c = &r->finder->catalog;
    for (size_t i = r->first_found; i < c->found_count; i++)
        if (strcmp(c->found[i].name, name) == 0) return true;
    return false;
}

static void take_snapshot_file(void *user, const char *path) {
    const repository *r = user;
    if (shimmy_is_later_shard(r->finder, path)) return;
    char stem[SHIMMY_PATH], name[SHIMMY_PATH], full_name[SHIMMY_PATH];
    shimmy_model_stem(path, stem);
    /* Inside the snapshot: beyond "DIRECTORY/snapshots/REVISION/". */
    const char *inside = stem + strlen(r->directory) + strlen("/snapshots/") + strlen(r->revision) + 1;
    const int n = snprintf(name, sizeof name, "%s/%s", r->name, inside);
    const int full = snprintf(full_name, sizeof full_name, "%s/%s/%s", r->directory, r->revision, name);
    if (n >= SHIMMY_PATH || full >= SHIMMY_PATH)
        shimmy_finder_pass(r->finder, path, "its name is longer than %d bytes", SHIMMY_PATH - 1);
    else if (have(r, name))
        shimmy_finder_pass(r->finder, path, "another revision of %s", name);
    else
        shimmy_finder_take(r->finder, path, name, full_name);
}

static bool walk_revision(void *user, const char *revision) {
    repository *r = user;
    char snapshots[SHIMMY_PATH], path[SHIMMY_PATH];
    r->revision = revision;
    if (shimmy_finder_join(r->finder, r->directory, "snapshots", snapshots) &&
        shimmy_finder_join(r->finder, snapshots, revision, path) && af_os_stat(path).kind == AF_FILE_DIRECTORY)
        shimmy_finder_walk(r->finder, path, take_snapshot_file, r);
    return true;
}

static bool look_at_repository(void *user, const char *folder) {
    shimmy_finder *finder = user;
    const shimmy_place *hub = &finder->catalog.places[finder->catalog.place_count - 1];
    char directory[SHIMMY_PATH], snapshots[SHIMMY_PATH];
    repository r = {.finder = finder, .directory = directory, .first_found = finder->catalog.found_count};
    if (!repository_name(folder, r.name) || !shimmy_finder_join(finder, hub->path, folder, directory) ||
        !shimmy_finder_join(finder, directory, "snapshots", snapshots))
        return true;
    read_main(&r);
    if (r.main[0]) walk_revision(&r, r.main);
    if (af_os_stat(snapshots).kind == AF_FILE_DIRECTORY) af_os_list(snapshots, walk_revision, &r, NULL);
    return true;
}

void shimmy_find_hub(shimmy_finder *finder, const char *hub) {
    af_error why;
    if (af_os_list(hub, look_at_repository, finder, &why)) shimmy_finder_pass(finder, hub, "%s", why.text);
}
