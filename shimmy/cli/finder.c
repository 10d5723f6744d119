/* finder.c - taking, naming and passing over (finder.h). Everything lives in the catalog's arena: lists double there
 * and leave their old halves behind, which costs little at these sizes. */
#include "cli/finder.h"

#include "base/utf8.h"
#include "cli/output.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define ARENA_CEILING ((size_t)64 << 20)
#define SEEN_ROOM     32768 /* files and folders together */

int shimmy_finder_open(shimmy_finder *finder, af_error *error) {
    *finder = (shimmy_finder){0};
    finder->catalog.arena = af_arena_open(ARENA_CEILING);
    finder->seen = af_map_open(SEEN_ROOM);
    if (finder->catalog.arena && finder->seen) return 0;
    af_map_close(finder->seen);
    shimmy_catalog_clear(&finder->catalog);
    return af_fail_memory(error, SEEN_ROOM * sizeof(uint64_t), "the list of models");
}

int shimmy_finder_close(shimmy_finder *finder, shimmy_catalog *out, af_error *error) {
    af_map_close(finder->seen);
    if (finder->out_of_memory) {
        shimmy_catalog_clear(&finder->catalog);
        return af_fail_memory(error, ARENA_CEILING, "the list of models");
    }
    *out = finder->catalog;
    return 0;
}

void shimmy_catalog_clear(shimmy_catalog *catalog) {
    af_arena_close(catalog->arena);
    *catalog = (shimmy_catalog){0};
}

/* ---- Lists and strings in the arena ---- */

static const char *keep(shimmy_finder *finder, const char *text) {
    const char *copy = af_arena_copy(finder->catalog.arena, text, strlen(text));
    if (!copy) finder->out_of_memory = true;
    return copy ? copy : "";
}

/* Room for one more element; the list may move. */
static bool grow(shimmy_finder *finder, void **list, size_t count, size_t *room, size_t size) {
    if (count < *room) return true;
    const size_t wanted = *room ? *room * 2 : 16;
    void *larger = af_arena_array(finder->catalog.arena, wanted, size);
    if (!larger) {
        finder->out_of_memory = true;
        return false;
    }
    if (count) memcpy(larger, *list, count * size);
    *list = larger;
    *room = wanted;
    return true;
}

static shimmy_place *current_place(shimmy_finder *finder) {
    return &finder->catalog.places[finder->catalog.place_count - 1];
}

bool shimmy_finder_place(shimmy_finder *finder, const char *name, const char *path) {
    shimmy_catalog *c = &finder->catalog;
    void *list = c->places;
    if (!grow(finder, &list, c->place_count, &finder->place_room, sizeof *c->places)) return false;
    c->places = list;
    c->places[c->place_count++] = (shimmy_place){
        .name = keep(finder, name),
        .path = keep(finder, path),
        .exists = af_os_stat(path).kind != AF_FILE_NONE,
        .first_found = c->found_count,
        .first_passed = c->passed_count,
    };
    return current_place(finder)->exists;
}

void shimmy_finder_pass(shimmy_finder *finder, const char *path, const char *why, ...) {
    shimmy_catalog *c = &finder->catalog;
    void *list = c->passed;
    if (!grow(finder, &list, c->passed_count, &finder->passed_room, sizeof *c->passed)) return;
    c->passed = list;
    char text[768];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    c->passed[c->passed_count++] =
        (shimmy_passed){.path = keep(finder, path), .place = current_place(finder)->name, .why = keep(finder, text)};
    current_place(finder)->passed++;
}

bool shimmy_finder_join(shimmy_finder *finder, const char *directory, const char *name, char out[SHIMMY_PATH]) {
    const size_t n = strlen(directory);
    const char *slash = n && directory[n - 1] == '/' ? "" : "/";
    const int length = snprintf(out, SHIMMY_PATH, "%s%s%s", directory, slash, name);
    if (length >= 0 && length < SHIMMY_PATH) return true;
    shimmy_finder_pass(finder, directory, "the path of an entry in it is longer than %d bytes", SHIMMY_PATH - 1);
    return false;
}

/* ---- Once each ---- */

static bool too_many(shimmy_finder *finder) {
    if (finder->known_count < SEEN_ROOM) return false;
    if (!finder->full) shimmy_finder_pass(finder, current_place(finder)->path, "more than %d entries", SEEN_ROOM);
    finder->full = true;
    return true;
}

bool shimmy_finder_first(shimmy_finder *finder, const af_file_stat *stat, const char **name) {
    const uint64_t identity[2] = {stat->device, stat->inode};
    uint32_t number;
    if (name) *name = NULL;
    if (af_map_get(finder->seen, af_slice_of((const char *)identity, sizeof identity), &number)) {
        if (name) *name = finder->known[number];
        return false;
    }
    void *list = finder->known;
    const char *key = af_arena_copy(finder->catalog.arena, (const char *)identity, sizeof identity);
    if (too_many(finder)) return false;
    if (!key || !grow(finder, &list, finder->known_count, &finder->known_room, sizeof *finder->known)) {
        finder->out_of_memory = true;
        return false;
    }
    finder->known = list;
    finder->known[finder->known_count] = NULL;
    return af_map_put(finder->seen, af_slice_of(key, sizeof identity), (uint32_t)finder->known_count++);
}

/* ---- Names ---- */

static bool name_taken(const shimmy_catalog *catalog, const char *name) {
    for (size_t i = 0; i < catalog->found_count; i++)
        if (strcmp(catalog->found[i].name, name) == 0) return true;
    return false;
}

/* A name is printed on one line and sent as JSON: control characters and bytes that are no UTF-8 become '_'. */
static char *plain_name(shimmy_finder *finder, const char *text) {
    char *name = af_arena_copy(finder->catalog.arena, text, strlen(text));
    if (!name) {
        finder->out_of_memory = true;
        return NULL;
    }
    for (char *p = name; *p;) {
        uint32_t codepoint;
        const size_t n = af_utf8_decode(p, strlen(p), &codepoint);
        if (!n || codepoint < 32 || codepoint == 127) *p = '_';
        p += n ? n : 1;
    }
    return name;
}

/* `name`, or so much more of full_name's end as makes it the only one. */
static const char *unique_name(shimmy_finder *finder, const char *name, const char *full_name) {
    const char *plain = plain_name(finder, name);
    const char *whole = plain_name(finder, full_name);
    if (!plain || !whole || !name_taken(&finder->catalog, plain)) return plain;
    const char *from = whole + strlen(whole) - strlen(plain);
    while (from > whole && name_taken(&finder->catalog, from)) {
        from -= from[-1] == '/';
        while (from > whole && from[-1] != '/') from--;
    }
    return from;
}

/* ---- Taking ---- */

/* Files that are GGUF and no language model, by general.architecture. */
static const char *other_kind(const af_model_info *info) {
    if (strcmp(info->architecture, "clip") == 0) return "a projector for images or sound, not a language model";
    if (!info->tensors) return "a vocabulary without tensors";
    if (!info->vocabulary) return "no vocabulary in it: an adapter or another part of a model";
    return info->runnable ? NULL : shimmy_without_path(info->why_not, info->path);
}

static bool push_found(shimmy_finder *finder, const char *path, const char *name, const char *full_name,
                       const af_model_info *info) {
    shimmy_catalog *c = &finder->catalog;
    void *list = c->found;
    if (!grow(finder, &list, c->found_count, &finder->found_room, sizeof *c->found)) return false;
    c->found = list;
    const char *unique = unique_name(finder, name, full_name);
    if (!unique) return false;
    c->found[c->found_count++] = (shimmy_found){
        .name = unique,
        .path = keep(finder, path),
        .place = current_place(finder)->name,
        .architecture = keep(finder, info->architecture),
        .quantization = keep(finder, info->quantization),
        .bytes = info->file_bytes,
    };
    current_place(finder)->found++;
    return true;
}

void shimmy_finder_take(shimmy_finder *finder, const char *path, const char *name, const char *full_name) {
    const af_file_stat stat = af_os_stat(path);
    if (stat.kind != AF_FILE_REGULAR) {
        shimmy_finder_pass(finder, path, stat.kind == AF_FILE_NONE ? "a link to nothing" : "no file");
        return;
    }
    const char *before;
    if (!shimmy_finder_first(finder, &stat, &before)) {
        if (before) shimmy_finder_pass(finder, path, "the same file as %s", before);
        return;
    }
    const size_t number = finder->known_count - 1;
    const af_model_options header = {.load = AF_LOAD_HEADER};
    af_model *model;
    af_error why;
    if (af_model_open(path, &header, &model, &why)) {
        shimmy_finder_pass(finder, path, "%s", shimmy_without_path(why.text, path));
        return;
    }
    af_model_info info;
    af_model_get_info(model, &info);
    const char *other = other_kind(&info);
    if (other)
        shimmy_finder_pass(finder, path, "%s", other);
    else if (push_found(finder, path, name, full_name, &info))
        finder->known[number] = finder->catalog.found[finder->catalog.found_count - 1].name;
    af_model_close(model);
}
