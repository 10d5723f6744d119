/* families.h - the builders families.c lists, one file each. */
#ifndef AF_FAMILIES_H
#define AF_FAMILIES_H

#include "model/binder.h"

int af_llama_build(af_binder *b);
int af_gemma3_build(af_binder *b);

#endif
