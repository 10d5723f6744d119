/* loaded.h - a model in memory: its file, its chat template, its engine, and what requests have to know of it.
 *
 * Made whole on the loader's thread and not changed after, so that whoever holds a reference may read it without a
 * lock; models.h counts the references and says when it ends.
 */
#ifndef SHIMMY_LOADED_H
#define SHIMMY_LOADED_H

#include "base/os.h"
#include "openai/request.h"

#include <stdatomic.h>

/* What encloses thoughts. */
typedef struct shimmy_spans {
    const shimmy_tags *tags; /* NULL: answers are not split */
    int32_t *shown;          /* the control tokens in them */
    size_t shown_count;
} shimmy_spans;

typedef struct shimmy_loaded {
    const char *name; /* what requests call it; the registry's, as long as the server lives */
    char *path;
    af_model *model;
    af_template *template; /* --chat-template, or NULL */
    af_engine *engine;
    af_model_info info;
    shimmy_request_limits limits;
    uint32_t ctx;
    shimmy_spans spans[SHIMMY_REASONINGS]; /* for each way that a request may ask for */

    /* The registry's, under its lock. */
    uint32_t refs;
    uint64_t used;              /* when a request last took or left it, as af_os_nanoseconds has it */
    af_file_stat file;          /* as it was when it was opened */
    struct shimmy_loaded *next; /* of those that no name leads to any more */
    struct shimmy_model_entry *entry;
} shimmy_loaded;

struct shimmy_serve_options;

/* What the loader is asked for. */
typedef struct shimmy_load {
    const char *name, *path;
    bool own;              /* the command line names it: --chat-template and --ctx were meant for it */
    atomic_uint *permille; /* how far it is */
} shimmy_load;

/* Opens model and engine, and says on stderr with which context. On failure nothing stays open. */
int shimmy_loaded_open(const struct shimmy_serve_options *options, const shimmy_load *what, shimmy_loaded **out,
                       af_error *error);
/* Cancels what runs and ends the engine; the model stays for those who hold a reference. */
void shimmy_loaded_stop(shimmy_loaded *loaded);
/* Frees all of it; nobody holds a reference. NULL does nothing. */
void shimmy_loaded_close(shimmy_loaded *loaded);

#endif
