/* answer.c - the loop's part of a call: from what worker and engine left in it to bytes for the client. */
#include "base/os.h"
#include "http/call.h"
#include "http/router.h"
#include "http/sse.h"

#include <stdlib.h>

static void answer_reply(shimmy_call *call) {
    shimmy_reply reply = call->reply;
    call->reply.body = (af_buf){0};
    shimmy_conn_reply(shimmy_call_let_go(call), &reply);
}

static void answer_refusal(shimmy_call *call, const shimmy_refusal *refusal) {
    shimmy_reply reply = {0};
    shimmy_reply_refusal(&reply, refusal);
    shimmy_conn_reply(shimmy_call_let_go(call), &reply);
}

static void refuse_late(const shimmy_call *call, shimmy_refusal *refusal) {
    shimmy_refuse(refusal, 504, "request_timeout", NULL,
                  "the request took longer than the %u seconds it may (--request-timeout)",
                  call->server->options->request_seconds);
}

/* Time is up while a worker still has it: what the worker makes of it goes nowhere. */
static void answer_late(shimmy_call *call) {
    shimmy_refusal refusal;
    refuse_late(call, &refusal);
    answer_refusal(call, &refusal);
}

/* ---- The state of the choices ---- */

/* What the engine has made of a choice by now. It goes to *said in exchange for those buffers, emptied. */
static af_finish take_said(shimmy_choice *choice, shimmy_said *said) {
    shimmy_call *call = choice->call;
    said->reasoning.len = said->content.len = said->chances.len = 0;
    af_mutex_lock(call->lock);
    shimmy_said fresh = choice->said;
    choice->said = *said;
    af_finish finish = choice->finish;
    af_mutex_unlock(call->lock);
    *said = fresh;
    return finish;
}

/* The choice as far as it is in *said. */
static shimmy_piece piece_of(size_t index, const shimmy_said *said, af_finish finish) {
    return (shimmy_piece){
        .index = index,
        .text = said->content.p ? said->content.p : "",
        .length = said->content.len,
        .reasoning = said->reasoning.p,
        .reasoning_length = said->reasoning.len,
        .chances = &said->chances,
        .finish = finish,
    };
}

static af_finish finish_of(shimmy_choice *choice) {
    af_mutex_lock(choice->call->lock);
    af_finish finish = choice->finish;
    af_mutex_unlock(choice->call->lock);
    return finish;
}

/* A choice that failed, and what to tell about it. */
static bool find_failure(shimmy_call *call, shimmy_refusal *refusal) {
    for (size_t i = 0; i < call->choice_count; i++) {
        af_finish finish = finish_of(&call->choices[i]);
        af_error error = call->choices[i].error;
        if (finish == AF_FINISH_CANCEL && call->late) {
            refuse_late(call, refusal);
            return true;
        }
        if (finish == AF_FINISH_CANCEL)
            af_fail(&error, AF_ECANCELED, "the server is shutting down");
        else if (finish != AF_FINISH_ERROR)
            continue;
        shimmy_refuse_error(refusal, &error, NULL);
        if (finish == AF_FINISH_ERROR && refusal->status < 500) refusal->status = 500; /* accepted, then failed */
        return true;
    }
    return false;
}

static void cancel_rest(shimmy_call *call) {
    for (size_t i = 0; i < call->choice_count; i++)
        if (finish_of(&call->choices[i]) == AF_FINISH_NONE) af_cancel(call->on->engine, call->choices[i].engine_id);
}

/* All choices are finished: nobody else writes to them. */
static shimmy_usage usage_of(const shimmy_call *call) {
    shimmy_usage usage = {.prompt = call->prompt_tokens};
    for (size_t i = 0; i < call->choice_count; i++) {
        usage.completion += call->choices[i].completion;
        usage.accepted += call->choices[i].accepted;
        usage.rejected += call->choices[i].rejected;
        if (i % call->n == 0) usage.cached += call->choices[i].cached;
    }
    return usage;
}

static void count_tokens(shimmy_call *call, const shimmy_usage *usage) {
    const shimmy_token_counts counts = {usage->prompt, usage->cached, usage->completion};
    shimmy_conn_count(call->conn, &counts);
}

/* ---- Streams ---- */

static bool send_chunk(shimmy_call *call, const shimmy_piece *piece) {
    af_buf *event = &call->server->event;
    shimmy_sse_open(event);
    shimmy_write_chunk(event, &call->head, piece);
    return shimmy_sse_send(call->conn, event);
}

/* The role, the new text, the end: as far as each is there. False if the client is gone. */
static bool stream_choice(shimmy_call *call, size_t index) {
    shimmy_choice *choice = &call->choices[index];
    shimmy_said *said = &call->server->spare;
    if (choice->closed) return true;
    af_finish finish = take_said(choice, said);
    shimmy_piece piece = {.index = index, .text = ""};
    if (!choice->opened && call->head.chat) {
        piece.opens = true;
        if (!send_chunk(call, &piece)) return false;
    }
    choice->opened = true;
    piece = piece_of(index, said, AF_FINISH_NONE);
    const bool brings = piece.length || piece.reasoning_length || (call->head.pieces && said->chances.len);
    if (brings && !send_chunk(call, &piece)) return false;
    if (finish == AF_FINISH_NONE) return true;
    choice->closed = true;
    if (finish != AF_FINISH_STOP && finish != AF_FINISH_LENGTH) return true; /* told by break_stream */
    piece = (shimmy_piece){.index = index, .text = "", .finish = finish};
    return send_chunk(call, &piece);
}

/* Usage where it was asked for, and the end of the stream. */
static void end_stream(shimmy_call *call) {
    af_buf *event = &call->server->event;
    const shimmy_usage usage = usage_of(call);
    count_tokens(call, &usage);
    if (call->head.include_usage) {
        shimmy_sse_open(event);
        shimmy_write_usage_chunk(event, &call->head, &usage);
        if (!shimmy_sse_send(call->conn, event)) return;
    }
    shimmy_sse_open(event);
    af_buf_text(event, "[DONE]");
    if (shimmy_sse_send(call->conn, event)) shimmy_conn_stream_end(shimmy_call_let_go(call));
}

/* An error after the first byte is an event of its own, and the last. */
static void break_stream(shimmy_call *call, const shimmy_refusal *refusal) {
    af_buf *event = &call->server->event;
    shimmy_sse_open(event);
    shimmy_write_refusal(event, refusal);
    if (shimmy_sse_send(call->conn, event)) shimmy_conn_stream_end(shimmy_call_let_go(call));
}

/* Whether anything has come of the choices that a client could be told. */
static bool has_begun(shimmy_call *call) {
    bool begun = call->header_sent;
    af_mutex_lock(call->lock);
    for (size_t i = 0; i < call->choice_count; i++) {
        af_finish finish = call->choices[i].finish;
        const shimmy_said *said = &call->choices[i].said;
        bool spoke = said->reasoning.len || said->content.len;
        begun = begun || spoke || finish == AF_FINISH_STOP || finish == AF_FINISH_LENGTH;
    }
    af_mutex_unlock(call->lock);
    return begun;
}

static void answer_stream(shimmy_call *call) {
    shimmy_refusal refusal;
    bool failed = find_failure(call, &refusal), all = true;
    if (failed) cancel_rest(call);
    if (!has_begun(call)) { /* no byte is sent yet: an error can still be a status */
        if (failed) answer_refusal(call, &refusal);
        return;
    }
    if (!call->header_sent) shimmy_sse_begin(call->conn);
    call->header_sent = true;
    for (size_t i = 0; i < call->choice_count; i++) {
        if (!stream_choice(call, i)) return;
        all = all && call->choices[i].closed;
    }
    if (!failed && all) failed = find_failure(call, &refusal); /* it may have come since the first look */
    if (failed)
        break_stream(call, &refusal);
    else if (all)
        end_stream(call);
}

/* ---- Whole answers ---- */

static double mean_likelihood(const shimmy_choice *choice) {
    return choice->completion ? choice->likelihood / choice->completion : 0;
}

/* Of a prompt's choices from `first` on, the one at `rank` in likelihood: the earlier of equals first. */
static size_t ranked(const shimmy_call *call, size_t first, size_t rank) {
    for (size_t i = first; i < first + call->n; i++) {
        size_t better = 0;
        for (size_t k = first; k < first + call->n; k++) {
            const double lead = mean_likelihood(&call->choices[k]) - mean_likelihood(&call->choices[i]);
            better += lead > 0 || (lead == 0 && k < i);
        }
        if (better == rank) return i;
    }
    return first;
}

/* The choices to show, in the answer's order; returns how many. */
static size_t pieces_of(const shimmy_call *call, shimmy_piece pieces[SHIMMY_CHOICES]) {
    size_t count = 0;
    for (size_t first = 0; first < call->choice_count; first += call->n) {
        for (size_t rank = 0; rank < call->shown; rank++) {
            const size_t i = call->shown < call->n ? ranked(call, first, rank) : first + rank;
            pieces[count] = piece_of(count, &call->choices[i].said, call->choices[i].finish);
            count++;
        }
    }
    return count;
}

static void answer_whole(shimmy_call *call) {
    shimmy_refusal refusal;
    if (find_failure(call, &refusal)) {
        cancel_rest(call);
        answer_refusal(call, &refusal);
        return;
    }
    for (size_t i = 0; i < call->choice_count; i++)
        if (finish_of(&call->choices[i]) == AF_FINISH_NONE) return;
    shimmy_piece pieces[SHIMMY_CHOICES]; /* all finished: nobody appends any more */
    const size_t count = pieces_of(call, pieces);
    shimmy_usage usage = usage_of(call);
    count_tokens(call, &usage);
    shimmy_reply reply = {.status = 200};
    shimmy_write_answer(&reply.body, &call->head, pieces, count, &usage);
    shimmy_conn_reply(shimmy_call_let_go(call), &reply);
}

void shimmy_call_answer(shimmy_call *call) {
    af_mutex_lock(call->lock);
    shimmy_call_phase phase = call->phase;
    af_mutex_unlock(call->lock);
    switch (phase) {
    case SHIMMY_CALL_WORKING:
        if (call->late) answer_late(call);
        break;
    case SHIMMY_CALL_REPLIED:
        answer_reply(call);
        break;
    case SHIMMY_CALL_REFUSED:
        answer_refusal(call, &call->refusal);
        break;
    case SHIMMY_CALL_RUNNING:
        if (call->stream)
            answer_stream(call);
        else
            answer_whole(call);
        break;
    }
}
