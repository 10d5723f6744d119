/* utf8.h - UTF-8 as RFC 3629 has it: no surrogates, no overlong forms, at most U+10FFFF. */
#ifndef AF_UTF8_H
#define AF_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the character at p (n bytes left). Returns its length 1..4, or 0 if the bytes there are no character. */
size_t af_utf8_decode(const char *p, size_t n, uint32_t *codepoint);
/* Writes a character, returns its length 1..4; `out` has room for 4. Surrogates and values past the end give U+FFFD. */
size_t af_utf8_encode(uint32_t codepoint, char *out);
bool af_utf8_valid(const char *p, size_t n);
/* Length in bytes that the lead byte announces: 1..4, or 0 for a byte that cannot lead. */
size_t af_utf8_lead(unsigned char byte);
/* How many bytes at the end of p are the start of a character still incomplete (0..3): held back by streams. */
size_t af_utf8_pending(const char *p, size_t n);
/* Characters in valid UTF-8. */
size_t af_utf8_count(const char *p, size_t n);

#endif
