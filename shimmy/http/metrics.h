/* metrics.h - what GET /metrics counts beyond the engine's own numbers: requests by route and status, and how long
 * answers take. Any thread may count; reading takes no lock, so that a sum may be one observation ahead of its count.
 */
#ifndef SHIMMY_METRICS_H
#define SHIMMY_METRICS_H

#include "base/buf.h"

#include <stdatomic.h>

enum { SHIMMY_BUCKETS = 16, SHIMMY_STATUSES = 24, SHIMMY_ROUTES_COUNTED = 32 };

typedef enum shimmy_timing {
    SHIMMY_TIME_FIRST,   /* from a request's arrival to its first token */
    SHIMMY_TIME_BETWEEN, /* between two tokens of an answer */
    SHIMMY_TIME_WHOLE,   /* from arrival to the last byte of the answer being written */
    SHIMMY_TIMINGS
} shimmy_timing;

typedef struct shimmy_histogram {
    atomic_uint_least64_t buckets[SHIMMY_BUCKETS + 1]; /* the last: beyond all bounds */
    atomic_uint_least64_t nanoseconds;
} shimmy_histogram;

typedef struct shimmy_metrics {
    shimmy_histogram timings[SHIMMY_TIMINGS];
    atomic_uint_least64_t requests[SHIMMY_ROUTES_COUNTED + 1][SHIMMY_STATUSES]; /* the last route: none */
    atomic_uint_least64_t cached_tokens, disconnects;
} shimmy_metrics;

void shimmy_metrics_time(shimmy_metrics *metrics, shimmy_timing which, uint64_t nanoseconds);
void shimmy_metrics_request(shimmy_metrics *metrics, size_t route, int status);

/* Prometheus' text form. `route_name` gives a route's path. */
void shimmy_write_timings(af_buf *out, const shimmy_metrics *metrics);
void shimmy_write_requests(af_buf *out, const shimmy_metrics *metrics, const char *(*route_name)(size_t route));
void shimmy_write_metric(af_buf *out, const char *name, const char *type, const char *help, double value);

#endif
