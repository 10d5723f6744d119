/* mailbox.h - how other threads speak to the event loop: they post a mail, the loop delivers it.
 *
 * A mail is embedded in what it is about and is in the box at most once: posting it again before delivery does nothing,
 * so a loop that lags behind gets one call for many events, and posting never allocates.
 */
#ifndef SHIMMY_MAILBOX_H
#define SHIMMY_MAILBOX_H

#include "base/status.h"

struct event_base;

typedef struct shimmy_mailbox shimmy_mailbox;

typedef struct shimmy_mail {
    struct shimmy_mail *next;                  /* the mailbox's */
    bool posted;                               /* the mailbox's */
    void (*deliver)(struct shimmy_mail *mail); /* on the loop's thread */
} shimmy_mail;

int shimmy_mailbox_open(struct event_base *base, shimmy_mailbox **out, af_error *error);
/* Delivers what is left, then frees. Nobody may post any more. */
void shimmy_mailbox_close(shimmy_mailbox *box);
/* True if the mail was not in the box already. */
bool shimmy_mailbox_post(shimmy_mailbox *box, shimmy_mail *mail);

#endif
