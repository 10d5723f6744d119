/* model_text.c - the text side of an opened model: ids, bytes and prompts, for airframe.h's callers. */
#include "engine/model_internal.h"
#include "text/chat.h"

#include <stdlib.h>
#include <string.h>

/* The tokenizer, or NULL with an error that names the file. */
static const af_tokenizer *tokenizer_of(const af_model *model, af_error *error) {
    const af_tokenizer *tok = af_model_tokenizer(model);
    if (!tok) af_model_explain_text(model, error);
    return tok;
}

static int take_ids(af_ids *ids, int status, int32_t **out, size_t *count, af_error *error) {
    if (status == AF_OK && ids->failed) status = af_fail_memory(error, ids->len * sizeof *ids->p, "token ids");
    if (status != AF_OK) {
        af_ids_clear(ids);
        return status;
    }
    *out = ids->p;
    *count = ids->len;
    return AF_OK;
}

int af_tokenize(const af_model *model, const char *text, size_t length, unsigned flags, int32_t **ids, size_t *count,
                af_error *error) {
    const af_tokenizer *tok = tokenizer_of(model, error);
    if (!tok) return AF_EUNSUPPORTED;
    af_ids found = {0};
    const int status = af_tokenizer_encode(tok, text, length, NULL, flags, &found, error);
    return take_ids(&found, status, ids, count, error);
}

int af_detokenize(const af_model *model, const int32_t *ids, size_t count, char **text, size_t *length,
                  af_error *error) {
    const af_tokenizer *tok = tokenizer_of(model, error);
    if (!tok) return AF_EUNSUPPORTED;
    const uint32_t known = af_tokenizer_count(tok);
    for (size_t i = 0; i < count; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= known)
            return af_fail(error, AF_EINVAL, "token %zu: found id %d, allowed 0 to %u", i, ids[i], known - 1);
    af_buf out = {0};
    int status = af_tokenizer_decode(tok, ids, count, &out, error);
    if (status == AF_OK && (out.failed || !af_buf_append(&out, "", 0))) status = af_fail_memory(error, out.len, "text");
    if (status != AF_OK) {
        af_buf_clear(&out);
        return status;
    }
    *text = af_buf_take(&out, length);
    return AF_OK;
}

int af_token_piece(const af_model *model, int32_t id, const char **text, size_t *length) {
    const af_tokenizer *tok = af_model_tokenizer(model);
    if (!tok) return AF_EUNSUPPORTED;
    if (id < 0 || (uint32_t)id >= af_tokenizer_count(tok)) return AF_EINVAL;
    const af_slice piece = af_tokenizer_piece(tok, id, true);
    *text = piece.p;
    *length = piece.n;
    return AF_OK;
}

bool af_token_is_end(const af_model *model, int32_t id) {
    const af_tokenizer *tok = af_model_tokenizer(model);
    return tok && af_tokenizer_is_end(tok, id);
}

void af_prompt_clear(af_prompt *prompt) {
    free(prompt->text);
    free(prompt->origin);
    *prompt = (af_prompt){0};
}

/* A token's name as a NUL-terminated copy, "" for no token. */
static char *token_name(const af_tokenizer *tok, int32_t id) {
    const af_slice text = tok && id >= 0 ? af_tokenizer_text(tok, id) : (af_slice){"", 0};
    return strndup(text.n ? text.p : "", text.n);
}

int af_model_render(const af_model *model, const af_template *custom, const char *request, size_t length,
                    const af_render_options *options, af_prompt *out, af_error *error) {
    const af_template *tmpl = custom ? custom : af_model_template(model, error);
    if (!tmpl) return AF_EFORMAT;
    af_render_options o = options ? *options : af_render_options_default();
    const af_tokenizer *tok = af_model_tokenizer(model);
    char *bos = token_name(tok, tok ? af_tokenizer_bos(tok) : -1);
    char *eos = token_name(tok, tok ? af_tokenizer_eos(tok) : -1);
    int status;
    if (bos && eos) {
        o.bos = o.bos ? o.bos : bos;
        o.eos = o.eos ? o.eos : eos;
        status = af_template_render(tmpl, request, length, &o, out, error);
    } else {
        status = af_fail_memory(error, 16, "token names");
    }
    free(bos);
    free(eos);
    return status;
}

bool af_model_template_mentions(const af_model *model, const af_template *custom, const char *text) {
    const af_template *tmpl = custom ? custom : af_model_template(model, NULL);
    return tmpl && af_jinja_mentions(af_template_jinja(tmpl), text);
}

int af_prompt_tokenize(const af_model *model, const af_prompt *prompt, int32_t **ids, size_t *count, af_error *error) {
    const af_tokenizer *tok = tokenizer_of(model, error);
    if (!tok) return AF_EUNSUPPORTED;
    const int32_t bos = af_tokenizer_bos(tok);
    af_ids found = {0};
    if (af_tokenizer_adds_bos(tok) && bos >= 0) af_ids_push(&found, bos);
    const size_t added = found.len;
    const int status =
        af_tokenizer_encode(tok, prompt->text, prompt->length, prompt->origin, AF_PARSE_SPECIAL, &found, error);
    if (status == AF_OK && added && found.len > added && found.p[added] == bos) { /* the template wrote it too */
        found.len--;
        memmove(found.p, found.p + 1, found.len * sizeof *found.p);
    }
    return take_ids(&found, status, ids, count, error);
}
