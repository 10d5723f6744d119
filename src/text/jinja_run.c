/* jinja_run.c - one rendering: its limits, its errors, its beginning and end.
 *
 * A hostile template is stopped by four limits: work done (steps, and bytes moved), nesting, memory of the arena and
 * length of the output. All give an error; none depends on time, so the same template on the same request always ends
 * the same way.
 */
#include "base/os.h"
#include "text/jinja_ast.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_DEPTH = 1000,           /* nested evaluations: some hundred macros in one another */
    MAX_WORK = 25 * 1000 * 1000 /* a second or two at most */
};
static const size_t max_memory = (size_t)256 << 20;
static const size_t max_output = (size_t)64 << 20;

int af_j_fail(j_run *run, const char *format, ...) {
    if (run->status) return run->status;
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (run->at)
        run->status = af_fail(run->error, AF_EFORMAT, "line %u, column %u: %s", run->at->line, run->at->column, what);
    else
        run->status = af_fail(run->error, AF_EFORMAT, "%s", what);
    return run->status;
}

int af_j_work(j_run *run, size_t units) {
    run->work += units;
    if (run->work > MAX_WORK) return af_j_fail(run, "the template does more work than is allowed");
    return run->status;
}

void *af_j_alloc(j_run *run, size_t size) {
    if (run->status) return NULL;
    void *p = af_arena_alloc(run->arena, size);
    if (!p) af_j_fail(run, "the template needs more memory than is allowed (%zu MB)", max_memory >> 20);
    return p;
}

int af_j_enter(j_run *run) {
    if (run->depth >= MAX_DEPTH) return af_j_fail(run, "nested more than %d deep", MAX_DEPTH);
    run->depth++;
    return 0;
}

/* ---- The variables a template starts with ---- */

static int set_token(j_run *run, const j_string *name, const char *text) {
    if (!text) return 0;
    j_value v;
    int status = af_j_string(run, text, strlen(text), 0, &v);
    return status ? status : af_j_scope_set(run, run->globals, name, v);
}

/* Only what the template mentions is converted. */
static int set_variables(j_run *run, const json_t *variables) {
    const char *key;
    json_t *item;
    json_object_foreach((json_t *)variables, key, item) {
        const j_string *name = af_j_symbol(run->jinja, key, strlen(key));
        if (!name) continue;
        j_value v;
        int status = af_j_from_json(run, item, 1, &v);
        if (!status) status = af_j_scope_set(run, run->globals, name, v);
        if (status) return status;
    }
    return run->status;
}

/* "2025-07-04 12:00", or the clock for NULL. */
static int set_clock(j_run *run, const char *now) {
    if (!now) {
        af_os_local_time(&run->now);
        return 0;
    }
    int year, month, day, hour, minute, end = -1;
    sscanf(now, "%4d-%2d-%2d %2d:%2d%n", &year, &month, &day, &hour, &minute, &end);
    if (end < 0 || now[end]) goto bad;
    struct tm t = {.tm_year = year - 1900, .tm_mon = month - 1, .tm_mday = day, .tm_hour = hour, .tm_min = minute};
    struct tm given = t;
    if (timegm(&t) == -1 || t.tm_mday != given.tm_mday || t.tm_mon != given.tm_mon || t.tm_hour != given.tm_hour)
        goto bad;
    run->now = t;
    return 0;
bad:
    run->status = af_fail(run->error, AF_EINVAL, "now: found '%s', expected YYYY-MM-DD HH:MM", now);
    return run->status;
}

static int start(j_run *run, const af_jinja_context *context) {
    run->globals = af_j_scope_new(run, NULL);
    if (!run->globals) return run->status;
    int status = set_clock(run, context->now);
    if (!status) status = set_token(run, run->jinja->bos, context->bos);
    if (!status) status = set_token(run, run->jinja->eos, context->eos);
    if (!status && context->variables) status = set_variables(run, context->variables);
    return status;
}

int af_jinja_render(const af_jinja *jinja, const af_jinja_context *context, af_buf *text, af_buf *origin,
                    af_error *error) {
    j_run run = {.jinja = jinja, .error = error, .arena = af_arena_open(max_memory)};
    if (!run.arena) return af_fail_memory(error, max_memory, "template");
    size_t ceiling = text->ceiling;
    if (!text->ceiling || text->ceiling > max_output) text->ceiling = max_output;
    j_text out;
    af_j_text_open(&out, &run);
    out.text = text;
    out.origin = origin;
    run.out = &out;
    int status = start(&run, context);
    if (!status) status = af_j_exec(&run, run.globals, jinja->body);
    text->ceiling = ceiling;
    af_arena_close(run.arena);
    return status < 0 ? status : run.status;
}
