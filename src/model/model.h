/* model.h - families: from a file to a plan.
 *
 * A family is one file (llama.c, gemma3.c) and one line in families.c's table. It reads its hyperparameters, binds its
 * tensors by name and appends operations. binder.h has what all of them share: required and optional metadata and
 * tensors with their shapes checked, errors that name the tensor, found and expected.
 */
#ifndef AF_MODEL_H
#define AF_MODEL_H

#include "gguf/gguf.h"
#include "plan/plan.h"

struct af_binder;

typedef struct af_family {
    const char *architecture; /* general.architecture */
    int (*build)(struct af_binder *binder);
} af_family;

/* NULL if this build does not know the architecture. */
const af_family *af_family_of(af_slice architecture);
const af_family *af_family_at(size_t index); /* until NULL */

/* Builds the plan of a file; ctx is the context the caller will use (0: native). AF_EUNSUPPORTED names an unknown
 * architecture; AF_EFORMAT a missing or misshapen tensor. */
int af_model_plan(const af_gguf *file, uint32_t ctx, af_plan **out, af_error *error);

#endif
