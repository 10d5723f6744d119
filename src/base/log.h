/* log.h - messages to stderr, a line each: "shimmy: warning: ...". Never to stdout, never message texts of users. */
#ifndef AF_LOG_H
#define AF_LOG_H

#include "base/status.h"

typedef enum af_log_level { AF_LOG_ERROR, AF_LOG_WARNING, AF_LOG_INFO, AF_LOG_DEBUG } af_log_level;

void af_log_set_level(af_log_level level); /* default AF_LOG_WARNING for a library, the program raises it */
void af_log(af_log_level level, const char *format, ...) AF_PRINTF(2, 3);
/* A traced line without prefix, for AIRFRAME_TRACE_* and SHIMMY_DEBUG_RAW. */
void af_trace(const char *format, ...) AF_PRINTF(1, 2);
/* True if the environment sets NAME to something other than "" and "0". */
bool af_env_flag(const char *name);

#endif
