/* SPDX-License-Identifier: Apache-2.0 */
/* The class Agent: what its methods take and give is doc/spec/08-agent.md. */
#include "agent/internal.h"

#include "base/err.h"
#include "base/utf8.h"
#include "object/node_object.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REST_LOOK  MOYAI_SEC
#define REST_LOOKS 10 /* then whatever cannot be killed is somebody else's */
#define WORDS_MOST 65536u

/* ---- reading an order ------------------------------------------------------------------------ */

/* A text or bytes: arguments of a command are not all UTF-8. NULL: it is neither, or has a NUL. */
static const char *word(const moyai_value *v, size_t *n) {
    const char *text = NULL;
    const void *bytes = NULL;
    if (v && moyai_value_get(v, MOYAI_INTO(&text)->v[0]) == 0) {
        *n = strlen(text);
        return text;
    }
    if (!v || moyai_value_get(v, moyai_into_bytes(&bytes, n)) < 0 || (*n > 0 && memchr(bytes, 0, *n))) return NULL;
    return *n > 0 ? bytes : "";
}

/* A list of words as main() has them: one block. NULL: *why says what is wrong. */
static char **words(const moyai_value *list, const char *what, struct moyai_error *why) {
    size_t n = moyai_value_count(list), bytes = 0, len;
    if (moyai_value_kind(list) != MOYAI_K_LIST || n > WORDS_MOST) {
        err_set(why, MOYAI_EARGS, "\"%s\" is a list of at most %u texts or bytes", what, WORDS_MOST);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (!word(moyai_value_at(list, i), &len)) {
            err_set(why, MOYAI_EARGS, "item %zu of \"%s\" is neither a text nor bytes without a zero", i, what);
            return NULL;
        }
        bytes += len + 1;
    }
    if (bytes > AGENT_WORDS) {
        err_set(why, MOYAI_ETOOBIG, "\"%s\" has %zu bytes; %u are taken", what, bytes, AGENT_WORDS);
        return NULL;
    }
    char **v = malloc((n + 1) * sizeof *v + bytes);
    if (!v) {
        err_set(why, MOYAI_ENOMEM, "out of memory");
        return NULL;
    }
    char *p = (char *)(v + n + 1);
    for (size_t i = 0; i < n; i++) {
        const char *text = word(moyai_value_at(list, i), &len);
        v[i] = p;
        memcpy(p, text, len);
        p[len] = 0;
        p += len + 1;
    }
    v[n] = NULL;
    return v;
}

static void order_done(struct order *o) {
    free(o->argv);
    free(o->env);
    free(o->dir);
}

static int read_order(struct order *o, const moyai_value *v, struct moyai_error *why) {
    const moyai_value *id = moyai_value_find(v, "id"), *env = moyai_value_find(v, "env"),
                      *dir = moyai_value_find(v, "dir");
    size_t n;
    const char *text = id ? word(id, &n) : NULL;
    if (id && (!text || n == 0 || n > AGENT_ID))
        return err_set(why, MOYAI_EARGS, "\"id\" is a text of 1 to %d bytes", AGENT_ID);
    if (text) snprintf(o->id, sizeof o->id, "%.*s", (int)n, text);
    o->argv = words(moyai_value_find(v, "argv"), "argv", why);
    if (!o->argv) return why->code;
    if (!o->argv[0] || !o->argv[0][0]) return err_set(why, MOYAI_EARGS, "\"argv\" is empty: there is nothing to run");
    if (env && !(o->env = words(env, "env", why))) return why->code;
    for (char **e = o->env; e && *e; e++)
        if (!strchr(*e, '=') || **e == '=')
            return err_set(why, MOYAI_EARGS, "\"%.*s\" of \"env\" is not of the form NAME=VALUE",
                           (int)utf8_cut(*e, strlen(*e), 60), *e);
    if (!dir || moyai_value_kind(dir) == MOYAI_K_NULL) return 0;
    text = word(dir, &n);
    if (!text || n == 0) return err_set(why, MOYAI_EARGS, "\"dir\" is a text");
    o->dir = strndup(text, n);
    return o->dir ? 0 : err_set(why, MOYAI_ENOMEM, "out of memory");
}

/* ---- run ------------------------------------------------------------------------------------- */

static void report(struct agent *a) {
    node_object_agent(a->node, a->over ? NULL : a->ref, a->ending ? 0 : a->cfg.slots, a->used);
}

static void wake_rooms(struct agent *a) {
    while (a->rooms) {
        struct blocked *b = a->rooms;
        wait_remove(b);
        (void)blocked_wake(a->node, b, 0);
    }
}

/* Wait until it is over. The lock is held. */
static void await_end(struct command *c) {
    moyai_node *n = c->a->node;
    while (!command_over(c) || (c->id[0] && !c->deaf && !c->read)) {
        struct blocked b;
        blocked_init(n, &b, "waits for the end of a command");
        c->runner = &b;
        int rc = block(n, &b, UINT64_MAX, true);
        c->runner = NULL;
        if (rc != MOYAI_ECANCELED) continue;
        command_deafen(c); /* nobody waits for it any more */
        command_stop(c, STOP_TERM);
    }
}

/* A result of run: what has become of it. */
struct outcome {
    const char *what; /* "exited", "killed", "not started" */
    int number;       /* the status, the signal, errno */
    char text[MOYAI_ERROR_TEXT];
};

/* Is it for want of something that this system may have again later, and another one now? Else it is a matter of the
 * command: it could not be started by another agent of such a system either. */
static bool is_short(const struct moyai_error *why) {
    switch (why->sys) {
    case 0: /* ENOMEM of our own */
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
        return true;
    default:
        return false;
    }
}

static int start_and_await(struct agent *a, const struct order *o, const struct moyai_node_id *starter,
                           struct outcome *out, struct moyai_error *why) {
    struct command *c;
    if (a->ending) return err_set(why, MOYAI_ELEAVING, "this agent ends");
    if (a->used >= a->cfg.slots) return err_set(why, MOYAI_EBUSY, "all %u slots of this agent are taken", a->used);
    if (command_find(a, o->id)) return err_set(why, MOYAI_EEXIST, "there is a command \"%s\" already", o->id);
    a->used++;
    report(a);
    int rc = command_new(&c, a, o, starter, why);
    if (rc == 0) {
        await_end(c);
        exec_status_text(c->status, out->text);
        bool killed = c->status != EXEC_STATUS_UNKNOWN && WIFSIGNALED(c->status);
        out->what = killed ? "killed" : "exited";
        out->number = killed ? WTERMSIG(c->status) : c->status == EXEC_STATUS_UNKNOWN ? -1 : WEXITSTATUS(c->status);
        c->over = true;
        c->id[0] = 0;
        if (c->reader) (void)blocked_wake(a->node, c->reader, 0);
        command_leave(c);
    } else if (is_short(why)) {
        rc = rc == MOYAI_ENOMEM ? rc : MOYAI_ELIMIT;
    } else {
        out->what = "not started";
        out->number = why->sys;
        snprintf(out->text, sizeof out->text, "%s", why->text);
        rc = 0;
    }
    a->used--;
    report(a);
    wake_rooms(a);
    agent_check(a);
    return rc;
}

static int do_run(moyai_request *rq, void *self) {
    struct agent *a = self;
    moyai_value *v = NULL;
    struct order o = {.argv = NULL};
    struct outcome out;
    struct moyai_error why = {0};
    if (moyai_args(rq, MOYAI_INTO(&v)) < 0) return moyai_raise(rq, MOYAI_EARGS, "run(order): order is a map");
    int rc = read_order(&o, v, &why);
    moyai_value_free(v);
    if (rc == 0) {
        struct moyai_node_id starter = moyai_caller(rq);
        api_enter(a->node);
        rc = start_and_await(a, &o, &starter, &out, &why);
        api_leave(a->node);
    }
    order_done(&o);
    if (rc < 0) return moyai_raise(rq, rc, "%s", why.text);
    rc = moyai_return(rq, MOYAI_ARGS(out.what, out.number, out.text));
    /* None of the codes by which the starter knows that nothing was started. */
    if (rc < 0) return moyai_raise(rq, MOYAI_ESYS, "the command %s, and that cannot be told: out of memory", out.what);
    return 0;
}

/* ---- the other methods ----------------------------------------------------------------------- */

static int no_command(moyai_request *rq, const char *id) {
    return moyai_raise(rq, MOYAI_ENOENT, "there is no command \"%.*s\" (any more)",
                       (int)utf8_cut(id, strlen(id), AGENT_ID), id);
}

/* Something to tell, or the end. Lock held. ECANCELED, ECLOSED: the command is not to be looked at any more. */
static int await_output(struct command *c) {
    moyai_node *n = c->a->node;
    while (c->told && !command_has_output(c) && !command_over(c) && !c->over) {
        struct blocked b;
        blocked_init(n, &b, "waits for what a command writes");
        c->reader = &b;
        int rc = block(n, &b, UINT64_MAX, true);
        c->reader = NULL;
        if (rc < 0) return rc;
    }
    return c->over ? MOYAI_ECLOSED : 0;
}

static int do_read(moyai_request *rq, void *self) {
    struct agent *a = self;
    const char *id;
    uint8_t *p[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    int pid = 0;
    bool more = false;
    if (moyai_args(rq, MOYAI_INTO(&id)) < 0) return moyai_raise(rq, MOYAI_EARGS, "read(id)");
    api_enter(a->node);
    struct command *c = command_find(a, id);
    int rc = !c ? MOYAI_ENOENT : c->reading ? MOYAI_EBUSY : 0;
    if (rc == 0) {
        c->reading = true;
        c->users++;
        rc = await_output(c);
        c->reading = false;
    }
    if (rc == 0) {
        for (int i = 0; i < 2; i++) p[i] = outlet_take(&c->out[i], &n[i]);
        pid = c->pid;
        c->told = true;
        more = !command_over(c);
        c->read = !more;
        if (!more && c->runner) (void)blocked_wake(a->node, c->runner, 0);
    }
    if (c && rc != MOYAI_EBUSY) command_leave(c);
    api_leave(a->node);
    if (rc == MOYAI_ENOENT) return no_command(rq, id);
    if (rc == MOYAI_EBUSY) return moyai_raise(rq, rc, "another call reads from the command \"%.64s\"", id);
    if (rc < 0) return moyai_raise(rq, rc, "nobody waits for it any more");
    rc = moyai_return(rq, MOYAI_ARGS(pid, moyai_bytes(p[0], n[0]), moyai_bytes(p[1], n[1]), more));
    free(p[0]);
    free(p[1]);
    return rc;
}

static int do_signal(moyai_request *rq, void *self) {
    struct agent *a = self;
    const char *id;
    int sig;
    if (moyai_args(rq, MOYAI_INTO(&id, &sig)) < 0) return moyai_raise(rq, MOYAI_EARGS, "signal(id, number)");
    if (sig < 1 || sig > SIGRTMAX) return moyai_raise(rq, MOYAI_ERANGE, "there is no signal %d", sig);
    api_enter(a->node);
    struct command *c = command_find(a, id);
    if (c) command_signal(c, sig);
    api_leave(a->node);
    return c ? 0 : no_command(rq, id);
}

static int do_close(moyai_request *rq, void *self) {
    struct agent *a = self;
    const char *id;
    int which;
    if (moyai_args(rq, MOYAI_INTO(&id, &which)) < 0) return moyai_raise(rq, MOYAI_EARGS, "close(id, which)");
    if (which != 1 && which != 2) return moyai_raise(rq, MOYAI_ERANGE, "close(id, which): which is 1 or 2");
    api_enter(a->node);
    struct command *c = command_find(a, id);
    if (c) command_close(c, which - 1);
    api_leave(a->node);
    return c ? 0 : no_command(rq, id);
}

/* Who comes first when there is room gets it: nothing is reserved. */
static int do_room(moyai_request *rq, void *self) {
    struct agent *a = self;
    int rc = 0;
    if (moyai_args(rq, MOYAI_NONE) < 0) return moyai_raise(rq, MOYAI_EARGS, "room()");
    api_enter(a->node);
    while (rc == 0 && !a->ending && a->used >= a->cfg.slots) {
        struct blocked b;
        blocked_init(a->node, &b, "waits for a slot");
        wait_add(&a->rooms, &b);
        rc = block(a->node, &b, UINT64_MAX, true);
        wait_remove(&b);
    }
    int room = a->used < a->cfg.slots ? (int)(a->cfg.slots - a->used) : 0;
    if (rc == 0 && a->ending) rc = MOYAI_ELEAVING;
    api_leave(a->node);
    if (rc < 0) return moyai_raise(rq, rc, rc == MOYAI_ELEAVING ? "this agent ends" : "nobody waits for it any more");
    return moyai_return(rq, MOYAI_ARGS(room));
}

static moyai_value *describe(const struct command *c, moyai_ns now) {
    char starter[33], id[AGENT_ID + 1];
    moyai_node_id_format(c->starter, starter);
    snprintf(id, sizeof id, "%s", c->id);
    const char *keys[] = {"id", "pid", "program", "starter", "seconds", "ended"};
    moyai_value *items[] = {moyai_value_new(MOYAI_ARGS(id)->v[0]),
                            moyai_value_new(MOYAI_ARGS(c->pid)->v[0]),
                            moyai_value_new(MOYAI_ARGS(c->program)->v[0]),
                            moyai_value_new(MOYAI_ARGS(starter)->v[0]),
                            moyai_value_new(MOYAI_ARGS((double)(now - c->since) * 1e-9)->v[0]),
                            moyai_value_new((struct moyai_arg){.tag = MOYAI_T_BOOL, .v.b = c->ended})};
    return moyai_value_map(keys, items, sizeof keys / sizeof keys[0]);
}

static int do_commands(moyai_request *rq, void *self) {
    struct agent *a = self;
    if (moyai_args(rq, MOYAI_NONE) < 0) return moyai_raise(rq, MOYAI_EARGS, "commands()");
    api_enter(a->node);
    size_t n = 0;
    moyai_value **v = calloc(a->used + 1, sizeof(moyai_value *));
    for (struct command *c = a->commands; v && c && n < a->used; c = c->next) v[n++] = describe(c, moyai_now());
    api_leave(a->node);
    moyai_value *list = v ? moyai_value_list(v, n) : NULL;
    free(v);
    if (!list) return moyai_raise(rq, MOYAI_ENOMEM, "out of memory");
    int rc = moyai_return(rq, MOYAI_ARGS(list));
    moyai_value_free(list);
    return rc;
}

static const struct moyai_method methods[] = {{"run", do_run},     {"read", do_read}, {"signal", do_signal},
                                              {"close", do_close}, {"room", do_room}, {"commands", do_commands},
                                              {NULL, NULL}};
static const struct moyai_class agent_class = MOYAI_CLASS(AGENT_CLASS, methods, NULL);

/* ---- life ------------------------------------------------------------------------------------ */

struct rest {
    struct agent *a;
    bool tell, say;
    size_t n;
};

static void visit_rest(pid_t pid, void *arg) {
    struct rest *r = arg;
    r->n++;
    if (r->a->stop == STOP_KILL) {
        if (r->say) r->a->cfg.killed(NULL, pid, true, r->a->cfg.arg);
        kill(pid, SIGKILL);
    } else if (r->tell) {
        kill(pid, SIGCONT);
        kill(pid, SIGTERM);
    }
}

static void rest_after(struct agent *a, moyai_dur d) {
    moyai_ns now = moyai_now();
    exec_timer_set(a->node->x, &a->rest, d < MOYAI_FOREVER - (moyai_dur)now ? now + (moyai_ns)d : UINT64_MAX - 1);
}

void agent_check(struct agent *a) {
    if (!a->ending || a->over || a->used > 0) return;
    struct rest r = {.a = a, .tell = !a->told_rest, .say = a->late_rest};
    a->late_rest = false;
    bool all = exec_children_left(a->node->x, a->children, visit_rest, &r);
    if ((r.n > 0 || !all) && a->looks < REST_LOOKS) {
        if (!a->told_rest) rest_after(a, a->stop == STOP_KILL ? REST_LOOK : a->cfg.grace);
        a->told_rest = true;
        return;
    }
    a->over = true;
    exec_timer_clear(a->node->x, &a->rest);
    report(a);
    a->cfg.over(a->cfg.arg);
}

static void on_rest(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct agent *a = (struct agent *)(void *)((char *)t - offsetof(struct agent, rest));
    a->late_rest = a->stop != STOP_KILL;
    a->stop = STOP_KILL;
    a->looks++;
    rest_after(a, REST_LOOK);
    agent_check(a);
}

void agent_look(struct agent *a) {
    for (struct command *c = a->commands, *next; c; c = next) {
        next = c->next;
        command_look(c);
    }
    struct rest r = {.a = a};
    if (!a->ending) (void)exec_children_left(a->node->x, a->children, visit_rest, &r); /* collects */
    agent_check(a);
}

void agent_end(struct agent *a, bool kill_all) {
    if (kill_all || a->ending) a->stop = STOP_KILL;
    a->ending = true;
    report(a);
    wake_rooms(a);
    for (struct command *c = a->commands, *next; c; c = next) {
        next = c->next;
        command_stop(c, a->stop == STOP_KILL ? STOP_KILL : STOP_TERM);
    }
    agent_check(a);
}

void agent_signal(struct agent *a, int sig) {
    for (struct command *c = a->commands; c; c = c->next) command_signal(c, sig);
}

size_t agent_running(const struct agent *a) {
    return a->used;
}

size_t agent_untold(const struct agent *a) {
    size_t n = 0;
    for (const struct command *c = a->commands; c; c = c->next) n += c->late && !c->over;
    return n < a->used ? a->used - n : 0;
}

int agent_new(struct agent **ret, moyai_node *n, const struct agent_cfg *cfg, struct moyai_error *reterr) {
    struct agent *a = calloc(1, sizeof *a);
    if (!a) return err_set(reterr, MOYAI_ENOMEM, "out of memory");
    a->node = n;
    a->cfg = *cfg;
    a->children = exec_children_spare();
    exec_timer_init(&a->rest, on_rest);
    int rc = moyai_object_new(n, &agent_class, a, &a->ref, reterr);
    if (rc < 0) {
        if (a->children >= 0) close(a->children);
        free(a);
        return rc;
    }
    exec_lock(n->x);
    report(a);
    exec_unlock(n->x);
    *ret = a;
    return 0;
}

void agent_free(struct agent *a) {
    if (!a) return;
    exec_lock(a->node->x);
    node_object_agent(a->node, NULL, 0, 0);
    exec_timer_clear(a->node->x, &a->rest);
    while (a->commands) command_free(a->commands);
    exec_unlock(a->node->x);
    (void)moyai_object_end(a->ref);
    moyai_ref_unref(a->ref);
    if (a->children >= 0) close(a->children);
    free(a);
}
