/* model_internal.h - what the engine sees of an af_model that callers of airframe.h do not. */
#ifndef AF_MODEL_INTERNAL_H
#define AF_MODEL_INTERNAL_H

#include "gguf/gguf.h"
#include "plan/plan.h"
#include "text/tokenizer.h"

/* NULL where the model was opened with AF_LOAD_FILE or its architecture is not one this build runs. */
const af_plan *af_model_plan_of(const af_model *model);
/* NULL where the file holds no vocabulary this build reads. */
const af_tokenizer *af_model_tokenizer(const af_model *model);
/* 32 bytes that tell it from other models (gguf.h). */
void af_model_fingerprint(const af_model *model, unsigned char out[32]);
/* Why there is no tokenizer. Returns the code. */
int af_model_explain_text(const af_model *model, af_error *error);
/* The model's template or the default one; NULL with the error where the file's own does not parse. */
const af_template *af_model_template(const af_model *model, af_error *error);

#endif
