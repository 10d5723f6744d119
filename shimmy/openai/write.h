/* write.h - JSON strings straight into a buffer: what answers are made of, without a tree in between. */
#ifndef SHIMMY_OPENAI_WRITE_H
#define SHIMMY_OPENAI_WRITE_H

#include "base/buf.h"

/* Quoted and escaped. Bytes that are no UTF-8 become U+FFFD, one for each byte. */
void shimmy_write_string(af_buf *out, const char *bytes, size_t n);
void shimmy_write_text(af_buf *out, const char *text);

#endif
