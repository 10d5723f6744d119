/* replay.c - a main() for a fuzz target that runs it over files and folders of inputs, without a fuzzer: what was found
 * once is tested ever after, with any compiler.
 */
#include "base/os.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

static const char *folder;
static unsigned replayed;

static bool replay(void *unused, const char *name) {
    (void)unused;
    char path[1024];
    char *bytes;
    size_t n;
    af_error error = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (af_os_read_file(path, (size_t)1 << 24, &bytes, &n, &error)) {
        fprintf(stderr, "replay: %s\n", error.text);
        exit(2);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)bytes, n);
    af_free(bytes);
    replayed++;
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        af_error error = {0};
        folder = argv[i];
        if (af_os_list(folder, replay, NULL, &error)) return fprintf(stderr, "replay: %s\n", error.text), 2;
    }
    printf("%u inputs\n", replayed);
    return replayed ? 0 : 2;
}
