/* cmd_list.c - `shimmy list` and `shimmy discover`: which models are here, and why others were not taken. */
#include "cli/commands.h"
#include "cli/discover.h"
#include "cli/output.h"

#include <stdio.h>
#include <string.h>

static json_t *found_json(const shimmy_found *found) {
    return json_pack("{s:o, s:o, s:s, s:I, s:o, s:o}", "name", shimmy_json_string(found->name), "path",
                     shimmy_json_string(found->path), "place", found->place, "bytes", (json_int_t)found->bytes,
                     "architecture", shimmy_json_string(found->architecture), "quantization",
                     shimmy_json_string(found->quantization));
}

static json_t *models_json(const shimmy_catalog *catalog) {
    json_t *models = json_array();
    for (size_t i = 0; i < catalog->found_count; i++) json_array_append_new(models, found_json(&catalog->found[i]));
    return models;
}

/* Columns as wide as their longest text (names in characters would be better for scripts that stack; bytes will do). */
static void print_models(const shimmy_catalog *catalog) {
    size_t name = 0, architecture = 0;
    for (size_t i = 0; i < catalog->found_count; i++) {
        const shimmy_found *m = &catalog->found[i];
        if (strlen(m->name) > name) name = strlen(m->name);
        if (strlen(m->architecture) > architecture) architecture = strlen(m->architecture);
    }
    for (size_t i = 0; i < catalog->found_count; i++) {
        const shimmy_found *m = &catalog->found[i];
        char size[SHIMMY_SIZE_TEXT];
        printf("%-*s  %9s  %-*s  %s\n", (int)name, m->name, shimmy_size(m->bytes, size), (int)architecture,
               m->architecture, m->quantization);
    }
}

int shimmy_cmd_list(const shimmy_options *options, af_error *error) {
    shimmy_catalog catalog;
    int status = shimmy_discover(options->model_dirs, &catalog, error);
    if (status) return status;
    if (options->json)
        status = shimmy_print_json(json_pack("{s:o}", "models", models_json(&catalog)), error);
    else
        print_models(&catalog);
    if (!catalog.found_count) shimmy_note("no models found; `shimmy discover` says where they are looked for");
    shimmy_catalog_clear(&catalog);
    return status;
}

/* ---- discover ---- */

static json_t *catalog_json(const shimmy_catalog *catalog) {
    json_t *places = json_array(), *passed = json_array();
    for (size_t i = 0; i < catalog->place_count; i++) {
        const shimmy_place *p = &catalog->places[i];
        json_array_append_new(places,
                              json_pack("{s:s, s:o, s:b, s:I}", "name", p->name, "path", shimmy_json_string(p->path),
                                        "exists", p->exists, "found", (json_int_t)p->found));
    }
    for (size_t i = 0; i < catalog->passed_count; i++) {
        const shimmy_passed *p = &catalog->passed[i];
        json_array_append_new(passed, json_pack("{s:o, s:s, s:o}", "path", shimmy_json_string(p->path), "place",
                                                p->place, "why", shimmy_json_string(p->why)));
    }
    return json_pack("{s:o, s:o, s:o}", "places", places, "models", models_json(catalog), "passed", passed);
}

static void print_place(const shimmy_catalog *catalog, const shimmy_place *place) {
    printf("%s: %s%s\n", place->name, place->path, place->exists ? "" : " (not there)");
    for (size_t i = place->first_found; i < place->first_found + place->found; i++)
        printf("  %s\n      %s\n", catalog->found[i].name, catalog->found[i].path);
    for (size_t i = place->first_passed; i < place->first_passed + place->passed; i++)
        printf("  passed over: %s\n      %s\n", catalog->passed[i].path, catalog->passed[i].why);
}

int shimmy_cmd_discover(const shimmy_options *options, af_error *error) {
    shimmy_catalog catalog;
    int status = shimmy_discover(options->model_dirs, &catalog, error);
    if (status) return status;
    if (options->json) {
        status = shimmy_print_json(catalog_json(&catalog), error);
    } else {
        for (size_t i = 0; i < catalog.place_count; i++) print_place(&catalog, &catalog.places[i]);
    }
    shimmy_catalog_clear(&catalog);
    return status;
}
