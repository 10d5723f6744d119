/* mailbox.c - see mailbox.h. A list behind a lock; the loop is woken when it stops being empty. */
#include "http/mailbox.h"

#include "base/os.h"

#include <event2/event.h>
#include <stdlib.h>

struct shimmy_mailbox {
    af_mutex *lock;
    shimmy_mail *first, *last; /* under lock */
    struct event *wake;
};

static shimmy_mail *take_first(shimmy_mailbox *box) {
    af_mutex_lock(box->lock);
    shimmy_mail *mail = box->first;
    if (mail) {
        box->first = mail->next;
        mail->posted = false;
    }
    af_mutex_unlock(box->lock);
    return mail;
}

static void deliver_all(shimmy_mailbox *box) {
    shimmy_mail *mail;
    while ((mail = take_first(box)) != NULL) mail->deliver(mail);
}

static void on_wake(int fd, short what, void *user) {
    (void)fd, (void)what;
    deliver_all(user);
}

int shimmy_mailbox_open(struct event_base *base, shimmy_mailbox **out, af_error *error) {
    shimmy_mailbox *box = calloc(1, sizeof *box);
    if (!box) return af_fail_memory(error, sizeof *box, "the mailbox");
    box->lock = af_mutex_open();
    if (!box->lock) goto no_lock;
    box->wake = event_new(base, -1, EV_PERSIST, on_wake, box);
    if (!box->wake) goto no_event;
    *out = box;
    return 0;

no_event:
    af_mutex_close(box->lock);
no_lock:
    free(box);
    return af_fail(error, AF_ENOMEM, "the mailbox: out of memory");
}

void shimmy_mailbox_close(shimmy_mailbox *box) {
    if (!box) return;
    deliver_all(box);
    event_free(box->wake);
    af_mutex_close(box->lock);
    free(box);
}

bool shimmy_mailbox_post(shimmy_mailbox *box, shimmy_mail *mail) {
    af_mutex_lock(box->lock);
    bool linked = !mail->posted, was_empty = !box->first;
    if (linked) {
        mail->posted = true;
        mail->next = NULL;
        if (was_empty)
            box->first = mail;
        else
            box->last->next = mail;
        box->last = mail;
    }
    af_mutex_unlock(box->lock);
    if (linked && was_empty) event_active(box->wake, EV_READ, 0);
    return linked;
}
