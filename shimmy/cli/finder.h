/* finder.h - the catalog while it is made: what the places (discover_*.c) share.
 *
 * Bounds, because folders are input too: links may form loops, a home may hold anything. Every folder and file is
 * looked at once (by device and inode), folders to a depth, and all together to a number.
 */
#ifndef SHIMMY_FINDER_H
#define SHIMMY_FINDER_H

#include "base/map.h"
#include "base/os.h"
#include "cli/discover.h"

#define SHIMMY_PATH 4096

typedef struct shimmy_finder {
    shimmy_catalog catalog;
    size_t found_room, passed_room, place_room;
    af_map *seen;       /* device and inode to a number */
    const char **known; /* by that number: the model's name, or NULL for what is no model */
    size_t known_count, known_room;
    bool out_of_memory, full;
} shimmy_finder;

int shimmy_finder_open(shimmy_finder *finder, af_error *error);
/* The catalog, or the error that stopped the search. */
int shimmy_finder_close(shimmy_finder *finder, shimmy_catalog *out, af_error *error);

/* Starts a place: what is taken or passed over from now on is its. False if there is nothing at `path`. */
bool shimmy_finder_place(shimmy_finder *finder, const char *name, const char *path);
void shimmy_finder_pass(shimmy_finder *finder, const char *path, const char *why, ...) AF_PRINTF(3, 4);

/* Takes a file as a model if its header is one's. `name` is what it should be called; `full_name` ends in it and lends
 * more of its components (apart by /) where another model is called so already. */
void shimmy_finder_take(shimmy_finder *finder, const char *path, const char *name, const char *full_name);

/* True the first time a file or folder is met, by any path. Else *name, if not NULL, is the model it is, or NULL. */
bool shimmy_finder_first(shimmy_finder *finder, const af_file_stat *stat, const char **name);

/* directory/name; false if it does not fit (which is then passed over). */
bool shimmy_finder_join(shimmy_finder *finder, const char *directory, const char *name, char out[SHIMMY_PATH]);

/* Calls file(user, path) for each file named *.gguf below a folder, links followed; passes over unfinished downloads.
 */
typedef void (*shimmy_file_fn)(void *user, const char *path);
void shimmy_finder_walk(shimmy_finder *finder, const char *directory, shimmy_file_fn file, void *user);

/* Takes a file under its own name, shards as one; for a folder everything below it. */
void shimmy_finder_file(shimmy_finder *finder, const char *path);
void shimmy_finder_tree(shimmy_finder *finder, const char *directory);

/* A path without ".gguf" and "-00001-of-00003". */
void shimmy_model_stem(const char *path, char out[SHIMMY_PATH]);
/* True for -00002-of-00003 and so on: such a file belongs to the model of its first, which is met by itself. Passes it
 * over if the first is not beside it. */
bool shimmy_is_later_shard(shimmy_finder *finder, const char *path);

/* The formats of places that are more than a folder. */
void shimmy_find_hub(shimmy_finder *finder, const char *hub);
void shimmy_find_ollama(shimmy_finder *finder, const char *models);

#endif
