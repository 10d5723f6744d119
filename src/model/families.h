/* families.h - the builders families.c lists, one file each. */
#ifndef AF_FAMILIES_H
#define AF_FAMILIES_H

#include "model/binder.h"

int af_llama_build(af_binder *b);
int af_mistral3_build(af_binder *b);
int af_qwen2_build(af_binder *b);
int af_qwen3_build(af_binder *b);
int af_phi2_build(af_binder *b);
int af_phi3_build(af_binder *b);
int af_gemma_build(af_binder *b);
int af_gemma2_build(af_binder *b);
int af_gemma3_build(af_binder *b);
int af_granite_build(af_binder *b);
int af_command_r_build(af_binder *b);
int af_cohere2_build(af_binder *b);
int af_glm4_build(af_binder *b);
int af_smollm3_build(af_binder *b);
int af_olmo2_build(af_binder *b);
int af_stablelm_build(af_binder *b);
int af_starcoder2_build(af_binder *b);
int af_falcon_build(af_binder *b);
int af_gpt2_build(af_binder *b);
int af_bert_build(af_binder *b);
int af_nomic_bert_build(af_binder *b);
int af_qwen35_build(af_binder *b);
int af_qwen2moe_build(af_binder *b);
int af_qwen3moe_build(af_binder *b);
int af_granitemoe_build(af_binder *b);
int af_gpt_oss_build(af_binder *b);
int af_deepseek2_build(af_binder *b);

#endif
