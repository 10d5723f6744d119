/* digest_test.c - SHA-256 gives the standard's sums; checksums see every damaged byte. */
#include "base/checksum.h"
#include "base/sha256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* In parts of so many bytes. */
static const char *sum_of(const char *text, size_t n, size_t part) {
    static char hex[2 * AF_SHA256_BYTES + 1];
    unsigned char digest[AF_SHA256_BYTES];
    af_sha256 sha;
    af_sha256_begin(&sha);
    for (size_t at = 0; at < n; at += part) af_sha256_add(&sha, text + at, n - at < part ? n - at : part);
    af_sha256_end(&sha, digest);
    for (size_t i = 0; i < sizeof digest; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return hex;
}

/* NIST's examples: FIPS 180-2, appendix B, and the empty message. */
static void sha256_gives_the_standard_s_sums(void **state) {
    static const struct {
        const char *text, *sum;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(sum_of(cases[i].text, strlen(cases[i].text), 64), cases[i].sum);
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    assert_string_equal(sum_of(million, 1000000, 1000000),
                        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void sha256_does_not_depend_on_how_bytes_come(void **state) {
    char text[300], whole[2 * AF_SHA256_BYTES + 1];
    for (size_t i = 0; i < sizeof text; i++) text[i] = (char)(i * 7);
    for (size_t n = 0; n < sizeof text; n++) {
        strcpy(whole, sum_of(text, n, sizeof text));
        for (size_t part = 1; part < 130; part += 21) assert_string_equal(sum_of(text, n, part), whole);
    }
}

static void a_checksum_sees_every_changed_bit_and_every_lost_byte(void **state) {
    unsigned char bytes[100];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * 11);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        const uint64_t sum = af_checksum(bytes, n);
        assert_true(sum == af_checksum(bytes, n));
        for (size_t bit = 0; bit < 8 * n; bit++) {
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
            assert_true(sum != af_checksum(bytes, n));
            bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        for (size_t fewer = 0; fewer < n; fewer++) assert_true(sum != af_checksum(bytes, fewer));
    }
    memset(bytes, 0, sizeof bytes);
    for (size_t n = 0; n < sizeof bytes; n++) assert_true(af_checksum(bytes, n) != af_checksum(bytes, n + 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_standard_s_sums),
        cmocka_unit_test(sha256_does_not_depend_on_how_bytes_come),
        cmocka_unit_test(a_checksum_sees_every_changed_bit_and_every_lost_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
