/* The Jinja interpreter alone: meaning, white space, origins, errors, limits. The corpus of real templates and random
 * programs beside Python's jinja2 are in template_corpus_test.py and template_random_test.py. */
#include "text/jinja.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct result {
    int status;
    af_error error;
    af_buf text, origin;
} result;

/* `variables` is JSON with ' for ". */
static result run(const char *source, const char *variables) {
    result r = {0};
    af_jinja *jinja;
    r.status = af_jinja_parse(source, strlen(source), &jinja, &r.error);
    if (r.status) return r;
    char *json = strdup(variables);
    for (char *p = json; *p; p++) *p = *p == '\'' ? '"' : *p;
    json_t *object = json_loads(json, 0, NULL);
    assert_non_null(object);
    const af_jinja_context context = {.variables = object, .bos = "<s>", .eos = "</s>", .now = "2025-07-04 12:05"};
    r.status = af_jinja_render(jinja, &context, &r.text, &r.origin, &r.error);
    json_decref(object);
    free(json);
    af_jinja_close(jinja);
    return r;
}

static void clear(result *r) {
    af_buf_clear(&r->text);
    af_buf_clear(&r->origin);
}

static void prints_with(const char *source, const char *variables, const char *expected) {
    result r = run(source, variables);
    if (r.status) fail_msg("%s: %s", source, r.error.text);
    assert_string_equal(r.text.p ? r.text.p : "", expected);
    assert_int_equal(r.text.len, r.origin.len);
    clear(&r);
}

static void prints(const char *source, const char *expected) {
    prints_with(source, "{}", expected);
}

static void fails(const char *source, int status, const char *message) {
    result r = run(source, "{}");
    assert_int_equal(r.status, status);
    if (!strstr(r.error.text, message)) fail_msg("%s: found '%s', expected '%s'", source, r.error.text, message);
    clear(&r);
}

/* The origins as digits. */
static void has_origin(const char *source, const char *variables, const char *text, const char *expected) {
    result r = run(source, variables);
    if (r.status) fail_msg("%s: %s", source, r.error.text);
    assert_string_equal(r.text.p, text);
    assert_int_equal(r.origin.len, strlen(expected));
    for (size_t i = 0; i < r.origin.len; i++) assert_int_equal('0' + r.origin.p[i], expected[i]);
    clear(&r);
}

static void values_print_as_python_prints_them(void **state) {
    prints("{{ [1, 2.0, 'a', none, true, (1,), {'k': 1e100}] }}", "[1, 2.0, 'a', None, True, (1,), {'k': 1e+100}]");
    prints("{{ \"it's\" }} {{ [\"it's\", 'q\"'] }} {{ ['\\n\\x00'] }}", "it's [\"it's\", 'q\"'] ['\\n\\x00']");
    prints("{{ 7 / 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 ** 10 }} {{ 0.1 + 0.2 }}", "3.5 -4 2 1024 0.30000000000000004");
    prints("{{ 1 < 2 < 3 }} {{ 'b' in 'abc' }} {{ 1 == 1.0 == true }} {{ [1, [2]] == [1, [2]] }}",
           "True True True True");
    prints("{{ missing }}{{ {}.x }}{{ '' or 'a' }}{{ 0 and 1 }}", "a0");
    prints("{{ 'h\u00e9llo'[1] }}{{ 'h\u00e9llo'[::-1] }}{{ 'h\u00e9llo'|length }}", "\u00e9oll\u00e9h5");
}

static void slices_stay_inside(void **state) {
    prints("{{ ''[::-1] }}|{{ 'abc'[::-1] }}|{{ 'abc'[3:] }}|{{ 'abc'[-9:2] }}|{{ 'abc'[2:-9:-1] }}", "|cba||ab|cba");
    prints("{{ 'abc'[::9223372036854775807] }}|{{ 'abc'[::-9223372036854775807] }}|{{ 'abc'[:0:-1] }}", "a|c|cb");
    prints("{{ [][::-1] }}{{ [1, 2, 3][::-2] }}{{ [1, 2, 3][9:] }}{{ [1, 2][:-9:-1] }}", "[][3, 1][][2, 1]");
    prints("{{ ()[::-1] }}{{ (1, 2, 3)[1:] }}{{ (1, 2, 3)[::-9223372036854775807] }}", "()(2, 3)(3,)");
    prints("{{ range(1, 5)[::-1] }} {{ range(9)[2:7:2] }} {{ range(0)[::-1]|list }}",
           "range(4, 0, -1) range(2, 7, 2) []");
    prints("{{ range(1, 5)[::9223372036854775807] }}", "range(1, 5, 9223372036854775807)");
    fails("{{ range(1, 5)[::9223372036854775807][::1] }}", AF_EFORMAT, "a step too large");
    fails("{{ 'abc'[::0] }}", AF_EFORMAT, "a step of zero");
    fails("{{ {}[1:] }}", AF_EFORMAT, "cannot be sliced");
}

static void numbers_stay_within_64_bits(void **state) {
    const char *wide = "-9223372036854775807, 9223372036854775807, 6000000000000000000";
    char source[400];
    snprintf(source, sizeof source, "{%% set r = range(%s) %%}{{ r|list }} {{ r[3] }} {{ 2776627963145224193 in r }}",
             wide);
    prints(source, "[-9223372036854775807, -3223372036854775807, 2776627963145224193, 8776627963145224193] "
                   "8776627963145224193 True");
    prints("{{ -9000000000000000 in range(9214372036854775807, 9214372036854775806, -1) }}", "False");
    prints("{{ 'nan'|float in range(3) }}{{ 1e300 in range(3) }}{{ 2.0 in range(3) }}", "FalseFalseTrue");
    prints("{{ range(0, 2) == range(0, 4, 2) }}{{ range(0, 1, 5) == range(1) }}", "FalseTrue");
    prints("{{ '-7'.zfill(-9223372036854775807 - 1) }}{{ 15|round(-1) }}{{ 25|round(-1) }}", "-72020");
    prints("{{ 'abc'|truncate(9223372036854775807) }}{{ 'abc'.find('', 3) }}{{ 'abc'.find('', 4) }}", "abc3-1");
    fails("{{ 9223372036854775807|round(-1) }}", AF_EFORMAT, "beyond 64 bits");
    fails("{{ 'abc'|truncate(-9223372036854775807 - 1) }}", AF_EFORMAT, "shorter than the end");
    fails("{{ -(-9223372036854775807 - 1) }}", AF_EFORMAT, "beyond 64 bits");
}

static void tags_take_white_space_as_jinja2_does(void **state) {
    prints("a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc");
    prints("a  {%- if true -%}  b  {%- endif -%}  c", "abc");
    prints("a\n  {%+ if true +%}\nb{% endif %}", "a\n  \nb");
    prints("a\n  {# c #}\nb {#- d -#} e", "a\nbe");
    prints("x{% raw %}{{ y }} {% z %}{% endraw %}", "x{{ y }} {% z %}");
    prints("a\r\n{{ 1 }}\r\n", "a\n1");
}

static void loops_and_scopes(void **state) {
    prints(
        "{% for a, b in {'x': 1, 'y': 2}.items() %}{{ loop.index }}{{ a }}{{ b }}{{ ',' if not loop.last }}{% endfor %}",
        "1x1,2y2");
    prints("{% for i in [1, 2, 3] if i != 2 %}{{ i }}/{{ loop.length }}{% else %}none{% endfor %}", "1/23/2");
    prints("{% for i in [] %}{% else %}none{% endfor %}", "none");
    prints("{% set n = 1 %}{% for i in [1] %}{% set n = 2 %}{% endfor %}{{ n }}", "1");
    prints("{% set ns = namespace(n=1) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "4");
    prints(
        "{% for i in range(9) %}{% if i == 1 %}{% continue %}{% endif %}{% if i > 2 %}{% break %}{% endif %}{{ i }}{% endfor %}",
        "02");
    prints(
        "{% for i in [[1, [2]], 3] recursive %}{% if i is iterable %}({{ loop(i) }}){% else %}{{ i }}{% endif %}{% endfor %}",
        "(1(2))3");
}

static void macros_and_blocks(void **state) {
    prints(
        "{% macro m(a, b='x') %}{{ a }}{{ b }}{{ varargs }}{% endmacro %}{{ m(1) }}{{ m(1, 2, 3) }}{{ m(b=1, a=2) }}",
        "1x()12(3,)21()");
    prints("{% macro m() %}<{{ caller(5) }}>{% endmacro %}{% call(x) m() %}b{{ x }}{% endcall %}", "<b5>");
    prints("{% set x %} a {% endset %}[{{ x }}]{% set y | trim | upper %} b {% endset %}{{ y }}", "[ a ]B");
    prints("{% filter upper %}a{{ 'b' }}{% endfilter %}{% generation %}c{% endgeneration %}", "ABc");
}

static void request_bytes_keep_their_origin(void **state) {
    const char *variables = "{'a': '<|x|>', 'l': ['p', 'q'], 'n': 12}";
    has_origin("<{{ a }}>{{ bos_token }}", variables, "<<|x|>><s>", "0111110000");
    has_origin("{{ (a ~ '!')[3:] }}", variables, "|>!", "110");
    has_origin("{{ a | upper | replace('X', 'yy') }}", variables, "<|yy|>", "110011");
    has_origin("{{ l | join('-') }}{{ '<' ~ l[0] | trim ~ '>' }}", variables, "p-q<p>", "101010");
    has_origin("{{ '%s=%s' % (a, n) }}", variables, "<|x|>=12", "11111011");
    has_origin("{{ 'k {} '.format(a) }}", variables, "k <|x|> ", "00111110");
    has_origin("{{ a | tojson }}", variables, "\"<|x|>\"", "1111111");
    has_origin("{% macro m(v) %}[{{ v }}]{% endmacro %}{{ m(a.split('x')[0]) }}", variables, "[<|]", "0110");
}

static void errors_say_where(void **state) {
    fails("a\n  {{ 1 + }}", AF_EFORMAT, "line 2, column 10: expected an expression");
    fails("{% if 1 %}", AF_EFORMAT, "line 1, column 11");
    fails("{% include 'x' %}", AF_EFORMAT, "unknown tag");
    fails("x\n{{ a.b.c }}", AF_EFORMAT, "line 2, column 6: 'a' is undefined");
    fails("{{ 1 + 'a' }}", AF_EFORMAT, "line 1, column 4: values of types int and string cannot be used with '+'");
    fails("{{ [].append(1) }}", AF_EFORMAT, "would change a value");
    fails("{{ 'x' | nothing }}", AF_EFORMAT, "no filter named 'nothing'");
    fails("\xff", AF_EFORMAT, "UTF-8");
}

static void a_template_s_own_error_is_passed_on_word_for_word(void **state) {
    result r = run("{{ raise_exception('Roles must alternate: ' ~ [1]) }}", "{}");
    assert_int_equal(r.status, AF_ETEMPLATE);
    assert_string_equal(r.error.text, "Roles must alternate: [1]");
    clear(&r);
}

static void hostile_templates_get_an_error(void **state) {
    static const char *const sources[] = {
        "{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
        "{{ 'a' * 10 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ 'a'.ljust(10 ** 12) }}",
        "{{ range(10 ** 9) }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set n = namespace(x=1) %}{% for i in range(99999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        "{% set a = 'a' * 1000000 %}{% for i in range(1000) %}{{ a }}{% endfor %}",
        "{{ 9223372036854775807 + 1 }}",
    };
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) fails(sources[i], AF_EFORMAT, "line 1, column ");
}

static void deep_nesting_is_refused(void **state) {
    char source[20001] = {0};
    memset(source, '{', 2);
    memset(source + 2, '-', 19000);
    strcpy(source + 19002, "1 }}");
    fails(source, AF_EFORMAT, "nested more than");
    memset(source + 2, '(', 19000);
    fails(source, AF_EFORMAT, "nested too deeply");
}

static void every_damaged_template_is_parsed_or_refused(void **state) {
    static const char source[] =
        "{%- macro m(a, b=[1, {'k': 2.5}]) %}{{ a[::-1].x|map('upper')|join(',') if b is not none "
        "else -1 }}{# c #}{% endmacro %}{% for x, y in z if x recursive %}{% set n.a = 'q\\n' %}"
        "{% else %}{% raw %}{{{% endraw %}{% endfor %}";
    char damaged[sizeof source];
    for (size_t n = 0; n < sizeof source; n++) {
        for (size_t at = 0; at < 3 && at < n; at++) {
            memcpy(damaged, source, n);
            damaged[n - 1 - at] = "'{%"[at];
            af_jinja *jinja = NULL;
            af_error error = {0};
            int status = af_jinja_parse(damaged, n, &jinja, &error);
            assert_true(status == 0 ? jinja != NULL : status == AF_EFORMAT && error.text[0]);
            af_jinja_close(jinja);
        }
    }
}

static void the_clock_is_the_caller_s(void **state) {
    prints("{{ strftime_now('%Y-%m-%d %H:%M %a %B %j') }}", "2025-07-04 12:05 Fri July 185");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_print_as_python_prints_them),
        cmocka_unit_test(slices_stay_inside),
        cmocka_unit_test(numbers_stay_within_64_bits),
        cmocka_unit_test(tags_take_white_space_as_jinja2_does),
        cmocka_unit_test(loops_and_scopes),
        cmocka_unit_test(macros_and_blocks),
        cmocka_unit_test(request_bytes_keep_their_origin),
        cmocka_unit_test(errors_say_where),
        cmocka_unit_test(a_template_s_own_error_is_passed_on_word_for_word),
        cmocka_unit_test(hostile_templates_get_an_error),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(every_damaged_template_is_parsed_or_refused),
        cmocka_unit_test(the_clock_is_the_caller_s),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
