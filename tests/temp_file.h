/* temp_file.h - files that C tests write: one folder a process, removed at its end. */
#ifndef TEMP_FILE_H
#define TEMP_FILE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char temp_folder[64];

static void temp_remove(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", temp_folder);
    if (system(command) != 0) fprintf(stderr, "%s: not removed\n", temp_folder);
}

/* The path of a file in the folder; valid until the eighth call after. */
static inline const char *temp_path(const char *name) {
    static char paths[8][256];
    static unsigned next;
    if (!temp_folder[0]) {
        strcpy(temp_folder, "/dev/shm/airframe-test-XXXXXX"); /* memory, where there is any: thousands of files */
        if (!mkdtemp(temp_folder)) strcpy(temp_folder, "/tmp/airframe-test-XXXXXX");
        if (temp_folder[1] == 't' && !mkdtemp(temp_folder)) abort();
        atexit(temp_remove);
    }
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", temp_folder, name);
    return path;
}

/* Writes a file, replacing what was there; returns its path. */
static inline const char *temp_write(const char *name, const void *bytes, size_t n) {
    const char *path = temp_path(name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) abort();
    return path;
}

#endif
