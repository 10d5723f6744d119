/* write.c - see write.h. Copies stretches that need no escape in one go. */
#include "openai/write.h"

#include "base/utf8.h"

#include <string.h>

static void write_escaped(af_buf *out, unsigned char byte) {
    static const char short_forms[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* byte, letter */
    for (size_t i = 0; i + 1 < sizeof short_forms; i += 2) {
        if ((unsigned char)short_forms[i] != byte) continue;
        af_buf_byte(out, '\\');
        af_buf_byte(out, short_forms[i + 1]);
        return;
    }
    af_buf_printf(out, "\\u%04x", byte);
}

/* Length of the character at p that can stand as it is, or 0. DEL and the rest of C1 may. */
static size_t plain_length(const char *p, size_t n) {
    unsigned char byte = (unsigned char)*p;
    if (byte < 0x20 || byte == '"' || byte == '\\') return 0;
    if (byte < 0x80) return 1;
    uint32_t codepoint;
    return af_utf8_decode(p, n, &codepoint);
}

void shimmy_write_string(af_buf *out, const char *bytes, size_t n) {
    af_buf_byte(out, '"');
    size_t start = 0, at = 0;
    while (at < n) {
        size_t length = plain_length(bytes + at, n - at);
        if (length) {
            at += length;
            continue;
        }
        af_buf_append(out, bytes + start, at - start);
        if ((unsigned char)bytes[at] < 0x80)
            write_escaped(out, (unsigned char)bytes[at]);
        else
            af_buf_text(out, "\xEF\xBF\xBD");
        start = ++at;
    }
    if (at > start) af_buf_append(out, bytes + start, at - start);
    af_buf_byte(out, '"');
}

void shimmy_write_text(af_buf *out, const char *text) {
    shimmy_write_string(out, text, strlen(text));
}
