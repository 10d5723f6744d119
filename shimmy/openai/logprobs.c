/* logprobs.c - see logprobs.h. */
#include "openai/logprobs.h"

#include "openai/write.h"

#include <math.h>

#define IMPOSSIBLE -9999.0 /* OpenAI's number for what has no finite logarithm */

uint32_t shimmy_characters(const char *bytes, size_t length) {
    uint32_t count = 0;
    for (size_t i = 0; i < length; i++) count += ((unsigned char)bytes[i] & 0xC0) != 0x80;
    return count;
}

bool shimmy_chances_push(af_buf *chances, const af_logprob *logprob, uint32_t offset) {
    const shimmy_token_chance chance = {*logprob, offset};
    return af_buf_append(chances, (const char *)&chance, sizeof chance);
}

static void write_number(af_buf *out, float logprob) {
    af_buf_printf(out, "%.8g", isfinite(logprob) ? (double)logprob : IMPOSSIBLE);
}

static void write_piece(af_buf *out, const af_model *model, int32_t id) {
    const char *text = "";
    size_t length = 0;
    af_token_piece(model, id, &text, &length);
    shimmy_write_string(out, text, length);
}

/* {"token", "logprob", "bytes": the fields of one token, without the closing brace. */
static void open_token(af_buf *out, const af_model *model, int32_t id, float logprob) {
    const char *text = "";
    size_t length = 0;
    af_token_piece(model, id, &text, &length);
    af_buf_printf(out, "{\"id\":%d,\"token\":", (int)id);
    shimmy_write_string(out, text, length);
    af_buf_text(out, ",\"logprob\":");
    write_number(out, logprob);
    af_buf_text(out, ",\"bytes\":[");
    for (size_t i = 0; i < length; i++) af_buf_printf(out, "%s%u", i ? "," : "", (unsigned char)text[i]);
    af_buf_byte(out, ']');
}

static void write_chat(af_buf *out, const af_model *model, const shimmy_token_chance *chances, size_t count) {
    af_buf_text(out, "{\"content\":[");
    for (size_t i = 0; i < count; i++) {
        const af_logprob *l = &chances[i].logprob;
        if (i) af_buf_byte(out, ',');
        open_token(out, model, l->id, l->logprob);
        af_buf_text(out, ",\"top_logprobs\":[");
        for (uint32_t k = 0; k < l->top_count; k++) {
            if (k) af_buf_byte(out, ',');
            open_token(out, model, l->top_ids[k], l->top[k]);
            af_buf_byte(out, '}');
        }
        af_buf_text(out, "]}");
    }
    af_buf_text(out, "],\"refusal\":null}");
}

/* The likeliest of a place as an object of token texts, as OpenAI has it: tokens of parts of a character share a key.
 */
static void write_top(af_buf *out, const af_model *model, const af_logprob *l) {
    if (isnan(l->logprob)) {
        af_buf_text(out, "null");
        return;
    }
    af_buf_byte(out, '{');
    for (uint32_t k = 0; k < l->top_count; k++) {
        if (k) af_buf_byte(out, ',');
        write_piece(out, model, l->top_ids[k]);
        af_buf_byte(out, ':');
        write_number(out, l->top[k]);
    }
    af_buf_byte(out, '}');
}

typedef enum column { TOKENS, LOGPROBS, TOP, OFFSETS } column;

static void write_item(af_buf *out, const af_model *model, const shimmy_token_chance *chance, column which) {
    switch (which) {
    case TOKENS:
        write_piece(out, model, chance->logprob.id);
        break;
    case LOGPROBS:
        if (isnan(chance->logprob.logprob))
            af_buf_text(out, "null");
        else
            write_number(out, chance->logprob.logprob);
        break;
    case TOP:
        write_top(out, model, &chance->logprob);
        break;
    case OFFSETS:
        af_buf_printf(out, "%u", chance->offset);
    }
}

static void write_columns(af_buf *out, const af_model *model, const shimmy_token_chance *chances, size_t count) {
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    for (int which = TOKENS; which <= OFFSETS; which++) {
        af_buf_printf(out, "%c\"%s\":[", which ? ',' : '{', names[which]);
        for (size_t i = 0; i < count; i++) {
            if (i) af_buf_byte(out, ',');
            write_item(out, model, &chances[i], (column)which);
        }
        af_buf_byte(out, ']');
    }
    af_buf_byte(out, '}');
}

void shimmy_write_logprobs(af_buf *out, bool chat, const af_model *model, const af_buf *chances) {
    const shimmy_token_chance *first = (const void *)chances->p;
    (chat ? write_chat : write_columns)(out, model, first, chances->len / sizeof *first);
}
