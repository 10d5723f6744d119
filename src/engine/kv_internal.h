/* kv_internal.h - the parts of an af_kv, for the two files that work on it: kv.c (sequences and their tables) and
 * kv_share.c (what is kept between sequences).
 */
#ifndef AF_KV_INTERNAL_H
#define AF_KV_INTERNAL_H

#include "engine/kv.h"
#include "engine/prefix_cache.h"

typedef struct af_kv_range { /* of a sequence's pages in one group */
    uint32_t first, end;
} af_kv_range;

struct af_kv_seq {
    bool taken;
    uint32_t carry;
    uint32_t node;  /* of the prefix cache: where its kept text ends */
    uint32_t known; /* pages of that text */
    af_kv_range held[AF_PLAN_GROUPS];
    uint32_t *table[AF_PLAN_GROUPS]; /* (table_length) */
};

struct af_kv {
    uint32_t group_count;
    uint32_t table_length; /* pages of a whole context */
    uint32_t sequences;
    af_kv_pool pools[AF_PLAN_GROUPS];
    af_prefix_cache cache;
    af_kv_seq *seqs;  /* (sequences) */
    uint32_t *tables; /* (sequences, group_count, table_length) */
};

/* The pages a group must hold so that positions from `begin` up to `end` see all they may. */
af_kv_range af_kv_needed(const af_kv_pool *pool, uint32_t begin, uint32_t end);
/* Gives back the held pages before `first`. */
void af_kv_drop_before(af_kv_pool *pool, af_kv_range *held, uint32_t *table, uint32_t first);

/* Frees the page of a group that has been idle longest, which there must be. */
void af_kv_evict(af_kv *kv, uint32_t group);
/* The sequence's text is over: nothing is pinned for it any more. Its pages were given back before. */
void af_kv_unpin(af_kv *kv, af_kv_seq *seq);

#endif
