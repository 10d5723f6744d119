/* jinja_fuzz.c - the input is a chat template, a NUL and the request's variables as JSON (a plain conversation where
 * that is missing or broken). It renders or fails with words, and every byte of output has an origin.
 */
#include "fuzz/fuzz.h"
#include "text/jinja.h"

#include <string.h>

static json_t *variables(const char *p, size_t n) {
    static const char plain[] =
        "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"a <|x|> b\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"n\":[1,2.5,null,true]}}}],"
        "\"add_generation_prompt\":true}";
    json_t *given = n ? json_loadb(p, n, 0, NULL) : NULL;
    if (json_is_object(given)) return given;
    json_decref(given);
    return json_loads(plain, 0, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
    const char *p = (const char *)bytes;
    const char *end = n ? memchr(p, '\0', n) : NULL;
    const size_t length = end ? (size_t)(end - p) : n;
    af_jinja *jinja = NULL;
    af_error error = {0};
    if (af_jinja_parse(p, length, &jinja, &error)) {
        HOLDS(!jinja && error.text[0]);
        return 0;
    }
    json_t *given = variables(p + length + 1, end ? n - length - 1 : 0);
    const af_jinja_context context = {given, "<s>", "</s>", "2025-07-04 12:00"};
    af_buf text = {0}, origin = {0};
    if (af_jinja_render(jinja, &context, &text, &origin, &error) == AF_OK) HOLDS(text.len == origin.len);
    af_buf_clear(&text);
    af_buf_clear(&origin);
    json_decref(given);
    af_jinja_close(jinja);
    return 0;
}
