/* carry_store.h - the memory of recurrent states: for each of the plan's, a row of floats for each slot.
 *
 * Who has which slot is the engine's business (engine/kv.h). A slot is cleared by the operation that runs the token at
 * position 0; memory never written is not resident.
 */
#ifndef AF_CPU_CARRY_STORE_H
#define AF_CPU_CARRY_STORE_H

#include "plan/plan.h"

typedef struct af_carry_store {
    float *memory;
    size_t bytes;
    uint32_t slots;
    size_t *offsets;   /* (carry_count) floats to slot 0 of each */
    size_t *strides;   /* (carry_count) floats from a slot to the next */
    uint32_t *reached; /* (slots) tokens that the states in it have seen */
} af_carry_store;

int af_carry_store_open(af_carry_store *store, const af_plan *plan, uint32_t slots, af_error *error);
void af_carry_store_close(af_carry_store *store);

static inline float *af_carry_at(const af_carry_store *store, size_t state, uint32_t slot) {
    return store->memory + store->offsets[state] + slot * store->strides[state];
}

#endif
