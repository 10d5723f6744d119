/* draft_cost.c - whether drafts pay is measured, not tuned.
 *
 * Steps are timed by how many tokens they run. What is expected of a step (the tokens that come anyway, and the guesses
 * that will be right) over its time is its rate, and the draft with the best rate is made; it may be none.
 *
 * A belief about a length that is not chosen grows old, and one slow step must not count for ever. So each length is
 * tried again now and then, in turn, whenever what the trial is believed to lose has been saved up: a hundredth of all
 * time. Where drafts never pay this is all that they cost.
 *
 * Times decide only how many tokens a step runs, never which are chosen.
 */
#include "engine/draft_cost.h"

#include <assert.h>

#define CHANCE_LOW 0.3f  /* guesses less likely are not drafted */
#define SMOOTH     0.25f /* a step's share in the time that is believed */
#define OUTLIER    3.0f  /* a step counts for so many times what was believed at the most */
#define TOKEN_COST 0.1f  /* of a plain step, for each token more: believed until measured */
#define TRIALS     0.01f /* of all time, for trials */
#define SAVED_MOST 64.0f /* plain steps */

/* Of drafts: with the token before, steps of 1, 2, 4, 8 and 16. */
static const uint32_t sizes[AF_DRAFT_SIZES] = {0, 1, 3, 7, AF_DRAFT_MOST};

void af_draft_measure(af_draft_costs *costs, uint32_t tokens, uint64_t nanoseconds) {
    if (tokens >= AF_DRAFT_COSTS) return;
    float *believed = &costs->ns[tokens], now = (float)nanoseconds;
    if (*believed <= 0) {
        *believed = now;
        return;
    }
    if (now > *believed * OUTLIER) now = *believed * OUTLIER;
    *believed += (now - *believed) * SMOOTH;
}

/* The tokens that a draft of `size` brings beside the one that comes anyway, if each is right with `chance`. */
static float expected(float chance, uint32_t size) {
    float sum = 0, all_right = 1;
    for (uint32_t i = 0; i < size; i++) sum += all_right *= chance;
    return sum;
}

uint32_t af_draft_size(const af_draft_offer *offer, uint32_t size) {
    if (offer->chance < CHANCE_LOW) return 0;
    return size < offer->most ? size : offer->most;
}

/* A step in which each offer drafts so many. */
typedef struct plan {
    uint32_t drafted;
    float tokens, ns; /* expected */
} plan;

static plan plan_of(const af_draft_costs *costs, const af_draft_offer *offers, uint32_t count, uint32_t size) {
    plan p = {.tokens = (float)count};
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t drafted = af_draft_size(&offers[i], size);
        p.drafted += drafted;
        p.tokens += expected(offers[i].chance, drafted);
    }
    const uint32_t all = count + p.drafted;
    const bool known = all < AF_DRAFT_COSTS && costs->ns[all] > 0;
    p.ns = known ? costs->ns[all] : costs->ns[count] * (1 + TOKEN_COST * (float)p.drafted);
    return p;
}

/* The length whose turn it is, if what it loses is saved up, or as much as ever is; else `best`. */
static uint32_t try_another(af_draft_costs *costs, const plan plans[], uint32_t used, uint32_t best, float plain_ns) {
    const uint32_t turn = costs->turn % used;
    const float loss = plans[turn].ns - plans[turn].tokens * plans[best].ns / plans[best].tokens;
    const float most = plain_ns * SAVED_MOST;
    costs->saved += plans[best].ns * TRIALS;
    if (costs->saved > most) costs->saved = most;
    if (loss > costs->saved && costs->saved < most) return best;
    costs->saved -= loss;
    costs->turn++;
    return turn;
}

uint32_t af_draft_settle(af_draft_costs *costs, const af_draft_offer *offers, uint32_t count, uint32_t room) {
    plan plans[AF_DRAFT_SIZES];
    uint32_t used = 0, best = 0;
    assert(count > 0);
    if (count >= AF_DRAFT_COSTS || costs->ns[count] <= 0) return 0;
    for (; used < AF_DRAFT_SIZES; used++) {
        plan *p = &plans[used];
        *p = plan_of(costs, offers, count, sizes[used]);
        if (p->drafted > room || count + p->drafted >= AF_DRAFT_COSTS) break;
        if (used > 0 && p->drafted == plans[used - 1].drafted) break;
        if (p->tokens / p->ns > plans[best].tokens / plans[best].ns) best = used;
    }
    return sizes[used > 1 ? try_another(costs, plans, used, best, costs->ns[count]) : best];
}
