/* parse.c - see parse.h. A head is found whole first (it is small), then cut into lines; a body is never held twice. */
#include "http/parse.h"

#include <string.h>

enum { CHUNK_LINE_BYTES = 256, TRAILER_BYTES = 8 * 1024 };

static int refuse(int status, const char **why, const char *text) {
    *why = text;
    return -status;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

bool shimmy_same_word(af_slice a, const char *b) {
    if (a.n != strlen(b)) return false;
    for (size_t i = 0; i < a.n; i++)
        if (lower(a.p[i]) != lower(b[i])) return false;
    return true;
}

af_slice shimmy_header_find(const shimmy_head *head, const char *name) {
    for (size_t i = 0; i < head->header_count; i++)
        if (shimmy_same_word(head->headers[i].name, name)) return head->headers[i].value;
    return af_slice_of(NULL, 0);
}

/* RFC 9110's tchar, of which methods and header names are made. */
static bool is_token_byte(unsigned char c) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_token(af_slice s) {
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_byte((unsigned char)s.p[i])) return false;
    return s.n > 0;
}

static af_slice trimmed(af_slice s) {
    while (s.n && (s.p[0] == ' ' || s.p[0] == '\t')) s.p++, s.n--;
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t')) s.n--;
    return s;
}

/* Takes the next line off *rest, without its line break. False if no line break is left. */
static bool take_line(af_slice *rest, af_slice *line) {
    const char *end = memchr(rest->p, '\n', rest->n);
    if (!end) return false;
    size_t n = (size_t)(end - rest->p);
    *line = af_slice_of(rest->p, n && end[-1] == '\r' ? n - 1 : n);
    rest->p += n + 1;
    rest->n -= n + 1;
    return true;
}

/* Takes what comes before `separator` (or all) off *rest. */
static af_slice take_until(af_slice *rest, char separator) {
    const char *end = rest->n ? memchr(rest->p, separator, rest->n) : NULL;
    size_t n = end ? (size_t)(end - rest->p) : rest->n;
    af_slice word = af_slice_of(rest->p, n);
    rest->p += end ? n + 1 : n;
    rest->n -= end ? n + 1 : n;
    return word;
}

/* The absolute form "http://host/path" is what a proxy would be sent; only its path matters here. */
static af_slice without_authority(af_slice target) {
    if (target.n < 7 || !shimmy_same_word(af_slice_of(target.p, 7), "http://")) return target;
    const char *slash = memchr(target.p + 7, '/', target.n - 7);
    if (!slash) return af_slice_text("/");
    return af_slice_of(slash, target.n - (size_t)(slash - target.p));
}

static int parse_request_line(af_slice line, shimmy_head *out, const char **why) {
    out->method = take_until(&line, ' ');
    af_slice target = take_until(&line, ' ');
    if (!is_token(out->method) || !target.n || line.n != 8 || memcmp(line.p, "HTTP/", 5) != 0)
        return refuse(400, why, "the first line is not 'METHOD TARGET HTTP/1.1'");
    if (line.p[5] != '1' || line.p[6] != '.' || line.p[7] < '0' || line.p[7] > '9')
        return refuse(505, why, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    for (size_t i = 0; i < target.n; i++)
        if ((unsigned char)target.p[i] <= ' ' || target.p[i] == 127)
            return refuse(400, why, "the request's target holds a control character");
    out->minor = line.p[7] - '0';
    out->query = without_authority(target);
    out->path = take_until(&out->query, '?');
    return 1;
}

static int parse_header(af_slice line, shimmy_head *out, const char **why) {
    if (out->header_count == SHIMMY_HEADERS) return refuse(431, why, "more than 100 header lines");
    const char *colon = memchr(line.p, ':', line.n);
    af_slice name = af_slice_of(line.p, colon ? (size_t)(colon - line.p) : 0);
    if (!is_token(name)) return refuse(400, why, "a header line is not 'Name: value'");
    af_slice value = trimmed(af_slice_of(colon + 1, line.n - name.n - 1));
    for (size_t i = 0; i < value.n; i++)
        if (((unsigned char)value.p[i] < ' ' && value.p[i] != '\t') || value.p[i] == 127)
            return refuse(400, why, "a header's value holds a control character");
    out->headers[out->header_count++] = (shimmy_header){name, value};
    return 1;
}

static int parse_length(af_slice value, uint64_t *out, const char **why) {
    uint64_t length = 0;
    for (size_t i = 0; i < value.n; i++) {
        if (value.p[i] < '0' || value.p[i] > '9') return refuse(400, why, "Content-Length is not a number");
        if (length > (UINT64_MAX - 9) / 10) return refuse(413, why, "Content-Length is past any limit");
        length = length * 10 + (uint64_t)(value.p[i] - '0');
    }
    if (!value.n) return refuse(400, why, "Content-Length is empty");
    *out = length;
    return 1;
}

/* Where the body ends. Anything two readers might see differently is refused: it is how requests get smuggled. */
static int decide_framing(shimmy_head *out, const char **why) {
    bool has_length = false;
    for (size_t i = 0; i < out->header_count; i++) {
        af_slice name = out->headers[i].name, value = out->headers[i].value;
        if (shimmy_same_word(name, "transfer-encoding")) {
            if (out->chunked || !shimmy_same_word(value, "chunked"))
                return refuse(501, why, "the only Transfer-Encoding understood is 'chunked', once");
            out->chunked = true;
        } else if (shimmy_same_word(name, "content-length")) {
            uint64_t length;
            int rc = parse_length(value, &length, why);
            if (rc < 0) return rc;
            if (has_length && length != out->length) return refuse(400, why, "two different Content-Length headers");
            has_length = true;
            out->length = length;
        }
    }
    if (out->chunked && (has_length || out->minor == 0))
        return refuse(400, why, "Transfer-Encoding beside Content-Length, or in HTTP/1.0");
    return 1;
}

static bool list_has(af_slice list, const char *word) {
    while (list.n)
        if (shimmy_same_word(trimmed(take_until(&list, ',')), word)) return true;
    return false;
}

static int decide_connection(shimmy_head *out, const char **why) {
    out->keep_alive = out->minor > 0;
    for (size_t i = 0; i < out->header_count; i++) {
        if (!shimmy_same_word(out->headers[i].name, "connection")) continue;
        if (list_has(out->headers[i].value, "close")) {
            out->keep_alive = false;
            break;
        }
        if (list_has(out->headers[i].value, "keep-alive")) out->keep_alive = true;
    }
    af_slice expect = shimmy_header_find(out, "expect");
    if (!expect.p) return 1;
    if (!shimmy_same_word(expect, "100-continue")) return refuse(417, why, "only Expect: 100-continue can be met");
    out->expects_continue = out->minor > 0;
    return 1;
}

/* Length of the head with its empty line, or 0 if it is not all there. */
static size_t head_length(af_slice bytes) {
    const char *p = bytes.p, *end = bytes.p + bytes.n;
    while (p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL) {
        p++;
        if (p < end && *p == '\n') return (size_t)(p + 1 - bytes.p);
        if (end - p >= 2 && p[0] == '\r' && p[1] == '\n') return (size_t)(p + 2 - bytes.p);
    }
    return 0;
}

int shimmy_parse_head(af_slice bytes, shimmy_head *out, size_t *consumed, const char **why) {
    size_t skip = 0; /* empty lines before a request, which old clients send after a body, are nothing */
    while (skip < bytes.n && (bytes.p[skip] == '\r' || bytes.p[skip] == '\n')) skip++;
    af_slice rest = af_slice_of(bytes.p + skip, bytes.n - skip);
    size_t length = head_length(rest);
    if (length > SHIMMY_HEAD_BYTES || (!length && bytes.n > SHIMMY_HEAD_BYTES))
        return refuse(431, why, "the request's head is longer than 32768 bytes");
    if (!length) return 0;
    *consumed = skip + length;
    rest.n = length;
    memset(out, 0, sizeof *out);
    af_slice line;
    take_line(&rest, &line);
    int rc = parse_request_line(line, out, why);
    while (rc > 0 && take_line(&rest, &line) && line.n) rc = parse_header(line, out, why);
    if (rc > 0) rc = decide_framing(out, why);
    if (rc > 0) rc = decide_connection(out, why);
    return rc;
}

/* ---- The chunked coding ---- */

enum { CHUNK_SIZE, CHUNK_EXTENSION, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER, CHUNK_TRAILER_LINE };

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of the line that gives a chunk's size. */
static int chunk_size_byte(shimmy_chunks *c, char byte, const char **why) {
    if (++c->line > CHUNK_LINE_BYTES) return refuse(400, why, "a chunk's size line is longer than 256 bytes");
    if (byte == '\n') {
        if (c->state == CHUNK_SIZE && c->line == 1) return refuse(400, why, "a chunk without a size");
        c->state = c->left ? CHUNK_DATA : CHUNK_TRAILER;
        c->line = 0;
        return 0;
    }
    if (c->state == CHUNK_EXTENSION) return 0;
    int digit = hex_value(byte);
    if (digit >= 0) {
        if (c->left >> 56) return refuse(413, why, "a chunk's size is past any limit");
        c->left = c->left * 16 + (uint64_t)digit;
    } else if (c->line > 1 && strchr("; \t\r", byte) && byte) {
        c->state = CHUNK_EXTENSION;
    } else {
        return refuse(400, why, "a chunk's size is not hexadecimal");
    }
    return 0;
}

/* After a chunk's data: the line break. */
static int chunk_end_byte(shimmy_chunks *c, char byte, const char **why) {
    if (byte == '\r' && c->line == 0) {
        c->line = 1;
        return 0;
    }
    if (byte != '\n') return refuse(400, why, "a chunk is longer than its size says");
    c->state = CHUNK_SIZE;
    c->line = 0;
    return 0;
}

/* Trailers are read over. 1 at the empty line that ends them. */
static int chunk_trailer_byte(shimmy_chunks *c, char byte, const char **why) {
    if (++c->line > TRAILER_BYTES) return refuse(431, why, "trailers longer than 8192 bytes");
    if (byte == '\n') {
        bool empty = c->state == CHUNK_TRAILER;
        c->state = CHUNK_TRAILER;
        return empty;
    }
    if (byte != '\r') c->state = CHUNK_TRAILER_LINE;
    return 0;
}

static int chunk_data(shimmy_chunks *c, af_slice bytes, af_buf *body, size_t *used, const char **why) {
    size_t n = bytes.n < c->left ? bytes.n : (size_t)c->left;
    if (body->ceiling && c->left > body->ceiling - body->len) return refuse(413, why, "body");
    if (!af_buf_append(body, bytes.p, n)) return refuse(413, why, "body");
    *used = n;
    c->left -= n;
    if (!c->left) c->state = CHUNK_END;
    return 0;
}

int shimmy_parse_chunks(shimmy_chunks *c, af_slice bytes, af_buf *body, size_t *consumed, const char **why) {
    size_t at = 0;
    int rc = 0;
    while (rc == 0 && at < bytes.n) {
        size_t used = 1;
        switch (c->state) {
        case CHUNK_SIZE:
        case CHUNK_EXTENSION:
            rc = chunk_size_byte(c, bytes.p[at], why);
            break;
        case CHUNK_DATA:
            rc = chunk_data(c, af_slice_of(bytes.p + at, bytes.n - at), body, &used, why);
            break;
        case CHUNK_END:
            rc = chunk_end_byte(c, bytes.p[at], why);
            break;
        default:
            rc = chunk_trailer_byte(c, bytes.p[at], why);
            break;
        }
        if (rc >= 0) at += used;
    }
    *consumed = at;
    return rc;
}

char *shimmy_percent_decode(af_slice text) {
    af_buf out = {0};
    for (size_t i = 0; i < text.n; i++) {
        char byte = text.p[i];
        if (byte == '%') {
            int high = i + 2 < text.n ? hex_value(text.p[i + 1]) : -1;
            int low = high >= 0 ? hex_value(text.p[i + 2]) : -1;
            byte = (char)(high * 16 + low);
            i += 2;
            if (high < 0 || low < 0 || !byte) goto malformed;
        }
        af_buf_byte(&out, byte);
    }
    return af_buf_take(&out, NULL);
malformed:
    af_buf_clear(&out);
    return NULL;
}
