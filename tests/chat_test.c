/* From a chat request to a prompt: what a server does to messages, and what it says of wrong ones. */
#include "text/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const char plain[] = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}";

static int render(const char *source, const char *request, bool raw, af_prompt *out, af_error *error) {
    af_jinja *jinja;
    const af_render_options options = {.raw = raw, .bos = "<s>", .now = "2025-07-04 12:00"};
    assert_int_equal(af_jinja_parse(source, strlen(source), &jinja, error), 0);
    int status = af_chat_render(jinja, request, strlen(request), &options, out, error);
    af_jinja_close(jinja);
    return status;
}

static void gives(const char *source, const char *request, const char *expected) {
    af_prompt prompt;
    af_error error = {0};
    if (render(source, request, false, &prompt, &error)) fail_msg("%s: %s", request, error.text);
    assert_string_equal(prompt.text, expected);
    assert_int_equal(prompt.length, strlen(expected));
    af_free(prompt.text);
    af_free(prompt.origin);
}

static void refuses(const char *request, const char *message) {
    af_prompt prompt;
    af_error error = {0};
    assert_int_equal(render(plain, request, false, &prompt, &error), AF_EINVAL);
    assert_non_null(strstr(error.text, message) ? error.text : NULL);
}

static void text_parts_are_joined_with_nothing_between(void **state) {
    gives(plain,
          "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},"
          "{\"type\":\"text\",\"text\":\" b\"}]}]}",
          "[user]a b");
}

static void raw_messages_stay_as_they_are(void **state) {
    af_prompt prompt;
    af_error error;
    const char *request = "{\"messages\":[{\"role\":\"developer\",\"content\":null}]}";
    assert_int_equal(render(plain, request, true, &prompt, &error), 0);
    assert_string_equal(prompt.text, "[developer]None");
    af_free(prompt.text);
    af_free(prompt.origin);
}

static void other_parts_are_refused_by_kind(void **state) {
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
            "messages[0].content[0].type: found 'image_url'");
}

static void arguments_of_tool_calls_are_parsed(void **state) {
    const char *source = "{{ messages[0].tool_calls[0].function.arguments.city }}";
    gives(source,
          "{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
          "\"arguments\":\"{\\\"city\\\": \\\"Rome\\\"}\"}}]}]}",
          "Rome");
}

static void null_content_is_absent_then_empty(void **state) {
    const char *request = "{\"messages\":[{\"role\":\"assistant\",\"content\":null}]}";
    gives("{{ messages[0].content is defined }}", request, "False");
    gives("{{ messages[0].content + '!' }}", request, "!"); /* the template cannot do without */
}

static void developer_is_system_where_the_template_knows_none(void **state) {
    const char *request = "{\"messages\":[{\"role\":\"developer\",\"content\":\"x\"}]}";
    gives(plain, request, "[system]x");
    gives("{{ messages[0].role }}{# developer #}", request, "developer");
}

static void continuing_ends_where_the_last_content_ends(void **state) {
    const char *request =
        "{\"continue_final_message\":true,\"messages\":[{\"role\":\"assistant\",\"content\":\"It is  \"}]}";
    gives("{{ bos_token }}{{ messages[0].content }}</end>", request, "<s>It is  ");
    gives("{{ messages[0].content | trim }}</end>", request, "It is");
    refuses("{\"continue_final_message\":true,\"messages\":[{\"role\":\"assistant\"}]}",
            "messages[0].content: found nothing");
}

static void variables_are_defined_and_none(void **state) {
    const char *request = "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"chat_template_kwargs\":{\"x\":7}}";
    gives("{{ tools }} {{ documents }} {{ add_generation_prompt }} {{ x }}", request, "None None True 7");
}

static void wrong_requests_are_named(void **state) {
    refuses("{", "request: line 1");
    refuses("[]", "request: found a list, expected an object");
    refuses("{}", "messages: found nothing, expected a list");
    refuses("{\"messages\":[]}", "messages: found an empty list");
    refuses("{\"messages\":[1]}", "messages[0]: found an integer, expected an object");
    refuses("{\"messages\":[{\"role\":1}]}", "messages[0].role: found an integer, expected a string");
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":3}]}",
            "messages[0].content: found an integer, expected a string or a list of parts");
    refuses("{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":{}}",
            "tools: found an object, expected a list");
}

static void deep_requests_are_refused(void **state) {
    char request[6000] = "{\"messages\":[{\"role\":\"user\",\"content\":\"\",\"x\":";
    size_t n = strlen(request);
    memset(request + n, '[', 1000);
    memset(request + n + 1000, ']', 1000);
    strcpy(request + n + 2000, "}]}");
    af_prompt prompt;
    af_error error;
    assert_int_not_equal(render(plain, request, false, &prompt, &error), 0);
}

static void the_default_template_is_a_plain_dialogue(void **state) {
    gives(af_chat_default_template,
          "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Hi \"},"
          "{\"role\":\"assistant\",\"content\":\"Hello\"},{\"role\":\"user\",\"content\":\"Bye\"}]}",
          "Be brief.\n\nUser: Hi\nAssistant: Hello\nUser: Bye\nAssistant:");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_parts_are_joined_with_nothing_between),
        cmocka_unit_test(raw_messages_stay_as_they_are),
        cmocka_unit_test(other_parts_are_refused_by_kind),
        cmocka_unit_test(arguments_of_tool_calls_are_parsed),
        cmocka_unit_test(null_content_is_absent_then_empty),
        cmocka_unit_test(developer_is_system_where_the_template_knows_none),
        cmocka_unit_test(continuing_ends_where_the_last_content_ends),
        cmocka_unit_test(variables_are_defined_and_none),
        cmocka_unit_test(wrong_requests_are_named),
        cmocka_unit_test(deep_requests_are_refused),
        cmocka_unit_test(the_default_template_is_a_plain_dialogue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
