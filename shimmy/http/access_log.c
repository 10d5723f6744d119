/* access_log.c - see access_log.h. A line is one write, so that lines of several servers on one stderr stay whole. */
#include "http/access_log.h"

#include "base/os.h"
#include "openai/write.h"

#include <stdio.h>
#include <time.h>

/* "2026-11-30T05:04:59Z" */
static void write_time(af_buf *out) {
    const time_t now = (time_t)af_os_unix_time();
    struct tm utc;
    char text[32] = "";
    if (gmtime_r(&now, &utc)) strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    af_buf_text(out, text);
}

static void write_json(af_buf *out, const shimmy_http_done *done) {
    af_buf_text(out, "{\"time\":\"");
    write_time(out);
    af_buf_printf(out, "\",\"id\":\"%s\",\"status\":%d,\"method\":", done->id, done->status);
    shimmy_write_string(out, done->method.p, done->method.n);
    af_buf_text(out, ",\"path\":");
    shimmy_write_string(out, done->path.p, done->path.n);
    af_buf_printf(out, ",\"ms\":%.3f", (double)done->nanoseconds / 1e6);
    if (done->model) {
        af_buf_text(out, ",\"model\":");
        shimmy_write_text(out, done->model);
    }
    if (done->tokens.prompt)
        af_buf_printf(out, ",\"prompt_tokens\":%llu,\"cached_tokens\":%llu,\"completion_tokens\":%llu",
                      (unsigned long long)done->tokens.prompt, (unsigned long long)done->tokens.cached,
                      (unsigned long long)done->tokens.completion);
    af_buf_text(out, "}\n");
}

/* Bytes that could steer a terminal are written as JSON would write them. */
static void write_plain(af_buf *out, af_slice text) {
    af_buf quoted = {0};
    shimmy_write_string(&quoted, text.p, text.n);
    if (quoted.len >= 2) af_buf_append(out, quoted.p + 1, quoted.len - 2);
    af_buf_clear(&quoted);
}

static void write_text(af_buf *out, const shimmy_http_done *done) {
    write_time(out);
    af_buf_printf(out, " %d ", done->status);
    write_plain(out, done->method);
    af_buf_byte(out, ' ');
    write_plain(out, done->path);
    af_buf_printf(out, " %.1f ms %s", (double)done->nanoseconds / 1e6, done->id);
    if (done->model) {
        af_buf_byte(out, ' ');
        write_plain(out, af_slice_text(done->model));
    }
    if (done->tokens.prompt)
        af_buf_printf(out, ", prompt %llu (%llu cached), answer %llu tokens", (unsigned long long)done->tokens.prompt,
                      (unsigned long long)done->tokens.cached, (unsigned long long)done->tokens.completion);
    af_buf_byte(out, '\n');
}

void shimmy_log_request(shimmy_log_form form, const shimmy_http_done *done) {
    af_buf line = {0};
    if (form == SHIMMY_LOG_OFF) return;
    (form == SHIMMY_LOG_JSON ? write_json : write_text)(&line, done);
    if (!line.failed) fwrite(line.p, 1, line.len, stderr);
    af_buf_clear(&line);
}
