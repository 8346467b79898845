/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the agent: agent.c has the class, command.c the life of a command. Node lock held. */
#ifndef AGENT_INTERNAL_H
#define AGENT_INTERNAL_H

#include "agent/agent.h"
#include "exec/child.h"
#include "object/internal.h"

enum stop { STOP_NOT, STOP_TERM, STOP_KILL };

/* Standard output or standard error. */
struct outlet {
    struct command *c;
    struct exec_fd *watched; /* NULL: closed */
    int fd;
    uint8_t *buf; /* AGENT_OUTPUT bytes; NULL: empty */
    size_t n;
    bool paused; /* not read, for want of room */
};

struct command {
    struct agent *a;
    struct command *next, **prev;
    char id[AGENT_ID + 1]; /* empty: nobody reads its output */
    char mark[48];         /* AGENT_MARK=... of its environment */
    char program[64];
    struct moyai_node_id starter;
    moyai_ns since;
    struct exec_child *child; /* kept until nothing is left of its group, whose number is its */
    pid_t pid;
    int status;
    bool ended;     /* the process; what it has left behind may go on */
    bool gone;      /* nothing is left */
    bool deaf;      /* what it writes is dropped */
    bool told;      /* its starter knows its process number */
    bool read;      /* its starter has been told that nothing more comes */
    bool told_rest; /* what is left outside of its group has been sent SIGTERM */
    bool asked;     /* its starter has sent it SIGTERM */
    bool stopped;   /* its starter has stopped it */
    bool late;      /* it is killed, as the grace is over */
    enum stop stop;
    struct exec_timer timer; /* of stopping */
    struct outlet out[2];
    struct blocked *runner, *reader; /* calls of run and read that wait */
    bool reading;                    /* a call of read is under way */
    bool over;                       /* run has returned */
    unsigned users;                  /* calls that hold it: run, read */
};

struct agent {
    moyai_node *node;
    struct agent_cfg cfg;
    moyai_ref *ref;
    struct command *commands;
    uint64_t number; /* of the last command */
    int children;    /* spare list (exec/child.h) */
    unsigned used;
    struct blocked *rooms; /* calls of room that wait */
    bool spawning;         /* a child may be there that is not known yet */
    bool ending, told_rest, over;
    bool late_rest; /* what is left is killed since the grace is over, which is said once */
    int looks;      /* at what does not end although it was killed */
    enum stop stop;
    struct exec_timer rest; /* looks at what is left when no command is */
};

/* What a starter asks for. */
struct order {
    char id[AGENT_ID + 1];
    char **argv; /* NULL at the end; one block with the strings */
    char **env;  /* NAME=VALUE; the same. NULL: none */
    char *dir;   /* NULL: the agent's own */
};

/* Make a command of the order and start it: 0, or why not (sys is errno; 0: out of memory). Releases the lock
 * meanwhile. */
int command_new(struct command **ret, struct agent *a, const struct order *o, const struct moyai_node_id *starter,
                struct moyai_error *why);
void command_leave(struct command *c); /* the last to leave frees it */
void command_free(struct command *c);
struct command *command_find(struct agent *a, const char *id);
void command_stop(struct command *c, enum stop how); /* how never goes back */
void command_signal(struct command *c, int sig);
void command_look(struct command *c); /* children have ended: is anything left? */
void command_deafen(struct command *c);
void command_close(struct command *c, int which); /* its next write there gives it SIGPIPE */
/* Has it ended, with all it has left behind, and has all it wrote been taken? */
bool command_over(const struct command *c);
bool command_has_output(const struct command *c);
/* Take what is there: the caller frees it. Reading goes on. */
uint8_t *outlet_take(struct outlet *s, size_t *n);

void agent_check(struct agent *a); /* a command is gone: is it all over? */

#endif
