/* cmd_probe.c - `shimmy probe`: what a file is, without running it.
 *
 * The file is opened fully, plan included, so that a damaged one is refused here as anywhere else. A sound file of an
 * architecture that this build does not run is still described, and said to be that.
 */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"

#include <inttypes.h>
#include <stdio.h>

static const char *pooling_name(af_pooling pooling) {
    static const char *const names[] = {
        [AF_POOLING_MODEL] = "",    [AF_POOLING_MEAN] = "mean", [AF_POOLING_CLS] = "cls",
        [AF_POOLING_LAST] = "last", [AF_POOLING_NONE] = "",
    };
    return names[pooling];
}

static json_t *info_json(const af_model_info *info, const char *name) {
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:o, s:b, s:s}",
        "name", shimmy_json_string(name), "path", shimmy_json_string(info->path), "title",
        shimmy_json_string(info->name), "architecture", shimmy_json_string(info->architecture), "parameters",
        (json_int_t)info->parameters, "active_parameters", (json_int_t)info->active_parameters, "experts",
        (json_int_t)info->experts, "experts_used", (json_int_t)info->experts_used, "quantization",
        shimmy_json_string(info->quantization), "mix", shimmy_json_string(info->mix), "context",
        (json_int_t)info->context, "kv_bytes", (json_int_t)info->kv_bytes, "kv_bytes_q8_0",
        (json_int_t)info->kv_bytes_q8_0, "file_bytes", (json_int_t)info->file_bytes, "shards", (json_int_t)info->shards,
        "tensors", (json_int_t)info->tensors, "vocabulary", (json_int_t)info->vocabulary, "layers",
        (json_int_t)info->layers, "chat_template", info->has_template, "runnable", info->runnable, "why_not",
        shimmy_json_string(shimmy_without_path(info->why_not, info->path)), "generates", info->generates, "pooling",
        pooling_name(info->pooling));
}

static void print_amount(const char *label, uint64_t count) {
    char text[SHIMMY_SIZE_TEXT];
    printf("%-20s%s (%" PRIu64 ")\n", label, shimmy_amount(count, text), count);
}

static void print_info(const af_model_info *info, const char *name) {
    char size[SHIMMY_SIZE_TEXT];
    printf("%-20s%s\n", "name", name);
    if (*info->name) printf("%-20s%s\n", "title", info->name);
    printf("%-20s%s, %s\n", "file", info->path, shimmy_size(info->file_bytes, size));
    if (info->shards > 1) printf("%-20s%" PRIu32 "\n", "shards", info->shards);
    printf("%-20s%s%s\n", "architecture", *info->architecture ? info->architecture : "not given",
           info->runnable ? "" : " (not runnable)");
    print_amount("parameters", info->parameters);
    print_amount("active parameters", info->active_parameters);
    if (info->experts)
        printf("%-20s%" PRIu32 " a layer, of which a token uses %" PRIu32 "\n", "experts", info->experts,
               info->experts_used);
    if (info->tensors)
        printf("%-20s%s: %s\n", "quantization", info->quantization, info->mix);
    else
        printf("%-20s%s\n", "quantization", "none: a vocabulary without tensors");
    printf("%-20s%" PRIu32 " tokens\n", "context", info->context);
    if (info->kv_bytes) {
        char smaller[SHIMMY_SIZE_TEXT];
        printf("%-20s%s for that context at f16 (%" PRIu64 "), %s at q8_0\n", "kv bytes",
               shimmy_size(info->kv_bytes, size), info->kv_bytes, shimmy_size(info->kv_bytes_q8_0, smaller));
    }
    printf("%-20s%" PRIu32 " tokens\n", "vocabulary", info->vocabulary);
    printf("%-20s%s\n", "chat template", info->has_template ? "yes" : "no");
    if (*pooling_name(info->pooling))
        printf("%-20s%sembeddings (%s)\n", "gives", info->generates ? "text, " : "", pooling_name(info->pooling));
    if (!info->runnable) printf("%-20s%s\n", "not runnable", shimmy_without_path(info->why_not, info->path));
}

/* As a model to run; failing that, as a file to describe, unless the file claims to be one we run. */
static int open_fully(const shimmy_options *options, shimmy_session *session, af_model_info *info, af_error *error) {
    int status = shimmy_session_model(options, options->arguments[0], AF_LOAD_MODEL, session, error);
    const bool describe = status == AF_EUNSUPPORTED || status == AF_EFORMAT;
    if (describe && shimmy_session_model(options, options->arguments[0], AF_LOAD_FILE, session, NULL) == 0) {
        af_model_get_info(session->model, info);
        if (!info->runnable) return 0;
        shimmy_session_close(session);
    }
    if (!status) af_model_get_info(session->model, info);
    return status;
}

int shimmy_cmd_probe(const shimmy_options *options, af_error *error) {
    shimmy_session session;
    af_model_info info;
    int status = open_fully(options, &session, &info, error);
    if (status) return status;
    if (options->json)
        status = shimmy_print_json(info_json(&info, session.name), error);
    else
        print_info(&info, session.name);
    shimmy_session_close(&session);
    return status;
}
