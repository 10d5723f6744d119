/* draft.c - guesses without a second model: where the last words stood before in prompt or answer, what followed them
 * is guessed to follow again.
 *
 * Looking up takes constant time a token: one hash table holds where each n-gram (3 and 4 tokens) ended last, and a
 * match that foretold the token rightly is kept and grows by one, so that long copies are followed however common
 * their words are. A hash is only a hint: the tokens themselves are compared.
 *
 * Each guess is judged when the token comes, drafted or not, so that chances are known before anything is spent on
 * them, and text that does not repeat costs lookups alone. A longer match is likelier to go on, so chances are kept by
 * length.
 *
 * It is not a language model: nothing here changes which token is chosen (speculate.c).
 */
#include "engine/draft.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

#define GRAM_LEAST 3u
#define GRAM_MOST  4u
#define TABLE_MOST (1u << 16)
#define FADE       0.9f /* of earlier guesses, for each later one */

static uint32_t table_size_for(uint32_t capacity) {
    uint32_t size = 1024;
    while (size < TABLE_MOST && size / 4 < capacity) size *= 2;
    return size;
}

int af_draft_open(const int32_t *tokens, uint32_t capacity, af_draft *out, af_error *error) {
    const uint32_t size = table_size_for(capacity);
    uint32_t *last = calloc(size, sizeof *last);
    if (!last) return af_fail_memory(error, size * sizeof *last, "a request's drafts");
    *out = (af_draft){.tokens = tokens, .last = last, .table_size = size};
    for (size_t i = 0; i < AF_DRAFT_CLASSES; i++) out->tries[i] = 2; /* chances have to be shown first */
    return AF_OK;
}

void af_draft_close(af_draft *draft) {
    free(draft->last);
    *draft = (af_draft){0};
}

static uint32_t slot_of(const af_draft *draft, uint32_t n) {
    uint64_t hash = n;
    for (uint32_t i = draft->count - n; i < draft->count; i++)
        hash = (hash ^ (uint32_t)draft->tokens[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(hash >> 32) & (draft->table_size - 1);
}

static bool same_before(const af_draft *draft, uint32_t place, uint32_t n) {
    for (uint32_t i = 1; i <= n; i++)
        if (draft->tokens[place - i] != draft->tokens[draft->count - i]) return false;
    return true;
}

/* Enters the n-grams that end here; where there is no match yet, the longest of them gives one. */
static void look_up(af_draft *draft) {
    for (uint32_t n = GRAM_MOST; n >= GRAM_LEAST; n--) {
        if (draft->count < n) continue;
        uint32_t *last = &draft->last[slot_of(draft, n)];
        if (!draft->match && *last >= n && *last < draft->count && same_before(draft, *last, n)) {
            draft->match = *last;
            draft->length = n;
        }
        *last = draft->count;
    }
}

static size_t class_of(const af_draft *draft) {
    return draft->length <= GRAM_MOST ? 0 : draft->length <= 2 * GRAM_MOST ? 1 : 2;
}

static void judge(af_draft *draft, bool right) {
    const size_t c = class_of(draft);
    draft->hits[c] = draft->hits[c] * FADE + right;
    draft->tries[c] = draft->tries[c] * FADE + 1;
    draft->match = right ? draft->match + 1 : 0;
    draft->length = right ? draft->length + 1 : 0;
}

void af_draft_advance(af_draft *draft, uint32_t count) {
    while (draft->last && draft->count < count) {
        if (draft->match) judge(draft, draft->tokens[draft->match] == draft->tokens[draft->count]);
        draft->count++;
        look_up(draft);
    }
}

void af_draft_restart(af_draft *draft, uint32_t count) {
    if (draft->last) memset(draft->last, 0, draft->table_size * sizeof *draft->last);
    draft->count = draft->match = draft->length = 0;
    af_draft_advance(draft, count);
}

/* Beyond the text's end the guess repeats itself: what is copied may overlap what it becomes. */
int32_t af_draft_guess(const af_draft *draft, uint32_t ahead) {
    return draft->tokens[draft->match + ahead % (draft->count - draft->match)];
}

float af_draft_chance(const af_draft *draft) {
    if (!draft->match) return 0;
    const size_t c = class_of(draft);
    return draft->hits[c] / draft->tries[c];
}
