/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to calls: results, or an error and its causes; to a local caller, or as a message to another node. An answer
 * that says that an object is not here says, of one that may move, where it has gone, or that it has ended.
 */
#include "base/err.h"
#include "object/message.h"
#include "object/moved.h"

#include <stdio.h>
#include <stdlib.h>

static void put_reply_head(uint8_t *p, uint8_t flags, uint64_t id) {
    memset(p, 0, 8);
    p[0] = MESSAGE_REPLY;
    p[1] = flags;
    struct cursor_out c = cursor_out(p + 8, 8);
    cursor_put_u64(&c, id);
}

/* Nobody waits for it any more. */
void request_unwant(moyai_request *rq) {
    if (rq->wanted) rq->node->wanted--;
    rq->wanted = false;
}

/* Send bytes as the reply; the message takes over head if owned. */
static void send_reply(moyai_request *rq, uint8_t *head, size_t len, bool owned) {
    moyai_node *n = rq->node;
    rq->answered = true;
    if (!rq->oneway) request_unwant(rq); /* its end is waited for here all the same */
    if (rq->from_local) {
        moyai_future *f = rq->caller;
        if (f) {
            f->local = NULL;
            rq->caller = NULL;
            (void)future_reply(n, NULL, head, len); /* our own bytes */
        }
        if (owned) free(head);
        return;
    }
    rq->msg.head = head;
    rq->msg.owned = owned;
    rq->msg.head_len = (uint32_t)len;
    rq->msg.length = len;
    if (!rq->peer || overlay_send(rq->peer, &rq->msg) < 0) {
        if (owned) free(head);
        rq->msg.owned = false;
        rq->msg.state = MSG_IDLE;
    }
}

/* Flags of an answer: what is known here of an object that is not. */
static uint8_t not_here(const moyai_request *rq, const struct moyai_error *e, uint8_t to[16]) {
    const uint8_t *object = rq->object ? rq->object->id : rq->sought;
    if (!object || !object_moves(object) || e->where != MOYAI_AT_PEER || e->executed != MOYAI_NEVER_EXECUTED) return 0;
    if (e->code != MOYAI_ENOOBJECT && e->code != MOYAI_ELEAVING) return 0;
    const struct object *ob = object_find(rq->node, object);
    if (ob && !ob->ended) {
        if (ob->stays) return MESSAGE_ENDED; /* it will have: with its node, and nobody else takes it */
        if (e->code != MOYAI_ENOOBJECT || ob->at.state == MOVING_SETTLES) return 0;
        memcpy(to, node_id(rq->node)->b, 16); /* it is back */
        return MESSAGE_MOVED;
    }
    const enum moved_whither whither = moved_whither(rq->node, object, to);
    if (whither == MOVED_ENDED && e->code == MOYAI_ENOOBJECT) return MESSAGE_ENDED;
    return whither == MOVED_THERE ? MESSAGE_MOVED : 0;
}

void answer_levels(moyai_request *rq, const struct moyai_error *level, unsigned levels) {
    if (rq->answered) return;
    if (rq->oneway && !rq->receipt) {
        rq->answered = true;
        return;
    }
    moyai_node *n = rq->node;
    uint8_t to[16];
    const uint8_t whither = not_here(rq, level, to);
    const size_t head = REPLY_HEAD + (whither & MESSAGE_MOVED ? sizeof to : 0);
    size_t len = head + failure_put(NULL, level, levels, node_id(n)->b);
    uint8_t *p = len <= sizeof rq->reply && !rq->running ? rq->reply : malloc(len);
    struct moyai_error bare = *level;
    if (!p && rq->running) return; /* the caller knows its deadline as well */
    if (!p) {                      /* without its causes and text it fits */
        bare.text[0] = 0;
        level = &bare;
        levels = 1;
        p = rq->reply;
        len = head + failure_put(NULL, level, levels, node_id(n)->b);
    }
    failure_put(p + head, level, levels, node_id(n)->b);
    put_reply_head(p, (uint8_t)(MESSAGE_ERROR | whither), rq->id);
    if (head > REPLY_HEAD) memcpy(p + REPLY_HEAD, to, sizeof to);
    send_reply(rq, p, len, p != rq->reply);
}

void request_fail(moyai_request *rq, int code, enum moyai_where where, enum moyai_executed executed, const char *text) {
    struct moyai_error e;
    failure_set(&e, code, where, executed, "%s", text);
    answer_levels(rq, &e, 1);
}

void answer_values(moyai_request *rq) {
    if (rq->answered) return;
    if (rq->oneway && !rq->receipt) {
        rq->answered = true;
        return;
    }
    if (!rq->has_out || rq->receipt) {
        put_reply_head(rq->reply, 0, rq->id);
        send_reply(rq, rq->reply, REPLY_HEAD, false);
        return;
    }
    rq->has_out = false;
    put_reply_head(rq->out.p, 0, rq->id);
    send_reply(rq, rq->out.p, rq->out.n, !rq->out.fixed);
}

/* What has begun will not be refused: that is all that its node has to know before it goes. As a rule it hears of the
 * end, so that it has no more of them open here than of other calls. */
void answer_begun(moyai_request *rq) {
    if (rq->answered || !rq->begun || !rq->receipt || !(rq->hurried || rq->of_leaver || rq->from_local)) return;
    uint8_t *head = malloc(REPLY_HEAD); /* the method may write to rq->reply */
    if (!head) return;                  /* it hears of the end */
    put_reply_head(head, 0, rq->id);
    send_reply(rq, head, REPLY_HEAD, true);
}

/* The method has returned an error that it has not raised. If the library told it that, the text is what it was told.
 */
void answer_returned(moyai_request *rq, int rc, const struct moyai_error *told) {
    const char *name = rq->method->name;
    struct moyai_error e;
    char own[MOYAI_ERROR_TEXT];
    snprintf(own, sizeof own, " of '%s': ", name); /* as moyai_args and moyai_return begin: named once is enough */
    failure_set(&e, raised_code(rc), MOYAI_AT_METHOD, MOYAI_WAS_EXECUTED, "%s", moyai_strerror(rc));
    if (rc == MOYAI_SIGNALLED)
        err_set(&e, e.code, "it was forced open by a signal and returned that, which is no error to its caller");
    else if (rc != e.code)
        err_set(
            &e, e.code,
            "it returned %d, which is no error code (0, one of the table, or -1000 and below for errors of its own)",
            rc);
    else if (told->code == rc && told->text[0])
        memcpy(e.text, told->text, sizeof e.text);
    const char *what = strchr(e.text, ' ');
    if (!what || strncmp(what, own, strlen(own)) != 0) err_prefix(&e, "%s", name);
    e.where = MOYAI_AT_METHOD;
    e.executed = MOYAI_WAS_EXECUTED;
    answer_levels(rq, &e, 1);
}
