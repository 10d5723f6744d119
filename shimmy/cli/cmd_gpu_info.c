/* cmd_gpu_info.c - `shimmy gpu-info`: the GPUs there are, and what each can do for us; or why there is none. */
#include "cli/commands.h"
#include "cli/output.h"

#include "airframe.h"

#include <stdio.h>

#define MOST_DEVICES 32

/* ---- JSON ---- */

static json_t *features_json(const af_device_info *d) {
    json_t *features = json_array();
    for (size_t i = 0; i < d->feature_count; i++)
        json_array_append_new(features, json_pack("{s:s, s:b, s:s}", "name", d->features[i].name, "available",
                                                  d->features[i].available, "without", d->features[i].without));
    return features;
}

/* A number that may not be known. */
static json_t *known_json(uint64_t bytes) {
    return bytes ? json_integer((json_int_t)bytes) : json_null();
}

static json_t *device_json(const af_device_info *d, size_t index) {
    char selector[32];
    snprintf(selector, sizeof selector, "gpu:%zu", index);
    return json_pack("{s:s, s:o, s:s, s:o, s:s, s:b, s:o, s:o, s:I, s:I, s:I, s:I, s:[oo], s:o}", "device", selector,
                     "name", shimmy_json_string(d->name), "type", d->type, "driver", shimmy_json_string(d->driver),
                     "backend", d->backend, "preferred", d->preferred, "memory_bytes", known_json(d->memory_bytes),
                     "memory_free", known_json(d->memory_free), "buffer_bytes", (json_int_t)d->buffer_bytes,
                     "binding_bytes", (json_int_t)d->binding_bytes, "workgroup_bytes", (json_int_t)d->workgroup_bytes,
                     "workgroup_threads", (json_int_t)d->workgroup_threads, "subgroup_size",
                     known_json(d->subgroup_min), known_json(d->subgroup_max), "features", features_json(d));
}

static int print_json(const af_device_info *devices, size_t count, const char *library, const char *why,
                      af_error *error) {
    json_t *adapters = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(adapters, device_json(&devices[i], i));
    return shimmy_print_json(json_pack("{s:o, s:s?, s:s?}", "adapters", adapters, "library", library, "why", why),
                             error);
}

/* ---- Text ---- */

static void print_memory(const af_device_info *d) {
    char total[SHIMMY_SIZE_TEXT], unused[SHIMMY_SIZE_TEXT];
    if (!d->memory_bytes)
        printf("  %-18snot known\n", "memory");
    else if (!d->memory_free)
        printf("  %-18s%s\n", "memory", shimmy_size(d->memory_bytes, total));
    else
        printf("  %-18s%s, %s free\n", "memory", shimmy_size(d->memory_bytes, total),
               shimmy_size(d->memory_free, unused));
}

static void print_limits(const af_device_info *d) {
    char buffer[SHIMMY_SIZE_TEXT], binding[SHIMMY_SIZE_TEXT];
    printf("  %-18s%s a buffer, %s a binding\n", "limits", shimmy_size(d->buffer_bytes, buffer),
           shimmy_size(d->binding_bytes, binding));
    printf("  %-18s%u bytes and %u threads a workgroup\n", "", d->workgroup_bytes, d->workgroup_threads);
    if (d->subgroup_max) printf("  %-18ssubgroups of %u to %u\n", "", d->subgroup_min, d->subgroup_max);
}

static void print_device(const af_device_info *d, size_t index) {
    printf("gpu:%zu  %s%s\n", index, d->name, d->preferred ? "  (taken by auto)" : "");
    printf("  %-18s%s\n  %-18s%s\n  %-18s%s\n", "type", d->type, "driver", *d->driver ? d->driver : "not given",
           "backend", d->backend);
    print_memory(d);
    print_limits(d);
    const char *label = "features";
    for (size_t i = 0; i < d->feature_count; i++, label = "") {
        const af_device_feature *f = &d->features[i];
        printf("  %-18s%s: %s%s\n", label, f->name, f->available ? "used" : "missing, ",
               f->available ? "" : f->without);
    }
}

static void print_text(const af_device_info *devices, size_t count, const char *library) {
    for (size_t i = 0; i < count; i++) print_device(&devices[i], i);
    printf("library: %s\n", library);
    if (!devices[0].preferred) puts("auto takes the CPU: a GPU in software is slower, and used only where it is named");
}

int shimmy_cmd_gpu_info(const shimmy_options *options, af_error *error) {
    af_device_info devices[MOST_DEVICES];
    size_t count = 0;
    const char *library = NULL;
    af_error why = {0};
    const int status = af_device_list(devices, MOST_DEVICES, &count, &library, &why);
    if (count > MOST_DEVICES) count = MOST_DEVICES;
    if (options->json) return print_json(devices, count, library, status ? why.text : NULL, error);
    if (status)
        printf("no GPU: %s\n", why.text);
    else
        print_text(devices, count, library);
    return 0;
}
