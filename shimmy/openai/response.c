/* response.c - see response.h. */
#include "openai/response.h"

#include "base/os.h"
#include "openai/logprobs.h"
#include "openai/write.h"

#include <stdio.h>
#include <string.h>

void shimmy_answer_begin(shimmy_answer_head *head, bool chat, const char *model, int64_t created) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[24];
    af_os_random(random, sizeof random);
    memset(head, 0, sizeof *head);
    head->chat = chat;
    head->model = model;
    head->created = created;
    size_t at = (size_t)snprintf(head->id, sizeof head->id, "%s", chat ? "chatcmpl-" : "cmpl-");
    for (size_t i = 0; i < sizeof random; i++) head->id[at++] = letters[random[i] % (sizeof letters - 1)];
}

static void write_head(af_buf *out, const shimmy_answer_head *head, const char *object) {
    af_buf_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", head->id, object,
                  (long long)head->created);
    shimmy_write_text(out, head->model);
    af_buf_printf(out, ",\"system_fingerprint\":\"shimmy-%s\"", af_version());
}

static void write_chunk_head(af_buf *out, const shimmy_answer_head *head) {
    write_head(out, head, head->chat ? "chat.completion.chunk" : "text_completion");
}

static void write_chances(af_buf *out, const shimmy_answer_head *head, const af_buf *chances) {
    af_buf_text(out, ",\"logprobs\":");
    if (head->pieces && chances && chances->len)
        shimmy_write_logprobs(out, head->chat, head->pieces, chances);
    else
        af_buf_text(out, "null");
}

static void write_finish(af_buf *out, af_finish finish) {
    static const char *const names[] = {
        [AF_FINISH_NONE] = "null",       [AF_FINISH_STOP] = "\"stop\"", [AF_FINISH_LENGTH] = "\"length\"",
        [AF_FINISH_CANCEL] = "\"stop\"", [AF_FINISH_ERROR] = "null",
    };
    af_buf_printf(out, ",\"finish_reason\":%s}", names[finish]);
}

static void write_usage(af_buf *out, const shimmy_usage *usage) {
    af_buf_printf(out,
                  ",\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu,"
                  "\"prompt_tokens_details\":{\"cached_tokens\":%llu},"
                  "\"completion_tokens_details\":{\"accepted_prediction_tokens\":%llu,"
                  "\"rejected_prediction_tokens\":%llu}}",
                  (unsigned long long)usage->prompt, (unsigned long long)usage->completion,
                  (unsigned long long)(usage->prompt + usage->completion), (unsigned long long)usage->cached,
                  (unsigned long long)usage->accepted, (unsigned long long)usage->rejected);
}

static void write_reasoning(af_buf *out, const shimmy_piece *piece) {
    af_buf_text(out, "\"reasoning_content\":");
    shimmy_write_string(out, piece->reasoning, piece->reasoning_length);
}

static void write_delta(af_buf *out, const shimmy_piece *piece) {
    af_buf_text(out, ",\"delta\":{");
    if (piece->opens) af_buf_text(out, "\"role\":\"assistant\",");
    if (piece->reasoning_length) write_reasoning(out, piece);
    if (piece->reasoning_length && piece->length) af_buf_byte(out, ',');
    if (piece->opens || piece->length) {
        af_buf_text(out, "\"content\":");
        shimmy_write_string(out, piece->text, piece->length);
    }
    af_buf_byte(out, '}');
}

static void write_text(af_buf *out, const shimmy_piece *piece) {
    af_buf_text(out, ",\"text\":");
    shimmy_write_string(out, piece->text, piece->length);
}

static void write_message(af_buf *out, const shimmy_piece *piece) {
    af_buf_text(out, ",\"message\":{\"role\":\"assistant\",\"content\":");
    shimmy_write_string(out, piece->text, piece->length);
    if (piece->reasoning_length) {
        af_buf_byte(out, ',');
        write_reasoning(out, piece);
    }
    af_buf_text(out, ",\"refusal\":null}");
}

void shimmy_write_chunk(af_buf *out, const shimmy_answer_head *head, const shimmy_piece *piece) {
    write_chunk_head(out, head);
    af_buf_printf(out, ",\"choices\":[{\"index\":%zu", piece->index);
    if (head->chat)
        write_delta(out, piece);
    else
        write_text(out, piece);
    write_chances(out, head, piece->chances);
    write_finish(out, piece->finish);
    af_buf_byte(out, ']');
    if (head->include_usage) af_buf_text(out, ",\"usage\":null");
    af_buf_byte(out, '}');
}

void shimmy_write_usage_chunk(af_buf *out, const shimmy_answer_head *head, const shimmy_usage *usage) {
    write_chunk_head(out, head);
    af_buf_text(out, ",\"choices\":[]");
    write_usage(out, usage);
    af_buf_byte(out, '}');
}

void shimmy_write_answer(af_buf *out, const shimmy_answer_head *head, const shimmy_piece *choices, size_t count,
                         const shimmy_usage *usage) {
    write_head(out, head, head->chat ? "chat.completion" : "text_completion");
    af_buf_text(out, ",\"choices\":[");
    for (size_t i = 0; i < count; i++) {
        af_buf_printf(out, "%s{\"index\":%zu", i ? "," : "", choices[i].index);
        if (head->chat)
            write_message(out, &choices[i]);
        else
            write_text(out, &choices[i]);
        write_chances(out, head, choices[i].chances);
        write_finish(out, choices[i].finish);
    }
    af_buf_byte(out, ']');
    write_usage(out, usage);
    af_buf_byte(out, '}');
}

/* "status" has the form of llama.cpp's server of several models. */
static void write_status(af_buf *out, const shimmy_model_card *card) {
    af_buf_printf(out, ",\"status\":{\"value\":\"%s\"", card->status);
    if (card->progress >= 0) af_buf_printf(out, ",\"progress\":%.3g", card->progress);
    if (*card->error) {
        af_buf_text(out, ",\"failed\":true,\"error\":");
        shimmy_write_text(out, card->error);
    }
    af_buf_byte(out, '}');
}

void shimmy_write_model(af_buf *out, const shimmy_model_card *card) {
    const af_model_info *info = card->info;
    af_buf_text(out, "{\"id\":");
    shimmy_write_text(out, card->name);
    af_buf_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"local\"", (long long)card->created);
    write_status(out, card);
    af_buf_text(out, ",\"meta\":{\"architecture\":");
    shimmy_write_text(out, info ? info->architecture : card->architecture);
    af_buf_text(out, ",\"quantization\":");
    shimmy_write_text(out, info ? info->quantization : card->quantization);
    af_buf_printf(out, ",\"size\":%llu", (unsigned long long)(info ? info->file_bytes : card->bytes));
    if (info)
        af_buf_printf(out, ",\"parameters\":%llu,\"n_ctx\":%u,\"n_ctx_train\":%u,\"n_vocab\":%u",
                      (unsigned long long)info->parameters, card->context, info->context, info->vocabulary);
    af_buf_text(out, "}}");
}
