/* kv.h - who holds which page of the KV cache.
 *
 * The backend owns the memory; this owns the numbers. For each cache group there is a pool of pages, each free or held
 * by a sequence (with a count, so that a later prefix cache can share them).
 *
 * Invariants
 *   1. a page is in the free list if and only if its count is 0;
 *   2. a sequence's table holds, for each group, a page for every AF_KV_PAGE positions it still sees; entries behind a
 *      window are UINT32_MAX;
 *   3. nothing is allocated after af_kv_open.
 *   4. each sequence has a slot of recurrent states of its own, for as long as it is taken. A state stands at the last
 *      position that ran and cannot go back (plan.h, af_carry): a sequence of such a model begins at position 0, and
 *      may share the pages of another's prefix only where the states of exactly that position were kept too.
 */
#ifndef AF_KV_H
#define AF_KV_H

#include "backend/backend.h"

typedef struct af_kv af_kv;
typedef struct af_kv_seq af_kv_seq;

/* Pages that `sequences` sequences of `ctx` tokens need in each group, written to pages[]: window groups need the
 * window plus what one step adds (`step` tokens). Where the plan takes sequences whole, pages are for one step alone.
 */
void af_kv_sizes(const af_plan *plan, uint32_t ctx, uint32_t sequences, uint32_t step, uint32_t pages[AF_PLAN_GROUPS]);

int af_kv_open(const af_plan *plan, const uint32_t pages[AF_PLAN_GROUPS], uint32_t ctx, uint32_t sequences, af_kv **out,
               af_error *error);
void af_kv_close(af_kv *kv);
/* A sequence with no pages; NULL if all are taken. */
af_kv_seq *af_kv_seq_take(af_kv *kv);
void af_kv_seq_release(af_kv *kv, af_kv_seq *seq);
/* Gives the sequence pages for positions up to `end`, and takes back those that no position from `begin` on sees. False
 * if a pool is empty (then nothing changed). */
bool af_kv_reserve(af_kv *kv, af_kv_seq *seq, uint32_t begin, uint32_t end);
void af_kv_view(const af_kv_seq *seq, af_batch_seq *out);

#endif
