/* access_log.h - a line on stderr for each request answered: who asked for what, which model answered, how it ended,
 * how long it took, how many tokens. Never what was said: prompts and answers are their users' own.
 */
#ifndef SHIMMY_ACCESS_LOG_H
#define SHIMMY_ACCESS_LOG_H

#include "http/conn.h"

typedef enum shimmy_log_form { SHIMMY_LOG_TEXT, SHIMMY_LOG_JSON, SHIMMY_LOG_OFF } shimmy_log_form;

void shimmy_log_request(shimmy_log_form form, const shimmy_http_done *done);

#endif
