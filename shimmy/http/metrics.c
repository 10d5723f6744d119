/* metrics.c - see metrics.h. */
#include "http/metrics.h"

/* Upper bounds in seconds, from a token on a fast GPU to a long prompt on a slow CPU. */
static const double bounds[SHIMMY_BUCKETS] = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2,
                                              0.5,   1,     2,     5,    10,   30,   60,  300};

static const int statuses[] = {200, 204, 400, 401, 403, 404, 405, 408, 413, 417, 431, 499, 500, 501, 503, 504, 505};
_Static_assert(sizeof statuses / sizeof *statuses < SHIMMY_STATUSES, "one place is for all others");
enum { KNOWN = sizeof statuses / sizeof *statuses };

void shimmy_metrics_time(shimmy_metrics *metrics, shimmy_timing which, uint64_t nanoseconds) {
    shimmy_histogram *h = &metrics->timings[which];
    size_t bucket = 0;
    while (bucket < SHIMMY_BUCKETS && (double)nanoseconds > bounds[bucket] * 1e9) bucket++;
    atomic_fetch_add(&h->buckets[bucket], 1);
    atomic_fetch_add(&h->nanoseconds, nanoseconds);
}

void shimmy_metrics_request(shimmy_metrics *metrics, size_t route, int status) {
    size_t place = 0;
    while (place < KNOWN && statuses[place] != status) place++;
    atomic_fetch_add(&metrics->requests[route < SHIMMY_ROUTES_COUNTED ? route : SHIMMY_ROUTES_COUNTED][place], 1);
}

void shimmy_write_metric(af_buf *out, const char *name, const char *type, const char *help, double value) {
    af_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %.17g\n", name, help, name, type, name, value);
}

static void write_histogram(af_buf *out, const shimmy_histogram *h, const char *name, const char *help) {
    uint64_t count = 0;
    af_buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
    for (size_t i = 0; i < SHIMMY_BUCKETS; i++) {
        count += atomic_load(&h->buckets[i]);
        af_buf_printf(out, "%s_bucket{le=\"%g\"} %llu\n", name, bounds[i], (unsigned long long)count);
    }
    count += atomic_load(&h->buckets[SHIMMY_BUCKETS]);
    af_buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9f\n%s_count %llu\n", name, (unsigned long long)count,
                  name, (double)atomic_load(&h->nanoseconds) / 1e9, name, (unsigned long long)count);
}

void shimmy_write_timings(af_buf *out, const shimmy_metrics *metrics) {
    static const struct {
        const char *name, *help;
    } rows[SHIMMY_TIMINGS] = {
        [SHIMMY_TIME_FIRST] = {"shimmy_first_token_seconds", "From a request's arrival to its first token"},
        [SHIMMY_TIME_BETWEEN] = {"shimmy_between_tokens_seconds", "Between two tokens of an answer"},
        [SHIMMY_TIME_WHOLE] = {"shimmy_request_seconds", "From a request's arrival to the end of its answer"},
    };
    for (size_t i = 0; i < SHIMMY_TIMINGS; i++) write_histogram(out, &metrics->timings[i], rows[i].name, rows[i].help);
}

void shimmy_write_requests(af_buf *out, const shimmy_metrics *metrics, const char *(*route_name)(size_t route)) {
    af_buf_text(out, "# HELP shimmy_requests_total Requests answered\n# TYPE shimmy_requests_total counter\n");
    for (size_t route = 0; route <= SHIMMY_ROUTES_COUNTED; route++) {
        for (size_t place = 0; place <= KNOWN; place++) {
            const uint64_t count = atomic_load(&metrics->requests[route][place]);
            if (!count) continue;
            const char *name = route < SHIMMY_ROUTES_COUNTED ? route_name(route) : "";
            af_buf_printf(out, "shimmy_requests_total{route=\"%s\",status=\"%d\"} %llu\n", name,
                          place < KNOWN ? statuses[place] : 0, (unsigned long long)count);
        }
    }
}
