/* gguf_show.c - metadata as text for people: `probe --metadata`. Long values are shortened, and bytes that would
 * disturb a terminal are escaped as in error messages. */
#include "base/print.h"
#include "base/utf8.h"
#include "gguf/gguf_internal.h"

#include <inttypes.h>
#include <stdio.h>

#define STRING_SHOWN   72 /* bytes */
#define ELEMENTS_SHOWN 5  /* of an array */

static void append(af_buf *out, const char *format, ...) AF_PRINTF(2, 3);
static void append(af_buf *out, const char *format, ...) {
    char line[4 * STRING_SHOWN + 32]; /* every byte may become \xHH */
    va_list arguments;
    va_start(arguments, format);
    af_print_line(line, sizeof line, format, arguments);
    va_end(arguments);
    af_buf_text(out, line);
}

static void show_string(af_slice s, af_buf *out) {
    size_t shown = s.n < STRING_SHOWN ? s.n : STRING_SHOWN;
    if (shown < s.n) shown -= af_utf8_pending(s.p, shown);
    append(out, "\"%.*s\"%s", (int)shown, s.p, shown < s.n ? "..." : "");
}

static void show_element(const af_gguf_array *array, size_t i, af_buf *out) {
    af_slice string;
    int64_t whole;
    double number;
    if (af_gguf_array_string(array, i, &string))
        show_string(string, out);
    else if (af_gguf_array_i64(array, i, &whole))
        append(out, "%" PRId64, whole);
    else if (af_gguf_array_f64(array, i, &number))
        append(out, "%.9g", number);
    else if (array->type == AF_GGUF_BOOL)
        af_buf_text(out, array->p[i] ? "true" : "false");
    else
        af_buf_text(out, "[...]");
}

static void show_array(const af_gguf_array *array, af_buf *out) {
    af_buf_byte(out, '[');
    for (size_t i = 0; i < array->count && i < ELEMENTS_SHOWN; i++) {
        if (i) af_buf_text(out, ", ");
        show_element(array, i, out);
    }
    if (array->count > ELEMENTS_SHOWN) append(out, ", ... %zu in all", array->count);
    af_buf_byte(out, ']');
}

void af_gguf_value_text(const af_gguf *file, size_t i, af_buf *out) {
    if (i >= af_gguf_kv_count(file)) return;
    const gguf_entry *e = &file->shards[0].entries[i];
    if (e->type == AF_GGUF_ARRAY) {
        show_array(e->array, out);
    } else if (e->type == AF_GGUF_STRING) {
        show_string(e->string, out);
    } else {
        const af_gguf_array one = {.type = e->type, .count = 1, .p = e->value};
        show_element(&one, 0, out);
    }
}
