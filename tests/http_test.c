/* http_test.c - HTTP as bytes: heads and chunks in every cut, and what is refused. The rest of the server is tested
 * from outside by server_*_test.py. */
#include "http/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* A copy in a block of its own size, so that a sanitizer sees one byte too far. */
static af_slice exact(const char *text, size_t n) {
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    return af_slice_of(copy, n);
}

static int parse(const char *text, size_t n, shimmy_head *head, size_t *consumed) {
    const char *why = NULL;
    af_slice bytes = exact(text, n);
    int rc = shimmy_parse_head(bytes, head, consumed, &why);
    if (rc < 0) assert_non_null(why);
    free((char *)bytes.p);
    return rc;
}

static int status_of(const char *text) {
    shimmy_head head;
    size_t consumed;
    return -parse(text, strlen(text), &head, &consumed);
}

static void a_head_is_incomplete_until_its_empty_line(void **state) {
    const char text[] =
        "\r\nPOST /v1/x?q=1 HTTP/1.1\r\nHost: a\r\nContent-Length:\t 12 \r\nExpect: 100-Continue\r\n\r\nbody";
    size_t whole = strlen(text) - 4, consumed = 0;
    shimmy_head head;
    for (size_t n = 0; n < whole; n++) assert_int_equal(parse(text, n, &head, &consumed), 0);
    const char *why;
    assert_int_equal(shimmy_parse_head(af_slice_text(text), &head, &consumed, &why), 1);
    assert_int_equal(consumed, whole);
    assert_true(af_slice_is(head.method, "POST") && af_slice_is(head.path, "/v1/x") && af_slice_is(head.query, "q=1"));
    assert_true(af_slice_is(shimmy_header_find(&head, "HOST"), "a"));
    assert_null(shimmy_header_find(&head, "cookie").p);
    assert_int_equal(head.length, 12);
    assert_true(head.keep_alive && head.expects_continue && !head.chunked);
}

static void targets_lose_authority_and_query(void **state) {
    static const char *const rows[][2] = {
        {"GET /a HTTP/1.1\n\n", "/a"}, {"GET http://h:1/a?b HTTP/1.1\n\n", "/a"}, {"GET HTTP://h HTTP/1.1\n\n", "/"},
        {"GET ?x HTTP/1.1\n\n", ""},   {"OPTIONS * HTTP/1.1\n\n", "*"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shimmy_head head;
        size_t consumed;
        const char *why;
        assert_int_equal(shimmy_parse_head(af_slice_text(rows[i][0]), &head, &consumed, &why), 1);
        assert_true(af_slice_is(head.path, rows[i][1]));
    }
}

static void connections_live_on_by_version_and_header(void **state) {
    static const struct {
        const char *text;
        bool keep_alive;
    } rows[] = {
        {"GET / HTTP/1.1\n\n", true},
        {"GET / HTTP/1.0\n\n", false},
        {"GET / HTTP/1.1\nConnection: x, Close\n\n", false},
        {"GET / HTTP/1.0\nConnection: Keep-Alive\n\n", true},
        {"GET / HTTP/1.1\nConnection: close\nConnection: keep-alive\n\n", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shimmy_head head;
        size_t consumed;
        const char *why;
        assert_int_equal(shimmy_parse_head(af_slice_text(rows[i].text), &head, &consumed, &why), 1);
        assert_int_equal(head.keep_alive, rows[i].keep_alive);
    }
}

static void two_readings_of_a_length_are_refused(void **state) {
    assert_int_equal(status_of("GET / HTTP/1.1\nContent-Length: 1\nContent-Length: 1\n\n"), -1);
    assert_int_equal(status_of("GET / HTTP/1.1\nContent-Length: 1\nContent-Length: 2\n\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\nContent-Length: +1\n\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\nContent-Length: 18446744073709551616\n\n"), 413);
    assert_int_equal(status_of("GET / HTTP/1.1\nTransfer-Encoding: chunked\nContent-Length: 0\n\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.0\nTransfer-Encoding: chunked\n\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\nTransfer-Encoding: identity\n\n"), 501);
    assert_int_equal(status_of("GET / HTTP/3.0\n\n"), 505);
}

/* Every way to cut a chunked body in three gives the same text. */
static void chunks_may_be_cut_anywhere(void **state) {
    static const char text[] = "4\r\nWiki\r\n6;a=\"b\"\r\npedia \r\nA \nin chunks.\n000\r\nTrailer: x\r\n\r\nnext";
    size_t n = sizeof text - 1;
    for (size_t i = 0; i <= n; i++)
        for (size_t j = i; j <= n; j++) {
            const size_t cuts[] = {0, i, j, n};
            shimmy_chunks chunks = {0};
            af_buf body = {.ceiling = 20};
            int rc = 0;
            size_t used = 0;
            for (size_t k = 0; k < 3 && rc == 0; k++) {
                af_slice piece = exact(text + cuts[k], cuts[k + 1] - cuts[k]);
                size_t consumed = 0;
                const char *why;
                rc = shimmy_parse_chunks(&chunks, piece, &body, &consumed, &why);
                used += consumed;
                free((char *)piece.p);
            }
            assert_int_equal(rc, 1);
            assert_int_equal(used, n - 4);
            assert_string_equal(body.p, "Wikipedia in chunks.");
            af_buf_clear(&body);
        }
}

static int chunk_status(const char *text) {
    shimmy_chunks chunks = {0};
    af_buf body = {.ceiling = 8};
    size_t consumed;
    const char *why;
    int rc = shimmy_parse_chunks(&chunks, af_slice_text(text), &body, &consumed, &why);
    af_buf_clear(&body);
    return -rc;
}

static void bad_chunks_are_refused(void **state) {
    assert_int_equal(chunk_status("8\r\n12345678\r\n0\r\n\r\n"), -1);
    assert_int_equal(chunk_status("9\r\n"), 0); /* told with the first byte of data */
    assert_int_equal(chunk_status("9\r\n1"), 413);
    assert_int_equal(chunk_status("4\r\n1234\r\n5\r\n1"), 413);
    assert_int_equal(chunk_status("fffffffffffffffff\r\n"), 413);
    assert_int_equal(chunk_status("g\r\n"), 400);
    assert_int_equal(chunk_status("0x1\r\n"), 400);
    assert_int_equal(chunk_status(" 1\r\n"), 400);
    assert_int_equal(chunk_status("1\r\nab\r\n"), 400);
}

static void escapes_in_paths(void **state) {
    static const struct {
        const char *text, *decoded;
    } rows[] = {{"a%2Fb", "a/b"}, {"%41%62", "Ab"}, {"", ""},       {"%", NULL},
                {"%4", NULL},     {"%zz", NULL},    {"a%00", NULL}, {"a+b", "a+b"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        af_slice text = exact(rows[i].text, strlen(rows[i].text));
        char *decoded = shimmy_percent_decode(text);
        if (rows[i].decoded)
            assert_string_equal(decoded, rows[i].decoded);
        else
            assert_null(decoded);
        af_free(decoded);
        free((char *)text.p);
    }
}

/* Bytes near valid ones: whatever comes of them, it comes within their bounds. */
static void damaged_heads_stay_in_bounds(void **state) {
    const char text[] =
        "POST /v1/x?q HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: a,,close\r\nExpect: \r\n\r\n";
    uint32_t random = 1;
    for (int i = 0; i < 20000; i++) {
        char damaged[sizeof text];
        memcpy(damaged, text, sizeof text);
        for (int k = 0; k < 3; k++) {
            random = random * 1664525u + 1013904223u;
            damaged[(random >> 8) % (sizeof text - 1)] = (char)(random >> 24);
        }
        shimmy_head head;
        size_t consumed = 0;
        int rc = parse(damaged, sizeof text - 1, &head, &consumed);
        assert_true(rc <= 1 && rc > -600 && consumed <= sizeof text - 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_incomplete_until_its_empty_line),
        cmocka_unit_test(targets_lose_authority_and_query),
        cmocka_unit_test(connections_live_on_by_version_and_header),
        cmocka_unit_test(two_readings_of_a_length_are_refused),
        cmocka_unit_test(chunks_may_be_cut_anywhere),
        cmocka_unit_test(bad_chunks_are_refused),
        cmocka_unit_test(escapes_in_paths),
        cmocka_unit_test(damaged_heads_stay_in_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
