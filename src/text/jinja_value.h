/* jinja_value.h - what a template computes with: Python's values, and the state of one rendering.
 *
 * Values are passed by value (16 bytes) and never change once a template can see them; what they point to lives in the
 * arena of the rendering (or, for constants, of the parsed template) and is freed with it. Nothing is counted or
 * collected. The exceptions to immutability are those that Jinja has: namespaces, cyclers, joiners and used-up
 * generators.
 *
 * A string carries the origin of each of its bytes. Most strings are of one origin, so the array is there only for
 * mixed ones. Numbers and truth values carry one origin for the digits that they print.
 *
 * Functions return 0 or a negative af_status, with the message in run->error. A j_text (string under construction) is
 * sticky instead: append at will, ask once at af_j_text_done().
 */
#ifndef AF_JINJA_VALUE_H
#define AF_JINJA_VALUE_H

#include "base/arena.h"
#include "text/jinja.h"

#include <time.h>

typedef enum j_kind {
    J_ABSENT, /* an argument that was not given; templates never see it */
    J_UNDEFINED,
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STRING,
    J_LIST,
    J_TUPLE,
    J_GENERATOR, /* what lazy filters give: a list that can be gone through once, always true, without length */
    J_VIEW,      /* dict.items(), keys(), values(): a list without indexes */
    J_DICT,
    J_RANGE,
    J_NAMESPACE,
    J_LOOP,
    J_MACRO,
    J_FUNCTION,
    J_METHOD, /* a function with the value it was taken from */
    J_CYCLER,
    J_JOINER,
    J_KINDS
} j_kind;

typedef struct j_string {
    const char *p;          /* valid UTF-8; may hold NUL */
    const uint8_t *origins; /* n bytes, or NULL where every byte is of `origin` */
    size_t n;
    uint8_t origin;
    bool markup; /* went through `safe` or `escape`: `+` escapes what is added to it */
} j_string;

typedef struct j_list j_list;
typedef struct j_dict j_dict;
typedef struct j_generator j_generator;
typedef struct j_range j_range;
typedef struct j_loop j_loop;
typedef struct j_macro j_macro;
typedef struct j_function j_function;
typedef struct j_method j_method;
typedef struct j_cycler j_cycler;

/* What j_value.of may hold: for an undefined value beside a j_kind, and for a tuple. */
enum { J_PLAIN = 0, J_GROUP = 254, J_UNSAFE = 255 };

typedef struct j_value {
    uint8_t kind;
    uint8_t origin; /* of numbers, truth values and none */
    /* Undefined: the kind of the value that lacks `string`, J_PLAIN for a variable, J_UNSAFE for a method refused.
     * Tuple: J_GROUP for groupby's, which have names for their two items. View: keys, values or items. */
    uint8_t of;
    union {
        bool boolean;
        int64_t integer;
        double real;
        const j_string *string; /* also the name of what is undefined, or NULL */
        j_list *list;           /* J_LIST, J_TUPLE, J_VIEW */
        j_dict *dict;           /* J_DICT, J_NAMESPACE */
        j_generator *generator;
        const j_range *range;
        j_loop *loop;
        const j_macro *macro;
        const j_function *function;
        const j_method *method;
        j_cycler *cycler; /* J_CYCLER, J_JOINER */
    };
} j_value;

struct j_list {
    j_value *items;
    size_t n, cap;
};

typedef struct j_pair {
    j_value key, value;
} j_pair;

/* Ordered by insertion; index is built when the first look-up finds more than a few pairs. */
struct j_dict {
    j_pair *pairs;
    size_t n, cap;
    uint32_t *index; /* slots entries, a power of two: place of a pair plus one, 0 for free */
    size_t slots;
};

struct j_generator {
    const j_list *list;
    bool used;
};

struct j_range {
    int64_t start, stop, step;
    size_t n;
};

/* Unsigned on the way: the distance between two numbers of a range may take all 64 bits. */
static inline int64_t af_j_range_item(const j_range *range, size_t i) {
    return (int64_t)((uint64_t)range->start + i * (uint64_t)range->step);
}
/* How far apart the numbers of a range are, whatever its direction. */
static inline uint64_t af_j_stride(int64_t step) {
    return step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
}
/* From `from` to `to` in the direction of `step`, where they lie that way round. */
static inline uint64_t af_j_distance(int64_t from, int64_t to, int64_t step) {
    return step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
}

struct j_cycler {
    const j_list *items; /* of a joiner: the separator */
    size_t at;
};

typedef struct j_keyword {
    const j_string *name;
    j_value value;
} j_keyword;

enum { J_MAX_PARAMS = 6 };

/* What a function is called with. `bound` holds the parameters its table entry names, J_ABSENT where not given. */
typedef struct j_args {
    j_value self; /* the filtered or tested value, or the owner of a method */
    const j_value *items;
    const j_keyword *keywords;
    size_t n, n_keywords;
    j_value bound[J_MAX_PARAMS];
} j_args;

typedef struct j_run j_run;
typedef int (*j_native)(j_run *run, const j_args *args, j_value *out);

/* An entry of the tables of filters, tests, methods and globals. params names the parameters, apart by spaces, with '?'
 * behind those that may be left out; NULL leaves items and keywords to the function. A NULL call is a name that exists
 * and is refused, because it would change the value. */
struct j_function {
    const char *name;
    const char *params;
    j_native call;
};

struct j_method {
    j_value self;
    const j_function *function;
};

typedef struct j_node j_node;
typedef struct j_text j_text;
typedef struct j_scope j_scope;

/* One rendering. */
struct j_run {
    const af_jinja *jinja;
    af_arena *arena;
    af_error *error;
    int status;       /* the first error's, or 0 */
    const j_node *at; /* being evaluated: where errors say they are */
    uint64_t work;    /* steps and bytes done so far */
    unsigned depth;   /* of nested evaluation */
    j_text *out;      /* where statements print */
    j_scope *globals;
    struct tm now;
};

/* ---- Running (jinja_run.c) ---- */

/* "line 3, column 7: ..."; the first error stays. Returns its status. */
int af_j_fail(j_run *run, const char *format, ...) AF_PRINTF(2, 3);
/* Counts `units` of work (a unit is about a node evaluated or 64 bytes moved); fails when the limit is reached. */
int af_j_work(j_run *run, size_t units);
void *af_j_alloc(j_run *run, size_t size); /* NULL after a failure */
/* One level deeper, to be left with --run->depth; fails at the limit. */
int af_j_enter(j_run *run);

/* ---- Text (jinja_text.c) ---- */

struct j_text {
    j_run *run;
    af_buf *text, *origin; /* not NULL: bytes go there instead of to the arena */
    char *p;
    uint8_t *origins; /* NULL while all bytes are of first_origin */
    size_t n, cap;
    uint8_t first_origin;
    bool markup;
};

void af_j_text_open(j_text *t, j_run *run);
void af_j_text_bytes(j_text *t, const char *p, size_t n, uint8_t origin);
void af_j_text_c(j_text *t, const char *literal, uint8_t origin);
void af_j_text_byte(j_text *t, char byte, uint8_t origin);
void af_j_text_code(j_text *t, uint32_t codepoint, uint8_t origin);
void af_j_text_part(j_text *t, const j_string *s, size_t from, size_t to); /* bytes [from, to) */
void af_j_text_string(j_text *t, const j_string *s);
void af_j_text_fill(j_text *t, const char *unit, size_t n, uint8_t origin, size_t times);
int af_j_text_done(j_text *t, j_value *out);

int af_j_string(j_run *run, const char *p, size_t n, uint8_t origin, j_value *out); /* copies */
int af_j_string_part(j_run *run, const j_string *s, size_t from, size_t to, j_value *out);
uint8_t af_j_origin_at(const j_string *s, size_t at);
size_t af_j_char_count(j_run *run, const j_string *s);
size_t af_j_char_offset(const j_string *s, size_t index); /* byte offset of a character */
bool af_j_string_is(const j_string *s, const char *text);
bool af_j_string_equal(const j_string *a, const j_string *b);
/* Byte offset of the first or last occurrence of `part` in [from, to), or SIZE_MAX. */
size_t af_j_find(j_run *run, const j_string *s, const j_string *part, size_t from, size_t to);
size_t af_j_find_last(j_run *run, const j_string *s, const j_string *part, size_t from, size_t to);
int af_j_escape_html(j_run *run, const j_string *s, j_value *out);

/* ---- Values (jinja_value.c, jinja_dict.c) ---- */

const char *af_j_type_name(const j_value *v);
bool af_j_truth(const j_value *v);
bool af_j_is_number(const j_value *v);   /* int, float, bool */
bool af_j_is_sequence(const j_value *v); /* list or tuple */
static inline bool af_j_given(const j_value *v) {
    return v->kind != J_ABSENT;
}
j_value af_j_none(void);
j_value af_j_bool(bool b);
j_value af_j_int(int64_t i);
j_value af_j_float(double d);
j_value af_j_undefined(const j_string *name, uint8_t of);
j_value af_j_of_string(const j_string *s);
j_value af_j_of_list(j_kind kind, j_list *list);
j_value af_j_of_dict(j_dict *dict);
/* Says what is wrong with using this undefined value. */
int af_j_fail_undefined(j_run *run, const j_value *v);
/* A whole number from an int or bool argument. */
int af_j_need_int(j_run *run, const j_value *v, const char *what, int64_t *out);
int af_j_need_string(j_run *run, const j_value *v, const char *what, const j_string **out);

j_list *af_j_list_new(j_run *run, size_t cap);
int af_j_list_push(j_run *run, j_list *list, j_value v);
int af_j_generator(j_run *run, j_list *list, j_value *out);
/* All items of anything that can be iterated; uses up a generator. */
int af_j_to_list(j_run *run, const j_value *v, const j_list **out);
bool af_j_iterable(const j_value *v);
int af_j_length(j_run *run, const j_value *v, size_t *out);

j_dict *af_j_dict_new(j_run *run, size_t cap);
int af_j_dict_set(j_run *run, j_dict *dict, j_value key, j_value value);
/* out is untouched where there is no such key. Fails for a key that cannot be hashed. */
int af_j_dict_get(j_run *run, j_dict *dict, const j_value *key, j_value *out, bool *found);
bool af_j_dict_get_string(j_run *run, j_dict *dict, const j_string *key, j_value *out);

int af_j_from_json(j_run *run, const json_t *json, uint8_t origin, j_value *out);

/* ---- Comparing and computing (jinja_compare.c, jinja_number.c) ---- */

bool af_j_equal(j_run *run, const j_value *a, const j_value *b);
/* Less than 0, 0, more than 0; fails for what has no order. */
int af_j_order(j_run *run, const j_value *a, const j_value *b, int *out);
int af_j_contains(j_run *run, const j_value *container, const j_value *item, bool *out);
int af_j_sort(j_run *run, const j_list *keys, const j_list *values, bool reverse, j_list **out);
int af_j_binary(j_run *run, int op, const j_value *a, const j_value *b, j_value *out);
int af_j_negate(j_run *run, const j_value *v, j_value *out);
double af_j_as_float(const j_value *v); /* of a number */
bool af_j_parse_int(const j_string *s, int base, int64_t *out);
bool af_j_parse_float(const j_string *s, double *out);

/* ---- Printing (jinja_repr.c, jinja_json.c, jinja_format.c) ---- */

void af_j_text_str(j_text *t, const j_value *v);  /* as str() */
void af_j_text_repr(j_text *t, const j_value *v); /* as repr() */
int af_j_str(j_run *run, const j_value *v, const j_string **out);
enum { J_FLOAT_TEXT = 40 };
size_t af_j_float_repr(double d, char out[J_FLOAT_TEXT]);
int af_j_percent_format(j_run *run, const j_string *format, const j_value *values, j_value *out);
int af_j_brace_format(j_run *run, const j_string *format, const j_args *args, j_value *out);

/* ---- Unicode's classes (jinja_classes.c) and cases (jinja_unicode.c) ---- */

bool af_j_is_space(uint32_t c);
bool af_j_is_printable(uint32_t c);
bool af_j_is_alpha(uint32_t c);
bool af_j_is_digit(uint32_t c);
bool af_j_is_decimal(uint32_t c);
bool af_j_is_numeric(uint32_t c);
bool af_j_is_upper(uint32_t c);
bool af_j_is_lower(uint32_t c);
bool af_j_is_title(uint32_t c);
bool af_j_is_cased(uint32_t c);
typedef enum j_case { J_LOWER, J_UPPER, J_TITLE, J_CAPITALIZE, J_SWAP, J_FOLD } j_case;
int af_j_change_case(j_run *run, const j_string *s, j_case how, j_value *out);
/* Range [*from, *to) of s without white space, or the characters of `chars`, at its ends. */
void af_j_strip(const j_string *s, const j_string *chars, bool left, bool right, size_t *from, size_t *to);

/* ---- Attributes, items, calls (jinja_access.c, jinja_call.c) ---- */

int af_j_attribute(j_run *run, const j_value *v, const j_string *name, j_value *out); /* v.name */
int af_j_item(j_run *run, const j_value *v, const j_value *key, j_value *out);        /* v[key] */
int af_j_slice(j_run *run, const j_value *v, const j_value *start, const j_value *stop, const j_value *step,
               j_value *out);
/* "a.b.0" as the filters' `attribute` arguments take it. */
int af_j_path(j_run *run, const j_value *v, const j_value *path, j_value *out);
const j_function *af_j_find_function(const j_function *table, const char *name, size_t n);
int af_j_call_function(j_run *run, const j_function *function, j_args *args, j_value *out);
int af_j_call(j_run *run, const j_value *callee, j_args *args, j_value *out);
int af_j_call_macro(j_run *run, const j_macro *macro, const j_args *args, j_value *out);
int af_j_loop_attribute(j_run *run, j_loop *loop, const j_string *name, j_value *out, bool *found);
int af_j_loop_recurse(j_run *run, j_loop *loop, const j_args *args, j_value *out);

/* Tables, each ended by an entry without name. */
extern const j_function af_j_filters_text[], af_j_filters_list[], af_j_filters_number[], af_j_tests[], af_j_globals[];
extern const j_function af_j_string_methods[], af_j_dict_methods[], af_j_list_methods[], af_j_tuple_methods[];
extern const j_function af_j_loop_methods[], af_j_cycler_methods[];
int af_j_filter_tojson(j_run *run, const j_args *args, j_value *out);
/* String methods that filters share. */
int af_j_replace(j_run *run, const j_string *s, const j_string *old, const j_string *with, int64_t count, j_value *out);
int af_j_split_lines(j_run *run, const j_string *s, bool keep_ends, j_list **out);
int af_j_strip_string(j_run *run, const j_string *s, const j_value *chars, bool left, bool right, j_value *out);
int af_j_pad(j_run *run, const j_string *s, int64_t width, char align, const j_string *fill, j_value *out);
const j_function *af_j_find_filter(const char *name, size_t n);
const j_function *af_j_find_test(const char *name, size_t n);

#endif
