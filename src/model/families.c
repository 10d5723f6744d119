/* families.c - the table of architectures. A new one is a file beside this and a line here. */
#include "model/families.h"

#include "base/buf.h"

static const af_family families[] = {
    {"llama", af_llama_build},
    {"mistral3", af_mistral3_build},
    {"qwen2", af_qwen2_build},
    {"qwen3", af_qwen3_build},
    {"phi2", af_phi2_build},
    {"phi3", af_phi3_build},
    {"gemma", af_gemma_build},
    {"gemma2", af_gemma2_build},
    {"gemma3", af_gemma3_build},
    {"granite", af_granite_build},
    {"command-r", af_command_r_build},
    {"cohere2", af_cohere2_build},
    {"glm4", af_glm4_build},
    {"smollm3", af_smollm3_build},
    {"olmo2", af_olmo2_build},
    {"stablelm", af_stablelm_build},
    {"starcoder2", af_starcoder2_build},
    {"falcon", af_falcon_build},
    {"gpt2", af_gpt2_build},
    {"bert", af_bert_build},
    {"nomic-bert", af_nomic_bert_build},
    {"qwen35", af_qwen35_build},
    {"qwen2moe", af_qwen2moe_build},
    {"qwen3moe", af_qwen3moe_build},
    {"granitemoe", af_granitemoe_build},
    {"gpt-oss", af_gpt_oss_build},
    {"deepseek2", af_deepseek2_build},
};

const af_family *af_family_at(size_t index) {
    return index < sizeof families / sizeof *families ? &families[index] : NULL;
}

const af_family *af_family_of(af_slice architecture) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (af_slice_is(architecture, families[i].architecture)) return &families[i];
    return NULL;
}

static int fail_unknown(const af_gguf *file, af_slice architecture, af_error *error) {
    af_buf known = {0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        af_buf_printf(&known, "%s%s", i ? ", " : "", families[i].architecture);
    const int code = af_fail(error, AF_EUNSUPPORTED, "%s: general.architecture: found \"%.*s\", this build runs %s",
                             af_gguf_path(file), (int)(architecture.n < 64 ? architecture.n : 64), architecture.p,
                             known.p ? known.p : "none");
    af_buf_clear(&known);
    return code;
}

int af_model_plan(const af_gguf *file, uint32_t ctx, af_plan **out, af_error *error) {
    af_slice architecture;
    if (!af_gguf_string(file, "general.architecture", &architecture))
        return af_fail(error, AF_EFORMAT, "%s: general.architecture: missing", af_gguf_path(file));
    const af_family *family = af_family_of(architecture);
    if (!family) return fail_unknown(file, architecture, error);

    af_plan *plan;
    int status = af_plan_open(&plan, error);
    if (status != AF_OK) return status;
    af_binder binder = {.file = file, .plan = plan, .arch = architecture, .ctx = ctx, .error = error};
    status = family->build(&binder);
    if (status != AF_OK) {
        af_plan_close(plan);
        return status;
    }
    *out = plan;
    return AF_OK;
}
