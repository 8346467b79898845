/* SPDX-License-Identifier: Apache-2.0 */
/* What a method may ask and say of the call it runs: arguments, results, errors. */
#include "base/err.h"
#include "object/message.h"

#include <stdarg.h>
#include <stdio.h>

/* What is no error is one if a method says so. "Forced open" is none: the caller would wait for ever. */
int raised_code(int code) {
    bool own = code <= -1000, known = code < 0 && moyai_err_category(code) != MOYAI_CAT_INTERNAL;
    return own || code == MOYAI_EINTERNAL || (known && code != MOYAI_SIGNALLED) ? code : MOYAI_EUSER;
}

int moyai_args(moyai_request *rq, const struct moyai_into *into) {
    if (!rq) return MOYAI_EINVAL;
    moyai_node *n = rq->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    static const struct moyai_into none = {NULL, 0}; /* here it is a number of values, not a lack of interest */
    struct moyai_error e;
    err_none(&e);
    const struct codec_lent lent = {rq->lent, rq->n_lent, rq->args_at};
    int rc = codec_get_lent(rq->bytes + rq->args_at, rq->n_bytes - rq->args_at, &lent, into ? into : &none, &n->refs,
                            moyai_ref_unref, &rq->arena, &e);
    if (rc < 0) {
        err_prefix(&e, "arguments of '%s'", rq->method->name);
        exec_lock(n->x);
        (void)api_error(n, &e);
        exec_unlock(n->x);
    }
    return rc;
}

int moyai_return(moyai_request *rq, const struct moyai_args *results) {
    if (!rq) return MOYAI_EINVAL;
    moyai_node *n = rq->node;
    if (exec_forked(n->x)) return MOYAI_EFORK;
    if (rq->has_out) {
        codec_out_done(&rq->out);
        rq->has_out = false;
    }
    struct moyai_error e;
    err_none(&e);
    codec_out_init(&rq->out, rq->reply, sizeof rq->reply, SIZE_MAX, n->max_message);
    int rc = codec_reserve(&rq->out, REPLY_HEAD);
    if (rc == 0) {
        rq->out.n = REPLY_HEAD;
        if (results && results->n) rc = codec_put_args(&rq->out, results, &n->refs, &e);
    }
    if (rc < 0) {
        codec_out_done(&rq->out);
        if (e.code == 0) err_set(&e, rc, "%s", moyai_strerror(rc));
        err_prefix(&e, "results of '%s'", rq->method->name);
        exec_lock(n->x);
        (void)api_error(n, &e);
        exec_unlock(n->x);
        return rc;
    }
    rq->has_out = true;
    return 0;
}

static int raise_error(moyai_request *rq, const moyai_future *cause, int code, const char *fmt, va_list ap) {
    const int given = code;
    code = raised_code(code);
    if (!rq || exec_forked(rq->node->x)) return code;
    struct moyai_error e;
    err_vset(&e, code, fmt ? fmt : "no text given", ap);
    e.where = MOYAI_AT_METHOD;
    e.executed = MOYAI_WAS_EXECUTED;
    if (code != given && given != MOYAI_SIGNALLED)
        err_prefix(
            &e, "'%s' raised %d, which is no error code (one of the table, or -1000 and below for errors of your own)",
            rq->method->name, given);
    /* Not all that fail have one: a call without a reference, or without memory for it. */
    struct moyai_error below;
    bool bare = cause && moyai_future_error(cause, 0, &below) != 0;
    exec_lock(rq->node->x);
    struct failure *made = bare && !cause->failure ? failure_new(&below, NULL) : NULL;
    struct failure *f = failure_new(&e, made ? made : cause ? cause->failure : NULL);
    failure_unref(made);
    failure_unref(rq->raised);
    rq->raised = f;
    exec_unlock(rq->node->x);
    return code;
}

int moyai_raise(moyai_request *rq, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int rc = raise_error(rq, NULL, code, fmt, ap);
    va_end(ap);
    return rc;
}

int moyai_raise_from(moyai_request *rq, const moyai_future *cause, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int rc = raise_error(rq, cause, code, fmt, ap);
    va_end(ap);
    return rc;
}

bool moyai_cancelled(const moyai_request *rq) {
    if (!rq || exec_forked(rq->node->x)) return true; /* nobody waits for what the child does */
    exec_lock(rq->node->x);
    bool c = rq->cancelled;
    exec_unlock(rq->node->x);
    return c;
}

moyai_node *moyai_request_node(const moyai_request *rq) {
    return rq ? rq->node : NULL;
}

moyai_ref *moyai_self(const moyai_request *rq) {
    return rq ? rq->object->ref : NULL;
}

struct moyai_node_id moyai_caller(const moyai_request *rq) {
    struct moyai_node_id id = {{0}};
    if (rq) memcpy(id.b, rq->caller_node, 16);
    return id;
}

moyai_dur moyai_remaining(const moyai_request *rq) {
    if (!rq || exec_forked(rq->node->x)) return 0;
    exec_lock(rq->node->x);
    moyai_ns deadline = rq->deadline;
    exec_unlock(rq->node->x);
    if (deadline == UINT64_MAX) return MOYAI_FOREVER;
    moyai_ns now = moyai_now();
    return deadline > now ? (moyai_dur)(deadline - now) : 0;
}
