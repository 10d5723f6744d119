/* keys.h - who may use the server: API keys from the command line and from a file, compared in constant time. */
#ifndef SHIMMY_KEYS_H
#define SHIMMY_KEYS_H

#include "base/buf.h"

typedef struct shimmy_keys shimmy_keys;

/* Reads a key, and a file of keys: one a line, empty lines and those that begin with # passed over. Both may be NULL:
 * then *out is NULL, and everybody may. A key has 1 to 256 bytes, none of them white space. */
int shimmy_keys_open(const char *key, const char *path, shimmy_keys **out, af_error *error);
void shimmy_keys_close(shimmy_keys *keys);
/* Whether `given` is one of the keys. Takes the same time whatever it is. */
bool shimmy_keys_hold(const shimmy_keys *keys, af_slice given);

#endif
