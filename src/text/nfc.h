/* nfc.h - Unicode's composed form (NFC), for the vocabularies whose own tokenizers compose their text first. */
#ifndef AF_NFC_H
#define AF_NFC_H

#include "base/buf.h"

/* Composes valid UTF-8. *text is left alone if it has no character from U+0300 on, and so is composed already; else it
 * becomes a slice of `copy`, which is overwritten. False when out of memory. */
bool af_nfc(af_slice *text, af_buf *copy);

#endif
