/* fields.c - see fields.h. */
#include "openai/fields.h"

#include "base/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { DEPTH_ALLOWED = 200, VALUES_ALLOWED = 1 << 20 };

/* Looks at brackets and commas outside strings, before anything is built from them. */
static int check_extent(const char *body, size_t length, shimmy_refusal *refusal) {
    size_t depth = 0, values = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = body[i];
        if (quoted && c == '\\')
            i++;
        else if (c == '"')
            quoted = !quoted;
        if (quoted) continue;
        if (c == '[' || c == '{') depth++;
        if ((c == ']' || c == '}') && depth) depth--;
        values += c == ',' || c == '[' || c == '{';
        if (depth > DEPTH_ALLOWED)
            return shimmy_refuse(refusal, 400, "invalid_json", NULL, "the body nests deeper than %d levels at byte %zu",
                                 DEPTH_ALLOWED, i);
        if (values > VALUES_ALLOWED)
            return shimmy_refuse(refusal, 400, "invalid_json", NULL, "the body holds more than %d values",
                                 VALUES_ALLOWED);
    }
    return 0;
}

int shimmy_parse_body(const char *body, size_t length, json_t **out, shimmy_refusal *refusal) {
    if (!length)
        return shimmy_refuse(refusal, 400, "invalid_json", NULL, "the body is empty: a JSON object is expected");
    int rc = check_extent(body, length, refusal);
    if (rc < 0) return rc;
    json_error_t where;
    json_t *value = json_loadb(body, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
    if (!value)
        return shimmy_refuse(refusal, 400, "invalid_json", NULL, "the body is not JSON: line %d, column %d: %s",
                             where.line, where.column, where.text);
    if (!json_is_object(value)) {
        json_decref(value);
        return shimmy_refuse(refusal, 400, "invalid_json", NULL, "the body is JSON, but not an object");
    }
    *out = value;
    return 0;
}

json_t *shimmy_field(const json_t *object, const char *name) {
    json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

int shimmy_wrong_type(const json_t *value, const char *param, const char *wanted, shimmy_refusal *refusal) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",        [JSON_NULL] = "null",
    };
    const char *found = value ? names[json_typeof(value)] : "missing";
    return shimmy_refuse(refusal, 400, "invalid_type", param, "%s: found %s, expected %s", param, found, wanted);
}

int shimmy_read_bool(const json_t *object, const char *name, bool *out, shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(object, name);
    if (!value) return 0;
    if (!json_is_boolean(value)) return shimmy_wrong_type(value, name, "true or false", refusal);
    *out = json_is_true(value);
    return 0;
}

int shimmy_read_int(const json_t *object, const char *name, int64_t low, int64_t high, int64_t *out,
                    shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(object, name);
    if (!value) return 0;
    double real = json_number_value(value);
    if (!json_is_number(value) || (json_is_real(value) && (real != floor(real) || fabs(real) > 9e15)))
        return shimmy_wrong_type(value, name, "an integer", refusal);
    int64_t number = json_is_integer(value) ? (int64_t)json_integer_value(value) : (int64_t)real;
    if (number < low || (high != INT64_MAX && number > high)) {
        char upper[32] = "";
        if (high != INT64_MAX) snprintf(upper, sizeof upper, ", at most %lld", (long long)high);
        return shimmy_refuse(refusal, 400, "integer_out_of_range", name, "%s: found %lld, allowed is at least %lld%s",
                             name, (long long)number, (long long)low, upper);
    }
    *out = number;
    return 0;
}

int shimmy_read_real(const json_t *object, const char *name, double low, double high, double *out,
                     shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(object, name);
    if (!value) return 0;
    if (!json_is_number(value)) return shimmy_wrong_type(value, name, "a number", refusal);
    double number = json_number_value(value);
    if (!(number >= low && number <= high))
        return shimmy_refuse(refusal, 400, "decimal_out_of_range", name, "%s: found %g, allowed is %g to %g", name,
                             number, low, high);
    *out = number;
    return 0;
}

int shimmy_read_text(const json_t *object, const char *name, const char **out, shimmy_refusal *refusal) {
    const json_t *value = shimmy_field(object, name);
    if (!value) return 0;
    if (!json_is_string(value)) return shimmy_wrong_type(value, name, "a string", refusal);
    *out = json_string_value(value);
    return 0;
}

int shimmy_read_id(const json_t *value, const char *param, uint32_t vocabulary, int32_t *out, shimmy_refusal *refusal) {
    if (!json_is_integer(value)) return shimmy_wrong_type(value, param, "a token id", refusal);
    int64_t id = (int64_t)json_integer_value(value);
    if (id < 0 || id >= (int64_t)vocabulary)
        return shimmy_refuse(refusal, 400, "invalid_token", param, "%s: token id %lld, allowed is 0 to %u", param,
                             (long long)id, vocabulary - 1);
    *out = (int32_t)id;
    return 0;
}

int shimmy_read_ids(const json_t *array, const char *param, uint32_t vocabulary, int32_t **ids, size_t *count,
                    shimmy_refusal *refusal) {
    if (!json_is_array(array)) return shimmy_wrong_type(array, param, "an array of token ids", refusal);
    size_t n = json_array_size(array);
    int32_t *numbers = malloc((n ? n : 1) * sizeof *numbers);
    if (!numbers) return shimmy_refuse(refusal, 503, "out_of_memory", param, "%s: out of memory", param);
    for (size_t i = 0; i < n; i++) {
        char item[128];
        snprintf(item, sizeof item, "%s[%zu]", param, i);
        int rc = shimmy_read_id(json_array_get(array, i), item, vocabulary, &numbers[i], refusal);
        if (rc < 0) {
            free(numbers);
            return rc;
        }
    }
    *ids = numbers;
    *count = n;
    return 0;
}
