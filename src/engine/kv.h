/* kv.h - who holds which page of the KV cache.
 *
 * The backend owns the memory; this owns the numbers. For each cache group there is a pool of pages (kv_pool.h). A page
 * is held by the sequences that read it, and may be kept for later ones that begin with the same tokens
 * (prefix_cache.h): pages that only the prefix cache keeps are taken back as soon as a sequence needs them.
 *
 * Invariants
 *   1. a page is free if and only if no sequence holds it and the prefix cache does not keep it;
 *   2. a sequence's table holds, for each group, a page for every AF_KV_PAGE positions it still sees; entries behind a
 *      window are UINT32_MAX;
 *   3. nothing is allocated after af_kv_open;
 *   4. each sequence has a slot of recurrent states of its own, for as long as it is taken. A state stands at the last
 *      position that ran and cannot go back (plan.h, af_carry): a sequence of such a model begins at position 0, and
 *      nothing is kept;
 *   5. a kept page is full and is never written again. Of the group without a window, a sequence holds exactly the
 * pages of the nodes that it pins, so that a node whose page is idle has neither pins nor descendants that have;
 *   6. of that group, pages become idle from a text's end to its beginning. So the one idle longest belongs to a leaf,
 *      and taking it back leaves no page that cannot be reached.
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

/* True if a sequence of this plan may take over what another left: its attention looks back alone, and all it remembers
 * lies in pages. */
bool af_kv_can_keep(const af_plan *plan);

/* `keep`: pages are kept for later sequences where the plan allows it. */
int af_kv_open(const af_plan *plan, const uint32_t pages[AF_PLAN_GROUPS], uint32_t ctx, uint32_t sequences, bool keep,
               af_kv **out, af_error *error);
void af_kv_close(af_kv *kv);
/* A sequence with no pages; NULL if all are taken. */
af_kv_seq *af_kv_seq_take(af_kv *kv);
void af_kv_seq_release(af_kv *kv, af_kv_seq *seq);
/* Gives the sequence pages for positions up to `end`, and takes back those that no position from `begin` on sees. False
 * if a pool is empty (then nothing changed). */
bool af_kv_reserve(af_kv *kv, af_kv_seq *seq, uint32_t begin, uint32_t end);
void af_kv_view(const af_kv_seq *seq, af_batch_seq *out);

/* ---- Kept pages (kv_share.c). `tokens` are the sequence's own from position 0 on. ---- */

bool af_kv_keeps(const af_kv *kv);
/* Keeps the pages that the sequence's first `done` positions fill. A page that is kept already with the same text takes
 * the place of the sequence's own. Nothing of the sequence may be in flight. */
void af_kv_keep(af_kv *kv, af_kv_seq *seq, const int32_t *tokens, uint32_t done);
/* Gives a sequence that stands at `done` the kept pages that follow there, as far as position `most`. Returns where it
 * stands now. It must have kept what it has. */
uint32_t af_kv_adopt(af_kv *kv, af_kv_seq *seq, const int32_t *tokens, uint32_t done, uint32_t most);
/* For who keeps pages elsewhere too. The node (prefix_cache.h) that goes on from `node` with a page of ids, and its
 * kept pages; AF_KV_NONE: there is none. Valid until something else is done. */
uint32_t af_kv_find(const af_kv *kv, uint32_t node, const int32_t *ids, uint32_t pages[AF_PLAN_GROUPS]);
/* How many of the next `count` pages, of which groups[i] says in bits what there is, bring a sequence furthest: as many
 * as end where it would see all it may. It must have kept what it has. */
uint32_t af_kv_reach(const af_kv *kv, const af_kv_seq *seq, const uint32_t *groups, uint32_t count);
/* Pages that texts kept now are long. */
uint32_t af_kv_kept(const af_kv *kv);
/* Keeps nothing any more: what the pages held is gone. No sequence may hold a page. */
void af_kv_forget(af_kv *kv);

#endif
