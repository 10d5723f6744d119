/* carry_store.c - sizes and allocates recurrent states (layout in carry_store.h). */
#include "backend/cpu/carry_store.h"

#include "base/os.h"

#include <stdlib.h>

#define VECTOR 16u /* floats */

/* Lays the states out one after another; false if their size overflows. */
static bool lay_out(af_carry_store *store, const af_plan *plan) {
    size_t end = 0, floats;
    for (size_t i = 0; i < plan->carry_count; i++) {
        store->offsets[i] = end;
        store->strides[i] = ((size_t)plan->carries[i].floats + VECTOR - 1) / VECTOR * VECTOR;
        if (__builtin_mul_overflow(store->strides[i], (size_t)store->slots, &floats) ||
            __builtin_add_overflow(end, floats, &end))
            return false;
    }
    return !__builtin_mul_overflow(end, sizeof(float), &store->bytes);
}

int af_carry_store_open(af_carry_store *store, const af_plan *plan, uint32_t slots, af_error *error) {
    *store = (af_carry_store){.slots = slots};
    if (plan->carry_count == 0) return 0;
    if (slots == 0) return af_fail(error, AF_EINVAL, "recurrent states: none are reserved, the plan has such");
    store->offsets = calloc(plan->carry_count, sizeof *store->offsets);
    store->strides = calloc(plan->carry_count, sizeof *store->strides);
    store->reached = calloc(slots, sizeof *store->reached);
    size_t asked = SIZE_MAX;
    if (store->offsets && store->strides && store->reached && lay_out(store, plan)) {
        asked = store->bytes;
        store->memory = asked ? af_os_pages(asked, false) : NULL;
    }
    if (store->memory || asked == 0) return 0; /* 0: a part of a plan whose recurrent layers run elsewhere */
    af_carry_store_close(store);
    return af_fail_memory(error, asked, "recurrent states");
}

void af_carry_store_close(af_carry_store *store) {
    if (store->memory) af_os_pages_free(store->memory, store->bytes);
    free(store->offsets);
    free(store->strides);
    free(store->reached);
    *store = (af_carry_store){0};
}
