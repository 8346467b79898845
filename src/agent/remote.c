/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/remote.h"

#include "agent/agent.h"
#include "base/err.h"
#include "exec/child.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Words as bytes: not all are UTF-8. */
static moyai_value *list_of(const char *const *words) {
    size_t n = 0;
    while (words && words[n]) n++;
    moyai_value **item = calloc(n + 1, sizeof(moyai_value *));
    if (!item) return NULL;
    for (size_t i = 0; i < n; i++) item[i] = moyai_value_new(moyai_bytes(words[i], strlen(words[i])));
    moyai_value *list = moyai_value_list(item, n);
    free(item);
    return list;
}

static moyai_value *value_of(const struct remote_order *o) {
    static const char *const keys[] = {"id", "argv", "env", "dir"};
    moyai_value *item[] = {moyai_value_new(MOYAI_ARGS(o->id)->v[0]), list_of(o->argv), list_of(o->env),
                           moyai_value_new(o->dir ? moyai_bytes(o->dir, strlen(o->dir)) : moyai_null())};
    return moyai_value_map(keys, item, 4);
}

/* Fetch what it writes until there is no more. 0, or why it cannot be fetched. */
static int fetch_all(struct remote *r, moyai_node *n, const struct remote_ops *ops, void *arg) {
    bool more = true, told = false, closed[2] = {false, false};
    while (more) {
        int pid = 0;
        const void *p[2];
        size_t len[2];
        r->read = moyai_call_async(r->agent, "read", MOYAI_ARGS(r->id));
        int rc = moyai_future_get_masked(
            r->read, MOYAI_INTO(&pid, moyai_into_bytes(&p[0], &len[0]), moyai_into_bytes(&p[1], &len[1]), &more));
        if (rc < 0) moyai_last_error(n, &r->why);
        if (rc == 0 && !told) ops->started((pid_t)pid, arg);
        told = true;
        for (int i = 1; i >= 0 && rc == 0; i--) { /* what it has to say of its output comes before that */
            if (len[i] == 0 || closed[i] || ops->output(i + 1, p[i], len[i], arg)) continue;
            closed[i] = true;
            (void)!moyai_call_oneway(r->agent, "close", MOYAI_ARGS(r->id, i + 1));
        }
        moyai_future_free(r->read);
        r->read = NULL;
        if (rc < 0) return rc;
    }
    return 0;
}

/* Of doc/spec/08-agent.md, 2.3. */
static enum remote_fate fate_of(const struct moyai_error *e) {
    if (e->where != MOYAI_AT_METHOD)
        return e->executed == MOYAI_NEVER_EXECUTED && e->code != MOYAI_ECANCELED ? REMOTE_REFUSED : REMOTE_LOST;
    switch (e->code) {
    case MOYAI_EBUSY:
    case MOYAI_ELEAVING:
    case MOYAI_ELIMIT:
    case MOYAI_ENOMEM:
        return REMOTE_REFUSED;
    case MOYAI_EARGS:
    case MOYAI_ETOOBIG:
    case MOYAI_EEXIST:
        return REMOTE_NOT_STARTED;
    default:
        return REMOTE_LOST;
    }
}

static void take_fate(struct remote *r, moyai_node *n) {
    const char *what, *text;
    int number;
    int rc = moyai_future_get_masked(r->run, MOYAI_INTO(&what, &number, &text));
    r->fate = REMOTE_LOST;
    if (rc < 0) {
        moyai_last_error(n, &r->why);
        r->fate = fate_of(&r->why);
    } else if (strcmp(what, "not started") == 0) {
        r->fate = REMOTE_NOT_STARTED;
        (void)err_set(&r->why, MOYAI_ESYS, "%s", text);
        r->why.sys = number;
    } else {
        r->fate = REMOTE_ENDED;
        r->status = number < 0                    ? EXEC_STATUS_UNKNOWN
                    : strcmp(what, "killed") == 0 ? (number & 0x7f) | (strstr(text, "core dumped") ? 0x80 : 0)
                                                  : (number & 0xff) << 8;
    }
}

/* The agent's node refuses calls because it leaves, which it does when all its commands are over. What it has taken of
 * the other call it answers, but perhaps later. */
static bool at_its_end(const struct moyai_error *e) {
    return e->where == MOYAI_AT_PEER && e->executed == MOYAI_NEVER_EXECUTED &&
           (e->code == MOYAI_ELEAVING || e->code == MOYAI_ENOOBJECT);
}

void remote_run(struct remote *r, moyai_node *n, moyai_ref *agent, const struct remote_order *order,
                const struct remote_ops *ops, void *arg) {
    memset(r, 0, sizeof *r);
    r->agent = agent;
    snprintf(r->id, sizeof r->id, "%s", order->id);
    moyai_value *v = value_of(order);
    if (!v) {
        r->fate = REMOTE_NOT_STARTED;
        (void)err_set(&r->why, MOYAI_ENOMEM, "out of memory for a command");
        return;
    }
    r->run = moyai_call_async(agent, "run", MOYAI_ARGS(v));
    moyai_value_free(v);
    int rc = fetch_all(r, n, ops, arg);
    /* No such command: it has not been started, or is over, which the other call tells. What it writes can be fetched
     * no more, and it would wait for that: */
    if (rc < 0 && rc != MOYAI_ENOENT && !at_its_end(&r->why) && !moyai_future_ready(r->run)) {
        moyai_future_cancel(r->run);
        r->fate = REMOTE_LOST;
    } else {
        take_fate(r, n);
    }
    moyai_future_free(r->run);
    r->run = NULL;
}

void remote_signal(struct remote *r, int sig) {
    if (r->run) (void)!moyai_call_oneway(r->agent, "signal", MOYAI_ARGS(r->id, sig));
}

void remote_give_up(struct remote *r) {
    if (r->run) moyai_future_cancel(r->run);
    if (r->read) moyai_future_cancel(r->read);
}
