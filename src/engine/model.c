/* model.c - af_model: an opened file with its text side and its plan, immutable once open.
 *
 * It joins what lies below (gguf, tokenizer, template, plan) for airframe.h's callers and knows nothing of how a plan
 * is run. A file whose architecture or template this build cannot use still opens with AF_LOAD_FILE; what failed is
 * said when it is asked for.
 */
#include "model/model.h"
#include "backend/backend.h"
#include "engine/model_internal.h"
#include "text/chat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct af_model {
    af_arena *arena; /* strings of the info */
    af_gguf *file;
    af_plan *plan;           /* NULL if there is none, then no_plan says why */
    af_tokenizer *tokenizer; /* NULL, then no_tokenizer says why */
    af_template *tmpl;       /* NULL, then no_template says why */
    af_error no_plan, no_tokenizer, no_template;
    af_model_info info;
};

af_model_options af_model_options_default(void) {
    return (af_model_options){.load = AF_LOAD_MODEL};
}

const af_plan *af_model_plan_of(const af_model *model) {
    return model->plan;
}

const af_tokenizer *af_model_tokenizer(const af_model *model) {
    return model->tokenizer;
}

void af_model_fingerprint(const af_model *model, unsigned char out[32]) {
    af_gguf_fingerprint(model->file, out);
}

int af_model_explain_text(const af_model *model, af_error *error) {
    if (error) *error = model->no_tokenizer;
    return model->no_tokenizer.code;
}

const af_template *af_model_template(const af_model *model, af_error *error) {
    if (!model->tmpl && error) *error = model->no_template;
    return model->tmpl;
}

void af_model_get_info(const af_model *model, af_model_info *out) {
    *out = model->info;
}

/* ---- What a file says of itself ---- */

/* general.file_type, as llama.cpp's llama_ftype numbers it (include/llama.h); "" for numbers it no longer uses. */
static const char *const file_types[] = {
    "F32",    "F16",    "Q4_0",   "Q4_1",    "",       "",       "",       "Q8_0",   "Q5_0",  "Q5_1",
    "Q2_K",   "Q3_K_S", "Q3_K_M", "Q3_K_L",  "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q5_K_M", "Q6_K",  "IQ2_XXS",
    "IQ2_XS", "Q2_K_S", "IQ3_XS", "IQ3_XXS", "IQ1_S",  "IQ4_NL", "IQ3_S",  "IQ3_M",  "IQ2_S", "IQ2_M",
    "IQ4_XS", "IQ1_M",  "BF16",   "",        "",       "",       "TQ1_0",  "TQ2_0",  "MXFP4",
};

typedef struct type_share {
    const af_format *format;
    uint64_t tensors, bytes;
} type_share;

static size_t share_types(const af_gguf *file, type_share *shares, size_t room) {
    size_t count = 0;
    for (size_t i = 0; i < af_gguf_tensor_count(file); i++) {
        const af_tensor *t = af_gguf_tensor_at(file, i);
        size_t k = 0;
        while (k < count && shares[k].format != t->format) k++;
        if (k == room) continue;
        if (k == count) shares[count++] = (type_share){.format = t->format};
        shares[k].tensors++;
        shares[k].bytes += t->bytes;
    }
    return count;
}

static int by_bytes(const void *a, const void *b) {
    const type_share *x = a, *y = b;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static const char *keep(af_model *m, af_buf *text) {
    const char *kept = af_arena_copy(m->arena, text->p ? text->p : "", text->len);
    af_buf_clear(text);
    return kept ? kept : "";
}

static void describe_types(af_model *m) {
    type_share shares[32];
    const size_t count = share_types(m->file, shares, sizeof shares / sizeof *shares);
    qsort(shares, count, sizeof *shares, by_bytes);
    af_buf mix = {0};
    for (size_t i = 0; i < count; i++)
        af_buf_printf(&mix, "%s%s %llu x %.1f MB", i ? ", " : "", shares[i].format->name,
                      (unsigned long long)shares[i].tensors, (double)shares[i].bytes / 1e6);
    m->info.mix = keep(m, &mix);
    m->info.quantization = count ? shares[0].format->name : "";
    uint32_t type;
    if (count && af_gguf_u32(m->file, "general.file_type", &type) && type < sizeof file_types / sizeof *file_types &&
        file_types[type][0])
        m->info.quantization = file_types[type];
}

static const char *keep_string(af_model *m, const char *key) {
    af_slice s;
    if (!af_gguf_string(m->file, key, &s)) return "";
    const char *kept = af_arena_copy(m->arena, s.p, s.n);
    return kept ? kept : "";
}

static uint32_t arch_u32(const af_model *m, const char *key) {
    char name[128];
    uint32_t value = 0;
    snprintf(name, sizeof name, "%.64s.%s", m->info.architecture, key);
    af_gguf_u32(m->file, name, &value);
    return value;
}

static void count_parameters(af_model *m) {
    const uint32_t experts = arch_u32(m, "expert_count"), used = experts ? arch_u32(m, "expert_used_count") : 0;
    m->info.experts = experts;
    m->info.experts_used = used;
    for (size_t i = 0; i < af_gguf_tensor_count(m->file); i++) {
        const af_tensor *t = af_gguf_tensor_at(m->file, i);
        const bool routed = t->name.n > 12 && memmem(t->name.p, t->name.n, "_exps.", 6) != NULL;
        m->info.parameters += t->elements;
        m->info.active_parameters += routed && experts && used < experts ? t->elements / experts * used : t->elements;
    }
}

static void read_sampling_hint(af_model *m) {
    af_sampling_hint *s = &m->info.sampling;
    *s = (af_sampling_hint){.temperature = NAN, .top_p = NAN, .min_p = NAN, .repeat_penalty = NAN, .top_k = -1};
    uint32_t top_k;
    af_gguf_f32(m->file, "general.sampling.temp", &s->temperature);
    af_gguf_f32(m->file, "general.sampling.top_p", &s->top_p);
    af_gguf_f32(m->file, "general.sampling.min_p", &s->min_p);
    af_gguf_f32(m->file, "general.sampling.penalty_repeat", &s->repeat_penalty);
    if (af_gguf_u32(m->file, "general.sampling.top_k", &top_k) && top_k <= INT32_MAX) s->top_k = (int32_t)top_k;
}

static void fill_info(af_model *m) {
    af_model_info *info = &m->info;
    const af_gguf_array *tokens = af_gguf_get_array(m->file, "tokenizer.ggml.tokens");
    info->path = af_gguf_path(m->file);
    info->name = keep_string(m, "general.name");
    info->architecture = keep_string(m, "general.architecture");
    info->file_bytes = af_gguf_file_bytes(m->file);
    info->shards = af_gguf_shards(m->file);
    info->tensors = af_gguf_tensor_count(m->file);
    info->context = arch_u32(m, "context_length");
    info->width = arch_u32(m, "embedding_length");
    info->layers = arch_u32(m, "block_count");
    info->vocabulary = tokens ? (uint32_t)af_gguf_array_count(tokens) : 0;
    info->has_template = af_gguf_has(m->file, "tokenizer.chat_template");
    info->why_not = "";
    describe_types(m);
    count_parameters(m);
    read_sampling_hint(m);
}

/* ---- Opening ---- */

static void open_template(af_model *m) {
    af_slice source;
    if (af_gguf_string(m->file, "tokenizer.chat_template", &source))
        af_template_open(source.p, source.n, &m->tmpl, &m->no_template);
    else
        af_template_open(af_chat_default_template, strlen(af_chat_default_template), &m->tmpl, &m->no_template);
}

static void open_plan(af_model *m, uint32_t ctx) {
    if (af_model_plan(m->file, ctx, &m->plan, &m->no_plan) != AF_OK) {
        m->info.why_not = m->no_plan.text;
        return;
    }
    m->info.runnable = true;
    m->info.generates = af_plan_head(m->plan) != NULL;
    m->info.pooling = m->plan->pooling;
    m->info.vocabulary = m->plan->vocabulary;
    if (!m->info.context) m->info.context = m->plan->context;
    m->info.kv_bytes = af_plan_kv_bytes(m->plan, m->plan->context, af_kv_cost_of(AF_KV_F16));
    m->info.kv_bytes_q8_0 = af_plan_kv_bytes(m->plan, m->plan->context, af_kv_cost_of(AF_KV_Q8_0));
}

static void judge_header(af_model *m) {
    af_slice architecture = af_slice_text(m->info.architecture);
    if (m->info.tensors == 0)
        m->info.why_not = "the file holds no tensors";
    else if (!af_family_of(architecture))
        m->info.why_not = "its architecture is not one this build runs";
    m->info.runnable = !m->info.why_not[0];
}

/* The vocabulary and the output rows must agree, or ids would have no text (or text no row). */
static int check_vocabulary(const af_model *m, af_error *error) {
    if (!m->tokenizer || !m->plan || af_tokenizer_count(m->tokenizer) <= m->plan->vocabulary) return AF_OK;
    return af_fail(error, AF_EFORMAT, "%s: tokenizer.ggml.tokens: found %u tokens, token_embd.weight has %u rows",
                   m->info.path, af_tokenizer_count(m->tokenizer), m->plan->vocabulary);
}

static int require_all(const af_model *m, af_error *error) {
    const af_error *missing = !m->plan ? &m->no_plan : !m->tokenizer ? &m->no_tokenizer : NULL;
    if (!missing) return check_vocabulary(m, error);
    if (error) *error = *missing;
    return missing->code;
}

int af_model_open(const char *path, const af_model_options *options, af_model **out, af_error *error) {
    const af_model_options o = options ? *options : af_model_options_default();
    af_model *m = calloc(1, sizeof *m);
    if (!m) return af_fail_memory(error, sizeof *m, "a model");
    int status = AF_OK;
    m->arena = af_arena_open(0);
    if (!m->arena) {
        status = af_fail_memory(error, sizeof *m, "a model");
        goto failed;
    }
    status = af_gguf_open(path, &m->file, error);
    if (status != AF_OK) goto failed;
    fill_info(m);
    if (o.load == AF_LOAD_HEADER) {
        judge_header(m);
    } else {
        af_tokenizer_open(m->file, &m->tokenizer, &m->no_tokenizer);
        open_template(m);
        open_plan(m, o.ctx);
    }
    if (o.load == AF_LOAD_MODEL) status = require_all(m, error);
    if (status != AF_OK) goto failed;
    *out = m;
    return AF_OK;
failed:
    af_model_close(m);
    return status;
}

void af_model_close(af_model *m) {
    if (!m) return;
    af_template_close(m->tmpl);
    af_tokenizer_close(m->tokenizer);
    af_plan_close(m->plan);
    af_gguf_close(m->file);
    af_arena_close(m->arena);
    free(m);
}
