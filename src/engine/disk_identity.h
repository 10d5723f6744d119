/* disk_identity.h - which pages on disk are this engine's (page_file.h, af_page_kind). */
#ifndef AF_DISK_IDENTITY_H
#define AF_DISK_IDENTITY_H

#include "engine/engine_internal.h"

/* `model` is what tells the model from others (gguf.h). Fails where the device gives no pages out. */
int af_disk_kind(const af_engine *engine, const unsigned char model[AF_SHA256_BYTES], af_page_kind *out,
                 af_error *error);

#endif
