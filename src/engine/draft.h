/* draft.h - guesses at how a text goes on, by what followed the same words earlier in it. */
#ifndef AF_DRAFT_H
#define AF_DRAFT_H

#include "airframe.h"

enum { AF_DRAFT_CLASSES = 3 };

/* Of one request. All zeros: it makes no guesses. */
typedef struct af_draft {
    const int32_t *tokens; /* the request's: prompt and answer */
    uint32_t count;        /* of them, those known here */
    uint32_t *last;        /* (table_size) where an n-gram of that hash ended last: the place after it; 0: nowhere */
    uint32_t table_size;
    uint32_t match;  /* what is to come stood here, perhaps; 0: nothing is known */
    uint32_t length; /* of the text before `match` that is the text before `count` too */
    float hits[AF_DRAFT_CLASSES], tries[AF_DRAFT_CLASSES]; /* of guesses, by length; old ones fade */
} af_draft;

/* For a text of `capacity` tokens at the most, which the caller writes to `tokens`. */
int af_draft_open(const int32_t *tokens, uint32_t capacity, af_draft *out, af_error *error);
void af_draft_close(af_draft *draft);
/* Takes note of the text up to `count` tokens: judges guesses, looks for the next. */
void af_draft_advance(af_draft *draft, uint32_t count);
/* The text is another one now: the first `count` tokens. */
void af_draft_restart(af_draft *draft, uint32_t count);
/* The guess `ahead` tokens from now, from 0; a match exists. */
int32_t af_draft_guess(const af_draft *draft, uint32_t ahead);
/* How likely each token of the guess is right; 0: there is none. */
float af_draft_chance(const af_draft *draft);

#endif
