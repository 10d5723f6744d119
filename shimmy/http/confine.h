/* confine.h - what a server keeps of its rights once it has its sockets. */
#ifndef SHIMMY_CONFINE_H
#define SHIMMY_CONFINE_H

#include "http/serve.h"

/* Enters the sandbox (base/os.h) with the files that these options name; says what the system cannot enforce. Called
 * before the first thread starts. */
int shimmy_confine(const shimmy_serve_options *options, af_error *error);

#endif
