/* pooling.c - see pooling.h. */
#include "engine/pooling.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

int af_pooled_open(af_pooling how, uint32_t width, af_pooled *out, af_error *error) {
    *out = (af_pooled){.how = how, .width = width};
    out->sum = calloc(width, sizeof *out->sum);
    out->vector = calloc(width, sizeof *out->vector);
    if (out->sum && out->vector) return AF_OK;
    af_pooled_close(out);
    return af_fail_memory(error, width * (sizeof *out->sum + sizeof *out->vector), "an embedding");
}

void af_pooled_close(af_pooled *pooled) {
    free(pooled->sum);
    free(pooled->vector);
    *pooled = (af_pooled){0};
}

bool af_pooling_wants(af_pooling how, uint32_t position, uint32_t count) {
    if (how == AF_POOLING_MEAN) return true;
    return position == (how == AF_POOLING_CLS ? 0 : count - 1);
}

void af_pooled_add(af_pooled *pooled, const float *state) {
    for (uint32_t i = 0; i < pooled->width; i++) pooled->sum[i] += (double)state[i];
    pooled->count++;
}

/* A mean has the direction of its sum, and the direction is all that is left. */
int af_pooled_finish(af_pooled *pooled, af_error *error) {
    double squares = 0;
    assert(pooled->count > 0);
    for (uint32_t i = 0; i < pooled->width; i++) squares += pooled->sum[i] * pooled->sum[i];
    if (!isfinite(squares) || squares == 0)
        return af_fail(error, AF_EFORMAT, "the embedding has a length of %g: the model's states are no numbers to use",
                       sqrt(squares));
    const double factor = 1 / sqrt(squares);
    for (uint32_t i = 0; i < pooled->width; i++) pooled->vector[i] = (float)(pooled->sum[i] * factor);
    return AF_OK;
}
