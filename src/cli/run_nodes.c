/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Placing: the scout, one fiber, asks all nodes of the grid for their agents (crawl.h) as long as processes wait for a
 * slot. A process goes to the agent with the most free slots; of equals to the one with the fewest processes of this
 * run, then to the one whose host has the least load for each of its processors. The first is sent when all nodes have
 * answered, or SPREAD_TIME has passed: else all would go to whoever answers first. What an agent has free is what it
 * said last, less what has been sent to it since; one that refuses has none until it says otherwise, of itself (room)
 * or when it is looked at again. Nobody reserves: of two runs that send to the same last slot one is refused and looks
 * on.
 *
 * An agent whose system is short of descriptors, processes or memory gets nothing for a while; a process that has been
 * refused for that reason TRIES times for each agent there is is given up as not started.
 *
 * Each process that has been placed has a fiber of its own, in remote_run(), until it ends.
 */
#include "cli/run_nodes.h"

#include "agent/agent.h"
#include "agent/remote.h"
#include "base/err.h"
#include "base/utf8.h"
#include "cli/crawl.h"
#include "node/node.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ASK_TIME    (2 * MOYAI_SEC) /* for a node's answer */
#define LOOK_FIRST  (50 * MOYAI_MS) /* between looks for agents: twice as long each time */
#define LOOK_MOST   (2 * MOYAI_SEC)
#define SPREAD_TIME (300 * MOYAI_MS)
#define SHORT_REST  (500 * MOYAI_MS) /* of an agent that is short of something */
#define TRIES       3
#define TELL_AFTER  MOYAI_SEC /* without a slot, before that is said */
#define WHERE       40
#define CALLED      64

struct site_agent {
    UT_hash_handle hh;
    struct nodes *s;
    char id[33]; /* of its node */
    moyai_ref *ref;
    char where[WHERE], title[CALLED];
    uint64_t slots, used; /* as it said last */
    uint64_t ours;        /* processes of this run there or on their way */
    uint64_t sent;        /* of these, since it said so */
    double load;
    bool full, gone; /* it has refused; it is dead or has left */
    moyai_ns rests;  /* until then it gets nothing: its system was short of something */
    bool told_short;
    moyai_future *room; /* asked to say when there is a slot */
};

enum place_state { PLACE_WAITS, PLACE_RUNS, PLACE_OVER };

struct place {
    struct nodes *s;
    unsigned rank;
    enum place_state state;
    struct site_agent *agent;
    struct output_pair *out;
    struct remote remote;
    pid_t pid;
    unsigned tries;           /* by agents that were short of something */
    bool full;                /* there is no room in our output */
    struct exec_waiter *room; /* its fiber waits for that */
};

struct to_signal {
    struct to_signal *next;
    struct place *place;
    int sig; /* 0: give it up */
};

struct nodes {
    moyai_node *node;
    struct exec *x;
    const struct run_args *a;
    struct output *out;
    const struct nodes_ops *ops;
    void *arg;
    struct place *places;
    struct site_agent *agents; /* uthash by id */
    size_t waiting, running;
    unsigned next; /* no process below waits */
    char run_id[17];
    char dir[PATH_MAX];
    const char **env; /* the user's, and room for ours */
    size_t n_env;
    struct to_signal *signals, **last_signal; /* in their order: a fiber comes for each */
    bool stopped, scouting, hurry;
    bool known; /* who is there: processes may be sent */
    struct exec_timer spread;
    struct exec_waiter *scout;        /* it sleeps */
    struct exec_waiter *awaits_scout; /* who does */
    moyai_ns since;                   /* when processes began to wait */
    unsigned told_agents, told_silent;
    unsigned silent;   /* nodes that did not answer, of those that were asked last */
    char a_silent[80]; /* one of them */
    uint64_t told_slots;
    bool told;
};

static void run_place(void *arg);
static void look_for_agents(void *arg);

/* ---- choosing -------------------------------------------------------------------------------- */

static uint64_t free_slots(const struct site_agent *g) {
    uint64_t used = g->used + g->sent > g->ours ? g->used + g->sent : g->ours;
    return g->full || g->gone || used >= g->slots ? 0 : g->slots - used;
}

static struct site_agent *choose(const struct nodes *s) {
    struct site_agent *best = NULL, *g, *tmp;
    HASH_ITER (hh, s->agents, g, tmp) {
        uint64_t k = free_slots(g), most = best ? free_slots(best) : 0;
        if (k == 0 || k < most) continue;
        if (k > most || g->ours < best->ours || (g->ours == best->ours && g->load < best->load)) best = g;
    }
    return best;
}

/* Send processes to agents as long as there are slots. */
static void place_all(struct nodes *s) {
    for (; s->known && s->waiting > 0 && !s->stopped && s->next < s->a->n_processes; s->next++) {
        struct place *p = &s->places[s->next];
        if (p->state != PLACE_WAITS) continue;
        struct site_agent *g = choose(s);
        if (!g || node_go(s->node, run_place, p) < 0) break; /* EBUSY: when others have ended */
        p->state = PLACE_RUNS;
        p->agent = g;
        g->ours++;
        g->sent++;
        s->waiting--;
        s->running++;
    }
}

/* ---- looking for agents ---------------------------------------------------------------------- */

static void set_where(struct site_agent *g, const moyai_value *info) {
    const char *host = info_text(info, "host"), *site = info_text(info, "site");
    size_t n = strcspn(host, "."); /* of the rest the site says the same */
    bool same = !*site || strcmp(site, host) == 0 || (host[n] && strcmp(site, host + n + 1) == 0);
    char name[25], in[15]; /* the beginnings, as far as whole characters fit */
    (void)utf8_line(name, sizeof name, host, n);
    (void)utf8_line(in, sizeof in, site, same ? 0 : strlen(site));
    snprintf(g->where, sizeof g->where, "%s%s%s", name, same ? "" : "/", in);
}

static void seen(const struct crawl_node *k, void *arg) {
    struct nodes *s = arg;
    const moyai_value *agent = moyai_value_find(k->info, "agent"), *r = moyai_value_find(agent, "ref");
    moyai_ref *ref = NULL;
    if (!r || moyai_value_get(r, MOYAI_INTO(&ref)->v[0]) < 0) return;
    exec_user_leave(s->x);
    struct site_agent *g;
    HASH_FIND_STR(s->agents, k->id, g);
    if (!g && (g = calloc(1, sizeof *g))) {
        g->s = s;
        memcpy(g->id, k->id, sizeof g->id);
        g->ref = ref;
        ref = NULL;
        set_where(g, k->info);
        (void)utf8_line(g->title, sizeof g->title, k->title, strlen(k->title));
        HASH_ADD_STR(s->agents, id, g);
    }
    if (g) {
        int64_t n = info_int(k->info, "processors");
        g->slots = (uint64_t)info_int(agent, "slots");
        g->used = (uint64_t)info_int(agent, "used");
        g->sent = 0;
        g->load = info_double(k->info, "load") / (double)(n > 0 ? n : 1);
        g->full = moyai_now() < g->rests;
        place_all(s);
    }
    exec_user_enter(s->x);
    moyai_ref_unref(ref);
}

/* Lock held. */
static void tell(struct nodes *s) {
    unsigned n = 0;
    uint64_t slots = 0;
    struct site_agent *g, *tmp;
    HASH_ITER (hh, s->agents, g, tmp) {
        if (g->gone || g->slots == 0) continue;
        n++;
        slots += g->slots;
    }
    if (s->told && n == s->told_agents && slots == s->told_slots && s->silent == s->told_silent) return;
    s->told = true;
    s->told_silent = s->silent;
    s->told_agents = n;
    s->told_slots = slots;
    const char *es = s->waiting == 1 ? " waits" : "es wait";
    char silent[160] = "";
    if (s->silent == 1)
        snprintf(silent, sizeof silent, "; %s does not answer", s->a_silent);
    else if (s->silent > 1)
        snprintf(silent, sizeof silent, "; %s and %u more do not answer", s->a_silent, s->silent - 1);
    if (n == 0)
        output_say(s->out, "%s: %zu process%s for a node that takes commands: %s%s", s->a->title, s->waiting, es,
                   s->silent ? "none is known" : "there is none in the grid (moyai node)", silent);
    else if (slots == 1)
        output_say(s->out, "%s: %zu process%s for a slot: the only one is taken%s", s->a->title, s->waiting, es,
                   silent);
    else
        output_say(s->out, "%s: %zu process%s for a slot: all %llu of %u node%s are taken%s", s->a->title, s->waiting,
                   es, (unsigned long long)slots, n, n == 1 ? "" : "s", silent);
}

/* There is a slot: somebody else's command has ended. Or there is none any more: the agent ends, and what was sent to
 * it now might be lost with it, though its slots become free. */
static void on_room(moyai_future *f, void *arg) {
    struct site_agent *g = arg;
    struct nodes *s = g->s;
    int n = 0;
    int rc = moyai_future_get_masked(f, MOYAI_INTO(&n));
    exec_user_leave(s->x);
    g->room = NULL;
    if (rc == MOYAI_ELEAVING) g->gone = true;
    if (rc == 0 && n > 0) {
        g->used = g->slots > (uint64_t)n ? g->slots - (uint64_t)n : 0;
        g->sent = 0;
        g->full = moyai_now() < g->rests;
        place_all(s);
    }
    if (s->scout && rc == 0) (void)exec_wake(s->x, s->scout, 0); /* else the next look will tell */
    exec_user_enter(s->x);
    moyai_future_free(f);
}

/* Lock not held: calls are made; nobody else runs meanwhile, since none of them blocks. */
static void ask_for_room(struct nodes *s) {
    struct site_agent *g, *tmp;
    HASH_ITER (hh, s->agents, g, tmp) {
        if (g->room || g->gone || g->slots == 0 || free_slots(g) > 0 || moyai_now() < g->rests) continue;
        g->room = moyai_call_async(g->ref, "room", MOYAI_NONE);
        if (moyai_future_then(g->room, on_room, g) == 0) continue;
        moyai_future_free(g->room);
        g->room = NULL;
    }
}

static void ask_no_more(struct nodes *s) {
    struct site_agent *g, *tmp;
    HASH_ITER (hh, s->agents, g, tmp) {
        if (!g->room) continue;
        moyai_future_cancel(g->room);
        moyai_future_free(g->room);
        g->room = NULL;
    }
}

static void count_silent(struct nodes *s, const struct crawl *c) {
    s->silent = 0;
    for (size_t i = 0; i < c->n; i++) {
        const struct crawl_node *k = c->node[i];
        if (k->state != CRAWL_SILENT && k->state != CRAWL_FAILED) continue;
        if (s->silent++ > 0) continue;
        char pid[32] = "", title[41];
        clean_cut(title, sizeof title, k->title[0] ? k->title : "?");
        if (k->pid > 0) snprintf(pid, sizeof pid, ", pid %lld", (long long)k->pid);
        snprintf(s->a_silent, sizeof s->a_silent, "node %.8s (%s%s)", k->id, title, pid);
    }
}

/* Until the time has come to look again; meanwhile agents may say that they have a slot. Lock held. */
static void await_news(struct nodes *s, moyai_ns until) {
    while (s->waiting > 0 && !s->stopped && moyai_now() < until) {
        exec_user_enter(s->x);
        ask_for_room(s);
        exec_user_leave(s->x);
        struct exec_waiter w;
        exec_waiter_init(s->x, &w);
        s->scout = &w;
        (void)exec_wait(s->x, &w, until);
        s->scout = NULL;
    }
}

/* The scout. */
static void look_for_agents(void *arg) {
    struct nodes *s = arg;
    struct exec *x = s->x;
    moyai_dur pause = LOOK_FIRST;
    char told[MOYAI_ERROR_TEXT] = ""; /* while it stays so, once */
    exec_user_leave(x);
    while (s->waiting > 0 && !s->stopped) {
        struct crawl c = {.seen = seen, .arg = s};
        struct moyai_error why = {0};
        exec_user_enter(s->x);
        int rc = crawl(&c, s->node, ASK_TIME, &why);
        if (rc == 0) count_silent(s, &c);
        crawl_done(&c);
        exec_user_leave(s->x);
        if (rc < 0 && rc != MOYAI_ENOMEM) {
            if (strcmp(told, why.text) != 0) output_say(s->out, "%s: cannot look for nodes: %s", s->a->title, why.text);
            snprintf(told, sizeof told, "%s", why.text);
            pause = LOOK_MOST;
        }
        s->known |= s->agents != NULL; /* just after joining nobody may be known */
        place_all(s);
        if (s->waiting == 0 || s->stopped) break;
        if (moyai_now() - s->since >= (moyai_ns)TELL_AFTER) tell(s);
        await_news(s, moyai_now() + (moyai_ns)pause);
        pause = pause * 2 < LOOK_MOST ? pause * 2 : LOOK_MOST;
    }
    exec_user_enter(x);
    ask_no_more(s);
    exec_user_leave(x);
    s->scouting = false;
    if (s->awaits_scout) (void)exec_wake(x, s->awaits_scout, 0); /* and s may be freed */
    exec_user_enter(x);
}

void nodes_await_scout(struct nodes *s) {
    nodes_stop(s);
    if (!s->scouting) return;
    struct exec_waiter w;
    exec_waiter_init(s->x, &w);
    s->awaits_scout = &w;
    (void)exec_wait(s->x, &w, UINT64_MAX);
    s->awaits_scout = NULL;
}

static int scout(struct nodes *s) {
    if (s->scouting || s->stopped) return 0;
    int rc = node_go(s->node, look_for_agents, s);
    if (rc == 0) s->scouting = true;
    return rc;
}

/* ---- one process ----------------------------------------------------------------------------- */

static unsigned group_of(const struct nodes *s, unsigned rank, unsigned *index) {
    unsigned g = 0;
    for (*index = rank; *index >= s->a->groups[g].n; g++) *index -= s->a->groups[g].n;
    return g;
}

static void has_room(void *arg) {
    struct place *p = arg;
    p->full = false;
    if (p->room) (void)exec_wake(p->s->x, p->room, 0);
}

static void on_started(pid_t pid, void *arg) {
    struct place *p = arg;
    struct nodes *s = p->s;
    struct moyai_error why = {0};
    unsigned index, group = group_of(s, p->rank, &index);
    exec_user_leave(s->x);
    p->pid = pid;
    if (output_open_given(s->out, &p->out, group, index, p->agent->where, has_room, p, &why) < 0)
        output_say(s->out, "%s: [%u.%u] its output is lost: %s", s->a->title, group, index, why.text);
    s->ops->started(p->rank, pid, p->agent->where, s->arg);
    exec_user_enter(s->x);
}

static bool on_output(int which, const void *bytes, size_t n, void *arg) {
    struct place *p = arg;
    struct nodes *s = p->s;
    exec_user_leave(s->x);
    enum output_given g = OUTPUT_FULL;
    if (!p->full) g = p->out ? output_give(p->out, which, bytes, n) : OUTPUT_UNWANTED;
    p->full = g == OUTPUT_FULL;
    if (p->full && !s->hurry) {
        struct exec_waiter w;
        exec_waiter_init(s->x, &w);
        p->room = &w;
        (void)exec_wait(s->x, &w, UINT64_MAX);
        p->room = NULL;
    }
    exec_user_enter(s->x);
    return g != OUTPUT_UNWANTED;
}

static const struct remote_ops remote_ops = {.started = on_started, .output = on_output};

static void rest(struct site_agent *g, struct place *p) {
    struct nodes *s = p->s;
    g->rests = moyai_now() + (moyai_ns)SHORT_REST;
    p->tries++;
    if (!g->told_short && !s->stopped)
        output_say(s->out, "%s: %s cannot start a process at the moment: %s", s->a->title, g->where,
                   p->remote.why.text);
    g->told_short = true;
}

/* It ran there, or has been refused: the slot is free again, as far as we know. */
static void leave_agent(struct place *p) {
    struct site_agent *g = p->agent;
    enum remote_fate fate = p->remote.fate;
    g->ours--;
    if (g->sent > 0)
        g->sent--;
    else if (g->used > 0)
        g->used--;
    int code = p->remote.why.code;
    bool is_short = code == MOYAI_ELIMIT || code == MOYAI_ENOMEM; /* its system, or ours */
    if (fate == REMOTE_REFUSED) g->full = true;
    if (fate == REMOTE_REFUSED && is_short) rest(g, p);
    if ((fate == REMOTE_REFUSED || fate == REMOTE_LOST) && !is_short && code != MOYAI_EBUSY && code != MOYAI_ECANCELED)
        g->gone = true;
}

static bool has_tried(const struct place *p) {
    return p->tries >= TRIES * HASH_COUNT(p->s->agents);
}

/* Of a node that this one was never linked to nothing but its id is known where calls fail. */
static const char *with_title(const struct site_agent *g, const char *text, char out[MOYAI_ERROR_TEXT + CALLED]) {
    char name[sizeof "node " + 8];
    const int n = snprintf(name, sizeof name, "node %.8s", g->id);
    if (strncmp(text, name, (size_t)n) != 0 || strncmp(text + n, " (", 2) == 0 || !g->title[0]) return text;
    snprintf(out, MOYAI_ERROR_TEXT + CALLED, "%s (%s)%s", name, g->title, text + n);
    return out;
}

static void end_place(struct place *p) {
    struct nodes *s = p->s;
    struct remote *r = &p->remote;
    s->running--;
    if (r->fate == REMOTE_REFUSED && has_tried(p)) r->fate = REMOTE_NOT_STARTED;
    if (r->fate == REMOTE_REFUSED && !s->stopped) { /* somewhere else, or later */
        p->state = PLACE_WAITS;
        if (s->waiting++ == 0) s->since = moyai_now();
        if (p->rank < s->next) s->next = p->rank;
    } else {
        char text[MOYAI_ERROR_TEXT + CALLED];
        struct nodes_end e = {.status = r->status, .where = p->agent->where, .pid = p->pid};
        e.text = with_title(p->agent, r->why.text, text);
        e.how = r->fate == REMOTE_ENDED ? NODES_ENDED : r->fate == REMOTE_NOT_STARTED ? NODES_NOT_STARTED : NODES_LOST;
        e.sys = r->why.sys;
        p->state = PLACE_OVER;
        output_close_given(p->out);
        s->ops->ended(p->rank, &e, s->arg);
    }
    place_all(s);
    if (s->waiting > 0) (void)scout(s);
}

static const char **make_env(const struct place *p, char text[4][24]) {
    struct nodes *s = p->s;
    unsigned index;
    const char **env = malloc((s->n_env + 5) * sizeof *env);
    if (!env) return NULL;
    snprintf(text[0], 24, "MOYAI_RANK=%u", p->rank);
    snprintf(text[1], 24, "MOYAI_GROUP=%u", group_of(s, p->rank, &index));
    snprintf(text[2], 24, "MOYAI_SIZE=%u", s->a->n_processes);
    snprintf(text[3], 24, "MOYAI_INDEX=%u", index);
    for (int i = 0; i < 4; i++) env[i] = text[i];
    memcpy(env + 4, s->env, (s->n_env + 1) * sizeof *env);
    return env;
}

static void run_place(void *arg) {
    struct place *p = arg;
    struct nodes *s = p->s;
    unsigned index;
    char id[AGENT_ID], text[4][24];
    const char **env = make_env(p, text);
    snprintf(id, sizeof id, "%s.%u", s->run_id, p->rank);
    struct remote_order o = {.id = id,
                             .argv = (const char *const *)s->a->groups[group_of(s, p->rank, &index)].argv,
                             .env = env,
                             .dir = s->a->dir ? s->a->dir : s->dir};
    remote_run(&p->remote, s->node, p->agent->ref, &o, &remote_ops, p);
    free(env);
    exec_user_leave(s->x);
    leave_agent(p);
    end_place(p);
    exec_user_enter(s->x);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* By a fiber, since a call is not made from a callback. */
static void send_signal(void *arg) {
    struct nodes *s = arg;
    exec_user_leave(s->x);
    struct to_signal *o = s->signals;
    s->signals = o->next;
    if (!o->next) s->last_signal = &s->signals;
    exec_user_enter(s->x);
    if (o->sig)
        remote_signal(&o->place->remote, o->sig);
    else
        remote_give_up(&o->place->remote);
    free(o);
}

void nodes_signal(struct nodes *s, unsigned rank, int sig) {
    struct place *p = &s->places[rank];
    struct to_signal *o = p->state == PLACE_RUNS ? malloc(sizeof *o) : NULL;
    if (!o) return;
    if (node_go(s->node, send_signal, s) < 0) {
        free(o);
        return;
    }
    *o = (struct to_signal){.place = p, .sig = sig};
    *s->last_signal = o;
    s->last_signal = &o->next;
}

void nodes_hurry(struct nodes *s) {
    s->hurry = true;
    for (unsigned i = 0; i < s->a->n_processes; i++)
        if (s->places[i].room) (void)exec_wake(s->x, s->places[i].room, 0);
}

void nodes_give_up(struct nodes *s) {
    nodes_hurry(s);
    for (unsigned i = 0; i < s->a->n_processes; i++) nodes_signal(s, i, 0);
}

/* ---- life ------------------------------------------------------------------------------------ */

size_t nodes_running(const struct nodes *s) {
    return s->running;
}

bool nodes_is_running(const struct nodes *s, unsigned rank) {
    return s->places[rank].state == PLACE_RUNS;
}

void nodes_stop(struct nodes *s) {
    exec_timer_clear(s->x, &s->spread);
    s->stopped = true;
    if (s->scout) (void)exec_wake(s->x, s->scout, 0);
}

static void on_spread(struct exec *x, struct exec_timer *t) {
    (void)x;
    struct nodes *s = (struct nodes *)(void *)((char *)t - offsetof(struct nodes, spread));
    s->known = s->agents != NULL;
    if (!s->known) exec_timer_set(s->x, t, moyai_now() + (moyai_ns)SPREAD_TIME);
    place_all(s);
}

int nodes_start(struct nodes *s, struct moyai_error *why) {
    s->since = moyai_now();
    exec_timer_set(s->x, &s->spread, moyai_now() + (moyai_ns)SPREAD_TIME);
    int rc = scout(s);
    if (rc < 0) moyai_last_error(s->node, why);
    return rc;
}

int nodes_new(struct nodes **ret, moyai_node *n, const struct run_args *a, struct output *out,
              const struct nodes_ops *ops, void *arg, struct moyai_error *why) {
    struct nodes *s = calloc(1, sizeof *s);
    if (!s) goto out_nomem;
    *s = (struct nodes){.node = n, .x = node_exec(n), .a = a, .out = out, .ops = ops, .arg = arg};
    s->last_signal = &s->signals;
    exec_timer_init(&s->spread, on_spread);
    s->places = calloc(a->n_processes, sizeof *s->places);
    s->env = calloc(a->n_env + 1, sizeof *s->env);
    if (!s->places || !s->env) goto out_nomem;
    for (unsigned i = 0; i < a->n_processes; i++) s->places[i] = (struct place){.s = s, .rank = i};
    for (size_t i = 0; i < a->n_env; i++) s->env[i] = a->env[i];
    s->n_env = a->n_env;
    s->waiting = a->n_processes;
    char id[33];
    moyai_node_id_format(moyai_node_self(n), id);
    snprintf(s->run_id, sizeof s->run_id, "%.16s", id);
    if (!getcwd(s->dir, sizeof s->dir)) snprintf(s->dir, sizeof s->dir, "/");
    *ret = s;
    return 0;
out_nomem:
    if (s) {
        free(s->places);
        free(s->env);
        free(s);
    }
    return err_set(why, MOYAI_ENOMEM, "out of memory");
}

void nodes_free(struct nodes *s) {
    if (!s) return;
    exec_lock(s->x);
    exec_timer_clear(s->x, &s->spread);
    exec_unlock(s->x);
    for (unsigned i = 0; i < s->a->n_processes; i++) { /* whose fibers will not run any more */
        moyai_future_free(s->places[i].remote.read);
        moyai_future_free(s->places[i].remote.run);
    }
    while (s->signals) {
        struct to_signal *o = s->signals;
        s->signals = o->next;
        free(o);
    }
    struct site_agent *g, *tmp;
    HASH_ITER (hh, s->agents, g, tmp) {
        HASH_DEL(s->agents, g);
        moyai_future_free(g->room);
        moyai_ref_unref(g->ref);
        free(g);
    }
    free(s->places);
    free(s->env);
    free(s);
}
