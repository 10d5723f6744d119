/* nfc_test.c - composing gives what utf8proc's own NFC gives, and long runs of marks cost no more than their length. */
#include "base/utf8.h"
#include "text/nfc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <utf8proc.h>

#include <cmocka.h>

static void composes(const char *text, const char *expected) {
    af_buf copy = {0};
    af_slice slice = af_slice_text(text);
    assert_true(af_nfc(&slice, &copy));
    assert_int_equal(slice.n, strlen(expected));
    if (slice.n) assert_memory_equal(slice.p, expected, slice.n);
    af_buf_clear(&copy);
}

static void letters_and_marks_become_one_character(void **unused) {
    composes("", "");
    composes("plain \xC3\xA9", "plain \xC3\xA9");
    composes("cafe\xCC\x81 ole", "caf\xC3\xA9 ole");
    composes("e\xCC\x81"
             "e\xCC\x81",
             "\xC3\xA9\xC3\xA9");
    composes("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB", "\xED\x95\x9C"); /* Hangul */
    composes("\xE2\x84\xAB", "\xC3\x85");                             /* the Angstrom sign is a letter */
    composes("o\xCC\xA3\xCC\x82", "\xE1\xBB\x99");
    composes("o\xCC\x82\xCC\xA3", "\xE1\xBB\x99"); /* marks in another order */
    composes("\xCC\x81"
             "a",
             "\xCC\x81"
             "a"); /* nothing to stand on */
}

static void text_that_is_composed_for_certain_is_not_copied(void **unused) {
    const char text[] = "na\xC3\xAFve";
    af_buf copy = {0};
    af_slice slice = af_slice_text(text);
    assert_true(af_nfc(&slice, &copy));
    assert_ptr_equal(slice.p, text);
    assert_null(copy.p);
}

static void any_text_composes_as_utf8proc_does_it(void **unused) {
    static const uint32_t marks[] = {0x300, 0x301, 0x323,  0x327,  0x328,  0x345,
                                     0x5B0, 0x315, 0x1161, 0x11A8, 0x1100, 0x9BE};
    uint32_t state = 1;
    for (int round = 0; round < 5000; round++) {
        af_buf text = {0}, copy = {0};
        for (int i = 0; i < 24; i++) {
            char bytes[4];
            state = state * 1664525 + 1013904223;
            const uint32_t pick = state >> 8, which = pick % 4;
            const uint32_t c = which == 0 ? 'a' + pick % 26 : which == 1 ? 1 + pick % 0x2FFF : marks[(pick >> 2) % 12];
            af_buf_append(&text, bytes, af_utf8_encode(c, bytes));
        }
        utf8proc_uint8_t *expected = utf8proc_NFC((const utf8proc_uint8_t *)text.p);
        assert_non_null(expected);
        af_slice slice = af_slice_of(text.p, text.len);
        assert_true(af_nfc(&slice, &copy));
        assert_int_equal(slice.n, strlen((char *)expected));
        assert_memory_equal(slice.p, expected, slice.n);
        free(expected);
        af_buf_clear(&text);
        af_buf_clear(&copy);
    }
}

static void a_long_run_of_marks_is_no_trap(void **unused) {
    af_buf text = {0}, copy = {0};
    while (text.len < 400000) af_buf_text(&text, "\xCC\x81\xCC\xA3"); /* above, below, above, ...: never in order */
    af_slice slice = af_slice_of(text.p, text.len);
    const clock_t from = clock();
    assert_true(af_nfc(&slice, &copy));
    assert_true(clock() - from < 5 * CLOCKS_PER_SEC); /* the square would take minutes */
    assert_int_equal(slice.n, text.len);
    af_buf_clear(&text);
    af_buf_clear(&copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_and_marks_become_one_character),
        cmocka_unit_test(text_that_is_composed_for_certain_is_not_copied),
        cmocka_unit_test(any_text_composes_as_utf8proc_does_it),
        cmocka_unit_test(a_long_run_of_marks_is_no_trap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
