/* session.h - from options to an open model and engine, for the commands that run once and leave. */
#ifndef SHIMMY_SESSION_H
#define SHIMMY_SESSION_H

#include "cli/options.h"

typedef struct shimmy_session {
    char *path, *name;
    af_model *model;
    af_engine *engine; /* NULL unless opened */
    double load_ms;    /* opening both */
} shimmy_session;

/* Resolves MODEL (a path or a discovered name) and opens the file. On failure nothing stays open. */
int shimmy_session_model(const shimmy_options *options, const char *model, af_load load, shimmy_session *out,
                         af_error *error);
/* The same and an engine with these options, with a progress line on a terminal. */
int shimmy_session_engine(const shimmy_options *options, const char *model, const af_engine_options *engine,
                          shimmy_session *out, af_error *error);
void shimmy_session_close(shimmy_session *session);

/* The command line's engine options; `parallel` where it gives none. */
int shimmy_engine_options(const shimmy_options *options, uint32_t parallel, af_engine_options *out, af_error *error);

/* A line on standard error that shows how far loading is, when that is a terminal and takes long enough to be read.
 * The progress argument of an engine: start(), the line, done(). */
typedef struct shimmy_progress {
    const char *name;
    uint64_t started; /* nanoseconds */
    int shown;        /* percent on the screen, -1: none */
} shimmy_progress;
void shimmy_progress_start(shimmy_progress *progress, const char *name, af_engine_options *engine);
void shimmy_progress_done(shimmy_progress *progress);

#endif
