/* stops_test.c - stop strings in text that comes in pieces: cut where they begin, never shown in part, linear time. */
#include "base/os.h"
#include "engine/stops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Feeds the text in pieces of `piece` bytes. Returns what was shown in all; *found tells of a match. Checks on the way
 * that what is shown is never taken back. */
static char *feed(const char *const *strings, size_t count, const char *text, size_t piece, bool *found) {
    af_stops stops;
    af_buf buf = {0}, shown = {0};
    assert_int_equal(af_stops_open(strings, count, &stops, NULL), AF_OK);
    size_t length = strlen(text);
    *found = false;
    for (size_t at = 0; at < length && !*found; at += piece) {
        size_t from = buf.len, n = length - at < piece ? length - at : piece;
        af_buf_append(&buf, text + at, n);
        *found = af_stops_scan(&stops, &buf, from);
        size_t clear = *found || at + n == length ? buf.len : buf.len - af_stops_held(&stops);
        assert_true(clear >= shown.len);
        af_buf_append(&shown, buf.p + shown.len, clear - shown.len);
    }
    af_buf_clear(&buf);
    af_stops_close(&stops);
    return af_buf_take(&shown, NULL);
}

static void check(const char *const *strings, size_t count, const char *text, const char *expected, bool match) {
    for (size_t piece = 1; piece <= strlen(text); piece++) {
        bool found;
        char *shown = feed(strings, count, text, piece, &found);
        assert_string_equal(shown, expected);
        assert_int_equal(found, match);
        af_free(shown);
    }
}

static void text_is_cut_before_the_stop_string(void **state) {
    const char *stops[] = {"een tea"};
    check(stops, 1, "green tea, please", "gr", true);
    check(stops, 1, "green team", "gr", true);
    check(stops, 1, "green te", "green te", false);
    check(stops, 1, "green t tea green tex", "green t tea green tex", false);
}

static void a_stop_string_inside_its_own_false_start_is_found(void **state) {
    const char *stops[] = {"aab"};
    check(stops, 1, "aaaaab!", "aaa", true);
    const char *periodic[] = {"ababc"};
    check(periodic, 1, "ababababc", "abab", true);
}

static void the_string_that_ends_first_wins(void **state) {
    const char *stops[] = {"green tea", "een"};
    check(stops, 2, "a green tea", "a gr", true);
    const char *swapped[] = {"een", "green tea"};
    check(swapped, 2, "a green tea", "a gr", true);
}

static void of_strings_that_end_together_the_longest_wins(void **state) {
    const char *stops[] = {"tea", "green tea", "n tea"};
    check(stops, 3, "a green tea", "a ", true);
}

static void characters_of_several_bytes_are_matched_whole(void **state) {
    const char *stops[] = {"\xF0\x9F\x8D\xB5"};
    check(stops, 1, "tea \xF0\x9F\x8D\xB5 time", "tea ", true);
    check(stops, 1, "tea \xF0\x9F\x8D\xB4 time", "tea \xF0\x9F\x8D\xB4 time", false);
}

static void no_stop_strings_hold_nothing_back(void **state) {
    check(NULL, 0, "anything", "anything", false);
}

static void random_text_is_cut_where_a_plain_search_cuts(void **state) {
    uint32_t seed = 1;
    for (int round = 0; round < 300; round++) {
        char text[61] = {0}, a[5] = {0}, b[7] = {0};
        for (int i = 0; i < 60; i++) text[i] = "ab"[(seed = seed * 1664525 + 1013904223) >> 31];
        for (int i = 0; i < 4; i++) a[i] = "ab"[(seed = seed * 1664525 + 1013904223) >> 31];
        for (int i = 0; i < 6; i++) b[i] = "ab"[(seed = seed * 1664525 + 1013904223) >> 31];
        const char *at_a = strstr(text, a), *at_b = strstr(text, b);
        const char *end_a = at_a ? at_a + 4 : text + 61, *end_b = at_b ? at_b + 6 : text + 61;
        char expected[61];
        strcpy(expected, text);
        if (at_a || at_b) expected[end_b <= end_a ? at_b - text : at_a - text] = '\0';
        const char *stops[] = {a, b};
        check(stops, 2, text, expected, at_a || at_b);
    }
}

static void hostile_strings_take_linear_time(void **state) {
    /* Sixteen strings of 4,096 bytes that all match to their last byte, again and again. */
    char *strings[AF_STOPS_MAX], *text = malloc(1000001);
    memset(text, 'a', 1000000);
    text[1000000] = '\0';
    for (int i = 0; i < AF_STOPS_MAX; i++) {
        strings[i] = malloc(AF_STOP_BYTES_MAX + 1);
        memset(strings[i], 'a', AF_STOP_BYTES_MAX);
        strings[i][AF_STOP_BYTES_MAX - 1] = 'b';
        strings[i][AF_STOP_BYTES_MAX] = '\0';
    }
    uint64_t start = af_os_nanoseconds();
    bool found;
    char *shown = feed((const char *const *)strings, AF_STOPS_MAX, text, 1000, &found);
    assert_false(found);
    assert_true(af_os_nanoseconds() - start < UINT64_C(5000000000)); /* quadratic time would be minutes */
    af_free(shown);
    for (int i = 0; i < AF_STOPS_MAX; i++) free(strings[i]);
    free(text);
}

static void bad_stop_strings_are_refused(void **state) {
    char *large = malloc(AF_STOP_BYTES_MAX + 2);
    memset(large, 'x', AF_STOP_BYTES_MAX + 1);
    large[AF_STOP_BYTES_MAX + 1] = '\0';
    const char *empty[] = {"ok", ""}, *longest[] = {large}, *many[AF_STOPS_MAX + 1];
    for (int i = 0; i <= AF_STOPS_MAX; i++) many[i] = "x";
    af_stops stops;
    af_error error;
    assert_int_equal(af_stops_open(empty, 2, &stops, &error), AF_EINVAL);
    assert_string_equal(error.text, "stop[1]: is empty, must hold a character");
    assert_int_equal(af_stops_open(longest, 1, &stops, &error), AF_EINVAL);
    assert_string_equal(error.text, "stop[0]: has 4097 bytes, at most 4096 are allowed");
    assert_int_equal(af_stops_open(many, AF_STOPS_MAX + 1, &stops, &error), AF_EINVAL);
    assert_string_equal(error.text, "stop: has 17 strings, at most 16 are allowed");
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_before_the_stop_string),
        cmocka_unit_test(a_stop_string_inside_its_own_false_start_is_found),
        cmocka_unit_test(the_string_that_ends_first_wins),
        cmocka_unit_test(of_strings_that_end_together_the_longest_wins),
        cmocka_unit_test(characters_of_several_bytes_are_matched_whole),
        cmocka_unit_test(no_stop_strings_hold_nothing_back),
        cmocka_unit_test(random_text_is_cut_where_a_plain_search_cuts),
        cmocka_unit_test(hostile_strings_take_linear_time),
        cmocka_unit_test(bad_stop_strings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
