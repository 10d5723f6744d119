/* discover.h - which models are on this machine, under which names.
 *
 * Places are looked at in the order of docs/DISCOVERY.md. A file found twice (by device and inode) is one model; shards
 * are one model; Ollama's models go by manifest (name:tag), the hub's by repository and file. Names are unique: where
 * two would be alike, the later gets more of its path. What was looked at and not taken is kept with the reason.
 */
#ifndef SHIMMY_DISCOVER_H
#define SHIMMY_DISCOVER_H

#include "base/arena.h"
#include "base/status.h"

typedef struct shimmy_found {
    const char *name, *path, *place; /* place: what led to it, "SHIMMY_MODEL_PATHS", "Ollama", ... */
    const char *architecture, *quantization;
    uint64_t bytes;
} shimmy_found;

typedef struct shimmy_passed { /* a file or folder looked at and not taken */
    const char *path, *place, *why;
} shimmy_passed;

typedef struct shimmy_place {
    const char *name, *path;
    bool exists;
    size_t first_found, found;   /* its part of the catalog's found */
    size_t first_passed, passed; /* ... and of its passed */
} shimmy_place;

typedef struct shimmy_catalog {
    af_arena *arena; /* owns everything below */
    shimmy_found *found;
    size_t found_count;
    shimmy_passed *passed;
    size_t passed_count;
    shimmy_place *places;
    size_t place_count;
} shimmy_catalog;

/* model_dirs: "A:B" from --model-dirs, in place of SHIMMY_MODEL_PATHS; NULL: not given. */
int shimmy_discover(const char *model_dirs, shimmy_catalog *out, af_error *error);
void shimmy_catalog_clear(shimmy_catalog *catalog);

/* MODEL on the command line: a path that exists, else a name of the catalog (exact, else without its tag, folders or
 * extension, else the only one that begins so). The error lists near names. *path and *name are freed with af_free. */
int shimmy_resolve(const char *model, const char *model_dirs, char **path, char **name, af_error *error);

#endif
