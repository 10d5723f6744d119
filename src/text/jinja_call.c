/* jinja_call.c - what can be called: macros, loops, globals. */
#include "text/jinja_ast.h"

#include <string.h>

int af_j_call(j_run *run, const j_value *callee, j_args *args, j_value *out) {
    static const j_string empty = {.p = ""};
    switch (callee->kind) {
    case J_MACRO:
        return af_j_call_macro(run, callee->macro, args, out);
    case J_FUNCTION:
        return af_j_call_function(run, callee->function, args, out);
    case J_METHOD:
        args->self = callee->method->self;
        return af_j_call_function(run, callee->method->function, args, out);
    case J_LOOP:
        return af_j_loop_recurse(run, callee->loop, args, out);
    case J_JOINER:
        *out = callee->cycler->at++ ? callee->cycler->items->items[0] : af_j_of_string(&empty);
        return 0;
    case J_UNDEFINED:
        return af_j_fail_undefined(run, callee);
    default:
        return af_j_fail(run, "a value of type %s cannot be called", af_j_type_name(callee));
    }
}

/* ---- Macros ---- */

static bool is_parameter(j_run *run, const j_signature *signature, const j_string *name) {
    af_j_work(run, signature->n / 16);
    for (size_t i = 0; i < signature->n; i++)
        if (af_j_string_equal(signature->names[i], name)) return true;
    return false;
}

static const j_value *keyword_named(j_run *run, const j_args *args, const j_string *name) {
    af_j_work(run, args->n_keywords / 16);
    for (size_t i = 0; i < args->n_keywords; i++)
        if (af_j_string_equal(args->keywords[i].name, name)) return &args->keywords[i].value;
    return NULL;
}

static int bind_given(j_run *run, j_scope *scope, const j_string *name, size_t i, const j_args *args) {
    const j_value *keyword = keyword_named(run, args, name);
    if (keyword && i < args->n) return af_j_fail(run, "argument '%.*s' is given twice", (int)name->n, name->p);
    j_value v = af_j_undefined(name, J_PLAIN);
    if (i < args->n)
        v = args->items[i];
    else if (keyword)
        v = *keyword;
    return af_j_scope_set(run, scope, name, v);
}

/* A default sees the parameters, itself as undefined. */
static int bind_default(j_run *run, j_scope *scope, const j_signature *signature, size_t i, const j_args *args) {
    j_value v;
    if (!signature->defaults[i] || i < args->n || keyword_named(run, args, signature->names[i])) return 0;
    if (af_j_eval(run, scope, signature->defaults[i], &v)) return run->status;
    return af_j_scope_set(run, scope, signature->names[i], v);
}

static int bind_varargs(j_run *run, j_scope *scope, const j_macro *macro, const j_args *args) {
    size_t named = macro->signature->n, extra = args->n > named ? args->n - named : 0;
    if (!macro->signature->uses_varargs)
        return extra ? af_j_fail(run, "macro '%.*s': found %zu arguments, at most %zu", (int)macro->name->n,
                                 macro->name->p, args->n, named)
                     : 0;
    j_list *list = af_j_list_new(run, extra);
    for (size_t i = 0; list && i < extra; i++) af_j_list_push(run, list, args->items[named + i]);
    return list ? af_j_scope_set(run, scope, run->jinja->varargs, af_j_of_list(J_TUPLE, list)) : run->status;
}

static int bind_kwargs(j_run *run, j_scope *scope, const j_macro *macro, const j_args *args) {
    j_dict *dict = af_j_dict_new(run, 0);
    if (!dict) return run->status;
    for (size_t i = 0; i < args->n_keywords; i++) {
        const j_keyword *k = &args->keywords[i];
        if (is_parameter(run, macro->signature, k->name)) continue;
        if (macro->signature->uses_caller && af_j_string_equal(k->name, run->jinja->caller)) continue;
        if (!macro->signature->uses_kwargs)
            return af_j_fail(run, "macro '%.*s' has no argument '%.*s'", (int)macro->name->n, macro->name->p,
                             (int)k->name->n, k->name->p);
        if (af_j_dict_set(run, dict, af_j_of_string(k->name), k->value)) return run->status;
    }
    if (!macro->signature->uses_kwargs) return 0;
    return af_j_scope_set(run, scope, run->jinja->kwargs, af_j_of_dict(dict));
}

static int bind_caller(j_run *run, j_scope *scope, const j_macro *macro, const j_args *args) {
    const j_string *name = run->jinja->caller;
    if (!macro->signature->uses_caller || is_parameter(run, macro->signature, name)) return 0;
    const j_value *given = keyword_named(run, args, name);
    return af_j_scope_set(run, scope, name, given ? *given : af_j_undefined(name, J_PLAIN));
}

int af_j_call_macro(j_run *run, const j_macro *macro, const j_args *args, j_value *out) {
    if (af_j_enter(run)) return run->status;
    j_scope *scope = af_j_scope_new(run, macro->scope);
    int status = scope ? 0 : run->status;
    for (size_t i = 0; !status && i < macro->signature->n; i++)
        status = bind_given(run, scope, macro->signature->names[i], i, args);
    for (size_t i = 0; !status && i < macro->signature->n; i++)
        status = bind_default(run, scope, macro->signature, i, args);
    if (!status) status = bind_varargs(run, scope, macro, args);
    if (!status) status = bind_kwargs(run, scope, macro, args);
    if (!status) status = bind_caller(run, scope, macro, args);
    if (!status) status = af_j_capture(run, scope, macro->body, out);
    run->depth--;
    return status;
}

/* ---- Loops ---- */

static int loop_neighbour(const j_loop *loop, int64_t at, j_value *out) {
    bool there = at >= 0 && at < (int64_t)loop->items->n;
    *out = there ? loop->items->items[at] : af_j_undefined(NULL, J_LOOP);
    return 0;
}

int af_j_loop_attribute(j_run *run, j_loop *loop, const j_string *name, j_value *out, bool *found) {
    (void)run;
    int64_t at = (int64_t)loop->at, n = (int64_t)loop->items->n;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {{"index", at + 1},         {"index0", at}, {"revindex", n - at},
                   {"revindex0", n - at - 1}, {"length", n},  {"depth", loop->depth + 1},
                   {"depth0", loop->depth}};
    *found = true;
    if (af_j_string_is(name, "first") || af_j_string_is(name, "last")) {
        *out = af_j_bool(name->n == 5 ? at == 0 : at == n - 1);
        return 0;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!af_j_string_is(name, numbers[i].name)) continue;
        *out = af_j_int(numbers[i].value);
        return 0;
    }
    if (af_j_string_is(name, "previtem")) return loop_neighbour(loop, at - 1, out);
    if (af_j_string_is(name, "nextitem")) return loop_neighbour(loop, at + 1, out);
    *found = false;
    return 0;
}

int af_j_loop_recurse(j_run *run, j_loop *loop, const j_args *args, j_value *out) {
    if (!loop->node->recursive) return af_j_fail(run, "the loop is not marked recursive");
    if (args->n != 1 || args->n_keywords) return af_j_fail(run, "loop: found %zu arguments, expected 1", args->n);
    if (af_j_enter(run)) return run->status;
    j_text text, *outer = run->out;
    af_j_text_open(&text, run);
    run->out = &text;
    int status = af_j_exec_for(run, loop->scope, loop->node, &args->items[0], loop->depth + 1);
    run->out = outer;
    run->depth--;
    return status < 0 ? status : af_j_text_done(&text, out);
}

static int loop_cycle(j_run *run, const j_args *args, j_value *out) {
    if (args->n == 0) return af_j_fail(run, "loop.cycle: no items");
    *out = args->items[args->self.loop->at % args->n];
    return 0;
}

static int loop_changed(j_run *run, const j_args *args, j_value *out) {
    j_loop *loop = args->self.loop;
    j_list *now = af_j_list_new(run, args->n);
    for (size_t i = 0; now && i < args->n; i++) af_j_list_push(run, now, args->items[i]);
    if (!now) return run->status;
    bool same = loop->changed != NULL;
    if (same) {
        const j_value a = af_j_of_list(J_LIST, now), b = {.kind = J_LIST, .list = loop->changed};
        same = af_j_equal(run, &a, &b);
    }
    loop->changed = now;
    *out = af_j_bool(!same);
    return run->status;
}

const j_function af_j_loop_methods[] = {{"cycle", NULL, loop_cycle}, {"changed", NULL, loop_changed}, {0}};

/* ---- Cyclers and joiners ---- */

static int cycler_next(j_run *run, const j_args *args, j_value *out) {
    (void)run;
    j_cycler *c = args->self.cycler;
    *out = c->items->items[c->at];
    c->at = (c->at + 1) % c->items->n;
    return 0;
}

static int cycler_reset(j_run *run, const j_args *args, j_value *out) {
    (void)run;
    args->self.cycler->at = 0;
    *out = af_j_none();
    return 0;
}

const j_function af_j_cycler_methods[] = {{"next", "", cycler_next}, {"reset", "", cycler_reset}, {0}};

static int make_cycler(j_run *run, j_kind kind, const j_value *items, size_t n, j_value *out) {
    j_cycler *c = af_j_alloc(run, sizeof *c);
    j_list *list = af_j_list_new(run, n);
    if (!c || !list) return run->status;
    for (size_t i = 0; i < n; i++) af_j_list_push(run, list, items[i]);
    *c = (j_cycler){.items = list};
    *out = (j_value){.kind = (uint8_t)kind, .cycler = c};
    return run->status;
}

static int global_cycler(j_run *run, const j_args *args, j_value *out) {
    if (args->n == 0) return af_j_fail(run, "cycler: no items");
    return make_cycler(run, J_CYCLER, args->items, args->n, out);
}

static int global_joiner(j_run *run, const j_args *args, j_value *out) {
    static const j_string comma = {.p = ", ", .n = 2};
    j_value separator = args->bound[0];
    const j_string *text;
    if (!af_j_given(&separator)) separator = af_j_of_string(&comma);
    if (af_j_need_string(run, &separator, "joiner", &text)) return run->status;
    return make_cycler(run, J_JOINER, &separator, 1, out);
}

/* ---- Other globals ---- */

static uint64_t range_count(int64_t start, int64_t stop, int64_t step) {
    if (step > 0 ? start >= stop : start <= stop) return 0;
    return (af_j_distance(start, stop, step) - 1) / af_j_stride(step) + 1;
}

static int global_range(j_run *run, const j_args *args, j_value *out) {
    enum { MAX_RANGE = 100000 };
    int64_t part[3] = {0, 0, 1};
    if (args->n < 1 || args->n > 3 || args->n_keywords)
        return af_j_fail(run, "range: found %zu arguments, expected 1 to 3", args->n);
    for (size_t i = 0; i < args->n; i++)
        if (af_j_need_int(run, &args->items[i], "range", &part[args->n == 1 ? 1 : i])) return run->status;
    if (part[2] == 0) return af_j_fail(run, "range: a step of zero");
    const uint64_t n = range_count(part[0], part[1], part[2]);
    if (n > MAX_RANGE) return af_j_fail(run, "range: %llu items, at most %d", (unsigned long long)n, MAX_RANGE);
    j_range *range = af_j_alloc(run, sizeof *range);
    if (!range) return run->status;
    *range = (j_range){.start = part[0], .stop = part[1], .step = part[2], .n = (size_t)n};
    *out = (j_value){.kind = J_RANGE, .range = range};
    return 0;
}

static int add_pair(j_run *run, j_dict *dict, const j_value *pair) {
    const j_list *two;
    if (af_j_to_list(run, pair, &two)) return run->status;
    if (two->n != 2) return af_j_fail(run, "dict: found %zu values, expected a pair", two->n);
    return af_j_dict_set(run, dict, two->items[0], two->items[1]);
}

static int add_all(j_run *run, j_dict *dict, const j_value *from) {
    if (from->kind == J_DICT) {
        for (size_t i = 0; i < from->dict->n; i++)
            if (af_j_dict_set(run, dict, from->dict->pairs[i].key, from->dict->pairs[i].value)) break;
        return run->status;
    }
    const j_list *pairs;
    if (af_j_to_list(run, from, &pairs)) return run->status;
    for (size_t i = 0; i < pairs->n; i++)
        if (add_pair(run, dict, &pairs->items[i])) break;
    return run->status;
}

static int global_dict(j_run *run, const j_args *args, j_value *out) {
    if (args->n > 1) return af_j_fail(run, "dict: found %zu arguments, at most 1", args->n);
    j_dict *dict = af_j_dict_new(run, args->n_keywords);
    if (!dict || (args->n && add_all(run, dict, &args->items[0]))) return run->status;
    for (size_t i = 0; i < args->n_keywords; i++)
        if (af_j_dict_set(run, dict, af_j_of_string(args->keywords[i].name), args->keywords[i].value)) break;
    *out = af_j_of_dict(dict);
    return run->status;
}

static int global_namespace(j_run *run, const j_args *args, j_value *out) {
    int status = global_dict(run, args, out);
    out->kind = J_NAMESPACE;
    return status;
}

static int global_raise(j_run *run, const j_args *args, j_value *out) {
    (void)out;
    const j_string *message;
    if (af_j_str(run, &args->bound[0], &message)) return run->status;
    run->status = af_fail(run->error, AF_ETEMPLATE, "%.*s", (int)(message->n < 4096 ? message->n : 4096), message->p);
    return run->status;
}

/* %f and the zone are Python's for a time without either; the rest is the C library's. */
static int global_strftime(j_run *run, const j_args *args, j_value *out) {
    const j_string *format;
    if (af_j_need_string(run, &args->bound[0], "strftime_now", &format)) return run->status;
    j_text t;
    af_j_text_open(&t, run);
    for (size_t at = 0; at < format->n && !af_j_work(run, 4); at++) {
        char directive[4] = "%", text[200];
        if (format->p[at] != '%' || at + 1 >= format->n) {
            af_j_text_part(&t, format, at, at + 1);
            continue;
        }
        size_t n = 1;
        if (strchr("-_0^#", format->p[at + 1]) && at + 2 < format->n) directive[n++] = format->p[++at];
        directive[n] = format->p[++at];
        if (directive[1] == 'f')
            af_j_text_c(&t, "000000", 0);
        else if (!strchr("zZ", directive[n]))
            af_j_text_bytes(&t, text, strftime(text, sizeof text, directive, &run->now), 0);
    }
    return af_j_text_done(&t, out);
}

const j_function af_j_globals[] = {
    {"range", NULL, global_range},
    {"dict", NULL, global_dict},
    {"namespace", NULL, global_namespace},
    {"cycler", NULL, global_cycler},
    {"joiner", "sep?", global_joiner},
    {"raise_exception", "message", global_raise},
    {"strftime_now", "format", global_strftime},
    {0},
};
