/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command on an agent, from the side of its starter (remote.c): one fiber lives as long as the command.
 *
 * Lock not held; the node thread.
 */
#ifndef AGENT_REMOTE_H
#define AGENT_REMOTE_H

#include <moyai.h>
#include <sys/types.h>

struct remote_order {
    const char *id;                       /* what to call it: unique for this agent, at most AGENT_ID bytes */
    const char *const *argv, *const *env; /* NULL at the end; env: NAME=VALUE, added */
    const char *dir;                      /* NULL: the agent's own */
};

/* Called on the fiber, which may block in them: then the command waits when it has written AGENT_OUTPUT more. */
struct remote_ops {
    void (*started)(pid_t pid, void *arg);
    /* which: 1 or 2. False: nobody wants any more of it; the command gets SIGPIPE. */
    bool (*output)(int which, const void *p, size_t n, void *arg);
};

enum remote_fate {
    REMOTE_ENDED,       /* status: as of waitpid(2), or EXEC_STATUS_UNKNOWN */
    REMOTE_NOT_STARTED, /* it cannot be: why.sys is errno, 0: no matter of the program's */
    REMOTE_REFUSED,     /* not started; another agent may take it, or this one later: why.code */
    REMOTE_LOST,        /* the agent is dead, has left, or cannot be reached: it ends the command if it is alive. Or the
                           command was given up */
};

struct remote {
    moyai_ref *agent; /* borrowed */
    char id[65];
    moyai_future *run, *read; /* under way */
    enum remote_fate fate;
    int status;
    struct moyai_error why;
};

/* Run it to its end: r->fate and what belongs to it. May switch fibers. */
void remote_run(struct remote *r, moyai_node *n, moyai_ref *agent, const struct remote_order *order,
                const struct remote_ops *ops, void *arg);
/* While it runs, from another fiber. */
void remote_signal(struct remote *r, int sig);
void remote_give_up(struct remote *r); /* the agent ends it in order; remote_run returns at once */

#endif
