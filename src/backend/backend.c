/* backend.c - the table of backends. */
#include "backend/backend.h"

#include <string.h>

typedef struct device {
    const char *name;
    int (*open)(const af_plan *plan, const af_backend_options *options, af_backend **out, af_error *error);
} device;

/* "auto" takes the first: the fastest comes first. */
static const device devices[] = {{"cpu", af_cpu_open}};

#define DEVICE_COUNT (sizeof devices / sizeof *devices)

static int fail_unknown(const char *name, af_error *error) {
    char names[128] = "auto";
    for (size_t i = 0; i < DEVICE_COUNT; i++) {
        strncat(names, ", ", sizeof names - strlen(names) - 1);
        strncat(names, devices[i].name, sizeof names - strlen(names) - 1);
    }
    return af_fail(error, AF_EUNSUPPORTED, "device \"%s\": not one of those there are (%s)", name, names);
}

int af_backend_open(const char *name, const af_plan *plan, const af_backend_options *options, af_backend **out,
                    af_error *error) {
    if (!name || strcmp(name, "auto") == 0) return devices[0].open(plan, options, out, error);
    for (size_t i = 0; i < DEVICE_COUNT; i++)
        if (strcmp(name, devices[i].name) == 0) return devices[i].open(plan, options, out, error);
    return fail_unknown(name, error);
}
