/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent: runs commands for others, as an object of its node (doc/spec/08-agent.md).
 *
 * One call, `run`, is the life of one command: it returns how the command has ended. What the command writes is fetched
 * by calls of `read`, so that nothing is read of it for which nobody has asked and there is no room (AGENT_OUTPUT).
 * When the call of `run` is cancelled or its caller dies, leaves or cannot be reached any more, the command is ended:
 * SIGTERM, after the grace SIGKILL. So the runtime's own evidence of death serves the starters of commands, too.
 *
 * A command is its process, that process's group, and all that descends from it and has been left to this process,
 * which must be a subreaper: such descendants are known by their group or by a variable of their environment
 * (AGENT_MARK). What a command leaves behind is ended with it.
 *
 * Node lock held, everywhere but in agent_new and agent_free.
 */
#ifndef AGENT_AGENT_H
#define AGENT_AGENT_H

#include <moyai.h>
#include <sys/types.h>

#define AGENT_CLASS  "Agent"
#define AGENT_SLOTS  65536u       /* the most that an agent may have */
#define AGENT_OUTPUT (256u << 10) /* bytes of each of a command's two outputs that wait for its starter */
#define AGENT_WORDS  (4u << 20)   /* bytes of a command's arguments and variables together */
#define AGENT_ID     64           /* bytes of what its starter calls a command */
#define AGENT_MARK   "MOYAI_COMMAND"

struct agent;

struct agent_cfg {
    unsigned slots;          /* commands at once */
    moyai_dur grace;         /* from SIGTERM to SIGKILL */
    const char *const *env;  /* NAME=VALUE, NULL at the end: what commands find besides this process's own. Borrowed */
    void (*over)(void *arg); /* after agent_end: no command is left, and nothing that descends from one */
    /* The grace is over: that is killed. what: its program; NULL: of whichever command. ended: not the command itself,
     * but what it has left behind. */
    void (*killed)(const char *what, pid_t pid, bool ended, void *arg);
    void *arg;
};

/* Lock not held. Whoever looks at the node sees its slots from now on. ENOMEM, and what moyai_object_new says. */
int agent_new(struct agent **ret, moyai_node *n, const struct agent_cfg *cfg, struct moyai_error *reterr);

/* Take no more commands and end those that run; a second time, or at once if `kill`: by SIGKILL. cfg.over follows. */
void agent_end(struct agent *a, bool kill);
/* A child of this process has ended (SIGCHLD): it may have been left to us by a command. */
void agent_look(struct agent *a);
size_t agent_running(const struct agent *a);
size_t agent_untold(const struct agent *a); /* of these, those of which cfg.killed has not told */
/* Stop, or let go on, all commands. */
void agent_signal(struct agent *a, int sig);

/* Before the node is freed, when agent_running is 0 or the process is about to end. Lock not held. NULL is fine. */
void agent_free(struct agent *a);

#endif
