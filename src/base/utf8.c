/* utf8.c - see utf8.h. Decoding checks the second byte's narrowed range (RFC 3629, section 4), which is what rules out
 * overlong forms, surrogates and values past U+10FFFF; the rest are plain continuation bytes. */
#include "base/utf8.h"

size_t af_utf8_lead(unsigned char byte) {
    if (byte < 0x80) return 1;
    if (byte < 0xc2) return 0; /* continuation bytes, and leads of overlong two-byte forms */
    if (byte < 0xe0) return 2;
    if (byte < 0xf0) return 3;
    return byte < 0xf5 ? 4 : 0;
}

static bool continues(unsigned char byte) {
    return (byte & 0xc0) == 0x80;
}

/* May `second` follow `lead`? */
static bool second_fits(unsigned char lead, unsigned char second) {
    unsigned char low = 0x80, high = 0xbf;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
    return second >= low && second <= high;
}

/* How many bytes at p belong together: all those of a character, or the part of one that n cuts short, or 0. */
static size_t well_formed(const unsigned char *p, size_t n, size_t length) {
    size_t have = n < length ? n : length;
    if (have > 1 && !second_fits(p[0], p[1])) return 0;
    for (size_t i = 2; i < have; i++)
        if (!continues(p[i])) return 0;
    return have;
}

size_t af_utf8_decode(const char *bytes, size_t n, uint32_t *codepoint) {
    const unsigned char *p = (const unsigned char *)bytes;
    if (n == 0) return 0;
    size_t length = af_utf8_lead(p[0]);
    if (length == 0 || well_formed(p, n, length) != length) return 0;
    static const unsigned char lead_bits[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = p[0] & lead_bits[length];
    for (size_t i = 1; i < length; i++) c = c << 6 | (p[i] & 0x3f);
    *codepoint = c;
    return length;
}

size_t af_utf8_encode(uint32_t c, char *out) {
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = length - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[length] | c);
    return length;
}

bool af_utf8_valid(const char *p, size_t n) {
    uint32_t c;
    while (n) {
        size_t length = af_utf8_decode(p, n, &c);
        if (!length) return false;
        p += length;
        n -= length;
    }
    return true;
}

size_t af_utf8_pending(const char *bytes, size_t n) {
    const unsigned char *p = (const unsigned char *)bytes;
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char *lead = p + n - back;
        if (continues(*lead)) continue;
        size_t length = af_utf8_lead(*lead);
        return length > back && well_formed(lead, back, length) ? back : 0;
    }
    return 0;
}

size_t af_utf8_count(const char *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += !continues((unsigned char)p[i]);
    return count;
}
