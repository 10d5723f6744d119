/* hook.c - the hook of SHIMMY_DEBUG_RAW: for eyes; tests compare numbers. */
#include "backend/backend.h"

#include "base/log.h"

#include <math.h>
#include <stdio.h>

#define FIRST_NUMBERS 6

static bool print_rows(void *user, const af_op *op, af_value value, float *rows, size_t stride, uint32_t count,
                       uint32_t width) {
    (void)user, (void)value;
    if (count == 0) return false;
    float least = INFINITY, most = -INFINITY;
    double sum = 0;
    for (uint32_t t = 0; t < count; t++)
        for (uint32_t i = 0; i < width; i++) {
            const float v = rows[t * stride + i];
            least = fminf(least, v);
            most = fmaxf(most, v);
            sum += (double)v;
        }
    char first[FIRST_NUMBERS * 16] = "";
    size_t length = 0;
    for (uint32_t i = 0; i < FIRST_NUMBERS && i < width; i++)
        length += (size_t)snprintf(first + length, sizeof first - length, " %.6g", (double)rows[i]);
    af_trace("raw: %s %s (%u, %u) min %.6g max %.6g mean %.6g first%s", af_op_kind_name(op->kind), op->name, count,
             width, (double)least, (double)most, sum / ((double)count * width), first);
    return false;
}

const af_backend_hook af_raw_trace = {.wrote = print_rows};
